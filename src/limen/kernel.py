"""Kernels: ridge regression, random features, neural tangents; theory and its simulators."""

from limen.facade import facade

__getattr__, __dir__, __all__ = facade(__file__)
