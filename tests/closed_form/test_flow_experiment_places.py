"""Experiments of learning, then overfitting: every solved or simulated number stands in its place.

Solvers are replaced by a flow in closed form that depends on width, second layer, ratio, noise, time and dimension, so
that an axis that is exchanged, a time in the wrong unit or a size in the place of another changes a number.
"""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import brentq

import limen
from limen.experiments.flow import (
    complexity_growth,
    flow_witness,
    interpolation_diagram,
    interpolation_threshold,
    lazy_vs_feature,
    overfitting_bound,
    unlearning,
)
from limen.experiments.flow.noise_witness import dimensions
from limen.problem.groups import neuron_groups
from limen.result import Result


def scales(problem: limen.TwoLayer) -> tuple[int, float, float, float]:
    """Width, second layer at the start, samples per parameter, noise."""
    assert problem.samples_per_dim is not None
    width = problem.network.width
    layer = float(neuron_groups(problem).second_layer[0])
    return width, layer, problem.samples_per_dim / width, problem.target.noise


def rate(problem: limen.TwoLayer) -> float:
    width, layer, alpha, _ = scales(problem)
    return layer**2 / width * (1.0 - 0.5 * alpha)


def loss(problem: limen.TwoLayer, times: Any, d: float = np.inf) -> np.ndarray:
    """The closed form of the train loss; a finite dimension adds 1/d to its rate."""
    return 0.5 * (1.0 + problem.target.noise) * np.exp(-(rate(problem) + 1.0 / d) * np.asarray(times, dtype=float))


def flow(problem: limen.TwoLayer, times: Any, d: float = np.inf) -> Result:
    times = np.asarray(times, dtype=float)
    width, layer, alpha, noise = scales(problem)
    second = layer + times / width + 1.0 / d
    overlap = alpha * times / (1.0 + times)
    dataset = xr.Dataset(
        {
            "train_loss": (("time",), loss(problem, times, d)),
            "test_loss": (("time",), 0.5 * (1.0 + noise) + 0.01 * times / width),
            "second_layer": (("time", "group"), second[:, None]),
            "overlap": (("time", "group", "latent"), overlap[:, None, None]),
            "correlation": (("time", "time2"), np.cos(0.1 * layer * np.subtract.outer(times, times))),
            "grid_error": (("time",), 0.0 * times),
        },
        coords={"time": times, "time2": times},
    )
    statistics = {"seconds": 0.0, "gradients": 1.0, "nodes": 1.0}
    return Result(dataset, {"type": "closed form"}, "theory", statistics=statistics)


def solved(problem: limen.TwoLayer, times: Any, tolerance: float = 1e-3) -> Result:
    return flow(problem, times)


def noise_runs(problem: limen.TwoLayer, times: Any, d: int, seed: int) -> list[Result]:
    """The Gaussian model in both dimensions, then a network, here in d = 7."""
    return [flow(problem, times, size) for size in (*dimensions(d), 7)]


def test_growth_of_complexity(monkeypatch):
    def adiabatic(h, ratio, times, noise):
        assert (h, ratio, noise) == ([0.0, 0.0, 0.0, 1.0], 0.4, 2.0)
        numbers = {"gamma": ("time", 3.0 * times), "train_loss": ("time", 5.0 * times)}
        return Result(xr.Dataset(numbers | {"threshold": 0.9, "initial_slope": 0.8}), {}, "theory")

    monkeypatch.setattr(complexity_growth, "solve", solved)
    monkeypatch.setattr(complexity_growth, "noise_runs", noise_runs)
    monkeypatch.setattr(complexity_growth, "adiabatic", adiabatic)
    chosen = complexity_growth.ComplexityGrowth(
        samples_per_parameter=0.4,
        noise=2.0,
        activation="hermite:3",
        second_layer=0.6,
        largest_width=400,
        witness_width=4,
    )
    found, s, short = chosen.theory().dataset, chosen.times(), chosen.witness_times()
    assert found.width.values.tolist() == [4, 40, 400]
    for width in (4, 40, 400):
        # t = m s, so that a = a_0 + s.
        assert found.gamma.sel(width=width).values == pytest.approx((0.6 + s) / width**0.5)
        expected = 1.5 * np.exp(-(0.36 / width * 0.8) * width * s)
        assert found.train_loss.sel(width=width).values == pytest.approx(expected)
    assert found.adiabatic_gamma.values == pytest.approx(3.0 * s)
    assert found.adiabatic_loss.values == pytest.approx(5.0 * s)
    assert found.witness_second_layer.values == pytest.approx(0.6 + short)
    assert found.witness_remaining.values == pytest.approx(np.exp(-0.36 * 0.8 * short))
    run = chosen.simulate(3).dataset.isel(seed=0)
    for i, d in enumerate((50, 100)):
        assert int(run["size"][i]) == d
        assert run.witness_second_layer.values[i] == pytest.approx(0.6 + short + 1 / d)
        assert run.witness_remaining.values[i] == pytest.approx(np.exp(-(0.36 * 0.8 + 4 / d) * short))
    assert run.network_second_layer.values == pytest.approx(0.6 + short + 1 / 7)
    numbers = chosen.headline(chosen.theory())["theory"]
    off = np.abs((0.6 + s) / 20.0 - 3.0 * s).max()
    assert numbers["deviation_from_adiabatic"] == pytest.approx(off)
    assert numbers["final_gamma"] == pytest.approx((0.6 + s[-1]) / 20.0)


