"""Constants of lazy training: limits in which they are known in closed form, symmetries, refusals."""

import numpy as np
import pytest

import limen
from limen.theory.kernel.tangent.lazy_constants import longest_input, slope_moments
from limen.theory.kernel.tangent.row_law import RowLaw
from limen.theory.spectra.marchenko_pastur import TRACY_WIDOM_MEAN, MarchenkoPastur

constants = limen.kernel.lazy_constants


def test_a_linear_activation_is_least_squares():
    # The rest of the slope vanishes: K = XX^T, a Marchenko-Pastur law of ratio n/d, and no curvature.
    n, d = 100, 400
    found = constants("z", n, d, 50)
    shift = -TRACY_WIDOM_MEAN * (np.sqrt(n) - np.sqrt(d)) * (1 / np.sqrt(n) - 1 / np.sqrt(d)) ** (1 / 3) / d
    assert found.sigma_min**2 / d == pytest.approx((1 - 0.5) ** 2 - shift, rel=1e-6)
    assert found.distance == pytest.approx(np.sqrt(0.25 / 0.75), rel=1e-9)
    assert found.lipschitz == 0.0
    assert found.bounds.holds


def test_equal_rows_lift_the_law_by_their_weight():
    # XX^T / d keeps its Marchenko-Pastur law; the rest is the identity times a number.
    law = RowLaw.with_spread(0.4, 0.1, 0.0, 100, 400)
    edges = law.map(law.lower()), law.map(law.upper())
    np.testing.assert_allclose(edges, 0.4 * np.array([0.25, 2.25]) + 0.1, rtol=1e-9)
    nodes, masses = MarchenkoPastur(0.25).quadrature(200)
    assert law.mean_inverse() == pytest.approx(float(masses @ (1 / (0.4 * nodes + 0.1))), rel=1e-9)


def test_unequal_rows_alone_are_their_own_spectrum():
    # Almost no linear part: eigenvalues are the weights.
    law = RowLaw.with_spread(1e-6, 1.0, 0.1, 50, 100)
    np.testing.assert_allclose([law.map(law.lower()), law.map(law.upper())], law.weights[[0, -1]], atol=1e-4)
    assert law.mean_inverse() == pytest.approx(np.mean(1 / law.weights), rel=1e-4)


def test_an_outlier_by_hand():
    # Equal rows, strength t: S = -1/t at w = a + t, and z = w + m / (1 - m g / t).
    law = RowLaw.with_spread(0.4, 0.1, 0.0, 100, 400)
    assert law.outlier(5.0) == pytest.approx(5.1 + 0.4 / (1 - 0.1 / 5.0))
    assert law.outlier(0.05) is None


def test_moments_of_the_slope_by_hand():
    # sigma = z^2 / 2: the slope is z itself, E z = 0, Var = 1, E sigma'' = 1, and z^2 has relative variance 2.
    assert slope_moments("z**2/2") == pytest.approx((0.0, 1.0, 1.0, 2.0), abs=1e-12)


def test_the_longest_of_gaussian_inputs():
    assert longest_input(1, 30) == pytest.approx(30.0, rel=1e-9)
    # Two dimensions: squared lengths are exponential of mean 2, and their largest has mean 2 (1 + 1/2 + ... + 1/n).
    assert longest_input(7, 2) == pytest.approx(2 * sum(1 / k for k in range(1, 8)), rel=1e-8)


def test_constants_scale_with_the_output():
    one, ten = constants("tanh", 50, 100, 40), constants("tanh", 50, 100, 40, 10.0)
    for name in ("sigma_min", "sigma_max", "lipschitz", "lipschitz_bound"):
        assert getattr(ten, name) == pytest.approx(10 * getattr(one, name))
    assert ten.residual == one.residual == pytest.approx(np.sqrt(50))
    assert ten.distance == pytest.approx(one.distance / 10)
    assert ten.bounds.condition == pytest.approx(one.bounds.condition / 10)
    # Not mirrored, the start has variance alpha^2 E tanh^2, and nothing is gained.
    square = float(np.sum(limen.kernel.activation_moments("tanh")[1:] * np.array([0.6057055096, 1.0])))
    free = constants("tanh", 50, 100, 40, 10.0, mirrored=False)
    assert free.residual == pytest.approx(np.sqrt(50 * (1 + 100 * square)), rel=1e-6)


def test_the_exact_lipschitz_constant_lies_below_the_computable_bound():
    inputs = np.random.default_rng(0).standard_normal((60, 80))
    found = constants("tanh", 60, 80, 40)
    computable = limen.kernel.two_layer_lipschitz(inputs, "tanh", 40)
    assert found.lipschitz_bound == pytest.approx(computable, rel=0.1)
    assert found.lipschitz_bound / found.lipschitz == pytest.approx(1 + np.sqrt(60 / 80), rel=0.2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tanh", 400, 20, 40), "samples must be below different neurons times dimension = 400, got 400"),
        (("tanh", 10, 20, 41), "width must be even for a mirrored start, got 41"),
        (("z", 20, 20, 40), "samples must be below dimension = 20 for a linear activation, got 20"),
        (("relu", 10, 20, 40), "activation must have a continuous derivative"),
        (("tanh", 0, 20, 40), "samples must be at least 1, got 0"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(limen.InputError, match=f"^{words}"):
        constants(*arguments)
