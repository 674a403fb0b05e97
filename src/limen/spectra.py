"""Spectra of large random matrices: laws in the limit, and tools that measure them at finite size."""

from limen.facade import facade

__getattr__, __dir__, __all__ = facade(__file__)
