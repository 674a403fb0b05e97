"""Mixtures and spectral alignment at reduced size: theory is not contradicted, and planted errors are seen."""

import math
from dataclasses import replace

import numpy as np
import pytest

from limen import XorMixture, effective
from limen.comparison import compare
from limen.experiments.effective.outlier_emergence import OutlierEmergence
from limen.experiments.effective.spectral_alignment import SpectralAlignment
from limen.experiments.effective.spectral_alignment_xor import SpectralAlignmentXor
from limen.experiments.effective.xor_lottery import XorLottery
from limen.experiments.effective.xor_mixture import XorTraining
from limen.result import merge
from limen.simulation.effective.xor_networks import train_networks

pytestmark = pytest.mark.slow

LOTTERY = XorLottery(d=180, time=50.0, widths=(4, 6), networks=128, noisy_networks=0)
TRAINING = XorTraining(d=150, width=2, time=12.0, overlap=1.0, draw=1)
NETWORK = SpectralAlignmentXor(d=100, width=3, clouds=2, time=20.0, records=3, test_samples_per_dim=10.0)
ALIGNMENT = SpectralAlignment(d=150, time=10.0, records=4)
EMERGENCE = OutlierEmergence(d=150, ratios=(0.5, 2.0, 8.0))


def runs(experiment, seeds):
    return merge([experiment.simulate(seed) for seed in range(seeds)])


def test_noiseless_networks_win_as_often_as_their_signs_say():
    """Twin: one neuron fewer draws lots. At d = 60 as many seeds see that the odds are 6% of their range higher."""
    theory, simulation = LOTTERY.theory(), runs(LOTTERY, 256)
    comparison = LOTTERY.compare(theory, simulation)
    assert comparison.verdict == "agrees", comparison
    odds = [effective.lottery_probability(XorMixture(int(width) - 1, math.inf, 0.05, 1.0)) for width in LOTTERY.widths]
    planted = replace(theory, dataset=theory.dataset.assign(success=("width", odds)))
    assert LOTTERY.compare(planted, simulation).verdict == "disagrees"


@pytest.mark.slow
def test_noise_raises_the_odds_of_four_neurons():
    """Full SGD of many networks finds what the exact chain does: .145 at d = 200, sharpness 20, time 100."""
    run = train_networks(XorMixture(4, 20.0, 0.05, 1.0), 100.0, 200, 160, 0)
    found = float(np.mean(effective.occupied_clusters(run) == 4))
    error = math.sqrt(0.145 * 0.855 / 160)
    assert abs(found - 0.145) < 3.5 * math.hypot(error, 0.014)


def test_the_xor_flow_is_followed_and_a_wrong_step_is_seen():
    """Twin: a step twice as long."""
    simulation = runs(TRAINING, 32)
    comparison = TRAINING.compare(TRAINING.theory(), simulation)
    assert comparison.verdict == "agrees", comparison
    wrong = TRAINING.model_copy(update={"step": 2.0}).theory()
    assert TRAINING.compare(replace(wrong, spec=simulation.spec), simulation).verdict == "disagrees"


def test_both_layers_of_a_network_that_found_two_clouds():
    """Twin: another penalty."""
    theory, simulation = NETWORK.theory(), runs(NETWORK, 192)
    comparison = NETWORK.compare(theory, simulation)
    assert comparison.verdict == "agrees", comparison
    headline = NETWORK.headline(theory, simulation)
    assert headline["theory"]["clouds_found"] == headline["simulation"]["clouds_found"] == 2.0
    wrong = NETWORK.model_copy(update={"penalty": 0.04}).theory()
    assert NETWORK.compare(replace(wrong, spec=simulation.spec), simulation).verdict == "disagrees"


@pytest.mark.slow
@pytest.mark.parametrize("clouds", [1, 2, 3, 4])
def test_the_second_layer_gradient_matrix_has_an_outlier_per_cloud(clouds):
    network = SpectralAlignmentXor(d=200, width=8, clouds=clouds, sharpness=50.0, overlap=0.8, time=20.0, records=2)
    theory, simulation = network.theory(), network.simulate(0)
    for result in (theory, simulation):
        assert np.all(effective.occupied_clusters(result) == clouds)
    values = simulation.dataset.second_eigenvalue.sel(matrix="gradient").isel(time=-1).values[0]
    assert values[clouds - 1] > 5.0 * values[clouds]


@pytest.mark.slow
def test_logistic_regression_aligns_as_predicted_and_a_wrong_test_size_is_seen():
    """Twins: an alignment a quarter too large, another size of the test set."""
    # Two sizes: at time 0 a random vector has the squared alignment k/d with any k eigenvectors.
    sizes = [runs(ALIGNMENT.model_copy(update={"d": d}), 128) for d in (75, 150)]
    theory = ALIGNMENT.theory()
    comparison = compare(theory, sizes, ALIGNMENT.compared, differing=("d",))
    assert comparison.verdict == "agrees", comparison
    for name in ("alignment_squared", "leading_sum"):
        planted = replace(theory, dataset=theory.dataset.assign({name: 1.25 * theory.dataset[name]}))
        assert compare(planted, sizes, (name,), differing=("d",)).verdict == "disagrees"
    wrong = ALIGNMENT.model_copy(update={"test_samples_per_dim": 80.0}).theory()
    assert compare(wrong, sizes, ALIGNMENT.compared, differing=("d", "test_samples_per_dim")).verdict == "disagrees"


@pytest.mark.slow
def test_outliers_emerge_where_predicted_and_a_wrong_penalty_is_seen():
    """Twin: another penalty."""
    theory, simulation = EMERGENCE.theory(), runs(EMERGENCE, 192)
    comparison = EMERGENCE.compare(theory, simulation)
    assert comparison.verdict == "agrees", comparison
    wrong = EMERGENCE.model_copy(update={"penalty": 0.1}).theory()
    planted = replace(theory, dataset=theory.dataset.assign(eigenvalue=wrong.dataset.eigenvalue))
    assert EMERGENCE.compare(planted, simulation).verdict == "disagrees"
