r"""The least number of samples per dimension from which any method at all can find a direction.

$$\delta_{IT}=\inf_{0<q<1}\frac{-\frac12(q+\log(1-q))}{I(q)},$$
the smallest $\delta$ at which $\delta I(q)+\frac12(q+\log(1-q))$ is positive somewhere: $I(q)$ is what a label tells
about the known part of its coordinate, the rest what knowing that part costs. The limit $q\to0$ is $\delta_{alg}$ for
a hard link, so $\delta_{IT}\le\delta_{alg}$.

Source: Barbier, Krzakala, Macris, Miolane & Zdeborová 2019.
"""

from typing import Any

import numpy as np

from limen.link.label_points import checked_target
from limen.problem.inputs import Inputs
from limen.theory.thresholds.overlap_curve import overlap_curve, single_index
from limen.theory.thresholds.population_hessian import target_profile


def information_theoretic(target: Any, inputs: Inputs | None = None) -> float:
    r"""$\delta_{IT}=n/d$ for weak recovery of a single-index target by any method, Gaussian prior, $n,d\to\infty$.

    0 when the link has no hard direction. For a noiseless label with a continuous law the limit $q\to1$ counts too; it
    is one over the probability that $h$ is not flat. Relative error about $10^{-3}$, and $10^{-5}$ where the infimum is
    at $q\to0$ ($z^2$: 1/2 = $\delta_{alg}$). A target with several latent directions is refused. 1 to 4 s.

    On `inputs` of several variances the prior of the whitened direction has variances $\tau$, and knowing $q$ costs
    $\frac12E\big[\log(1+\tau r)-\frac{\tau r}{1+\tau r}\big]$ with $q=E\frac{\tau^2r}{1+\tau r}$.
    """
    curve = overlap_curve(single_index(checked_target(target)))
    if curve.algorithmic == 0.0:
        return 0.0
    if inputs is None or inputs.isotropic:
        inside = float(np.min(curve.entropy() / curve.information))
        return min(inside, curve.algorithmic, curve.exact)
    profile, fractions = target_profile(inputs)
    inside = float(np.min(_cost(curve.overlaps, profile, fractions) / curve.information))
    at_start = curve.algorithmic / float(fractions @ profile**2)
    return min(inside, at_start, curve.exact * float(fractions[profile > 0.0].sum()))


def _cost(overlap: np.ndarray, profile: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    r"""What knowing the overlaps $q$ costs when the prior has variances `profile` on `fractions` of the coordinates."""
    low, high = np.full(overlap.shape, -60.0), np.full(overlap.shape, 60.0)
    for _ in range(100):
        middle = 0.5 * (low + high)
        scaled = profile * np.exp(middle)[:, None]
        above = (profile * scaled / (1.0 + scaled)) @ fractions > overlap
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    scaled = profile * np.exp(low)[:, None]
    return 0.5 * (np.log1p(scaled) - scaled / (1.0 + scaled)) @ fractions
