"""Experiments on spectra."""
