"""`PowerLawFeatures` as a problem: mean risk without a draw, given the simulator's features, and for small rates."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from limen.gaussian.power_law_draw import drawn_features
from limen.method import Method
from limen.problem.families.power_law_features import PowerLawFeatures
from limen.problem.rates import check_rate_until, is_schedule
from limen.result import Findings
from limen.theory.kernel.scaling.power_law import (
    Nodes,
    Population,
    drawn_nodes,
    equivalent_nodes,
    largest_rate,
    largest_rate_drawn,
    largest_used,
    mean_risk,
    population,
    stable_edge,
    stretched,
    volterra_risk,
)

CITATIONS = ("paquette2024",)
# The equivalent is trusted where all but this part of the draws have a risk of at most so many times its own.
RARE_DRAWS, TRUSTED_RATIO = 1 / 40, 2.0
# Of the risk at the start: below, rounding of the contour is a thousandth of the risk and more.
SMALLEST_RISK = 1e-14


class Recursion(NamedTuple):
    """How risk moves on nodes, and from which rate on it grows: for a population and for the nodes of a draw."""

    risk: Callable[..., np.ndarray]
    largest: Callable[[Population, int, int], float]
    largest_drawn: Callable[[Nodes, int], float]


# The drift of small rates has no $z_s$: its risk grows from a rate of two over the trace on.
STEPS = Recursion(mean_risk, largest_rate, largest_rate_drawn)
VOLTERRA = Recursion(
    volterra_risk,
    lambda spectrum, features, batch: 2.0 / float(spectrum.values @ spectrum.counts),
    lambda nodes, batch: 2.0 / float(nodes.z.sum()),
)


def refuses(problem: object) -> str | None:
    """Why this theory does not apply, or None."""
    return None if isinstance(problem, PowerLawFeatures) else "it solves PowerLawFeatures."


def solve(problem: PowerLawFeatures, times: np.ndarray, seeds: Sequence[int] = ()) -> Findings:
    r"""`excess_risk` $=\frac12P$ and `test_loss` $=\frac12(P+\text{noise})$, means over the samples of SGD, at `times`.

    Without `seeds` also the mean over the features, by the deterministic equivalent: milliseconds whatever the number
    of steps. Its contour is exact to about $10^{-8}$ of the risk plus $10^{-17}$ of that at the start; strides add
    $10^{-5}$ ($10^{-4}$ near the largest rate). The mean logarithm of the loss of many draws is off by at most
    $3/\sqrt d$, often by a tenth of it. Where the rate is so near the largest one that one draw in forty may have more
    than twice its risk it is not trusted. With `seeds` exact given the features that the simulator draws, one row per
    seed; one SVD each.
    """
    return _answer(problem, times, seeds, STEPS)


def solve_volterra(problem: PowerLawFeatures, times: np.ndarray, seeds: Sequence[int] = ()) -> Findings:
    """The same in the limit of small rates, by its Volterra equation."""
    return _answer(problem, times, seeds, VOLTERRA)


def _answer(problem: PowerLawFeatures, times: np.ndarray, seeds: Sequence[int], recursion: Recursion) -> Findings:
    steps = np.rint(times).astype(np.int64)
    if is_schedule(problem.rate):
        check_rate_until(problem.rate, float(steps[-1]))
    if len(seeds):
        dims = ("seed", "time")
        excess, doubt = _given_draws(problem, steps, seeds, recursion)
        status = "exact mean over samples, given the features."
    else:
        dims = ("time",)
        excess, doubt = _over_draws(problem, steps, recursion)
        status = "deterministic equivalent, no draw."
    if recursion is VOLTERRA:
        status = f"{status[:-1]}, in the limit of small rates."
    dataset = xr.Dataset(
        {"excess_risk": (dims, excess), "test_loss": (dims, excess + 0.5 * problem.noise)},
        coords={"time": times, "step": ("time", steps), "samples": ("time", steps * problem.batch)},
    )
    if len(seeds):
        dataset = dataset.assign_coords(seed=list(seeds)).assign_attrs(d=problem.features)
    return Findings(dataset, doubt is None, doubt or status)


def _given_draws(
    problem: PowerLawFeatures, steps: np.ndarray, seeds: Sequence[int], recursion: Recursion
) -> tuple[np.ndarray, str | None]:
    """Half the risk (seeds, steps), and what forbids to trust it, or None."""
    draws = [drawn_nodes(*drawn_features(problem, seed)) for seed in seeds]
    excess = 0.5 * np.stack([recursion.risk(own, problem.rate, problem.batch, problem.noise, steps) for own in draws])
    diverged = ~np.isfinite(excess).all(axis=1)
    if not diverged.any():
        return excess, None
    largest = min(recursion.largest_drawn(own, problem.batch) for own in draws)
    return excess, (
        f"the risk diverges for {diverged.sum()} of {len(draws)} draws of the features: take a rate below about "
        f"{largest:.3g}."
    )


def _over_draws(problem: PowerLawFeatures, steps: np.ndarray, recursion: Recursion) -> tuple[np.ndarray, str | None]:
    """Half the risk (steps) of the deterministic equivalent, and what forbids to trust it, or None."""
    spectrum = population(problem.alpha, problem.beta, problem.ambient)
    used = largest_used(problem.rate, steps)

    def risk(of: Population) -> np.ndarray:
        nodes = equivalent_nodes(of, problem.features, stable_edge(used, problem.batch))
        return 0.5 * recursion.risk(nodes, problem.rate, problem.batch, problem.noise, steps)

    try:
        excess = risk(spectrum)
    except ArithmeticError as failure:
        return np.full(steps.size, np.nan), f"{failure} Take seeds."
    if not np.isfinite(excess).all():
        largest = recursion.largest(spectrum, problem.features, problem.batch)
        return excess, f"the risk diverges: take a rate below about {largest:.3g}."
    if not (excess > SMALLEST_RISK * 0.5 * spectrum.energies.sum()).all():
        return excess, f"the risk falls below {SMALLEST_RISK:.0e} of that at the start, where rounding decides."
    rare = stretched(spectrum, problem.features, RARE_DRAWS)
    safe = recursion.largest(rare, problem.features, problem.batch)
    try:
        trusted = used <= safe or bool((risk(rare) <= TRUSTED_RATIO * excess).all())
    except ArithmeticError:
        trusted = False
    if not trusted:
        return excess, (
            f"one draw of the features in {1 / RARE_DRAWS:.0f} may have more than {TRUSTED_RATIO:g} times this risk, "
            f"as the rate comes to {used:.3g}: take a rate below about {safe:.3g}, or seeds."
        )
    return excess, None


power_law = Method("power-law", "theory", CITATIONS, refuses, solve)
power_law_volterra = Method("power-law-volterra", "theory", CITATIONS, refuses, solve_volterra)
