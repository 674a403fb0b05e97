r"""Overlap of the best estimator of a direction, and of the best that is known to be efficient."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from limen.link import hard_subspace
from limen.link.label_points import checked_target
from limen.problem.spec import InputError
from limen.problem.targets import Target
from limen.theory.thresholds.algorithmic import algorithmic
from limen.theory.thresholds.overlap_curve import OverlapCurve, overlap_curve
from limen.theory.thresholds.overlap_matrices import (
    entropy,
    faint_start,
    fixed_point,
    full_start,
    information_and_slope,
    several_directions,
)


@dataclass(frozen=True)
class BayesOverlap:
    """Overlaps of estimate and truth, for the posterior mean, and for message passing without a start.

    One latent direction: squared cosines $q$. Several: matrices $Q$ (k, k). `ok` is False where the state evolution did
    not settle inside what its grid resolves.
    """

    information_theoretic: Any
    algorithmic: Any
    ok: bool = True


def bayes_overlap(target: Any, samples_per_dim: float) -> BayesOverlap:
    r"""Asymptotic overlaps of a target with up to three latent directions at $\delta=n/d$ = `samples_per_dim`, Gaussian
    prior.

    One direction. Information-theoretic: the $q$ that maximises $\delta I(q)+\frac12(q+\log(1-q))$. Algorithmic: the
    fixed point of $\hat q=2\delta I'(q)$, $q=\hat q/(1+\hat q)$ reached from $0^+$, the state evolution of
    Bayes-optimal message passing: the least $q$ at which $D(q)=\frac{q}{2(1-q)I'(q)}$ reaches $\delta$. Both grow with
    $\delta$, and vanish below $\delta_{IT}$ and $\delta_{alg}$. $q$ is the squared cosine of the posterior mean with
    the truth, up to the sign that an even link cannot tell. Exact recovery is 1; so is anything above
    $1-3\cdot10^{-4}$. Absolute error about $10^{-3}$. 1 to 4 s for a new target, then nothing.

    Two or three directions, labels with additive noise: matrices $Q$, see `overlap_matrices`. Algorithmic: the fixed
    point of the state evolution from a faint overlap without any symmetry. Information-theoretic: of it, of zero where
    no direction is easy, and of the fixed point from nearly full knowledge, the one of largest
    $\delta I(Q)+\frac12(\mathrm{tr}\,Q+\log\det(I-Q))$. $Q$ is known up to the symmetries of the link. Error about
    $3\cdot10^{-3}$ for two directions and $4\cdot10^{-3}$ for three; 0.1 and 0.2 s a round, some tens of rounds.

    Source: Barbier, Krzakala, Macris, Miolane & Zdeborová 2019; Aubin et al. 2018 and Troiani et al. 2024 (several).
    """
    if not isinstance(samples_per_dim, (int, float, np.number)):
        raise InputError(f"samples_per_dim must be one number, got {samples_per_dim!r}.")
    if not (np.isfinite(samples_per_dim) and samples_per_dim > 0):
        raise InputError(f"samples_per_dim must be positive, got {samples_per_dim}.")
    checked = checked_target(target)
    if checked.latents > 1:
        return _of_several(several_directions(checked), samples_per_dim)
    curve = overlap_curve(checked)
    found = _climbing_stops(curve, samples_per_dim)
    # The algorithm starts at 0+, and stays there when the curve starts above delta.
    algorithmic = 0.0 if samples_per_dim <= curve.algorithmic else (found[0] if found else 1.0)
    return BayesOverlap(max(_best(curve, samples_per_dim, found), algorithmic), algorithmic)


def _of_several(target: Target, samples_per_dim: float) -> BayesOverlap:
    nothing, hard = np.zeros((target.latents, target.latents)), hard_subspace(target).dimension == target.latents
    full = fixed_point(target, samples_per_dim, full_start(target))
    if hard and samples_per_dim <= algorithmic(target):
        efficient, settled = nothing, full.settled
    else:
        climbed = fixed_point(target, samples_per_dim, faint_start(target))
        efficient, settled = climbed.overlap, climbed.settled and full.settled

    def gain(overlap: np.ndarray) -> float:
        return samples_per_dim * information_and_slope(target, overlap)[0] - entropy(overlap)

    # Fixed points that are equal but for the last digits count as the efficient one.
    best = full.overlap if gain(full.overlap) > gain(efficient) + 1e-5 else efficient
    return BayesOverlap(best, efficient, settled)


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
