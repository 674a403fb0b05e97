"""The comparison itself, measured: how often it is wrong, and what it catches."""

import numpy as np
import pytest
import xarray as xr

from limen.comparison import compare, simultaneous_band
from limen.problem import InputError
from limen.result import Result

TIMES = np.linspace(0.0, 4.0, 60)


def curve(rate: float = 2.0) -> np.ndarray:
    return 1.0 / (1.0 + 50.0 * np.exp(-rate * TIMES))


def theory(values: np.ndarray) -> Result:
    return Result(xr.Dataset({"risk": ("time", values)}, {"time": TIMES}), {"type": "test"}, "theory")


def simulation(values: np.ndarray, d: int = 100) -> Result:
    seeds = tuple(range(values.shape[0]))
    data = xr.Dataset({"risk": (("seed", "time"), values)}, {"time": TIMES, "seed": list(seeds)}, {"d": d})
    return Result(data, {"type": "test"}, "simulation", seeds=seeds)


def runs(generator: np.random.Generator, seeds: int, spread: float = 0.03, rate: float = 2.0) -> np.ndarray:
    """Smooth random deviations: every seed has its own rate and its own slow noise."""
    rates = rate + spread * generator.standard_normal((seeds, 1))
    noise = np.cumsum(generator.standard_normal((seeds, TIMES.size)), axis=1) * spread / np.sqrt(TIMES.size)
    return 1.0 / (1.0 + 50.0 * np.exp(-rates * TIMES)) + noise


@pytest.mark.parametrize("seeds", [8, 32])
def test_the_right_theory_is_rarely_rejected(seeds):
    generator = np.random.default_rng(1)
    verdicts = [compare(theory(curve()), simulation(runs(generator, seeds))).verdict for _ in range(200)]
    assert np.mean([verdict != "disagrees" for verdict in verdicts]) >= 0.95


def test_a_growth_rate_ten_percent_off_is_caught():
    generator = np.random.default_rng(2)
    verdicts = [compare(theory(curve(2.2)), simulation(runs(generator, 16))).verdict for _ in range(200)]
    assert np.mean([verdict == "disagrees" for verdict in verdicts]) >= 0.90


def test_enough_seeds_agree_and_too_few_cannot_tell():
    generator = np.random.default_rng(3)
    assert compare(theory(curve()), simulation(runs(generator, 64))).verdict == "agrees"
    unsure = compare(theory(curve()), simulation(runs(generator, 8, spread=0.3)))
    assert unsure.verdict == "cannot tell"
    assert "seeds" in unsure.sentence
    assert compare(theory(curve()), simulation(runs(generator, 3))).verdict == "cannot tell"


def test_pairing_removes_the_spread_of_the_starts():
    generator = np.random.default_rng(4)
    values = runs(generator, 16, spread=0.3)
    seeds = list(range(16))
    wobble = values + 0.01 * generator.standard_normal(values.shape)
    data = xr.Dataset({"risk": (("seed", "time"), values)}, {"time": TIMES, "seed": seeds})
    paired = Result(data, {"type": "test"}, "theory")
    assert compare(paired, simulation(wobble)).verdict == "agrees"
    swapped = Result(data.assign(risk=(("seed", "time"), values[::-1] + 0.05)), {"type": "test"}, "theory")
    assert compare(swapped, simulation(wobble)).verdict != "agrees"


def test_a_finite_size_effect_is_allowed_and_a_wrong_limit_is_not():
    generator = np.random.default_rng(5)

    def at(d: int, offset: float) -> Result:
        return simulation(runs(generator, 64, spread=0.01) + (20.0 / d + offset) * np.sin(TIMES) ** 2, d)

    honest = [at(100, 0.0), at(200, 0.0), at(400, 0.0)]
    assert compare(theory(curve()), honest[-1]).verdict == "disagrees"
    assert compare(theory(curve()), honest).verdict == "agrees"
    assert compare(theory(curve()), [at(100, 0.06), at(200, 0.06), at(400, 0.06)]).verdict == "disagrees"


def test_two_times_swapped_are_caught():
    generator = np.random.default_rng(6)
    times = np.arange(6.0)
    kernel = np.exp(-0.3 * np.maximum(times[:, None] - times, 0.0) - 0.1 * times)
    noise = 0.01 * generator.standard_normal((16, 6, 6))
    coords = {"time": times, "time2": times}
    dims = ("time", "time2")
    truth = Result(xr.Dataset({"response": (dims, kernel)}, coords), {}, "theory")
    swapped = Result(xr.Dataset({"response": (dims, kernel.T)}, coords), {}, "theory")
    data = xr.Dataset({"response": (("seed", *dims), kernel + noise)}, {**coords, "seed": range(16)}, {"d": 10})
    run = Result(data, {}, "simulation", seeds=tuple(range(16)))
    assert compare(truth, run).verdict == "agrees"
    verdict = compare(swapped, run)
    assert verdict.verdict == "disagrees"
    assert {"time", "time2"} <= set(verdict["response"].where)


def test_the_band_covers_all_points_together():
    generator = np.random.default_rng(7)
    inside = [
        bool((np.abs(x.mean(axis=0)) <= simultaneous_band(x)).all())
        for x in (generator.standard_normal((10, 40)) for _ in range(300))
    ]
    assert np.mean(inside) >= 0.96


def test_divergence_is_a_disagreement():
    values = np.tile(curve(), (8, 1))
    values[0, -1] = np.inf
    assert compare(theory(curve()), simulation(values)).verdict == "disagrees"


def test_bad_input_is_refused():
    good = simulation(runs(np.random.default_rng(0), 8))
    with pytest.raises(InputError, match="first the theory"):
        compare(good, theory(curve()))
    other = Result(xr.Dataset({"risk": ("time", curve())}, {"time": TIMES + 1}), {"type": "test"}, "theory")
    with pytest.raises(InputError, match="different times"):
        compare(other, good)
    with pytest.raises(InputError, match="share no variable"):
        compare(Result(xr.Dataset({"loss": ("time", curve())}, {"time": TIMES}), {"type": "test"}, "theory"), good)
    with pytest.raises(InputError, match="variables must be among risk"):
        compare(theory(curve()), good, variables=["loss"])
