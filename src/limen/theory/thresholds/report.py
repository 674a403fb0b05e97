"""Everything about the thresholds of one problem, in one answer that prints itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from limen.link import hard_subspace, leap
from limen.problem import InputError, TwoLayer
from limen.theory.descent.escape import escaping_runs
from limen.theory.descent.solve import refuses, without_responses
from limen.theory.thresholds.algorithmic import algorithmic
from limen.theory.thresholds.feature_learning import feature_learning
from limen.theory.thresholds.information_theoretic import threshold_if_known

RUNS = 100
NO_RUNS = (
    "success at this d is not answered: with several variances a run carries one fluctuating overlap per eigenspace, "
    "whose joint law with the paths is known only to first order."
)


@dataclass(frozen=True)
class Report:
    r"""Thresholds of a problem.

    `hard_basis` (k, r); leaps of the link; `delta_alg`; `delta_it`, None where there is no formula (several latent
    directions without label noise, or easy and hard ones together, or on inputs of several variances); `threshold`
    $\delta^*$ at the last time with its `bracket`, and whether it `settled`; `escape_time` and `success_probability` at
    the problem's own samples per dimension and at `d`. Without a hard direction the last four are None; on inputs of
    several variances the last two are, and printing says why.
    """

    target: str
    samples_per_dim: float
    time: float
    d: int
    hard_basis: np.ndarray
    information_leap: float
    generative_leap: float
    delta_alg: float
    delta_it: float | None
    threshold: float | None
    bracket: tuple[float, float] | None
    settled: bool
    escape_time: float | None
    success_probability: float | None

    def __str__(self) -> str:
        lines = [
            f"target {self.target}: {self.hard_basis.shape[1]} hard of {self.hard_basis.shape[0]} latent directions"
        ]
        lines.append(f"leap: information {self.information_leap:g}, generative {self.generative_leap:g}")
        no_pair = " (no efficient algorithm is known: the labels show no pair of the hard coordinates)"
        unreachable = no_pair if np.isinf(self.delta_alg) else ""
        lines.append(f"δ_alg = {self.delta_alg:.4g}{unreachable}")
        if self.delta_it is not None:
            lines.append(f"δ_IT = {self.delta_it:.4g}")
        if self.threshold is None or self.bracket is None:
            return "\n".join([*lines, "no hard direction: nothing waits for a threshold."])
        low, high = self.bracket
        settled = "settled" if self.settled else "not settled, take the bracket"
        lines.append(f"δ*(t={self.time:g}) = {self.threshold:.3g}, bracket {low:.3g} to {high:.3g} ({settled})")
        if self.success_probability is None:
            return "\n".join([*lines, NO_RUNS])
        lines.append(
            f"at δ = {self.samples_per_dim:g}, d = {self.d}: success within {self.time:g} steps with probability "
            f"{self.success_probability:.2g}, half escape by step {self.escape_time:g}"
        )
        return "\n".join(lines)


def report(problem: TwoLayer, times: Any = 60, d: int = 1000, paths: int = 4096, scrambles: int = 3) -> Report:
    r"""Hard directions, leaps, $\delta_{\mathrm{alg}}$, $\delta_{\mathrm{IT}}$, $\delta^*(t)$ with its bracket, and
    at dimension `d` the probability of success and the escape time within `times` steps. Takes about half a minute;
    `print` it."""

    reason = refuses(problem) or without_responses(problem)
    if reason is not None:
        raise InputError(f"report does not apply: {reason}")
    assert problem.samples_per_dim is not None
    target = problem.target
    hard = hard_subspace(target).basis
    last = float(np.max(np.asarray(times, dtype=float)))
    common: dict[str, Any] = {
        "target": target.label,
        "samples_per_dim": problem.samples_per_dim,
        "time": last,
        "d": int(d),
        "hard_basis": hard,
        "information_leap": leap(target, "information"),
        "generative_leap": leap(target, "generative"),
        "delta_alg": algorithmic(target, problem.inputs),
        "delta_it": threshold_if_known(target, problem.inputs),
    }
    if hard.shape[1] == 0:
        return Report(**common, threshold=None, bracket=None, settled=True, escape_time=None, success_probability=None)
    curve = feature_learning(problem, [0, last // 2, last], paths=paths, scrambles=scrambles)
    low, high = (float(bound) for bound in curve.dataset.bracket.values)
    isotropic = problem.inputs.isotropic
    passage = escaping_runs(problem, times, d, RUNS, paths, 0).dataset.escape_time.values if isotropic else None
    return Report(
        **common,
        threshold=float(curve.dataset.threshold.values[-1, 0]),
        bracket=(low, high),
        settled=curve.ok,
        escape_time=None if passage is None else float(np.quantile(passage, 0.5, method="nearest")),
        success_probability=None if passage is None else float(np.isfinite(passage).mean()),
    )
