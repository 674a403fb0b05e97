"""Will gradient descent learn a hard direction at this dimension, and when?"""

from typing import Any

import numpy as np
from scipy.special import ndtr

from limen.gaussian.sobol import sobol_normals
from limen.precision import in_double
from limen.problem import InputError, TwoLayer
from limen.problem.times import time_grid
from limen.result import Findings, Result
from limen.theory.descent.escape import LEARNT, hard_cosine, require_descent
from limen.theory.descent.solve import pinned_directions, solve

DRAWS = 2**13


@in_double
def success_probability(
    problem: TwoLayer, d: int, times: Any, paths: int = 4096, scrambles: int = 5, seed: int = 0
) -> float:
    r"""Probability that a neuron's cosine with the hard subspace passes $\frac12$ within `times` at dimension $d$.

    One neuron, one hard direction: $2\big(1-\Phi(\tfrac1{2\max_ts_t})\big)$, $s_t^2=C_u(t,t)/(d\,C_\theta(t,t))$. In
    general the largest over $t$ of the probability under the Gaussian law of all overlaps. The law is that of the
    linear theory. The typical cosine is the median over `scrambles` sets of paths, which differ by 5 to 15%: take 8192
    paths and 7 sets where a per cent of probability matters.
    """
    return float(success_probabilities(problem, [d], times, paths, scrambles, seed)[0])


@in_double
def success_probabilities(
    problem: TwoLayer, sizes: Any, times: Any, paths: int = 4096, scrambles: int = 5, seed: int = 0
) -> np.ndarray:
    """`success_probability` at several dimensions `sizes`, for the price of one."""
    dimensions = _check_dimensions(sizes)
    prediction = _prediction(problem, times, paths, scrambles, seed)
    return np.array([_probability(problem, prediction, d) for d in dimensions])


def _probability(problem: TwoLayer, prediction: Findings | Result, d: int) -> float:
    if problem.network.width == 1 and prediction.dataset.sizes["hard"] == 1:
        return float(2.0 * ndtr(-LEARNT / hard_cosine(prediction, d).max()))
    width, directions = problem.network.width, prediction.dataset.sizes["hard"]
    normals = sobol_normals(DRAWS, width * directions)
    variance = prediction.dataset.hard_variance.values.transpose(0, 1, 3, 2, 4)
    length = d * np.einsum("tjj->tj", prediction.dataset.gram.values)
    best = 0.0
    for covariance, norms in zip(variance.reshape(len(variance), width * directions, -1), length, strict=True):
        values, vectors = np.linalg.eigh(covariance)
        overlaps = (normals * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        cosines = (overlaps.reshape(DRAWS, width, directions) ** 2).sum(axis=2) / norms
        best = max(best, float(np.mean(cosines.max(axis=1) > LEARNT**2)))
    return best


@in_double
def escape_time(
    problem: TwoLayer, d: int, times: Any = 100, paths: int = 4096, scrambles: int = 5, seed: int = 0
) -> float:
    r"""First step at which the typical cosine $s_t$ with the hard subspace passes $\frac12$; infinite if not within
    `times`.

    A typical run: single runs differ by as much as the time itself (see `limen.descent.finite_size`).
    """
    _check_dimensions([d])
    prediction = _prediction(problem, times, paths, scrambles, seed)
    passed = hard_cosine(prediction, d).max(axis=1) > LEARNT
    return float(prediction.dataset.time.values[np.argmax(passed)]) if passed.any() else float("inf")


def _check_dimensions(sizes: Any) -> list[int]:
    values = np.atleast_1d(np.asarray(sizes, dtype=float)).tolist()
    for d in values:
        if d < 2 or int(d) != d:
            raise InputError(f"d must be a whole number of at least 2, got {d:g}.")
    return [int(d) for d in values]


def _prediction(problem: TwoLayer, times: Any, paths: int, scrambles: int, seed: int) -> Findings:
    reason = problem.inputs.unlike_isotropic()
    if reason is not None:
        raise InputError(f"thresholds do not apply: {reason}")
    if pinned_directions(problem).shape[1] == 0:
        raise InputError(
            f"target {problem.target.label!r} must have a hard direction without overlap at the start: there is none."
        )
    grid = time_grid(times, counts_steps=True)
    prediction = solve(problem, np.arange(grid[-1] + 1), paths, scrambles, seed)
    require_descent(prediction)
    return prediction
