"""Gradient flow without the Gaussian model: the exact theory of descent, its step taken to zero."""
