"""The largest eigenvalue of the Hessian along training: a Wishart matrix, a planted spike, training at finite d."""

import numpy as np
import pytest

import limen
from limen.experiments.thresholds import hessian_spectrum
from limen.experiments.thresholds.hessian_spectrum import HessianSpectrum
from limen.simulation.descent.trained_weights import trained_weights
from limen.simulation.thresholds import trained_hessian
from limen.simulation.thresholds.hessian import network_hessian
from limen.simulation.thresholds.trained_hessian import trained_top
from limen.theory.thresholds.known_directions import OwnRows, _complement, top_eigenvalues
from limen.theory.thresholds.matrix_resolvent import LeftBranch
from limen.theory.thresholds.sharpness import sharpness


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
    (top,), edge = top_eigenvalues(weights[:, None, None], u[None], np.empty((0, u.size)), delta)
    d, n = 1500, 30_000
    x = random.standard_normal((n, d)).astype(np.float32)
    g = 1.0 + 0.45 * (np.tanh(x[:, 0]) ** 2 - np.mean(np.tanh(u) ** 2))
    values = np.linalg.eigvalsh((x * g[:, None].astype(np.float32)).T @ x / n)
    assert top >= edge
    assert values[-1] == pytest.approx(top, rel=0.02)


def test_neurons_that_do_not_meet_have_their_own_outliers():
    """Diagonal weights: the two largest eigenvalues of the pair are those of the two alone."""
    random = np.random.default_rng(1)
    u = random.standard_normal((2, 4096))
    parts = [1.0 + 1.2 * np.tanh(u[0]) ** 2, 0.9 + 1.5 * np.tanh(u[1]) ** 2]
    together = np.zeros((4096, 2, 2))
    together[:, 0, 0], together[:, 1, 1] = parts
    none = np.empty((0, 4096))
    alone = sorted((top_eigenvalues(part[:, None, None], u, none, 60.0).values[0] for part in parts), reverse=True)
    np.testing.assert_allclose(top_eigenvalues(together, u, none, 60.0, 2).values, alone, rtol=1e-8)


def test_a_parameter_without_mixed_derivatives_stands_alone():
    u = np.random.default_rng(2).standard_normal((1, 2048))
    weights, rows = np.ones((2048, 1, 1)), OwnRows(np.zeros((2048, 1, 1)), np.array([[7.0]]))
    found = top_eigenvalues(weights, u, np.empty((0, 2048)), 4.0, 2, rows)
    np.testing.assert_allclose(found.values[0], 7.0)
    assert found.edge == pytest.approx(2.25, rel=1e-6)


@pytest.mark.parametrize("delta", [0.7, 3.0])
def test_a_wishart_matrix_as_a_pulled_back_force_sees_it(delta):
    r"""$H=\frac gnX^\top X$, $v=X^\top\varphi/|X^\top\varphi|$: $v^\top(H-z)^{-1}v=(1+z\alpha)/g$, whose inverse is
    $\frac1\alpha+\frac g\delta$. A parameter with mixed derivatives $c\varphi$ meets $H$ along $v$ alone."""
    g, c, own = 1.6, 0.9, 2.3
    normal, force = np.array([[1.0, 1.0, -1.0, -1.0]]), np.array([[1.0, -1.0, 1.0, -1.0]])
    branch = LeftBranch(np.full((4, 1, 1), g), delta)
    point = branch.at(0.7 * branch.start.x)
    z, alpha = point.z, float(point.alpha[0, 0])
    assert 1.0 / alpha == pytest.approx(-z + g / (1.0 + g * alpha / delta), rel=1e-9)
    known = np.concatenate([normal - force / delta**0.5, force])
    rows = OwnRows(c * force.T[:, :, None], np.array([[own]]))
    found = _complement(point, delta, known, 1, np.eye(1), rows)
    assert found[0, 0] == pytest.approx(g / (1.0 + z * alpha), rel=1e-9)
    np.testing.assert_allclose(found[0, 1], -c / delta**0.5, rtol=1e-9)
    assert found[1, 1] == pytest.approx(own - z, rel=1e-9)
    # Elsewhere it meets the whole of the matrix: c² (1 + z α)/(g δ).
    alone = _complement(point, delta, normal, 1, np.empty((0, 0)), rows)
    np.testing.assert_allclose(
        np.diag(alone), [1.0 / alpha, own - z - c**2 * (1.0 + z * alpha) / (g * delta)], rtol=1e-9
    )


