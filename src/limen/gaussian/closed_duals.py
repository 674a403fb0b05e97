r"""Duals $h(\rho)=E[\sigma(G_1)\phi(G_2)]$ that are known in closed form, with two derivatives."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import polynomial

from limen.gaussian.functions import ScalarFunction
from limen.gaussian.hermite import hermite_coefficients

Correlated = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """Value, first and second derivative as functions of the correlation in [-1, 1]."""

    value: Correlated
    prime: Correlated
    second: Correlated


def closed_dual(first: ScalarFunction, second: ScalarFunction) -> ClosedForm | None:
    r"""The closed form for a pair, or None.

    ReLU and $|z|$: the arc-cosine kernels (Cho & Saul 2009). $\mathrm{erf}(cz)$ with $\mathrm{erf}(c'z)$ and sign:
    the arcsine kernel (Williams 1997). A polynomial with anything: $\sum_mc_m(\sigma)c_m(\phi)\rho^m$, a finite sum.
    """
    for series, partner in ((first.series, second), (second.series, first)):
        if series is not None:
            return _polynomial(np.array(series) * hermite_coefficients(partner, len(series) - 1))
    if first.erf_scale is not None and second.erf_scale is not None:
        c, k = first.erf_scale, second.erf_scale
        return _arcsine(2 * c * k / np.sqrt((1 + 2 * c**2) * (1 + 2 * k**2)))
    if first.kind is None or first.kind != second.kind:
        return None
    return {"relu": _RELU, "abs": _ABSOLUTE, "sign": _arcsine(1.0)}[first.kind]


def _polynomial(coefficients: np.ndarray) -> ClosedForm:
    prime = polynomial.polyder(coefficients)
    second = polynomial.polyder(prime)
    return ClosedForm(
        lambda rho: polynomial.polyval(rho, coefficients),
        lambda rho: polynomial.polyval(rho, prime),
        lambda rho: polynomial.polyval(rho, second),
    )


def _arcsine(slope: float) -> ClosedForm:
    def rest(rho: np.ndarray) -> np.ndarray:
        return (1 - slope * rho) * (1 + slope * rho)

    def prime(rho: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return 2 / np.pi * slope / np.sqrt(rest(rho))

    def second(rho: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return 2 / np.pi * slope**3 * rho / rest(rho) ** 1.5

    return ClosedForm(lambda rho: 2 / np.pi * np.arcsin(slope * rho), prime, second)


def _sine(rho: np.ndarray) -> np.ndarray:
    return np.sqrt((1 - rho) * (1 + rho))


def _over_sine(rho: np.ndarray, factor: float) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return factor / _sine(rho)


_RELU = ClosedForm(
    lambda rho: (_sine(rho) + rho * (np.pi - np.arccos(rho))) / (2 * np.pi),
    lambda rho: (np.pi - np.arccos(rho)) / (2 * np.pi),
    lambda rho: _over_sine(rho, 1 / (2 * np.pi)),
)
_ABSOLUTE = ClosedForm(
    lambda rho: 2 / np.pi * (_sine(rho) + rho * np.arcsin(rho)),
    lambda rho: 2 / np.pi * np.arcsin(rho),
    lambda rho: _over_sine(rho, 2 / np.pi),
)
