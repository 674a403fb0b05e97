"""Where theory and simulation meet: deviation, simultaneous band, finite-size allowance, one verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import xarray as xr
from scipy import special

from limen.problem.spec import InputError
from limen.result import Result

Verdict = Literal["agrees", "disagrees", "cannot tell"]
CONFIDENCE = 0.99
WIDEST_BAND = 0.05
RESAMPLES = 999
FEWEST_SEEDS = 5
# Agreement finer than this part of the range is not judged: quadrature and single precision end there.
RESOLUTION = 1e-3
COLUMNS_AT_ONCE = 4096


@dataclass(frozen=True)
class VariableComparison:
    """One variable; deviation, band and allowance are parts of the variable's range, at the worst point."""

    name: str
    deviation: float
    band: float
    allowance: float
    verdict: Verdict
    where: dict[str, float]


@dataclass(frozen=True)
class Comparison:
    """Every shared variable, and one sentence about all of them."""

    variables: tuple[VariableComparison, ...]
    verdict: Verdict
    sentence: str
    seeds: int
    sizes: tuple[int, ...]

    def __getitem__(self, name: str) -> VariableComparison:
        return next(variable for variable in self.variables if variable.name == name)

    def __str__(self) -> str:
        lines = [f"{'variable':<16}{'deviation':>10}{'band':>8}{'allowance':>11}  verdict"]
        lines += [
            f"{v.name:<16}{v.deviation:>10.2%}{v.band:>8.2%}{v.allowance:>11.2%}  {v.verdict}" for v in self.variables
        ]
        return "\n".join([*lines, self.sentence])

    def describe(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "seeds": self.seeds,
            "sizes": list(self.sizes),
            "variables": {
                v.name: {
                    "deviation": v.deviation, "band": v.band, "allowance": v.allowance, "verdict": v.verdict,
                    "where": v.where,
                }
                for v in self.variables
            },
        }  # fmt: skip


def compare(
    theory: Result | Sequence[Result],
    simulation: Result | Sequence[Result],
    variables: Sequence[str] | None = None,
) -> Comparison:
    r"""Compares a prediction with simulations of the same problem at the same times.

    For each shared variable the mean over seeds of simulation minus theory (paired seed by seed where the theory
    has one row per seed) is held against a simultaneous 99% band over all its points: max-|t|, seeds resampled. With
    simulations of two or more sizes, the difference at the largest is allowed the part $A/d$ of a fit $b+A/d$.

    *agrees*: inside band plus allowance everywhere, and the band at most 5% of the variable's range; *disagrees*:
    outside somewhere; *cannot tell*: the band is wider than 5%, and the sentence says how many seeds would do.
    """
    theories = [theory] if isinstance(theory, Result) else list(theory)
    simulations = [simulation] if isinstance(simulation, Result) else list(simulation)
    if len(theories) == 1:
        theories *= len(simulations)
    if not simulations or len(theories) != len(simulations):
        raise InputError(
            f"compare takes one theory, or one per simulation: got {len(theories)} and {len(simulations)}."
        )
    for one, other in zip(theories, simulations, strict=True):
        if one.kind != "theory" or other.kind != "simulation":
            raise InputError("compare takes first the theory, then the simulation.")
    order = np.argsort([int(result.dataset.attrs.get("d", 0)) for result in simulations])
    pairs = [(theories[i], simulations[i]) for i in order]
    names = _shared_variables(pairs, variables)
    judged = tuple(_judge(name, pairs) for name in names)
    seeds = min(len(result.seeds) for result in simulations)
    verdict = _overall(judged)
    sizes = tuple(int(result.dataset.attrs.get("d", 0)) for _, result in pairs)
    return Comparison(judged, verdict, _sentence(verdict, judged, seeds, sizes), seeds, sizes)


def _shared_variables(pairs: list[tuple[Result, Result]], wanted: Sequence[str] | None) -> list[str]:
    theory, simulation = pairs[-1]
    shared = [str(name) for name in simulation.dataset.data_vars if name in theory.dataset.data_vars]
    for name in wanted or ():
        if name not in shared:
            raise InputError(f"variables must be among {', '.join(shared)}, got {name!r}.")
    shared = list(wanted) if wanted else shared
    if not shared:
        raise InputError("theory and simulation share no variable.")
    for theory, simulation in pairs:
        for name in shared:
            for dim in theory.dataset[name].dims:
                if dim in theory.dataset.coords:
                    ours, theirs = theory.dataset[dim].values, simulation.dataset[dim].values
                    if ours.shape != theirs.shape or not np.array_equal(ours, theirs):
                        raise InputError(f"theory and simulation have different {dim}s: ask both for the same.")
    return shared


def _differences(name: str, pair: tuple[Result, Result]) -> np.ndarray:
    """Simulation minus theory, one row per seed, all other dimensions flattened."""
    theory, simulation = (result.dataset[name] for result in pair)
    difference = simulation - theory
    return difference.transpose("seed", ...).values.reshape(simulation.sizes["seed"], -1)


