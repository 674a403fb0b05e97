"""Attention as interacting particles: exact laws of clustering, mean field, and the particles themselves."""

from limen.facade import facade

__getattr__, __dir__, __all__ = facade(__file__)
