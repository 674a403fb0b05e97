"""Spectra, ridge and random features of the gallery at reduced size: not contradicted, and planted errors caught."""

from dataclasses import replace

import numpy as np
import pytest

from limen.experiments.kernel.double_descent import DoubleDescent
from limen.experiments.kernel.random_features import RandomFeaturesPeak
from limen.experiments.kernel.random_features_flow import RandomFeaturesFlow
from limen.experiments.kernel.ridge_early_stopping import RidgeEarlyStopping
from limen.experiments.spectra.bbp_transition import BBPTransition
from limen.experiments.spectra.marchenko_pastur import MarchenkoPasturBulk
from limen.problem import InputError
from limen.result import merge

# Experiment, seeds, to which part of the range agreement is asked for, and changes that make the theory wrong. The part
# is 1% and twice the widest band, where these seeds decide whatever the deviation: smaller ones are not seen here.
CASES = {
    "marchenko-pastur": (MarchenkoPasturBulk(d=200), 48, 0.05, [{"ratio": 0.33}, {"values": (1.0, 4.0, 11.0)}]),
    "marchenko-pastur, more dimensions than samples": (
        MarchenkoPasturBulk(d=200, ratio=2.0, values="1", weights="1"), 48, 0.05, [{"ratio": 2.2}],
    ),
    "bbp-transition": (BBPTransition(d=200), 780, 0.05, [{"ratio": 0.55}]),
    "double-descent": (DoubleDescent(d=100), 60, 0.2, [{"noise": 0.1}, {"signal": 1.1}]),
    "ridge-early-stopping": (RidgeEarlyStopping(d=100), 60, 0.31, [{"noise": 0.3}, {"signal": 1.2}]),
    "random-features": (RandomFeaturesPeak(d=40), 48, 0.34, [{"noise": 0.0}, {"ridges": (0.002, 0.02, 0.2)}]),
    "random-features-flow": (RandomFeaturesFlow(d=40), 60, 0.27, [{"noise": 0.0}, {"nonlinear": 0.0}]),
}  # fmt: skip


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    experiment, seeds, part, planted = CASES[request.param]
    return experiment, merge([experiment.simulate(seed) for seed in range(seeds)]), part, planted


def test_the_simulation_agrees_with_the_theory_and_not_with_the_twins(case):
    experiment, simulation, part, planted = case
    theory = experiment.theory()
    comparison = experiment.compare(theory, simulation)
    assert comparison.judged(tolerance=part).verdict == "agrees", str(comparison)
    for changes in planted:
        twin = type(experiment)(**{**experiment.model_dump(mode="python"), **changes}).theory()
        # The wrong values stand at the right places, else the comparison would refuse the coordinates.
        right = {name: theory.dataset[name].copy(data=twin.dataset[name].values) for name in theory.dataset.data_vars}
        wrong = replace(theory, dataset=theory.dataset.assign(right))
        # Some of these errors move no variable by more than the resolution of 1%.
        assert experiment.compare(wrong, simulation).judged(resolution=0.001).verdict == "disagrees", changes


def test_without_the_tracy_widom_shift_edges_disagree():
    experiment = MarchenkoPasturBulk(d=200, values="1", weights="1")
    simulation = merge([experiment.simulate(seed) for seed in range(24)])
    theory = experiment.theory()
    assert experiment.compare(theory, simulation)["edge_eigenvalue"].verdict == "agrees"
    limit = theory.dataset.assign(edge_eigenvalue=theory.dataset.bulk_edge)
    unshifted = experiment.compare(replace(theory, dataset=limit), simulation).judged(resolution=0.001)
    assert unshifted["edge_eigenvalue"].verdict == "disagrees"


def test_closed_forms_of_double_descent():
    experiment = DoubleDescent(noise=0.3, signal=2.0)
    data = experiment.theory().dataset
    gamma = data.ratio.values
    low, high = gamma < 1.0, gamma > 1.0
    np.testing.assert_allclose(data.excess_mse.values[low], 0.3 * gamma[low] / (1.0 - gamma[low]), rtol=1e-10)
    np.testing.assert_allclose(data.train_mse.values[low], 0.3 * (1.0 - gamma[low]), rtol=1e-10)
    np.testing.assert_allclose(data.bias_mse.values[high], 2.0 * (1.0 - 1.0 / gamma[high]), rtol=1e-10)
    np.testing.assert_allclose(data.variance_mse.values[high], 0.3 / (gamma[high] - 1.0), rtol=1e-10)
    second = experiment.headline(experiment.theory())["theory"]["second_minimum_ratio"]
    fine = np.linspace(1.05, 10.0, 100_000)
    risk = 2.0 * (1.0 - 1.0 / fine) + 0.3 / (fine - 1.0)
    assert second == pytest.approx(fine[risk.argmin()], abs=2e-4)
    assert DoubleDescent(noise=2.0).headline(DoubleDescent(noise=2.0).theory())["theory"]["threshold"] == 1.0


def test_closed_forms_of_the_transition():
    experiment = BBPTransition(ratio=0.5, d=400)
    data = experiment.theory().dataset
    spike = data.spike.values
    strong = spike > experiment.threshold
    excess = spike[strong] - 1.0
    np.testing.assert_allclose(data.top_eigenvalue.values[strong], spike[strong] * (1 + 0.5 / excess), rtol=1e-12)
    np.testing.assert_allclose(
        data.squared_overlap.values[strong], (1 - 0.5 / excess**2) / (1 + 0.5 / excess), rtol=1e-10
    )
    # Without a spike the top eigenvector is uniform on the sphere.
    assert data.squared_overlap.values[0] == pytest.approx(1 / 400)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BBPTransition(strongest=1.5), "strongest must be above"),
        (lambda: MarchenkoPasturBulk(values="1, 2", weights="1"), "weights must have one entry per entry of values"),
        (lambda: MarchenkoPasturBulk(values="1, -2", weights="0.5, 0.5"), "values must not be negative"),
        (lambda: RandomFeaturesPeak(ridges="0, 0.1"), "ridges must be a non-empty list of positive numbers"),
        (lambda: RandomFeaturesPeak(ridges=""), "ridges must be a non-empty list of positive numbers"),
        (lambda: DoubleDescent(noise=0.0), "noise must be greater than 0"),
    ],
)
def test_parameters_without_a_picture_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_early_stopping_costs_little_against_the_best_ridge():
    for ratio, noise in ((0.5, 0.2), (1.5, 0.5), (4.0, 2.0)):
        experiment = RidgeEarlyStopping(ratio=ratio, noise=noise)
        numbers = experiment.headline(experiment.theory())["theory"]
        assert numbers["ridge"] == pytest.approx(noise * ratio, rel=1e-6)
        assert 1.0 <= numbers["best_flow_excess_mse"] / numbers["best_ridge_excess_mse"] < 1.22
