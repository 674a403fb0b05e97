"""Learning, then overfitting: gradient flow of wide two-layer networks, its regimes and its asymptotics."""

from limen.facade import facade

__getattr__, __dir__, __all__ = facade(__file__)
