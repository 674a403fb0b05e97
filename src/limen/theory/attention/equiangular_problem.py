"""`SelfAttention` problems as the dimension goes to infinity: every pair of tokens has the same cosine."""

import numpy as np
import xarray as xr

from limen.method import Method
from limen.problem import SelfAttention
from limen.result import Findings
from limen.theory.attention.equiangular import equiangular_distance
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
    r"""Cosine $\gamma_\beta(t)$ of all pairs of independent uniform tokens as $d\to\infty$ with their number $n$ fixed.

    Independent uniform tokens are orthogonal in the limit, and orthogonal tokens stay at equal angles. Returns
    `mean_cosine`, `clustered_pairs` (the part of the pairs beyond 0.999) and `energy`. $H$ heads run the time $H$ times
    as fast. All pairs would pass 0.999 at once as $d\to\infty$; in dimension $d$ they do so over a time of order
    $d^{-1/2}$, which is taken into `clustered_pairs` to first order (`equiangular_spread`), with
    `clustered_pairs_error`. `ok` is False where the relative spread $v$ of the pairs, of order $d^{-1/2}$, is above 0.5
    at a reported time: below, simulations stayed within 0.1 of `mean_cosine`. At finite $d$ the largest deviation of
    the rest is an earlier collapse at large $\beta$ (`finite_dimension_hitting_time`).
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
    dataset = xr.Dataset(
        {
            "mean_cosine": (("time",), cosine),
            "clustered_pairs": (("time",), together, {"error": "clustered_pairs_error"}),
            "clustered_pairs_error": (("time",), doubt),
            "energy": (("time",), (one + (n - 1) * pair) / (2.0 * n), ENERGY),
        },
        coords={"time": times},
    )
    wide = spread / np.sqrt(problem.dim) > LARGEST_SPREAD
    if wide.any():
        status = (
            f"the limit of large dim does not hold at dim = {problem.dim} from time {np.asarray(times)[wide][0]:g} on, "
            f"where pairs of tokens differ too much: take a larger dim, or simulate."
        )
        return Findings(dataset, False, status)
    return Findings(dataset, True, "integrated.")


equiangular_tokens = Method("equiangular-tokens", "theory", CITATIONS, refuses, solve)
