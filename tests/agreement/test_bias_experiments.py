"""Implicit bias, interpolation and capacity of the gallery at reduced size: not contradicted, planted errors caught."""

from dataclasses import replace

import numpy as np
import pytest

from limen.experiments.kernel.interpolating_smoother import InterpolatingSmoother
from limen.experiments.kernel.interpolation.benign_overfitting import BenignOverfitting
from limen.experiments.kernel.max_margin import MaxMarginFlow
from limen.experiments.kernel.min_norm import MinNorm
from limen.experiments.kernel.nearest_neighbours import NearestNeighbours
from limen.experiments.kernel.perceptron import Perceptron
from limen.experiments.kernel.uniform_gap import UniformConvergence
from limen.problem import InputError
from limen.result import merge
from limen.theory.kernel.classification.separability import separable_probability

pytestmark = pytest.mark.slow

FLOW = MaxMarginFlow(d=2, samples=12, latest_log_time=20.0, longest_descent=400.0)
# Experiment, seeds, to which part of the range agreement is asked for, and changes that make the theory wrong. The part
# is 1% and twice the widest band, where these seeds decide whatever the deviation: smaller ones are not seen here.
CASES = {
    "min-norm": (MinNorm(d=80), 50, 0.3, [{"noise": 0.0}, {"ratio": 4.0}]),
    "max-margin": (FLOW, 12, 0.05, [{"longest_descent": 520.0}, {"softness": 60.0}]),
    "interpolating-smoother": (
        InterpolatingSmoother(samples=1600), 200, 0.22, [{"exponent": 0.9}, {"noise": 0.5}, {"smoothness": 0.8}],
    ),
    "nearest-neighbours": (NearestNeighbours(samples=1000), 900, 0.05, [{"noise": 1.1}, {"laplacian": 66.0}]),
    "benign-overfitting": (
        BenignOverfitting(samples=140), 48, 0.19, [{"noise": 0.24}, {"growth": 1.35}, {"decay": 15.0}, {"power": 2.3}],
    ),
    "uniform-gap": (UniformConvergence(d=50), 60, 0.22, [{"radius": 1.375}, {"noise": 0.0}, {"signal": 1.3}]),
}  # fmt: skip


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    experiment, seeds, part, planted = CASES[request.param]
    return experiment, merge([experiment.simulate(seed) for seed in range(seeds)]), part, planted


def test_the_simulation_agrees_with_the_theory_and_not_with_the_twins(case):
    experiment, simulation, part, planted = case
    theory = experiment.theory(simulation.seeds)
    comparison = experiment.compare(theory, simulation)
    assert comparison.judged(tolerance=part).verdict == "agrees", comparison
    for changes in planted:
        twin = type(experiment)(**{**experiment.model_dump(mode="python"), **changes}).theory(simulation.seeds)
        # The wrong values stand at the right places, else the comparison would refuse the coordinates.
        right = {name: theory.dataset[name].copy(data=twin.dataset[name].values) for name in experiment.compared}
        wrong = replace(theory, dataset=theory.dataset.assign(right))
        assert experiment.compare(wrong, simulation).judged(0.001, 0.05).verdict == "disagrees", changes


def test_random_labels_are_separable_as_often_as_counted_and_an_affine_hyperplane_would_be_seen():
    experiment = Perceptron(d=8)
    # As many seeds as make the band of a fraction 2%.
    simulation = merge([experiment.simulate(seed) for seed in range(1100)])
    theory = experiment.theory()
    comparison = experiment.compare(theory, simulation)
    assert comparison.verdict == "agrees", comparison
    affine = [separable_probability(int(n), experiment.d + 1) for n in experiment.counts()]
    wrong = replace(theory, dataset=theory.dataset.assign(separable_fraction=("ratio", affine)))
    assert experiment.compare(wrong, simulation).verdict == "disagrees"


def test_a_perceptron_never_makes_more_mistakes_than_its_bound():
    data = merge([Perceptron(d=6).simulate(seed) for seed in range(5)]).dataset
    assert (data.mistakes <= data.mistake_bound).all()
    # wider gaps, fewer mistakes allowed
    assert (np.diff(data.mistake_bound.mean("seed")) < 0).all()


def test_a_start_is_worth_the_distance_it_saves():
    experiment = MinNorm(ratio=2.5, noise=0.2, d=100)
    data = experiment.theory().dataset
    missed = (1.0 - data.start.values) ** 2
    np.testing.assert_allclose(data.excess_mse, missed * (1 - 1 / 2.5) + 0.2 / 1.5, rtol=1e-12)
    np.testing.assert_allclose(data.squared_displacement, missed / 2.5 + 0.2 / 1.5, rtol=1e-12)
    # the followed paths begin at the start and end, after many steps, at the interpolator
    long = MinNorm(ratio=2.5, noise=0.2, d=100, steps=1000).theory().dataset
    np.testing.assert_allclose(long.path_excess_mse[:, 0], (1.0 - long.followed.values) ** 2, atol=1e-9)
    ends = long.excess_mse.sel(start=long.followed.values)
    np.testing.assert_allclose(long.path_excess_mse[:, -1], ends, rtol=1e-6)


def test_the_flow_reaches_its_constants():
    experiment = MaxMarginFlow(d=2, samples=20)
    data = experiment.theory((0, 2)).dataset
    for loss in ("exponential", "logistic", "softened"):
        last = data.isel(far_log_time=-1).sel(loss=loss)
        np.testing.assert_allclose(last.flow_time_times_loss, last.loss_constant, rtol=1e-6)
        missing = (last.largest_margin - last.flow_margin) * last.far_log_time
        np.testing.assert_allclose(missing, last.margin_constant, rtol=0.02)
        assert np.isfinite(data.direction_constant).all()
        np.testing.assert_allclose(last.flow_direction_error * last.far_log_time, last.direction_constant, rtol=0.02)


def test_constants_of_the_smoothers():
    experiment = InterpolatingSmoother()
    numbers = experiment.headline(experiment.theory())["theory"]
    assert numbers["rate"] == pytest.approx(0.5)
    assert numbers["constant"] == pytest.approx(0.36 + 0.25 * 2.25 / (2 * np.pi))
    with pytest.raises(InputError, match=r"exponent must be below dimension/2 = 0.5"):
        InterpolatingSmoother(dimension=1)
    with pytest.raises(InputError, match="bandwidth must be at most"):
        InterpolatingSmoother(samples=800, bandwidth=3.0)
    # in two dimensions the bias is linear in k + 1: risk a^2 (k+1)^2 + 1/k is least where 2 a^2 (k+1) k^2 = 1
    best = NearestNeighbours().headline(NearestNeighbours().theory())["theory"]["best_neighbours"]
    slope = 60.0 / (2 * 4) / (4000 * np.pi)
    assert 2 * slope**2 * (best - 1) ** 2 * best < 1 < 2 * slope**2 * (best + 1) ** 2 * (best + 2)


def test_uniform_convergence_overshoots():
    data = UniformConvergence(d=100).theory().dataset
    assert (data.true_above > 2.5 * data.least_squares).all()
    assert float(data.true_above[0]) > 10 * float(data.least_squares[0])
