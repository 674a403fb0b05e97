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
from limen.theory.thresholds.overlap_curve import overlap_curve, single_index


def information_theoretic(target: Any) -> float:
    r"""$\delta_{IT}=n/d$ for weak recovery of a single-index target by any method, Gaussian prior, $n,d\to\infty$.

    0 when the link has no hard direction. For a noiseless label with a continuous law the limit $q\to1$ counts too; it
    is one over the probability that $h$ is not flat. Relative error about $10^{-3}$, and $10^{-5}$ where the infimum is
    at $q\to0$ ($z^2$: 1/2 = $\delta_{alg}$). A target with several latent directions is refused. 1 to 4 s.
    """
    curve = overlap_curve(single_index(checked_target(target)))
    if curve.algorithmic == 0.0:
        return 0.0
    inside = float(np.min(curve.entropy() / curve.information))
    return min(inside, curve.algorithmic, curve.exact)
