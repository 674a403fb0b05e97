"""Draws of random matrices, and spectra of operators known by their products."""
