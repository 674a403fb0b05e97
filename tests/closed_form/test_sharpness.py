"""The largest eigenvalue of the Hessian along training: a Wishart matrix, a planted spike, training at finite d."""

import numpy as np
import pytest

import limen
from limen.experiments.thresholds import hessian_spectrum
from limen.experiments.thresholds.hessian_spectrum import HessianSpectrum
from limen.simulation.descent.trained_weights import trained_weights
from limen.simulation.thresholds.hessian import network_hessian
from limen.theory.thresholds.sharpness import sharpness, top_eigenvalue


def test_a_linear_neuron_has_the_edge_of_marchenko_and_pastur():
    """Its Hessian does not know the labels: whatever gradients were taken, no outlier."""
    given = limen.TwoLayer("z", limen.network(1, "linear"), limen.GradientDescent(0.3), 3.0)
    found = sharpness(given, [0, 1, 5], paths=4096, scrambles=2).dataset
    np.testing.assert_allclose(found.sharpness.values, (1.0 + 3.0**-0.5) ** 2, rtol=1e-6)


def test_a_weight_along_one_coordinate():
    r"""G = 1 + s(u² - 1)/2 without memory: the outlier is where E[g u²] = z."""
    random = np.random.default_rng(0)
    u, delta = random.standard_normal(400_000), 20.0
    weights = 1.0 + 0.45 * (np.tanh(u) ** 2 - np.mean(np.tanh(u) ** 2))
    top, edge = top_eigenvalue(weights, u[None], np.empty((0, u.size)), delta)
    d, n = 1500, 30_000
    x = random.standard_normal((n, d)).astype(np.float32)
    g = 1.0 + 0.45 * (np.tanh(x[:, 0]) ** 2 - np.mean(np.tanh(u) ** 2))
    values = np.linalg.eigvalsh((x * g[:, None].astype(np.float32)).T @ x / n)
    assert top >= edge
    assert values[-1] == pytest.approx(top, rel=0.02)


@pytest.mark.slow
def test_training_has_the_sharpness_predicted():
    given = limen.TwoLayer(
        limen.target("2*relu(z)", noise=0.1),
        limen.network(1, "gelu"),
        limen.GradientDescent(1.0),
        30.0,
        start=limen.OverlapStart(0.2),
    )
    times, d = [0, 2, 6, 12], 400
    found = sharpness(given, times, paths=8192).dataset
    runs = []
    for seed in range(4):
        trained = trained_weights(given, np.array(times, float), d, seed)
        parts = ((trained.first_layer[i], trained.second_layer[i], trained.bias) for i in range(len(times)))
        functions = (given.network.activation, given.loss)
        sample = (trained.inputs, trained.labels)
        runs.append([network_hessian(*sample, *part, *functions).top(1).values[0] for part in parts])
    np.testing.assert_allclose(np.mean(runs, axis=0), found.sharpness.values, rtol=0.02)


def test_lanczos_sees_the_spectrum_that_all_eigenvalues_show(monkeypatch):
    """Hessians too large for all their eigenvalues, on one that is not."""
    experiment = HessianSpectrum(d=240, times=(2.0,), samples_per_dim=(12.0,))
    dense = experiment.train(0).dataset
    monkeypatch.setattr(hessian_spectrum, "LARGEST_DENSE", 100)
    products = experiment.train(0).dataset
    np.testing.assert_allclose(products.outlier.values, dense.outlier.values, rtol=1e-6)
    np.testing.assert_allclose(products.alignment.values, dense.alignment.values, rtol=1e-4)
    np.testing.assert_allclose(products.unstable_share.values, dense.unstable_share.values, atol=0.02)
    np.testing.assert_allclose(products.eigenvalue.values, dense.eigenvalue.values, atol=0.06)


def test_bad_input_is_a_sentence():
    given = limen.TwoLayer("z", limen.network(2, "tanh"), limen.GradientDescent(0.3), 3.0)
    with pytest.raises(limen.InputError, match="one neuron, not 2"):
        sharpness(given, 2)
    kinked = limen.TwoLayer("z", limen.network(1, "relu"), limen.GradientDescent(0.3), 3.0)
    with pytest.raises(limen.InputError, match="second derivative"):
        sharpness(kinked, 2)
