"""Experiments on kernels, linear models and wide networks."""
