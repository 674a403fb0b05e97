"""Will gradient descent learn a hard direction at this dimension, and when?"""

from typing import Any

import numpy as np
from scipy.special import ndtr

from limen.gaussian.sobol import sobol_normals
from limen.precision import in_double
from limen.problem import InputError, TwoLayer
from limen.problem.times import time_grid
from limen.result import Findings, Result
from limen.theory.descent.escape import LEARNT, escaping_runs, hard_cosine, require_descent
from limen.theory.descent.solve import pinned_directions, solve, without_responses

DRAWS = 2**13
RUNS, PATHS = 200, 4096


@in_double
def success_probability(
    problem: TwoLayer, d: int, times: Any, seeds: int = RUNS, paths: int | None = PATHS, seed: int = 0
) -> float:
    r"""Probability that a neuron's cosine with the hard subspace passes $\frac12$ within `times` at dimension $d$.

    The part of `seeds` runs of the finite-dimensional theory: any width, any hard subspace, kinked activations,
    momentum and mini-batches. Its standard error is $\sqrt{p(1-p)/\text{seeds}}$.
    """
    found = escaping_runs(problem, times, d, seeds, paths, seed).dataset.escape_time.values
    return float(np.isfinite(found).mean())


@in_double
def escape_time(
    problem: TwoLayer, d: int, times: Any = 100, seeds: int = RUNS, paths: int | None = PATHS, seed: int = 0
) -> float:
    r"""Median over `seeds` runs at dimension `d` of the first step at which a neuron's cosine with the hard subspace
    passes $\frac12$; infinite if half of them do not get there within `times`.

    Single runs differ by as much as the time itself: `limen.descent.finite_size` has quantiles.
    """
    found = escaping_runs(problem, times, d, seeds, paths, seed).dataset.escape_time.values
    return float(np.quantile(found, 0.5, method="nearest"))


@in_double
def success_probabilities(
    problem: TwoLayer, sizes: Any, times: Any, paths: int = 4096, scrambles: int = 5, seed: int = 0
) -> np.ndarray:
    r"""The probability of success at several dimensions `sizes` by the linear law of the overlap: one theory of
    $d=\infty$ serves them all.

    One neuron, one hard direction: $2\big(1-\Phi(\tfrac1{2\max_ts_t})\big)$, $s_t^2=C_u(t,t)/(d\,C_\theta(t,t))$. In
    general the largest over $t$ of the probability under the Gaussian law of all overlaps. Low where cosines grow
    faster than linearly near $\frac12$: up to 0.1 for the square loss, see `success_probability`. The typical cosine is
    the median over `scrambles` sets of paths, which differ by 5 to 15%: take 8192 paths and 7 sets where a per cent of
    probability matters.
    """
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
    reason = without_responses(problem)
    if reason is not None:
        raise InputError(f"the linear law does not apply: {reason}")
    grid = time_grid(times, counts_steps=True)
    # As many paths as were asked for: the linear law takes medians, and few percent of a kernel move it little.
    prediction = solve(problem, np.arange(grid[-1] + 1), paths, scrambles, seed, tolerance=1.0)
    require_descent(problem, prediction)
    return prediction
