"""One variable, point by point: deviation, band, finite-size part, all as parts of the variable's range."""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from limen.comparison.bands import count_band, outcome_band, simultaneous_band, unexplained
from limen.comparison.pairs import Pair

FEWEST_SEEDS = 5
# The theory's own error is a standard deviation: 99% of a normal law lie within this many.
OWN_ERRORS = 2.576


@dataclass(frozen=True)
class Measured:
    r"""A variable at its points, flattened; all are parts of its range `scale`.

    Where the rows of a theory are means given the start of a seed every point stands twice: first as it is, then with
    the differences turned by the sign of their predictions, where these have both signs. A factor that a theory is
    wrong by moves its seeds up and down alike about a symmetric start, and only the turned mean sees it.

    `deviation` is simulation minus theory, averaged over seeds, `error` its standard error; `band` the half-width of
    its simultaneous 99% band, of which `own` is the theory's own error; `conditional` that band for the predictions
    that these seeds have, where the theory is made seed by seed; `allowance` the part that falls with size as the
    power `order`, `may_vanish` the points where all of it may. `diverged` are the points where both witnesses left the
    finite numbers, `broken` says who alone did, and at which point first. `lost` runs did where the theory does not;
    `loss_may_vanish` says whether, by several sizes, none may at $d\to\infty$.
    """

    name: str
    variable: xr.DataArray
    scale: float
    order: float
    seeds: int
    deviation: np.ndarray
    error: np.ndarray
    band: np.ndarray
    conditional: np.ndarray
    own: np.ndarray
    allowance: np.ndarray
    may_vanish: np.ndarray
    diverged: np.ndarray
    broken: tuple[str, int] | None = None
    lost: int = 0
    loss_may_vanish: bool = False

    def place(self, at: int) -> dict[str, float]:
        """Coordinates of a point."""
        return _place(self.variable, at % self._points)

    @property
    def left_at_start(self) -> bool:
        """Whether both witnesses diverge and nothing later than one time is left of them."""
        if not self.diverged.any() or "time" not in self.variable.dims:
            return False
        return len({self.place(at).get("time") for at in np.flatnonzero(~self.diverged).tolist()}) <= 1

    def turned(self, at: int) -> bool:
        """Whether a point is one of differences turned by the sign of their predictions."""
        return at >= self._points

    @property
    def _points(self) -> int:
        return self.variable.isel(seed=0).size


def measure(name: str, pair: Pair) -> Measured:
    """Deviation and band of one variable that theory and simulation have, over the runs that stay finite."""
    pair, lost = _without_lost(pair, name)
    theory, simulation = (result.dataset[name] for result in pair)
    scale = variable_range(theory, simulation)
    order = float(pair[0].dataset.attrs.get("finite_size_order", 1.0))
    differences, values = (_with_turned(name, pair, part) for part in _rows(name, pair))
    differences = differences / scale
    seeds, points = differences.shape
    zero, unknown = np.zeros(points), np.full(points, np.nan)
    broken, both = _not_finite(pair, name)
    both = np.resize(both, points)

    def found(
        deviation: np.ndarray, error: np.ndarray, band: np.ndarray, conditional: np.ndarray, own: np.ndarray
    ) -> Measured:
        parts = (deviation, error, band, conditional, own, zero, np.zeros(points, dtype=bool), both)
        return Measured(name, simulation, scale, order, seeds, *parts, broken, lost)

    if broken is not None:
        return found(unknown, unknown, unknown, unknown, zero)
    differences = np.where(both, 0.0, differences)
    mean = differences.mean(axis=0)
    if seeds < FEWEST_SEEDS:
        return found(mean, unknown, unknown, unknown, zero)
    own = np.where(both, 0.0, OWN_ERRORS * np.resize(_own_error(name, pair), points) / scale)
    band, conditional = (np.where(both, 0.0, width) for width in _bands(name, pair, differences, values, scale))
    return found(mean, differences.std(axis=0, ddof=1) / np.sqrt(seeds), band + own, conditional + own, own)


