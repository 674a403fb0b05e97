r"""Where SGD on the XOR mixture can end at $\lambda=\infty$, and how often the initial signs lead to a good end.

At a fixed point every neuron is either zero or in one of four clusters: $\mu^\pm$ with $v_i=|m_i^\mu|>0$, or $\nu^\pm$
with $v_i=-|m_i^\nu|<0$; each cluster that is not empty has
$\sum v_i^2=\Lambda=\log\frac{1-4\alpha}{4\alpha}$ (Ben Arous, Gheissari & Jagannath 2022). Bayes-optimal classification
needs all four. Non-zero fixed points exist iff $\alpha<\frac18$, the growth rate at the origin being $\frac18-\alpha$.
"""

import math
from typing import NamedTuple

from limen.problem import InputError, XorMixture

CLUSTERS = 4
LARGEST_PENALTY = 0.125


class FixedPointSets(NamedTuple):
    """Numbers of connected sets of fixed points: `connected` all of them, `complete` with all clusters occupied."""

    connected: int
    complete: int


def cluster_mass(problem: XorMixture) -> float:
    r"""$\Lambda=\log\frac{1-4\alpha}{4\alpha}=\sum_{i}v_i^2$ of every occupied cluster; zero at $\alpha=\frac18$."""
    _check(problem, LARGEST_PENALTY)
    return math.log((1.0 - 4.0 * problem.penalty) / (4.0 * problem.penalty))


def fixed_point_sets(problem: XorMixture) -> FixedPointSets:
    r"""How many connected sets of fixed points there are at $\lambda=\infty$, and how many occupy all clusters.

    A neuron can pass between zero and a cluster in which another neuron stays, so configurations with $s$ occupied
    clusters and more than $s$ neurons are connected to each other, and with exactly $s$ neurons are $K!$ isolated
    points (counting which neuron sits where): $\sum_{s<K}\binom4s+[K\le4]\binom4KK!$, which is 5, 17, 35, 39 for
    $K=1,\dots,4$ and 16 from $K=5$ on. Complete sets: none below $K=4$, the 24 isolated stable points at $K=4$, one
    connected set above.
    """
    _check(problem, math.nextafter(LARGEST_PENALTY, 0.0))
    width = problem.width

    def sets(occupied: int) -> int:
        if occupied > width:
            return 0
        return math.factorial(width) if occupied == width else 1

    total = sum(math.comb(CLUSTERS, occupied) * sets(occupied) for occupied in range(CLUSTERS + 1))
    return FixedPointSets(total, sets(CLUSTERS))


def lottery_probability(problem: XorMixture) -> float:
    r"""The sign-signature value at sharpness = inf: $p_K=\sum_{j=0}^4(-1)^j\binom4j\big(1-\frac j4\big)^K$.

    Probability that all four clusters are occupied if the initial signs alone set every neuron's cluster, which are
    then independent and uniform; $p_4=\frac3{32}$, $p_K\simeq1-4(3/4)^K$. It holds for the flow at $\lambda=\infty$
    from small initial overlaps. The `sharpness` of the problem does not enter: at finite $\lambda$ with overlaps of
    $N^{-1/2}\lesssim\lambda^{-1/2}$ neurons leave at different times, the late ones are pushed towards clusters that
    are still empty, and the measured probability is larger (simulate it beside this value).
    """
    _check(problem, math.nextafter(LARGEST_PENALTY, 0.0))
    return sum((-1) ** j * math.comb(CLUSTERS, j) * (1.0 - j / CLUSTERS) ** problem.width for j in range(CLUSTERS + 1))


def _check(problem: XorMixture, largest: float) -> None:
    if not isinstance(problem, XorMixture):
        raise InputError(f"problem must be an XorMixture, got {type(problem).__name__}.")
    if not 0.0 < problem.penalty <= largest:
        raise InputError(
            f"penalty must lie between 0 and 1/8 (without it the weights grow for ever, above it only the origin is a "
            f"fixed point), got {problem.penalty}."
        )
