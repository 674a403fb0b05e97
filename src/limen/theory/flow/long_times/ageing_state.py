r"""States that ageing tends to: pure noise, fixed second layer $a=\gamma\sqrt m$, below the interpolation threshold.

Gradient flow that does not interpolate slows down for ever. Its memory of the start is lost, its landscape is
marginally stable, and a function $y(q)$ of the overlap $q\in[0,1]$ of two late times says how much later times respond.
With $\alpha=n/(md)$, noise variance 1, $h$ without its terms of degree 0 and 1, and in units that stay finite as
$\gamma\to0$, $\kappa=\gamma/\sqrt\alpha$, $x=\gamma\sqrt\alpha\,\chi$, $z=\gamma\sqrt\alpha\,y$:

$$x(q)=x(1)+\int_q^1z,\qquad D(q)=D(1)+\kappa\int_q^1h'z,\qquad C(q)=C(0)+\alpha\kappa^2\int_0^q\frac{h'}{D^2},$$

$$g(q)=h'(q)C(q)-\int_0^q\frac{dq'}{x(q')^2}\le0,\qquad g=0\text{ wherever }z\text{ grows},\qquad g(1)=g'(1)=0.$$

$g'(1)=0$ is the marginal stability. All equations are invariant under $(x,z,D,C)\to(\lambda x,\lambda z,\lambda D,
\lambda^{-2}C)$; only $D(1)=1+\kappa h'(1)x(1)$ fixes the scale. They are therefore solved with $D(0)=C(0)=1$, and
$\epsilon=D(1)-\kappa h'(1)x(1)$ is what 1 has become: the training error is $\frac12\epsilon^2C(1)$, and it vanishes
where $\epsilon$ does. Source: Montanari & Urbani 2025 for the setting; the method is that of Cugliandolo & Kurchan
1993.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from limen.gaussian.hermite import hermite_coefficients
from limen.problem.activations import HIGHEST_DEGREE, Activation
from limen.problem.spec import InputError

Structure = Literal["one step", "continuous", "one step, then continuous", "continuous, then one step"]


class NoiseCovariance:
    r"""$h_{\rm eff}(q)=\sum_{k\ge2}h_kq^k$ and its derivatives: what the network can do beside linear functions of
    $x$. `h` holds the coefficients $h_k=s_k^2$, or is the activation $\sigma=\sum_ks_khe_k$ itself (a name, formula or
    a function), of which the first forty degrees are taken.
    """

    def __init__(self, h: Any) -> None:
        if isinstance(h, str | Activation) or callable(h):
            h = hermite_coefficients(h, HIGHEST_DEGREE) ** 2
        try:
            coefficients = np.array(h, dtype=float)
        except (TypeError, ValueError):
            raise InputError(f"h must be an activation or a list of coefficients [h0, h1, ...], got {h!r}.") from None
        if coefficients.ndim != 1 or not np.isfinite(coefficients).all() or (coefficients < 0.0).any():
            raise InputError("h must be a list [h0, h1, h2, ...] of finite coefficients that are not negative.")
        if not (coefficients[2:] > 0.0).any():
            raise InputError("h must have a positive coefficient of degree 2 or more: below, it only fits lines.")
        self.coefficients = np.concatenate([[0.0, 0.0], coefficients[2:]])
        polynomial = np.polynomial.Polynomial(self.coefficients)
        derivatives = [polynomial, *(polynomial.deriv(order) for order in (1, 2, 3))]
        # Plain floats: Horner on a single overlap is then ten times faster than NumPy's.
        self._descending = [derivative.coef[::-1].tolist() for derivative in derivatives]

    def __call__(self, q: Any, order: int = 0) -> Any:
        """The derivative of the given order, 0 to 3, at one overlap or an array of them."""
        total = 0.0 * q
        for coefficient in self._descending[order]:
            total = total * q + coefficient
        return total


@dataclass(frozen=True)
class AgeingState:
    r"""A solution in the units $D(0)=C(0)=1$.

    Attributes:
        structure: where $z$ grows.
        breaks: the overlap at which the structure changes, where there is one.
        slope: $z$ just below $q=1$.
        response: $x(1)$.
        resolvent: $D(1)$.
        correlation: $C(1)$.
        gap: $\epsilon=D(1)-\kappa h'(1)x(1)$, positive below the interpolation threshold.
    """

    structure: Structure
    breaks: float | None
    slope: float
    response: float
    resolvent: float
    correlation: float
    gap: float

    @property
    def training_error(self) -> float:
        r"""$e_\infty=\frac12\epsilon^2C(1)$ at noise variance 1; 0 above the threshold."""
        return 0.5 * max(self.gap, 0.0) ** 2 * self.correlation


def ending_state(
    h: NoiseCovariance,
    kappa: float,
    structure: Structure,
    breaks: float | None,
    slope: float,
    response: float,
    resolvent: float,
    correlation: float,
) -> AgeingState:
    r"""The state with these values at $q=1$, and the gap that follows from them."""
    gap = resolvent - kappa * h(1.0, 1) * response
    return AgeingState(structure, breaks, slope, response, resolvent, correlation, gap)


def local_slope(
    h: NoiseCovariance, alpha: float, kappa: float, q: float, x: float, resolvent: float, correlation: float
) -> float:
    r"""$z$ where $g\equiv0$: $z=\frac12\big[h'''C+3\alpha\kappa^2\frac{h'h''}{D^2}\big]\big/
    \big[x^{-3}-\alpha\kappa^3\frac{h'^3}{D^3}\big]$, from $g''=0$."""
    force = h(q, 1)
    push = h(q, 3) * correlation + 3.0 * alpha * kappa**2 * force * h(q, 2) / resolvent**2
    return 0.5 * push / (x**-3 - alpha * (kappa * force / resolvent) ** 3)
