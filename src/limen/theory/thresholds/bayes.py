r"""Overlap of the best estimator of a direction, and of the best that is known to be efficient."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from limen.link.label_points import checked_target
from limen.problem.spec import InputError
from limen.theory.thresholds.overlap_curve import OverlapCurve, overlap_curve, single_index


@dataclass(frozen=True)
class BayesOverlap:
    """Squared cosines $q$ of estimate and truth: for the posterior mean, and for message passing without a start."""

    information_theoretic: float
    algorithmic: float


def bayes_overlap(target: Any, samples_per_dim: float) -> BayesOverlap:
    r"""Asymptotic overlaps of a single-index target at $\delta=n/d$ = `samples_per_dim`, Gaussian prior.

    Information-theoretic: the $q$ that maximises $\delta I(q)+\frac12(q+\log(1-q))$. Algorithmic: the fixed point of
    $\hat q=2\delta I'(q)$, $q=\hat q/(1+\hat q)$ reached from $0^+$, the state evolution of Bayes-optimal approximate
    message passing: the least $q$ at which $D(q)=\frac{q}{2(1-q)I'(q)}$ reaches $\delta$. Both grow with $\delta$,
    and vanish below $\delta_{IT}$ and $\delta_{alg}$. $q$ is the squared cosine of the posterior mean with the truth,
    up to the sign that an even link cannot tell. Exact recovery is 1; so is anything above $1-3\cdot10^{-4}$. Absolute
    error about $10^{-3}$. 1 to 4 s for a new target, then nothing.

    Source: Barbier, Krzakala, Macris, Miolane & Zdeborová 2019.
    """
    if not (np.isfinite(samples_per_dim) and samples_per_dim > 0):
        raise InputError(f"samples_per_dim must be positive, got {samples_per_dim}.")
    curve = overlap_curve(single_index(checked_target(target)))
    found = _climbing_stops(curve, samples_per_dim)
    # The algorithm starts at 0+, and stays there when the curve starts above delta.
    algorithmic = 0.0 if samples_per_dim <= curve.algorithmic else (found[0] if found else 1.0)
    return BayesOverlap(max(_best(curve, samples_per_dim, found), algorithmic), algorithmic)


def _climbing_stops(curve: OverlapCurve, samples_per_dim: float) -> list[float]:
    """Every $q$ at which $D$ rises through $\\delta$, ascending: the stable fixed points but 0 and 1."""
    q = np.concatenate([[0.0], curve.overlaps])
    levels = np.concatenate([[min(curve.algorithmic, 1e9)], curve.samples_per_dim])
    at = np.flatnonzero((levels[:-1] < samples_per_dim) & (levels[1:] >= samples_per_dim))
    parts = (samples_per_dim - levels[at]) / (levels[at + 1] - levels[at])
    return (q[at] + parts * (q[at + 1] - q[at])).tolist()


def _best(curve: OverlapCurve, samples_per_dim: float, found: list[float]) -> float:
    if samples_per_dim > curve.exact:
        return 1.0
    candidates = list(found)
    if samples_per_dim <= curve.algorithmic:
        candidates.insert(0, 0.0)
    if not candidates:
        return 1.0
    gain = samples_per_dim * curve.information - curve.entropy()
    values = [0.0 if q == 0.0 else float(np.interp(q, curve.overlaps, gain)) for q in candidates]
    return candidates[int(np.argmax(values))]
