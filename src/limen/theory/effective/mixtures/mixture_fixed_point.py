r"""Where logistic regression on sharp orthonormal clouds comes to rest."""

import math

import numpy as np
from scipy.optimize import brentq

from limen.problem import GaussianMixture, InputError


def mixture_fixed_point(problem: GaussianMixture) -> tuple[float, float]:
    r"""$(A,B)=(x^c\cdot\mu_c,\;x^c\cdot\mu_a)$, $a\ne c$, at $\lambda=\infty$ with orthonormal means and equal classes.

    $B=-A/(k-1)$ and $A$ is the only root in $[0,\frac1{\beta k}]$ of
    $$\beta kA=\frac{k-1}{e^{Ak/(k-1)}+k-1},$$
    the left side growing and the right side falling (Ben Arous, Gheissari, Huang & Jagannath 2023). Without penalty
    the data are separable and $A\to\infty$.
    """
    if not math.isinf(problem.sharpness):
        raise InputError(f"sharpness must be inf for this fixed point, got {problem.sharpness}.")
    if problem.penalty == 0.0:
        raise InputError("penalty must be positive, got 0.0: separable data drive the weights to infinity.")
    symmetric = np.allclose(problem.means, np.eye(problem.classes)) and np.ptp(problem.weights) < 1e-12
    if not symmetric:
        raise InputError(
            "mean_gram and probabilities must be left out: the fixed point has one form only for equal classes with "
            "orthonormal means."
        )
    k, scale = problem.classes, problem.penalty * problem.classes

    def imbalance(a: float) -> float:
        # The exponential on the other side of the fraction cannot overflow.
        decayed = (k - 1) * math.exp(-a * k / (k - 1))
        return scale * a - decayed / (1.0 + decayed)

    a = float(brentq(imbalance, 0.0, 1.0 / scale, xtol=1e-15, rtol=1e-14))  # pyright: ignore[reportArgumentType]
    return a, -a / (k - 1)
