"""`PowerLawFeatures` as a problem: mean risk without a draw, given the simulator's features, and for small rates."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from limen.gaussian.power_law_draw import drawn_features
from limen.method import Method
from limen.problem.families.power_law_features import PowerLawFeatures
from limen.problem.rates import check_rate_until, is_schedule
from limen.result import Findings
from limen.theory.kernel.scaling.power_law import (
    Nodes,
    drawn_nodes,
    equivalent_nodes,
    largest_rate,
    mean_risk,
    volterra_risk,
)

CITATIONS = ("paquette2024",)


def refuses(problem: object) -> str | None:
    """Why this theory does not apply, or None."""
    return None if isinstance(problem, PowerLawFeatures) else "it solves PowerLawFeatures."


def solve(problem: PowerLawFeatures, times: np.ndarray, seeds: Sequence[int] = ()) -> Findings:
    r"""`excess_risk` $=\frac12P$ and `test_loss` $=\frac12(P+\text{noise})$, means over the samples of SGD, at `times`.

    Without `seeds` also the mean over the features, by the deterministic equivalent: milliseconds whatever the number
    of steps. With `seeds` exact given the features that the simulator draws, one row per seed; one SVD each.
    """
    return _answer(problem, times, seeds, mean_risk)


def solve_volterra(problem: PowerLawFeatures, times: np.ndarray, seeds: Sequence[int] = ()) -> Findings:
    """The same in the limit of small rates, by its Volterra equation."""
    return _answer(problem, times, seeds, volterra_risk)


def _answer(
    problem: PowerLawFeatures, times: np.ndarray, seeds: Sequence[int], risk_of: Callable[..., np.ndarray]
) -> Findings:
    steps = np.rint(times).astype(np.int64)
    if is_schedule(problem.rate):
        check_rate_until(problem.rate, float(steps[-1]))

    def risk(nodes: Nodes) -> np.ndarray:
        return 0.5 * risk_of(nodes, problem.rate, problem.batch, problem.noise, steps)

    if len(seeds):
        dims = ("seed", "time")
        excess = np.stack([risk(drawn_nodes(*drawn_features(problem, seed))) for seed in seeds])
        status = "exact mean over samples, given the features."
    else:
        dims = ("time",)
        excess = risk(equivalent_nodes(problem.alpha, problem.beta, problem.ambient, problem.features))
        status = "deterministic equivalent, no draw."
    finite = bool(np.isfinite(excess).all())
    if not finite:
        largest = largest_rate(problem.alpha, problem.beta, problem.ambient, problem.batch)
        status = f"the risk diverges: take a rate below about {largest:.3g}."
    dataset = xr.Dataset(
        {"excess_risk": (dims, excess), "test_loss": (dims, excess + 0.5 * problem.noise)},
        coords={"time": times, "step": ("time", steps), "samples": ("time", steps * problem.batch)},
    )
    if len(seeds):
        dataset = dataset.assign_coords(seed=list(seeds)).assign_attrs(d=problem.features)
    return Findings(dataset, finite, status)


power_law = Method("power-law", "theory", CITATIONS, refuses, solve)
power_law_volterra = Method("power-law-volterra", "theory", CITATIONS, refuses, solve_volterra)