def test_interpolation_diagram(monkeypatch):
    monkeypatch.setattr(interpolation_diagram, "solve", solved)
    monkeypatch.setattr(interpolation_diagram, "noise_runs", noise_runs)
    monkeypatch.setattr(interpolation_diagram, "interpolation_threshold", lambda h, alpha: alpha + 0.1 * len(h))
    monkeypatch.setattr(interpolation_diagram, "consistent_threshold", lambda h, alpha: 2.0 * alpha)
    chosen = interpolation_diagram.InterpolationDiagram(horizon=2.0, noise=4.0, resolution=4, witness_width=2, d=16)
    found = chosen.theory().dataset
    alpha, gamma = chosen.alphas(), chosen.gammas()
    # a^2/m = 4 gamma^2, and the horizon is 2.
    expected = np.exp(-8.0 * gamma**2 * (1.0 - 0.5 * alpha[:, None]))
    assert found.remaining_map.transpose("alpha", "gamma").values == pytest.approx(expected)
    assert found.remaining_loss.values == pytest.approx(expected[1, 1::2])
    assert found.cut_gamma.values == pytest.approx(gamma[1::2])
    assert found.threshold.values == pytest.approx(found.curve_alpha.values + 0.3)
    cubic = chosen.model_copy(update={"activation": "hermite:3"}).theory().dataset
    assert cubic.threshold.values == pytest.approx(2.0 * cubic.curve_alpha.values)
    assert cubic.one_step_threshold.values == pytest.approx(cubic.curve_alpha.values + 0.4)
    run = chosen.simulate(0).dataset.isel(seed=0)
    for i, d in enumerate((8, 16)):
        assert int(run["size"][i]) == d
        assert run.remaining_loss.values[i] == pytest.approx(expected[1, 1::2] * np.exp(-2.0 / d))
    assert run.network_loss.values == pytest.approx(expected[1, 1::2] * np.exp(-2.0 / 7))


def test_interpolation_threshold(monkeypatch):
    monkeypatch.setattr(interpolation_threshold, "solve", solved)
    monkeypatch.setattr(interpolation_threshold, "noise_runs", noise_runs)
    chosen = interpolation_threshold.InterpolationThreshold(
        noise=4.0, samples_per_parameter=0.4, activation="hermite:3", horizon=20
    )
    found, ratios = chosen.theory().dataset, np.array(interpolation_threshold.RATIOS)
    # Of q^3, in closed form, with noise of deviation 2.
    gamma = 2.0 * np.sqrt(3 * 0.4 / (4 * 1.6))
    assert float(found.threshold) == pytest.approx(gamma, rel=1e-9)
    rates = 0.8 * (gamma * ratios) ** 2
    assert found.train_loss.values == pytest.approx(2.5 * np.exp(-np.outer(rates, found.time.values)))
    kept = np.isfinite(found.relaxation_rate.values)
    assert kept[-4:].all() and found.relaxation_rate.values[kept] == pytest.approx(rates[kept], rel=1e-6)
    assert found.lazy_rate.values == pytest.approx(2.0 * (gamma * ratios) ** 2 * 3.0 * (1.0 - 0.4**0.5) ** 2)
    assert float(found.asymptotic_error[0]) == pytest.approx(2.0)
    assert (found.asymptotic_error.values[found.curve_ratio > 1.0] == 0.0).all()
    expected = np.exp(-np.outer(0.8 * (gamma * np.array([0.7, 1.5])) ** 2, chosen.witness_times()))
    assert found.remaining_loss.values == pytest.approx(expected)
    run = chosen.simulate(0).dataset.isel(seed=0)
    for i, d in enumerate((60, 120)):
        assert run.remaining_loss.values[i] == pytest.approx(expected * np.exp(-chosen.witness_times() / d))
    assert run.network_loss.values == pytest.approx(expected * np.exp(-chosen.witness_times() / 7))


