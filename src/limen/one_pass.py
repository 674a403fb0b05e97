"""One-pass SGD in raw order parameters: overlap equations, their noise, plateaus and regimes."""

from limen.facade import facade

__getattr__, __dir__, __all__ = facade(__file__, success_probability="zero_risk_probability")
