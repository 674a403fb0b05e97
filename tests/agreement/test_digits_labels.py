"""Digits with true, partly wrong and random labels at any depth and loss: kernels agree with the theory of their depth,
large networks fit whatever they are shown, planted errors are caught."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from limen.experiments.kernel.double_descent_digits import DoubleDescentDigits
from limen.experiments.kernel.jamming_digits import JammingDigits
from limen.experiments.kernel.random_labels import RandomLabels
from limen.result import Result, merge
from limen.simulation.kernel.digits import load_digits
from limen.simulation.kernel.digits_regression import relu_tangent_kernel
from limen.theory.kernel import ntk

pytestmark = pytest.mark.slow

TANGENT = {
    "n": 150, "images": 500, "width": 64, "depth": 4, "kernel": "tangent", "loss": "square", "levels": 3, "draws": 50,
    "ridge": 0.1, "steps": 1500,
}  # fmt: skip
SEEDS = 12
JAMMED = {"n": 60, "depth": 3, "widths": 6, "corruption": 1.0, "steps": 10_000}
NETWORKS = 16


@lru_cache(maxsize=1)
def tangent_runs() -> Result:
    return merge([RandomLabels(**TANGENT).simulate(seed) for seed in range(SEEDS)])


def judged(**planted):
    theory = RandomLabels(**TANGENT | planted).theory()
    return RandomLabels(**TANGENT).compare(replace(theory, spec=tangent_runs().spec), tangent_runs())


def test_kernel_of_four_layers_agrees_at_every_corruption():
    comparison = judged()
    assert comparison.verdict == "agrees", str(comparison)
    # The network of the same depth fits every set of labels, as the count of parameters says.
    assert np.all(tangent_runs().dataset.fitted.values == 1.0)


@pytest.mark.parametrize("planted", [{"depth": 2}, {"kernel": "features"}, {"ridge": 0.3}], ids=str)
def test_another_kernel_is_caught(planted):
    comparison = judged(**planted)
    assert comparison.verdict == "disagrees", str(comparison)


def test_two_computations_of_the_tangent_kernel():
    images = load_digits().inputs[:12]
    for depth in (1, 2, 5):
        np.testing.assert_allclose(relu_tangent_kernel(images, None, depth), ntk(images, None, "relu", depth, 2.0)[1])


@pytest.mark.parametrize("loss", ["quadratic-hinge", "square", "logistic"])
def test_random_labels_are_fitted_far_beyond_the_line_and_not_near_it(loss):
    experiment = JammingDigits(**JAMMED, loss=loss)
    found = merge([experiment.simulate(seed) for seed in range(NETWORKS)])
    shares, beyond = found.dataset.fitted.values.mean(axis=0), experiment.beyond()
    # The smallest fit nothing, the largest everything, and no network knows the classes of new images.
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert found.dataset.test_error.values.mean() == pytest.approx(0.5, abs=0.05)
    # Just beyond the line the count of parameters promises too much, and no comparison agrees.
    assert shares[beyond][0] < 0.9
    assert experiment.compare(experiment.theory(), found).verdict != "agrees"


def test_double_descent_of_deep_networks():
    experiment = DoubleDescentDigits(
        n=60, images=200, largest_width=128, depth=3, loss="logistic", corruption=0.5, draws=2
    )
    found = merge([experiment.simulate(seed) for seed in range(4)])
    assert experiment.beyond().sum() >= 2
    # The widest fit all labels, the narrowest do not.
    assert found.dataset.network_train_error.values[:, -1].max() == 0.0
    assert found.dataset.network_train_error.values[:, 0].mean() > 0.05
