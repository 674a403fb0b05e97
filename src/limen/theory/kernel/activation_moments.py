"""The three numbers of an activation that random features in the linear regime see."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from limen.gaussian.hermite import hermite_coefficients
from limen.gaussian.quadrature import gaussian_rule
from limen.precision import in_double
from limen.problem.activations import Activation
from limen.problem.spec import InputError


class ActivationMoments(NamedTuple):
    r"""$\mu_0=E\sigma(G)$, $\mu_1=E[G\sigma(G)]$ and $\mu_*^2=E\sigma(G)^2-\mu_0^2-\mu_1^2$ for $G\sim N(0,1)$."""

    mean: float
    linear: float
    nonlinear_squared: float


def activation_moments(activation: Any) -> ActivationMoments:
    r"""The moments of an `Activation`, a name, a formula in `z`, or an elementwise function.

    $\mu_*^2$ is integrated as $E[(\sigma-\mu_0-\mu_1G)^2]$, hence never a difference of close numbers; it is exactly
    0 for an affine activation. A constant activation is refused: it has no features. Those of a name or a formula are
    computed once.
    """
    return _known_moments(activation) if isinstance(activation, (str, Activation)) else _moments(activation)


@in_double
def _moments(activation: Any) -> ActivationMoments:
    mean, linear = (float(c) for c in hermite_coefficients(activation, 1))
    rule = gaussian_rule(activation, 1)
    rest = rule.values - mean - linear * rule.nodes
    size = float(rule.weights @ rule.values**2)
    nonlinear = float(rule.weights @ rest**2)
    if nonlinear <= 1e-24 * size:
        nonlinear = 0.0
    if abs(linear) <= 1e-13 * np.sqrt(size):
        linear = 0.0
    if linear == 0.0 and nonlinear == 0.0:
        raise InputError("activation must not be constant: a constant has no features.")
    return ActivationMoments(mean, linear, nonlinear)


_known_moments = lru_cache(maxsize=256)(_moments)
