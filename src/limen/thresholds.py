"""Thresholds in samples per dimension: feature learning, its limits, and the Hessian along training."""

from limen.facade import facade

__getattr__, __dir__, __all__ = facade(__file__)
