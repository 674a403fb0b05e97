"""`SelfAttention` problems as the dimension goes to infinity: every pair of tokens has the same cosine."""

import numpy as np
import xarray as xr

from limen.method import Method
from limen.problem import SelfAttention
from limen.result import Findings
from limen.theory.attention.equiangular import equiangular_cosine

CITATIONS = ("geshkovski2023",)
# What an infinite energy means; see `limen.result.Findings`.
ENERGY = {"undefined": "it grows as exp(beta), beyond the largest number"}
CLUSTERED = 1e-3


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
    `mean_cosine`, `clustered_pairs` (0 before, 1 after the cosine passes 0.999) and `energy`. $H$ heads run the time
    $H$ times as fast. At finite $d$ the largest deviation is an earlier collapse at large $\beta$
    (`finite_dimension_hitting_time`).
    """
    clock = problem.heads * np.asarray(times, dtype=float)
    cosine = np.asarray(equiangular_cosine(problem.tokens, problem.beta, clock, normalized=problem.normalized))
    n, beta = problem.tokens, problem.beta
    with np.errstate(over="ignore"):
        one, pair = (np.expm1(beta * np.asarray(c)) / beta if beta else np.asarray(c) for c in (1.0, cosine))
    dataset = xr.Dataset(
        {
            "mean_cosine": (("time",), cosine),
            "clustered_pairs": (("time",), (cosine >= 1.0 - CLUSTERED).astype(float)),
            "energy": (("time",), (one + (n - 1) * pair) / (2.0 * n), ENERGY),
        },
        coords={"time": times},
    )
    return Findings(dataset, True, "integrated.")


equiangular_tokens = Method("equiangular-tokens", "theory", CITATIONS, refuses, solve)