def variable_range(theory: xr.DataArray, simulation: xr.DataArray) -> float:
    """What deviations are a part of: the range of theory and mean simulation over all points.

    One number, and a variable that hardly moves, is measured by its size. Where the theory states what the whole is
    (`whole`, 1 of a fraction), that is the range.
    """
    whole = theory.attrs.get("whole")
    if whole is not None:
        return float(whole)
    # Runs that go on where the theory has left the finite numbers are about to leave them too.
    limit = theory.mean("seed") if "seed" in theory.dims else theory
    centre = simulation.mean("seed").where(np.isfinite(limit)).values
    values = np.concatenate([np.ravel(theory.values), np.ravel(centre)])
    values = values[np.isfinite(values)]
    if values.size == 0:
        return 1.0
    spread, size = float(np.ptp(values)), float(np.abs(values).max())
    if centre.size == 1:
        # One number has no range, and its deviation must not serve as one.
        return size or 1.0
    return spread if spread > 0.02 * size else (size or 1.0)


def _rows(name: str, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Simulation minus theory, and the simulation: one row per seed, all other dimensions flattened."""
    theory, simulation = (result.dataset[name] for result in pair)
    difference = simulation - theory
    # A theory made seed by seed may hold more seeds than were simulated, never fewer.
    order = [dim for dim in simulation.dims if dim != "seed"]
    count = simulation.sizes["seed"]
    rows = difference.transpose("seed", *order).values.reshape(count, -1)
    return rows, simulation.transpose("seed", *order).values.reshape(count, -1)


def _with_turned(name: str, pair: Pair, rows: np.ndarray) -> np.ndarray:
    """Rows (seed, point) as they are, and beside them, where those of the theory are means given the start, turned by
    the sign of the prediction at the points where predictions have both signs.

    Rows with luck of their own, or without that of training, promise no sign: noise at a saddle turns some runs."""
    theory, simulation = (result.dataset[name] for result in pair)
    if "seed" not in theory.dims or pair[0].dataset.attrs.get("rows") != "means":
        return rows
    predictions = (theory + 0.0 * simulation).transpose("seed", *(dim for dim in simulation.dims if dim != "seed"))
    signs = np.sign(np.nan_to_num(predictions.values.reshape(rows.shape)))
    symmetric = (signs.min(axis=0) < 0.0) & (signs.max(axis=0) > 0.0)
    return np.concatenate([rows, np.where(symmetric, signs, 1.0) * rows], axis=1)


def _bands(
    name: str, pair: Pair, scaled: np.ndarray, values: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""The band of the mean over all seeds there are, and of that over these, whose predictions are known.

    They differ where a theory made seed by seed is wrong by a factor: its differences then vary as its predictions do,
    and that variation is no doubt about the mean over the seeds that were run.
    """
    spread = np.resize(_along(name, pair, "spread") / scale, scaled.shape[1])
    band = simultaneous_band(scaled, spread)
    mean = scaled.mean(axis=0)
    plain = _rows(name, pair)[1]
    trials = _trials(name, pair, plain)
    if trials:
        # Parts of outcomes have one sign: what is turned stands there a second time.
        exact = np.resize(outcome_band(plain, trials, mean[: plain.shape[1]] * scale) / scale, mean.size)
        # Outcomes of one seed that depend on each other (several starts on one sample) vary more than independent ones.
        widest = np.maximum(exact, band) if trials > 1 else exact
        return widest, widest
    least = np.zeros(mean.size)
    if np.all(np.isfinite(values)) and np.array_equal(values, np.rint(values)):
        least = count_band(values, mean) / scale
    conditional = band
    if "seed" in pair[0].dataset[name].dims:
        predictions = np.where(np.isfinite(values), values / scale - scaled, 0.0)
        rest = unexplained(scaled, predictions)
        conditional = np.minimum(band, simultaneous_band(rest, spread))
    return np.maximum(band, least), np.maximum(conditional, least)


def _trials(name: str, pair: Pair, values: np.ndarray) -> int:
    """Outcomes behind one value: as marked by `outcomes`, 1 where a variable is 0 or 1 in every run, else 0."""
    for result in reversed(pair):
        marked = result.dataset[name].attrs.get("outcomes")
        if marked is not None:
            return int(marked)
    if not np.isin(values, (0.0, 1.0)).all():
        return 0
    expected = pair[0].dataset[name].values
    between = bool(((expected > 0.0) & (expected < 1.0)).any())
    inside = bool(((expected >= 0.0) & (expected <= 1.0)).all())
    return int(inside and (between or np.ptp(values) > 0.0))


def _own_error(name: str, pair: Pair) -> np.ndarray:
    part = float(pair[0].dataset[name].attrs.get("error_part", 1.0))
    return part * np.nan_to_num(np.abs(_along(name, pair, "error")), nan=0.0)


def _along(name: str, pair: Pair, attribute: str) -> np.ndarray:
    """A number, or a variable named by an attribute of the theory's variable, at every point."""
    theory, simulation = pair[0].dataset, pair[1].dataset[name].isel(seed=0)
    stated = theory[name].attrs.get(attribute)
    if stated is None or (isinstance(stated, str) and stated not in theory):
        return np.zeros(simulation.size)
    if not isinstance(stated, str):
        return np.full(simulation.size, float(stated))
    held = theory[stated]
    held = held.max("seed") if "seed" in held.dims else held
    return np.ravel((xr.zeros_like(simulation, dtype=float) + held).transpose(*simulation.dims).values)


def _not_finite(pair: Pair, name: str) -> tuple[tuple[str, int] | None, np.ndarray]:
    """The first point where one witness alone is not finite (who, where), and the points where both are not; where
    theory and every run leave the finite numbers, which they do at different sizes, from whoever is first."""
    wrong_theory, wrong_runs = _wrong(pair, name)
    wrong_simulation = wrong_runs.any(axis=0)
    if _all_diverge(pair):
        return None, wrong_theory | wrong_simulation
    both = wrong_theory & wrong_simulation
    if (wrong_simulation & ~wrong_theory).any():
        return ("every run", int((wrong_simulation & ~wrong_theory).argmax())), both
    if (wrong_theory & ~wrong_simulation).any():
        return ("the theory", int((wrong_theory & ~wrong_simulation).argmax())), both
    return None, both


def _without_lost(pair: Pair, name: str) -> tuple[Pair, int]:
    """The pair without the runs that are not finite somewhere though the theory is, and their number; as it is where
    no other run is left."""
    wrong_theory, wrong_runs = _wrong(pair, name)
    lost = (wrong_runs & ~wrong_theory).any(axis=1)
    if not lost.any() or lost.all() or _all_diverge(pair):
        return pair, 0
    theory, simulation = pair
    return (theory, replace(simulation, dataset=simulation.dataset.isel(seed=~lost))), int(lost.sum())


def _all_diverge(pair: Pair) -> bool:
    """Whether the theory and every run leave the finite numbers somewhere along time."""
    theory, simulation = (result.dataset for result in pair)
    along = [
        name
        for name, one in simulation.data_vars.items()
        if name in theory and {"seed", "time"} <= set(one.dims) and "undefined" not in theory[name].attrs | one.attrs
    ]
    wrong = [_wrong(pair, str(name)) for name in along]
    return any(limit.any() for limit, _ in wrong) and bool(
        np.any([runs.any(axis=1) for _, runs in wrong], axis=0).all()
    )


def _wrong(pair: Pair, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Where the theory (point,) and the runs (seed, point) are not finite."""
    theory, simulation = (result.dataset[name] for result in pair)
    flat = [dim for dim in simulation.dims if dim != "seed"]
    runs = simulation.transpose("seed", *flat)
    expanded = xr.zeros_like(simulation.isel(seed=0), dtype=bool)
    per_point = theory.copy(data=~np.isfinite(theory.values))
    per_point = per_point.any("seed") if "seed" in per_point.dims else per_point
    wrong_theory = np.ravel((expanded | per_point).transpose(*flat).values)
    return wrong_theory, ~np.isfinite(runs.values).reshape(runs.sizes["seed"], -1)


def _place(variable: xr.DataArray, flat: int) -> dict[str, float]:
    rest = variable.isel(seed=0)
    index = np.unravel_index(flat, rest.shape) if rest.ndim else ()
    return {
        str(dim): float(rest[dim].values[i]) if dim in rest.coords else float(i)
        for dim, i in zip(rest.dims, index, strict=True)
        if dim not in rest.coords or np.issubdtype(rest[dim].dtype, np.number)
    }