def _judge(name: str, pairs: list[tuple[Result, Result]]) -> VariableComparison:
    theory, simulation = pairs[-1]
    differences = [_differences(name, pair) for pair in pairs]
    last = differences[-1]
    seeds = last.shape[0]
    scale = _scale(theory.dataset[name], simulation.dataset[name])
    if not np.isfinite(last).all():
        at = int(np.flatnonzero(~np.isfinite(last).all(axis=0))[0])
        return VariableComparison(name, np.inf, np.inf, 0.0, "disagrees", _where(simulation.dataset[name], at))
    mean = last.mean(axis=0) / scale
    if seeds < FEWEST_SEEDS:
        at = int(np.abs(mean).argmax())
        where = _where(simulation.dataset[name], at)
        return VariableComparison(name, float(np.abs(mean).max()), np.inf, 0.0, "cannot tell", where)
    band = simultaneous_band(last / scale)
    sizes = np.array([pair[1].dataset.attrs.get("d", 0) for pair in pairs], dtype=float)
    allowance = RESOLUTION + _finite_size(sizes, np.array([part.mean(axis=0) / scale for part in differences]))
    excess = np.abs(mean) - band - allowance
    at = int(excess.argmax())
    if excess[at] > 0:
        verdict: Verdict = "disagrees"
    else:
        verdict = "agrees" if band.max() <= WIDEST_BAND else "cannot tell"
    if verdict != "disagrees":
        at = int(np.abs(mean).argmax())
    return VariableComparison(
        name,
        float(np.abs(mean[at])),
        float(band[at] if verdict == "disagrees" else band.max()),
        float(allowance[at]),
        verdict,
        _where(simulation.dataset[name], at),
    )


def simultaneous_band(values: np.ndarray) -> np.ndarray:
    r"""Half-widths of a simultaneous 99% band for the mean over rows (seeds) of `values` (seed, point).

    $c\,\hat s_j/\sqrt n$. Resampling the seeds with Gaussian multipliers gives the 99% quantile of $\max_j|t_j|$ for
    known variances; its two-sided normal tail is then read as one of Student's t with $n-1$ degrees of freedom, so
    that few seeds widen the band. $O(\text{resamples}\cdot n\cdot\text{points})$.
    """
    count = values.shape[0]
    centred = values - values.mean(axis=0)
    error = centred.std(axis=0, ddof=1) / np.sqrt(count)
    moving = np.flatnonzero(error > 1e-12)
    if moving.size == 0:
        return np.zeros_like(error)
    multipliers = np.random.default_rng(count).standard_normal((RESAMPLES, count)) / np.sqrt(count * (count - 1.0))
    largest = np.zeros(RESAMPLES)
    for begin in range(0, moving.size, COLUMNS_AT_ONCE):
        part = moving[begin : begin + COLUMNS_AT_ONCE]
        largest = np.maximum(largest, np.abs(multipliers @ (centred[:, part] / error[part])).max(axis=1))
    quantile = float(np.quantile(largest, CONFIDENCE, method="higher"))
    return -special.stdtrit(count - 1, special.ndtr(-quantile)) * error


def _finite_size(sizes: np.ndarray, means: np.ndarray) -> np.ndarray:
    """|A|/d at the largest size, from the least-squares fit b + A/d of mean differences (size, point)."""
    if np.unique(sizes).size < 2 or sizes.min() <= 0:
        return np.zeros(means.shape[1])
    design = np.stack([np.ones_like(sizes), 1.0 / sizes], axis=1)
    slope = np.linalg.lstsq(design, means, rcond=None)[0][1]
    return np.abs(slope) / sizes[-1]


def _scale(theory: xr.DataArray, simulation: xr.DataArray) -> float:
    centre = simulation.mean("seed").values
    values = np.concatenate([np.ravel(theory.values), np.ravel(centre)])
    values = values[np.isfinite(values)]
    if values.size == 0:
        return 1.0
    spread, size = float(np.ptp(values)), float(np.abs(values).max())
    if centre.size == 1:
        # One number has no range, and its deviation must not serve as one.
        return size or 1.0
    return spread if spread > 0.02 * size else (size or 1.0)


def _where(variable: xr.DataArray, flat: int) -> dict[str, float]:
    rest = variable.isel(seed=0)
    index = np.unravel_index(flat, rest.shape) if rest.ndim else ()
    return {
        str(dim): float(rest[dim].values[i]) if dim in rest.coords else float(i)
        for dim, i in zip(rest.dims, index, strict=True)
        if dim not in rest.coords or np.issubdtype(rest[dim].dtype, np.number)
    }


def _overall(variables: Sequence[VariableComparison]) -> Verdict:
    verdicts = {variable.verdict for variable in variables}
    return "disagrees" if "disagrees" in verdicts else "cannot tell" if "cannot tell" in verdicts else "agrees"


def _sentence(verdict: Verdict, variables: Sequence[VariableComparison], seeds: int, sizes: tuple[int, ...]) -> str:
    where = f"size {sizes[-1]}" if sizes[-1] else "this size"
    worst = max(variables, key=lambda v: v.band if verdict == "cannot tell" else v.deviation - v.band)
    if verdict == "agrees":
        largest = max(variable.deviation for variable in variables)
        return f"Theory agrees with simulation at {where}: largest deviation {largest:.2%} of range, {seeds} seeds."
    if verdict == "disagrees":
        wrong = max((v for v in variables if v.verdict == "disagrees"), key=lambda v: v.deviation - v.band)
        place = ", ".join(f"{dim} {value:g}" for dim, value in wrong.where.items())
        return (
            f"Theory disagrees with simulation at {where}: {wrong.name} is off by {wrong.deviation:.2%} of its range"
            f"{f' at {place}' if place else ''}, where the 99% band is {wrong.band:.2%}."
        )
    if seeds < FEWEST_SEEDS:
        return f"Cannot tell: {seeds} seeds are too few to judge, take at least 8."
    wanted = int(np.ceil(seeds * (worst.band / WIDEST_BAND) ** 2))
    return (
        f"Cannot tell: {worst.name} is known to {worst.band:.1%} of its range from {seeds} seeds; "
        f"about {wanted} seeds (or a larger size) would decide."
    )
