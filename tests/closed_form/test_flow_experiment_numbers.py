"""Experiments of learning, then overfitting: what they report and compare, on curves made by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr

import limen
from limen.experiments.experiment import Experiment
from limen.experiments.flow.complexity_growth import ComplexityGrowth
from limen.experiments.flow.flow_witness import CURVES, curves, network_deviations, orthogonal, sizes
from limen.experiments.flow.interpolation_diagram import InterpolationDiagram
from limen.experiments.flow.interpolation_threshold import InterpolationThreshold
from limen.experiments.flow.lazy_vs_feature import LazyVersusFeature, _curves
from limen.experiments.flow.learn_then_overfit import LearnThenOverfit
from limen.experiments.flow.mean_field_flow import MeanFieldFlow
from limen.experiments.flow.noise_witness import dimensions, remaining
from limen.experiments.flow.overfitting_bound import OverfittingBound, first_time
from limen.experiments.flow.unlearning import Unlearning
from limen.problem.groups import neuron_groups
from limen.result import Result

TIMES = np.array([0.0, 1.0, 3.0, 10.0])
LOSS, TEST = np.array([0.8, 0.4, 0.2, 0.05]), np.array([0.9, 0.5, 0.45, 0.6])
LAYER, OVERLAP = np.array([1.0, 1.2, 1.5, 2.0]), np.array([0.0, 0.3, 0.5, 0.2])
BY_HAND: dict[str, np.ndarray] = dict(zip(CURVES, (LOSS, TEST, LAYER, OVERLAP), strict=True))


def theory(variables: dict[str, Any], **coords: Any) -> Result:
    return Result(xr.Dataset(variables, coords=coords), {"type": "by hand"}, "theory")


def witness_theory() -> Result:
    variables = {f"witness_{name}": (("witness_time",), values) for name, values in BY_HAND.items()}
    return theory(variables, witness_time=TIMES)


def witness_runs(deviation: Any, network: Any = 0.0, seeds: int = 16) -> Result:
    """Simulations in d = 20 and 60 that are off by `deviation(d)` (time,), with a little noise between seeds."""
    rng = np.random.default_rng(0)
    variables: dict[str, Any] = {}
    for name, values in BY_HAND.items():
        off = np.array([values + deviation(d) for d in sizes(60)])
        spread = 1e-3 * rng.standard_normal((seeds, 2, TIMES.size))
        variables[f"witness_{name}"] = (("seed", "size", "witness_time"), off + spread)
        variables[f"network_{name}"] = (("seed", "witness_time"), np.tile(values + network, (seeds, 1)))
    coords = {"seed": np.arange(seeds), "size": list(sizes(60)), "witness_time": TIMES}
    dataset = xr.Dataset(variables, coords=coords, attrs={"d": 60})
    return Result(dataset, {"type": "by hand"}, "simulation", seeds=tuple(range(seeds)))


@pytest.mark.parametrize("kind", [LearnThenOverfit, Unlearning, MeanFieldFlow])
def test_what_the_gaussian_model_is_judged_by(kind: type[Experiment]):
    """A deviation A/d is allowed; one that stays is not; after nine tenths of the loss nothing is judged."""
    late = np.array([0.0, 0.0, 0.0, 1.0])
    chosen = kind()

    def verdict(deviation) -> str:
        return chosen.compare(witness_theory(), witness_runs(deviation)).verdict

    assert verdict(lambda d: 6.0 / d * np.ones(4)) == "agrees"
    assert verdict(lambda d: 0.1 * np.ones(4)) == "disagrees"
    assert verdict(lambda d: 0.1 * late) == "agrees"
    assert verdict(lambda d: 0.1 * late[::-1]) == "disagrees"
    # Dimensions exchanged: what falls as 1/d would grow with d.
    assert verdict(lambda d: d / 200.0 * np.ones(4)) == "disagrees"


def test_noise_fitting_is_judged_at_all_times_in_both_dimensions():
    short, left = np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.4, 0.01])
    predicted = theory(
        {
            "witness_second_layer": (("witness_time",), 1.0 + short),
            "witness_remaining": (("witness_time",), left),
        },
        witness_time=short,
    )
    rng = np.random.default_rng(0)

    def verdict(deviation) -> str:
        variables: dict[str, Any] = {}
        for name in ("witness_second_layer", "witness_remaining"):
            off = np.array([predicted.dataset[name].values + deviation(d) for d in dimensions(100)])
            spread = 1e-3 * rng.standard_normal((16, 2, 3))
            variables[name] = (("seed", "size", "witness_time"), off + spread)
        coords = {"seed": np.arange(16), "size": list(dimensions(100)), "witness_time": short}
        dataset = xr.Dataset(variables, coords=coords, attrs={"d": 100})
        run = Result(dataset, {"type": "by hand"}, "simulation", seeds=tuple(range(16)))
        return ComplexityGrowth().compare(predicted, run).verdict

    assert verdict(lambda d: np.array([0.0, 5.0, 5.0]) / d) == "agrees"
    assert verdict(lambda d: np.array([0.0, 0.0, 0.05])) == "disagrees"


def test_curves_of_a_run_and_how_far_neurons_travel():
    correlation = np.cos(np.subtract.outer(TIMES, TIMES) / 10.0) * np.linspace(1.0, 0.7, 4)
    names = {
        "train_loss": (("seed", "time"), LOSS[None]),
        "test_loss": (("seed", "time"), TEST[None]),
        "second_layer": (("seed", "time", "group"), LAYER[None, :, None]),
        "overlap": (("seed", "time", "group", "latent"), OVERLAP[None, :, None, None]),
        "correlation": (("seed", "time", "time2"), correlation[None]),
    }
    run = Result(xr.Dataset(names, coords={"time": TIMES, "time2": TIMES}), {"type": "by hand"}, "simulation")
    for name, values in BY_HAND.items():
        np.testing.assert_array_equal(curves(run)[name], values)
    found = _curves(run)
    assert found["train_fraction"] == pytest.approx([1.0, 0.5, 0.25, 0.0625])
    assert found["travel"] == pytest.approx(1.0 - np.cos(TIMES / 10.0))
    assert remaining(run) == pytest.approx([1.0, 0.5, 0.25, 0.0625])


def test_how_far_networks_are_from_the_theory():
    """In parts of the range: while learning the worst of three curves, the train loss at all times."""
    deviations = {
        "train_loss": [0.0, 0.0, 0.0, 0.3],
        "test_loss": [0.0, 0.0, 0.02, 0.4],
        "second_layer": [0.0, -0.1, 0.0, -0.9],
        "overlap": [0.01, 0.0, 0.02, 0.4],
    }
    off = {name: BY_HAND[name] + np.array(values) for name, values in deviations.items()}
    found = network_deviations(BY_HAND, off, TIMES, 3.0)
    assert found["network_deviation_learning"] == pytest.approx(0.1 / 1.0)
    assert found["network_deviation_train_loss"] == pytest.approx(0.3 / 0.75)


def test_headline_of_the_witnesses():
    """Least test loss and largest overlap are those of the Gaussian model in the larger dimension."""
    run = witness_runs(lambda d: np.full(4, 30.0 / d - 0.5), network=0.1)
    predicted = replace(
        witness_theory(),
        dataset=witness_theory().dataset.assign({name: ("time", values) for name, values in BY_HAND.items()}),
    )
    predicted = replace(predicted, dataset=predicted.dataset.assign_coords(time=TIMES))
    # At d = 60 this deviation is zero.
    found = LearnThenOverfit(samples_per_parameter=1.0).headline(predicted, run)
    for side in ("theory", "simulation"):
        assert found[side]["witness_least_test_loss"] == pytest.approx(0.45, abs=2e-3)
        assert found[side]["witness_largest_overlap"] == pytest.approx(0.5, abs=2e-3)
    # Learning ends at t = 3; ranges are 0.45, 1 and 0.5 there, 0.75 for the train loss.
    assert found["theory"]["network_deviation_learning"] == 0.0
    assert found["simulation"]["network_deviation_learning"] == pytest.approx(0.1 / 0.45)
    assert found["simulation"]["network_deviation_train_loss"] == pytest.approx(0.1 / 0.75)
    assert found["theory"]["final_second_layer"] == 2.0 and found["theory"]["final_overlap"] == 0.2
    assert found["theory"]["final_test_loss"] == 0.6 and found["theory"]["final_train_loss"] == 0.05


def test_distance_from_mean_field_is_taken_at_mean_field_time_one():
    chosen = MeanFieldFlow(widths="5 20 80", samples_per_parameter=0.5)
    times, widths = chosen.times(), np.array([5, 20, 80])
    at = int(np.abs(0.5 * times - 1.0).argmin())
    assert 0.5 * times[at] == pytest.approx(1.0, rel=0.2)
    limit = np.linspace(0.0, 1.0, times.size)
    distance = np.outer(0.3 / widths**0.5, np.linspace(1.0, 2.0, times.size))
    variables: dict[str, Any] = {"mean_field_overlap": (("time",), limit)}
    variables["overlap"] = (("width", "time"), limit - distance)
    coords = {"time": times, "width": widths}
    found = replace(witness_theory(), dataset=witness_theory().dataset.merge(xr.Dataset(variables, coords=coords)))
    numbers = chosen.headline(found)["theory"]
    for i, width in enumerate(widths.tolist()):
        assert numbers[f"overlap_distance_width_{width}"] == pytest.approx(distance[i, at])
    assert numbers["exponent_of_width"] == pytest.approx(-0.5)


def test_complexity_is_the_second_layer_over_the_root_of_the_width():
    chosen = Unlearning(widths="4 16")
    scaled = chosen.scaled_times()
    layer = np.arange(4.0 * scaled.size).reshape(2, 2, -1)
    variables: dict[str, Any] = {name: (("degree", "width", "scaled_time"), layer) for name in CURVES}
    variables["trapped"] = (("degree", "width"), [[0.0, 0.0], [0.0, 1.0]])
    variables["threshold"] = chosen.threshold()
    extra = xr.Dataset(variables, coords={"degree": [1, 2], "width": [4, 16], "scaled_time": scaled})
    numbers = chosen.headline(replace(witness_theory(), dataset=witness_theory().dataset.merge(extra)))["theory"]
    for i, degree in enumerate((1, 2)):
        assert numbers[f"degree_{degree}_final_complexity"] == pytest.approx(layer[i, 1, -1] / 4.0)
        assert numbers[f"degree_{degree}_final_overlap"] == pytest.approx(layer[i, 1, -1])
        assert numbers[f"degree_{degree}_trapped"] == float(degree == 2)
    # he_2 has weight 0.36 in h: the threshold of q^2 divided by 0.6, times the deviation of the noise.
    square = limen.flow.interpolation_threshold([0.0, 0.0, 1.0], 0.3)
    assert numbers["threshold"] == pytest.approx(0.3**0.5 * square / 0.6, rel=1e-6)


def start(problem: limen.TwoLayer) -> tuple[float, float, float]:
    assert problem.samples_per_dim is not None
    layers = neuron_groups(problem).second_layer
    return float(layers[0]), problem.samples_per_dim / problem.network.width, problem.target.noise


def test_problems_of_experiments_have_the_scales_they_are_named_by():
    diagram = InterpolationDiagram(noise=4.0, witness_width=4, activation="hermite:3")
    # gamma is in units of the noise: a = gamma tau sqrt(m).
    assert start(diagram.problem(0.4, 0.5)) == pytest.approx((0.5 * 2.0 * 2.0, 0.4, 4.0))
    assert diagram.problem(0.4, 0.5).network.activation.hermite == (0.0, 0.0, 0.0, 1.0)
    threshold = InterpolationThreshold(noise=4.0, witness_width=9, samples_per_parameter=0.25)
    assert start(threshold.problem(0.5)) == pytest.approx((1.5, 0.25, 4.0))
    assert threshold.threshold() == pytest.approx(2.0 * limen.flow.interpolation_threshold([0, 0, 1], 0.25))
    growth = ComplexityGrowth(second_layer=0.7, samples_per_parameter=0.25, noise=2.0)
    assert start(growth.problem(100)) == pytest.approx((0.7, 0.25, 2.0))
    assert growth.problem(100).network.train_second_layer and not threshold.problem(0.5).network.train_second_layer
    assert start(LazyVersusFeature().problem(25, 3.0)) == pytest.approx((3.0, 0.3, 0.3))
    assert start(OverfittingBound(width=4).problem(7)) == pytest.approx((1.0, 0.5, 0.3))
    assert Unlearning().problem(5, 2).target.hermite == (0.0, 0.8, 0.6)
    turned = orthogonal(growth.problem(3))
    assert neuron_groups(turned).gram.tolist() == [[0.0]] and not neuron_groups(turned).overlap.any()
    assert sizes(60) == (20, 60) and dimensions(100) == (50, 100)


def test_the_cut_of_the_diagram_is_a_row_of_its_map():
    chosen = InterpolationDiagram(resolution=6)
    alpha, gammas = chosen.cut()
    assert alpha == pytest.approx(chosen.alphas()[2])
    assert gammas == pytest.approx(chosen.gammas()[[1, 3, 5]])
    # In log gamma and alpha the map 10^-(2 alpha + log10 gamma) is linear, and is found again between its points.
    grid = 10.0 ** -(2.0 * chosen.alphas()[:, None] + np.log10(10.0 * chosen.gammas()))
    mapped = theory({"remaining_map": (("alpha", "gamma"), grid)}, alpha=chosen.alphas(), gamma=chosen.gammas())
    found = chosen.between(mapped, np.array([0.33, 0.71]), np.array([0.2, 0.5, 0.9]))
    assert found == pytest.approx(10.0 ** -(2.0 * np.array([[0.33], [0.71]]) + np.log10([2.0, 5.0, 9.0])), rel=1e-9)


def test_the_first_time_of_a_gap():
    times, gaps = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.0, 0.1, 0.3, 0.2])
    assert first_time(times, gaps, 0.2) == pytest.approx(3.0)
    assert np.isnan(first_time(times, gaps, 0.4))