def test_unlearning(monkeypatch):
    monkeypatch.setattr(unlearning, "solve", solved)
    monkeypatch.setattr(flow_witness, "solve", solved)
    chosen = unlearning.Unlearning(widths="9 4", samples_per_parameter=0.4, horizon=5.0)
    found, scaled = chosen.theory().dataset, chosen.scaled_times()
    for width in (4, 9):
        for degree in (1, 2):
            part = found.sel(degree=degree, width=width)
            assert part.second_layer.values == pytest.approx(1.0 + scaled)
            assert part.train_loss.values == pytest.approx(0.65 * np.exp(-0.8 * scaled))
    short = chosen.witness_times()
    assert found.witness_second_layer.values == pytest.approx(1.0 + short / 8)
    assert found.witness_overlap.values == pytest.approx(0.4 * short / (1 + short))


def test_lazy_and_feature_learning(monkeypatch):
    def witness_runs(problem, times, d, seed):
        return [flow(problem, times, size) for size in flow_witness.sizes(d)], flow(problem, times, 7)

    monkeypatch.setattr(lazy_vs_feature, "solve", solved)
    monkeypatch.setattr(lazy_vs_feature, "witness_runs", witness_runs)
    chosen = lazy_vs_feature.LazyVersusFeature(width=25, scales="1 0.2", horizon=10.0, witness_starts="1 4", d=48)
    found, times = chosen.theory().dataset, chosen.times()
    for scale in (0.2, 1.0):
        part = found.sel(scale=scale)
        assert part.second_layer.values == pytest.approx(5.0 * scale + times / 25)
        assert part.train_fraction.values == pytest.approx(np.exp(-(scale**2) * 0.85 * times))
        assert part.travel.values == pytest.approx(1.0 - np.cos(0.5 * scale * times))
        assert float(part.least_test_loss) == pytest.approx(0.65)
    run, short = chosen.simulate(1).dataset.isel(seed=0), chosen.witness_times()
    for i, start in enumerate((1.0, 4.0)):
        assert found.witness_second_layer.values[i] == pytest.approx(start + short / 8)
        for j, d in enumerate((16, 48)):
            part = run.isel(start=i, size=j)
            assert (float(part.start), int(part["size"])) == (start, d)
            assert part.witness_second_layer.values == pytest.approx(start + short / 8 + 1 / d)
        assert run.network_second_layer.values[i] == pytest.approx(start + short / 8 + 1 / 7)


def test_bounds_beside_overfitting(monkeypatch):
    monkeypatch.setattr(overfitting_bound, "solve", solved)
    chosen = overfitting_bound.OverfittingBound(
        activation="erf", width=4, samples_per_parameter=0.5, noise=0.44, second_layer=0.01, largest_width=1000
    )
    found, times = chosen.theory().dataset, chosen.times()
    # erf: S = 1, L = 2/sqrt(pi); labels of power 1.44; n/d = 2.
    layer = 0.01 + times / 4
    assert found.bartlett_scale.values == pytest.approx(layer / 2**0.5)
    expected = 4.0 * layer * 2.0 / np.sqrt(np.pi * 2.0) * (1.2 + layer)
    assert found.complexity_bound.values == pytest.approx(expected, rel=1e-5)
    for width, value in zip(found.true_width.values.tolist(), found.overfitting_time.values, strict=True):
        problem = chosen.problem(width)

        def below(t: float, problem: limen.TwoLayer = problem) -> float:
            return 0.72 + 0.01 * t / problem.network.width - 0.12 - float(loss(problem, t))

        wanted = float(brentq(below, 0.0, 100.0 * width))  # pyright: ignore[reportArgumentType]
        # In mean-field time, linearly between 101 times.
        assert value == pytest.approx(0.5 * wanted, rel=0.01)
    learning = np.flatnonzero(0.5 * times <= 3.0)
    assert found.learning_second_layer.values == pytest.approx(layer[learning])
    assert found.learning_time.values == pytest.approx(times[learning])


def test_the_time_that_is_excluded_at_large_ratios(monkeypatch):
    """There the bound 4 L S A^2/sqrt(n/d) of A = a_1 t reaches the gap, a_1 from the power of the labels alone: the
    part 1/m of the first loss that is the network's own is gone."""

    def with_own_part(problem: limen.TwoLayer, times: Any, tolerance: float = 1e-3) -> Result:
        found = flow(problem, times)
        found.dataset["train_loss"] += 0.2 / problem.network.width
        return found

    monkeypatch.setattr(overfitting_bound, "solve", with_own_part)
    chosen = overfitting_bound.OverfittingBound(activation="erf", noise=0.44, second_layer=0.01, largest_width=10)
    found = chosen.theory().dataset
    ratio = float(found.samples_per_dim[-1])
    assert ratio == pytest.approx(1e12)
    largest = np.sqrt(0.12 * ratio**0.5 / (4.0 * 2.0 / np.pi**0.5))
    # The root of 1.2 A + A^2 = largest^2, at the rate sqrt(1.44).
    size = -0.6 + np.sqrt(0.36 + largest**2)
    assert float(found.excluded_time[-1]) == pytest.approx((size - 0.01) / 1.2, rel=1e-4)
