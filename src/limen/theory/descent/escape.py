r"""Leaving hard directions at finite dimension: how likely, how soon, and the curves through the escape.

A run has **learnt** when the cosine between one of its neurons and the hard subspace of the target passes $\frac12$.
Runs are those of `finite_dimension`: any width, any hard subspace, any start.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from limen.checks import seed_list
from limen.labelled import labelled, with_variables
from limen.link import hard_subspace
from limen.method import answers
from limen.precision import in_double
from limen.problem import InputError, TwoLayer
from limen.problem.divergence import refusal
from limen.result import Findings, Result
from limen.theory.descent.finite_dimension import CITATIONS, runs

LEARNT = 0.5
RUNS = 64
QUARTILES = (0.25, 0.5, 0.75)
# Sets of runs between which the error of a mean shows; Student's t with so few is wider than the normal law, at 99%.
EVEN_SETS = 16
FEW_SETS = 2.9467 / 2.5758


def hard_cosine(prediction: Findings | Result, d: int) -> np.ndarray:
    r"""$s_t=\sqrt{\mathrm{tr}_r\,C_u(t,t)_{jj}/(d\,C_\theta(t,t)_{jj})}$ of the linear law, the typical cosine between
    neuron $j$ and the hard subspace; shape (time, neuron)."""
    variance = np.einsum("tjjaa->tj", prediction.dataset.hard_variance.values)
    return np.sqrt(variance / (d * np.einsum("tjj->tj", prediction.dataset.gram.values)))


def largest_cosine(problem: TwoLayer, dataset: xr.Dataset) -> np.ndarray:
    r"""$\max_j|P_H\theta_j|/|\theta_j|$ of every run, $P_H$ the projector on the hard subspace; shape (seed, time)."""
    hard = hard_subspace(problem.target).basis
    along = np.linalg.norm(dataset.overlap.values @ hard, axis=-1)
    return (along / np.sqrt(np.einsum("stjj->stj", dataset.gram.values))).max(axis=-1)


def first_passage(grid: np.ndarray, cosine: np.ndarray) -> np.ndarray:
    r"""First time with $\cos>\frac12$ of each row, infinite where there is none."""
    passed = cosine > LEARNT
    return np.where(passed.any(axis=1), grid[np.argmax(passed, axis=1)], np.inf)


def escaping_runs(
    problem: TwoLayer,
    times: Any,
    d: int,
    seeds: int | Sequence[int],
    paths: int | None,
    seed: int,
    even_sets: int = 0,
) -> Findings:
    """Runs at dimension `d` with their `cosine` (seed, time) and `escape_time` (seed); refused without a hard direction
    and with a step that diverges."""
    if hard_subspace(problem.target).dimension == 0:
        raise InputError(f"target {problem.target.label!r} must have a hard direction: there is none.")
    found = runs(problem, times, d, seeds, paths, seed, even_sets)
    if not found.ok:
        raise InputError(refusal(problem, found.status))
    cosine = largest_cosine(problem, found.dataset)
    passage = first_passage(found.dataset.time.values, cosine)
    added = {"cosine": (("seed", "time"), cosine), "escape_time": (("seed",), passage)}
    return replace(found, dataset=with_variables(found.dataset, added))


@answers("theory", CITATIONS)
@in_double
def finite_size(
    problem: TwoLayer,
    times: Any,
    d: int,
    quantiles: Any = (0.1, 0.25, 0.5, 0.75, 0.9),
    seeds: int | Sequence[int] = RUNS,
    paths: int | None = None,
    seed: int = 0,
) -> Findings:
    r"""What runs of gradient descent at dimension $d$ look like, from unlucky to lucky ones.

    Quantiles over runs, time by time, along (quantile, time): `train_loss`, `test_loss`, `excess_risk`, `cosine` (the
    largest between a neuron and the hard subspace); `escape_time` (quantile), the first time with a cosine above
    $\frac12$, infinite where there is none. `seeds` runs of the theory, `paths` points each: see
    `finite_dimension.runs`.
    """
    levels = np.atleast_1d(np.asarray(quantiles, dtype=float))
    if levels.ndim != 1 or not ((levels > 0) & (levels < 1)).all():
        raise InputError(f"quantiles must lie in (0, 1), got {quantiles!r}.")
    found = escaping_runs(problem, times, d, seeds, paths, seed)
    variables: dict[str, Any] = {
        name: (("quantile", "time"), np.quantile(found.dataset[name].values, levels, axis=0))
        for name in ("train_loss", "test_loss", "excess_risk", "cosine")
    }
    passage = np.quantile(found.dataset.escape_time.values, levels, method="nearest")
    variables["escape_time"] = (("quantile",), passage, {"undefined": "these runs do not escape"})
    return _summary(found, variables, levels, d)


@answers("theory", CITATIONS)
@in_double
def average_run(
    problem: TwoLayer,
    times: Any,
    d: int,
    seeds: int | Sequence[int] = RUNS,
    paths: int | None = None,
    seed: int = 0,
) -> Findings:
    r"""Means over runs of gradient descent at dimension $d$, escape included: what an average over seeds shows.

    `train_loss`, `test_loss`, `cosine` (time): means over runs, with `*_low` and `*_high` the tenth and ninetieth
    percentile of runs and `*_error` the standard error of the mean. The luck of the first steps, which decides an
    escape, is shared out evenly among the runs of each of sixteen sets; the error is that between the sets. `escaped`
    (time): the part of runs that have
    learnt by then. `escape_time` (quantile): its quartiles, infinite for runs that do not escape.
    """
    count = len(seed_list(seeds))
    if count < 2 * EVEN_SETS:
        raise InputError(f"seeds must be at least {2 * EVEN_SETS} for a mean with its error, got {count}.")
    found = escaping_runs(problem, times, d, seeds, paths, seed, EVEN_SETS)
    cosine = found.dataset.cosine.values
    parts = {name: found.dataset[name].values for name in ("train_loss", "test_loss", "cosine")}
    parts["escaped"] = np.maximum.accumulate(cosine > LEARNT, axis=1).astype(float)
    variables: dict[str, Any] = {}
    for name, values in parts.items():
        variables[name] = (("time",), values.mean(axis=0), {"error": f"{name}_error"})
        sets = np.stack([part.mean(axis=0) for part in np.array_split(values, EVEN_SETS)])
        variables[f"{name}_error"] = (("time",), FEW_SETS * sets.std(axis=0, ddof=1) / EVEN_SETS**0.5)
        if name != "escaped":
            low, high = np.quantile(values, (0.1, 0.9), axis=0)
            variables[f"{name}_low"], variables[f"{name}_high"] = (("time",), low), (("time",), high)
    passage = np.quantile(found.dataset.escape_time.values, QUARTILES, method="nearest")
    variables["escape_time"] = (("quantile",), passage, {"undefined": "these runs do not escape"})
    return _summary(found, variables, np.array(QUARTILES), d)


def _summary(found: Findings, variables: dict[str, Any], levels: np.ndarray, d: int) -> Findings:
    coords = {"time": found.dataset.time.values, "quantile": levels}
    dataset = labelled(variables, coords=coords, attrs={"d": int(d)})
    return Findings(dataset, found.ok, found.status, found.statistics)


def require_descent(problem: TwoLayer, prediction: Findings | Result) -> None:
    """Refuses weights that diverge."""
    if not np.isfinite(prediction.dataset.train_loss.values).all():
        raise InputError(refusal(problem, prediction.status))
