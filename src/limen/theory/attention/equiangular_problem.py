"""`SelfAttention` problems in high dimension: every pair of tokens has the same cosine, and what is left of order
1/d."""

import numpy as np
import xarray as xr

from limen.method import Method
from limen.problem import SelfAttention
from limen.result import Findings
from limen.theory.attention.equiangular import equiangular_distance
from limen.theory.attention.equiangular_means import pair_sums
from limen.theory.attention.equiangular_spread import clustered_error, clustered_part, relative_spread

CITATIONS = ("geshkovski2023",)
# What an infinite energy means; see `limen.result.Findings`.
ENERGY = {"undefined": "it grows as exp(beta), beyond the largest number"}
CLUSTERED = 1e-3
# Measured at beta from -2 to 9, 2 to 200 tokens, dim from 2 to 512, times 1, 3 and 10: up to this relative spread of
# the pairs the mean cosine of 24 trainings was within 0.1 of the limit; beyond one it was off by up to 0.9.
LARGEST_SPREAD = 0.5


def refuses(problem: object) -> str | None:
    """Why the equiangular theory does not apply, or None."""
    if not isinstance(problem, SelfAttention):
        return "it solves SelfAttention problems."
    if not problem.isotropic:
        return "it needs the identity for query_key and value, and no feed_forward."
    if problem.noise > 0.0:
        return "it has no noise."
    return None


def solve(problem: SelfAttention, times: np.ndarray) -> Findings:
    r"""Cosine $\gamma_\beta(t)$ of all pairs of independent uniform tokens as $d\to\infty$ with their number $n$ fixed,
    and its first correction at the problem's own $d$.

    Independent uniform tokens are orthogonal in the limit, and orthogonal tokens stay at equal angles. Returns
    `mean_cosine`, `clustered_pairs` (the part of the pairs beyond 0.999) and `energy`. $H$ heads run the time $H$ times
    as fast. `mean_cosine` and `energy` are means over starts with their part of order $1/d$ (`equiangular_means`); the
    error states what the next order may change: the fourth order in one pair, twice, and half of the correction and of
    $v^2$ distances times $v^2$, $v$ the relative spread of the pairs, of order $d^{-1/2}$. All pairs would pass 0.999
    at once as $d\to\infty$; in dimension $d$ they do so over a time of order $d^{-1/2}$, which is taken into
    `clustered_pairs` to first order (`equiangular_spread`). `ok` is False where $v$ is above 0.5 at a reported time.
    """
    clock = problem.heads * np.asarray(times, dtype=float)
    n, beta = problem.tokens, problem.beta
    distance = equiangular_distance(n, beta, clock, normalized=problem.normalized)
    cosine, spread = 1.0 - distance, relative_spread(n, beta, 1.0 - distance, problem.normalized)
    with np.errstate(over="ignore", divide="ignore"):
        together, doubt = (
            part(np.log(distance), spread, problem.dim, CLUSTERED) for part in (clustered_part, clustered_error)
        )
        one, pair = (np.expm1(beta * np.asarray(c)) / beta if beta else np.asarray(c) for c in (1.0, cosine))
        slope = np.exp(beta * cosine) * (n - 1) / (2.0 * n)
    d, relative = problem.dim, spread / np.sqrt(problem.dim)
    sums = pair_sums(n, beta, distance, problem.normalized)
    # All pairs are chances alike: what one does to the sum is what all do to the mean.
    parts, slopes = (1.0, (n - 1.0) / (2.0 * n)), (1.0, slope)
    limits = cosine, (one + (n - 1) * pair) / (2.0 * n)
    variables = {
        "clustered_pairs": (("time",), together, {"error": "clustered_pairs_error", "whole": 1.0}),
        "clustered_pairs_error": (("time",), doubt),
    }
    for i, name in enumerate(("mean_cosine", "energy")):
        with np.errstate(over="ignore", invalid="ignore"):
            moved, fourth = parts[i] * sums.second[i] / d, parts[i] * sums.fourth[i] * 3.0 / (d * (d + 2.0))
            next_order = 2.0 * np.abs(fourth) + 0.5 * (np.abs(moved) + slopes[i] * distance * relative**2) * relative**2
        # Energies of single pairs may be beyond the largest number.
        known = np.isfinite(moved) & np.isfinite(next_order)
        meaning = ENERGY if name == "energy" else {}
        variables[name] = (("time",), limits[i] + np.where(known, moved, 0.0), {"error": f"{name}_error", **meaning})
        variables[f"{name}_error"] = (("time",), np.where(known, next_order, np.abs(limits[i])), meaning)
    dataset = xr.Dataset(variables, coords={"time": times})
    wide = relative > LARGEST_SPREAD
    if wide.any():
        status = (
            f"the limit of large dim does not hold at dim = {problem.dim} from time {np.asarray(times)[wide][0]:g} on, "
            f"where pairs of tokens differ too much: take a larger dim, or simulate."
        )
        return Findings(dataset, False, status)
    return Findings(dataset, True, "integrated.")


equiangular_tokens = Method("equiangular-tokens", "theory", CITATIONS, refuses, solve)
