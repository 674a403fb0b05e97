r"""When all tokens must end in one cluster: Wendel's probability of a hemisphere, and which theorem applies.

Tokens in an open hemisphere converge exponentially to one point for $Q^\top K=V=I$ (Geshkovski, Letrouit, Polyanskiy &
Rigollet 2023). $n$ independent uniform tokens on the sphere of $\mathbb R^d$ lie in one with probability
$2^{-(n-1)}\sum_{k<d}\binom{n-1}k$ (Wendel 1962), which is one iff $n\le d$.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import bdtr, gammaln, logsumexp

from limen.checks import integer, number

CITATIONS = ("wendel1962", "geshkovski2023", "criscitiello2024", "polyanskiy2025")
Theorem = Literal["hemisphere", "sphere", "circle", "open", "false"]


@dataclass(frozen=True)
class ClusteringGuarantee:
    """Whether convergence to one cluster is proved, by which theorem, and in what sense.

    `holds`: proved for almost every start. `theorem`: `hemisphere` (tokens in an open hemisphere, exponential rate),
    `sphere` (d at least 3), `circle` (d = 2), `open` (no theorem of this list), `false` (other stable states exist).
    `hemisphere_probability`: for independent uniform tokens. `sentence`: all of it in words.
    """

    holds: bool
    theorem: Theorem
    hemisphere_probability: float
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def hemisphere_probability(n: int, d: int) -> float:
    r"""Probability that `n` independent uniform points of the sphere of $\mathbb R^d$ lie in one open hemisphere; 1 iff
    $n\le d$.
    """
    n, d = integer("n", n, 1), integer("d", d, 2)
    return 1.0 if n <= d else float(bdtr(d - 1, n - 1, 0.5))


def log_hemisphere_probability(n: int, d: int) -> float:
    r"""$\ln$ of `hemisphere_probability`, for numbers of points at which the probability itself is no double."""
    n, d = integer("n", n, 1), integer("d", d, 2)
    if n <= d:
        return 0.0
    k = np.arange(d)
    terms = gammaln(n) - gammaln(k + 1.0) - gammaln(n - k)
    return min(float(np.asarray(logsumexp(terms))) - (n - 1) * math.log(2.0), 0.0)


def clustering_guarantee(n: int, d: int, beta: float) -> ClusteringGuarantee:
    r"""Which theorem, if any, proves that `n` tokens in dimension `d` end in one cluster when $Q^\top K=V=I$.

    With and without softmax alike: the two fields differ by positive factors, one per token, and have the same
    stationary points of the same stability. Nothing is said about how long it takes: see `log_hitting_time` and
    `lifetime`.
    """
    n, d, beta = integer("n", n, 2), integer("d", d, 2), number("beta", beta)
    probability = hemisphere_probability(n, d)
    theorem, sentence = _theorem(n, d, beta)
    return ClusteringGuarantee(theorem in ("hemisphere", "sphere", "circle"), theorem, probability, sentence)


def _theorem(n: int, d: int, beta: float) -> tuple[Theorem, str]:
    if beta >= 0.0 and n <= d:
        return "hemisphere", (
            f"{n} independent tokens in dimension {d} lie in an open hemisphere with probability one and converge "
            "exponentially to one cluster (Geshkovski et al. 2023)."
        )
    if beta >= 0.0 and d >= 3:
        return "sphere", (
            f"one cluster from almost every start, for every beta >= 0 in dimension {d} >= 3 (Geshkovski et al. 2023, "
            "Criscitiello et al. 2024)."
        )
    if d == 2 and beta >= -0.16:
        return (
            "circle",
            "one cluster from almost every start on the circle, for beta >= -0.16 (Polyanskiy et al. 2025).",
        )
    if d == 2 and beta < -2.0 / 3.0:
        return "false", (
            "no: on the circle states other than one cluster are stable for beta < -2/3, such as a regular triangle "
            "of three equal clusters (Polyanskiy et al. 2025)."
        )
    return "open", f"no theorem of this list covers beta = {beta:g} in dimension {d}: simulate."
