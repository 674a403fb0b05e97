r"""Dual activations $h(\rho)=E[\sigma(G_1)\phi(G_2)]$ of standard normals with correlation $\rho$."""

from functools import cached_property
from typing import Any

import numpy as np

from limen.gaussian.angles import ACCURACY, LONGEST, AngleCurvature, AngleSeries, AngleSlope, angle_series
from limen.gaussian.closed_duals import ClosedForm, closed_dual
from limen.gaussian.functions import ScalarFunction, as_function
from limen.gaussian.quadrature import gaussian_rule
from limen.gaussian.rotated import rotated_rule
from limen.problem.spec import InputError

ROUNDING = 1e-12  # correlations this far outside [-1, 1] are rounding of a normalised Gram matrix


class Dual:
    r"""$h(\rho)$, with `prime` $=h'$ and `second` $=h''$, for arrays of correlations in $[-1,1]$.

    Made by `dual` or `tabulated_dual`. `error`, `prime_error` and `second_error` estimate the absolute error
    of tabulated functions; they are zero for closed forms. Derivatives are tabulated when first asked for.
    """

    def __init__(self, first: ScalarFunction, second: ScalarFunction, closed: ClosedForm | None) -> None:
        self._first, self._second, self._closed = first, second, closed

    def __call__(self, rho: Any) -> np.ndarray:
        r"""$h(\rho)$."""
        return (self._closed.value if self._closed else self._value_table)(check_correlation(rho))

    def prime(self, rho: Any) -> np.ndarray:
        r"""$h'(\rho)=E[\sigma'(G_1)\phi'(G_2)]$ (infinite at $\pm1$ when both functions jump at one place)."""
        return (self._closed.prime if self._closed else self._prime_table)(check_correlation(rho))

    def second(self, rho: Any) -> np.ndarray:
        r"""$h''(\rho)=E[\sigma''(G_1)\phi''(G_2)]$ (infinite at $\pm1$ when both slopes jump at one place)."""
        return (self._closed.second if self._closed else self._second_table)(check_correlation(rho))

    @property
    def error(self) -> float:
        """Estimated absolute error of the values."""
        return 0.0 if self._closed else self._value_table.error

    @property
    def prime_error(self) -> float:
        """Estimated absolute error of the first derivative."""
        return 0.0 if self._closed else self._prime_table.error

    @property
    def second_error(self) -> float:
        """Estimated absolute error of the second derivative."""
        return 0.0 if self._closed else self._second_table.error

    @cached_property
    def _value_table(self) -> AngleSeries:
        return _tabulate(self._first, self._second)

    @cached_property
    def _prime_table(self) -> AngleSeries | AngleSlope:
        slopes = _derivatives(self._first, self._second)
        return self._value_table.slope() if slopes is None else _tabulate(*slopes)

    @cached_property
    def _second_table(self) -> AngleSeries | AngleSlope | AngleCurvature:
        slopes = _derivatives(self._first, self._second)
        curvatures = None if slopes is None else _derivatives(*slopes)
        if curvatures is not None:
            return _tabulate(*curvatures)
        return self._prime_table.slope()


def dual(activation: Any, other: Any = None) -> Dual:
    r"""The dual $h(\rho)=E[\sigma(G_1)\phi(G_2)]$ of an activation, or of an activation and another function.

    Closed forms for ReLU, $|z|$, sign, $\mathrm{erf}(cz)$ and for polynomials given as Hermite series with any
    partner; otherwise `tabulated_dual`. Arguments as for `hermite_coefficients`.
    """
    first = as_function(activation)
    second = first if other is None else as_function(other)
    return Dual(first, second, closed_dual(first, second))


def tabulated_dual(activation: Any, other: Any = None) -> Dual:
    r"""The dual by the generic route, closed form or not.

    $h(\cos t)$ is computed by a two-dimensional rule that follows the kinks and tabulated as a Chebyshev
    series in $t$, doubled until its tail is below $10^{-13}$ of $\lVert\sigma\rVert\lVert\phi\rVert$ or 256 terms are
    reached; `error` says what was achieved. $h'$ is the same for $\sigma',\phi'$ when neither function jumps and
    both can be differentiated, else $-\frac{d}{dt}h(\cos t)/\sin t$; likewise $h''$. About 0.3 s per function.
    """
    first = as_function(activation).without_closed_form()
    second = first if other is None else as_function(other).without_closed_form()
    return Dual(first, second, None)


def check_correlation(rho: Any) -> np.ndarray:
    """The correlations as an array; outside [-1, 1] by more than rounding they are refused."""
    values = np.asarray(rho, dtype=np.float64)
    if not np.all(np.abs(values) <= 1 + ROUNDING):
        raise InputError(f"rho must be between -1 and 1, got {values.flat[np.argmax(~(np.abs(values) <= 1))]}.")
    return np.clip(values, -1.0, 1.0)


def _tabulate(first: ScalarFunction, second: ScalarFunction) -> AngleSeries:
    for function in (first, second):
        if function.averaged:
            raise InputError(
                f"the dual of {function.label!r} must be against a polynomial given as a Hermite series, "
                "since the target has noise inside its formula."
            )
    rule = rotated_rule(first, second)
    # An integral that is not resolved gains nothing from a long series.
    series = angle_series(rule, rule.scale, LONGEST if rule.error <= ACCURACY else 64)
    return AngleSeries(series.coefficients, max(series.error, rule.error * rule.scale))


def _derivatives(first: ScalarFunction, second: ScalarFunction) -> tuple[ScalarFunction, ScalarFunction] | None:
    """The derivatives of both functions, or None when one jumps (its derivative holds a point mass) or has none."""
    slopes = first.derivative(), second.derivative()
    if slopes[0] is None or slopes[1] is None:
        return None
    if any(function.jumps_at(gaussian_rule(function).kinks) for function in {first, second}):
        return None
    return slopes[0], slopes[1]
