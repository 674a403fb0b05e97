"""Digits with true, partly wrong and random labels at any depth and loss: kernels agree with the theory of their depth,
networks beyond the line fit whatever they are shown, planted errors are caught."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from limen.comparison import compare
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
# Random labels beyond the line: as many networks as a share of one is known from to 5%.
JAMMED = {"n": 100, "depth": 3, "widths": 8, "corruption": 1.0}
NETWORKS = 30


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
def test_networks_beyond_the_line_fit_random_labels(loss):
    experiment = JammingDigits(**JAMMED, loss=loss)
    runs = merge([experiment.simulate(seed) for seed in range(NETWORKS)])
    theory = experiment.theory()
    comparison = experiment.compare(theory, runs)
    assert comparison.verdict == "agrees", str(comparison)
    # Small ones do not, and no network knows the classes of new images.
    assert runs.dataset.fitted.values[:, 0].mean() == 0.0
    assert runs.dataset.test_error.values.mean() == pytest.approx(0.5, abs=0.03)
    wrong = replace(theory, dataset=theory.dataset.assign(fitted_beyond=0.9 * theory.dataset.fitted_beyond))
    assert experiment.compare(wrong, runs).verdict == "disagrees"


def test_double_descent_of_deep_networks_fits_beyond_its_line():
    experiment = DoubleDescentDigits(
        n=60, images=200, largest_width=128, depth=3, loss="logistic", corruption=0.5, draws=2
    )
    runs = merge([experiment.simulate(seed) for seed in range(30)])
    assert experiment.beyond().sum() >= 3
    comparison = compare(experiment.theory(), runs, variables=["fitted_beyond"])
    assert comparison.verdict == "agrees", str(comparison)
    # Below it the smallest do not fit.
    assert runs.dataset.network_train_error.values[:, 0].mean() > 0.05
