"""Experiments on effective dynamics."""
