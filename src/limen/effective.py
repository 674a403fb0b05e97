"""Effective dynamics: what summary statistics of online SGD do in high dimension, derived or in closed form."""

from limen.facade import facade

__getattr__, __dir__, __all__ = facade(
    __file__, success_probability="lottery_probability", information_exponent="drift_exponent"
)
