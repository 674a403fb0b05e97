"""Full-batch gradient descent: its mean-field theory, and what becomes of it at finite dimension."""

from limen.facade import facade

__getattr__, __dir__, __all__ = facade(__file__)
