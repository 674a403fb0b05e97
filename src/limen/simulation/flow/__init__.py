"""Gradient flow on a fixed sample, of networks and of the Gaussian model."""
