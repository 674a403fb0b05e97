r"""Information exponent of a single-index link, and from which side a student escapes.

For a student $\sigma=\sum_mc_m\,he_m$ and a target with mean label $E[h\mid z]=\sum_mc^*_m\,he_m$, the correlation of
student and target at overlap $m$ is $\sum_\ell c_\ell c^*_\ell m^\ell$. From $m_0\sim d^{-1/2}$ its first term with
$\ell\ge1$ decides how long the search lasts: $n\sim d$ samples for $\ell=1$, $d\log d$ for $\ell=2$ and $d^{\ell-1}$
for $\ell\ge3$.

Source: Ben Arous, Gheissari & Jagannath 2021, "Online stochastic gradient descent on non-convex losses from
high-dimensional inference".
"""

from typing import Any

import numpy as np

from limen.gaussian.functions import as_function
from limen.gaussian.hermite import hermite_coefficients
from limen.gaussian.quadrature import gaussian_rule
from limen.problem.spec import InputError
from limen.problem.targets import as_target

TOLERANCE = 1e-9


def information_exponent(target: Any, activation: Any, degree: int = 40) -> int:
    r"""The first $\ell\ge1$ with $c_\ell c^*_\ell\ne0$.

    A product counts as nonzero above $10^{-9}\lVert\sigma\rVert\lVert h\rVert$; coefficients are known to about
    $10^{-13}$. Label noise and `e` inside a formula enter only through the mean label. A target with several latent
    directions is refused, and so is a pair without a common coefficient up to `degree`: the exponent is then
    larger, or the activation cannot see this target at all.
    """
    return _first_common(target, activation, degree)[0]


def escape_sign(target: Any, activation: Any, degree: int = 40) -> tuple[int, ...]:
    r"""The signs of the initial overlap from which the student grows towards larger $|m|$.

    Near $m=0$ the drift is $\ell c_\ell c^*_\ell m^{\ell-1}$. Odd $\ell$: only the sign of $c_\ell c^*_\ell$ escapes,
    `(1,)` or `(-1,)`. Even $\ell$: both, `(-1, 1)`, when $c_\ell c^*_\ell>0$, and none, `()`, when it is negative: the
    overlap is repelled to zero, and there is no recovery.
    """
    exponent, product = _first_common(target, activation, degree)
    if exponent % 2:
        return (1,) if product > 0 else (-1,)
    return (-1, 1) if product > 0 else ()


def _first_common(target: Any, activation: Any, degree: int) -> tuple[int, float]:
    if degree < 1:
        raise InputError(f"degree must be at least 1, got {degree}.")
    link, student = as_function(as_target(_hermite_name(target))), as_function(activation)
    products = np.ones(degree + 1)
    for function in (link, student):
        rule = gaussian_rule(function)
        norm = np.sqrt(rule.weights @ rule.values**2)
        products = products * hermite_coefficients(function, degree) / (norm if norm > 0 else 1.0)
    common = np.flatnonzero(np.abs(products[1:]) > TOLERANCE) + 1
    if common.size == 0:
        raise InputError(
            f"target {link.label!r} and activation {student.label!r} must share a Hermite coefficient "
            f"of degree 1 to {degree}, and share none."
        )
    return int(common[0]), float(products[common[0]])


def _hermite_name(target: Any) -> Any:
    """`hermite:k`, a name of activations, read as the target with that series."""
    if isinstance(target, str) and target.startswith("hermite:"):
        from limen.problem.activations import activation

        return activation(target)
    return target