def test_a_bias_is_a_shift_of_the_activation():
    rule, step = limen.GradientDescent(0.6), [0, 2]
    shifted, biased = (
        sharpness(limen.TwoLayer("z**2", network, rule, 3.0, loss="huber:1"), step, 1024, 2).dataset.sharpness.values
        for network in (limen.network(1, "tanh(z + 0.7)"), limen.network(1, "tanh(z)", bias=0.7))
    )
    np.testing.assert_allclose(biased, shifted, rtol=1e-4)


def test_products_and_the_matrix_have_the_same_largest_eigenvalues(monkeypatch):
    given = posed(2, (1.0, -1.5), 0.6, True)
    trained = trained_weights(given, [3.0], 60, 0)
    dense = trained_top(given, trained, 2).eigenvalue
    monkeypatch.setattr(trained_hessian, "LARGEST_DENSE", 10)
    np.testing.assert_allclose(trained_top(given, trained, 2).eigenvalue, dense, rtol=1e-8)
    blocks = (trained.first_layer[0], trained.second_layer[0], trained.bias)
    first = network_hessian(trained.inputs, trained.labels, *blocks, "gelu", "square").eigenspace().values[-1]
    fixed = posed(2, (1.0, -1.5), 0.6, False)
    np.testing.assert_allclose(trained_top(fixed, trained, 1).eigenvalue[0, 0], first, rtol=1e-8)


def posed(width, second_layer, step, train_second_layer):
    network = limen.network(width, "gelu", second_layer, train_second_layer=train_second_layer)
    return limen.TwoLayer(limen.target("2*tanh(z)", noise=0.1), network, limen.GradientDescent(step), 10.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        limen.TwoLayer(
            limen.target("2*relu(z)", noise=0.1),
            limen.network(1, "gelu"),
            limen.GradientDescent(1.0),
            30.0,
            start=limen.OverlapStart(0.2),
        ),
        posed(1, 1.0, 0.5, True),
        posed(2, (1.0, -1.5), 0.8, True),
    ],
    ids=["first layer", "both layers", "two neurons, both layers"],
)
def test_training_has_the_sharpness_predicted(given):
    """At finite d the edge of the bulk is short of its limit; outliers are not. A sample of three fifths is seen."""
    times, d = [0, 2, 6], 400
    found = sharpness(given, times, paths=4096, scrambles=3).dataset
    trained = [trained_top(given, trained_weights(given, times, d, seed)) for seed in range(6)]
    measured = np.mean([one.eigenvalue[:, 0] for one in trained], axis=0)
    np.testing.assert_allclose(measured, found.sharpness.values, rtol=0.03)
    np.testing.assert_allclose(np.mean([one.train_loss for one in trained], axis=0), found.train_loss.values, rtol=0.06)
    fewer = given.model_copy(update={"samples_per_dim": 0.6 * given.samples_per_dim})
    planted = sharpness(fewer, times, paths=4096, scrambles=2).dataset
    assert np.abs(planted.sharpness.values / measured - 1.0).max() > 0.03


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
    given = limen.TwoLayer("z", limen.network(9, "tanh"), limen.GradientDescent(0.3), 3.0)
    with pytest.raises(limen.InputError, match="at most 8 neurons, not 9"):
        sharpness(given, 2)
    with pytest.raises(limen.InputError, match="count must be at most width"):
        sharpness(limen.TwoLayer("z", limen.network(1, "tanh"), limen.GradientDescent(0.3), 3.0), 2, count=4)
    kinked = limen.TwoLayer("z", limen.network(1, "relu"), limen.GradientDescent(0.3), 3.0)
    with pytest.raises(limen.InputError, match="second derivative"):
        sharpness(kinked, 2)
