"""Tangent kernels of wide networks: identities, closed forms, tables against direct quadrature, refusals."""

import numpy as np
import pytest

from limen.problem.spec import InputError
from limen.theory.kernel.tangent.neural_tangent import ntk
from limen.theory.kernel.tangent.sphere_kernel import sphere_kernel
from limen.theory.kernel.tangent.tangent_model import tangent_kernel, tangent_model

GENERATOR = np.random.default_rng(5)
INPUTS, OTHERS = GENERATOR.standard_normal((7, 6)), GENERATOR.standard_normal((5, 6))
ON_SPHERE = INPUTS / np.linalg.norm(INPUTS, axis=1, keepdims=True) * np.sqrt(6)


def recursion(x1, x2, value, slope, depth, weight_variance, bias):
    """The definition, pair by pair; `value` and `slope` are the expectations as functions of (q, q', c)."""
    nngp, tangent = np.empty((len(x1), len(x2))), np.empty((len(x1), len(x2)))
    for i, x in enumerate(x1):
        for j, y in enumerate(x2):
            q, p, c = (weight_variance * a @ b / len(x) + bias**2 for a, b in ((x, x), (y, y), (x, y)))
            theta = c
            for _ in range(depth - 1):
                theta = theta * weight_variance * slope(q, p, c)
                q, p, c = (weight_variance * value(*v) + bias**2 for v in ((q, q, q), (p, p, p), (q, p, c)))
                theta += c
            nngp[i, j], tangent[i, j] = c, theta
    return nngp, tangent


def by_trapezoid(function):
    """E[f(u) f(v)] by the trapezoid rule on a grid: exact to rounding for smooth functions."""
    x = np.arange(-9, 9.05, 0.1)
    weights = 0.1 * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)

    def expectation(q, p, c):
        rest = np.sqrt(max(p - c**2 / q, 0.0))
        inner = function(c / np.sqrt(q) * x[:, None] + rest * x) @ weights
        return float(weights @ (function(np.sqrt(q) * x) * inner))

    return expectation


def relu_value(q, p, c):
    angle = np.arccos(np.clip(c / np.sqrt(q * p), -1, 1))
    return np.sqrt(q * p) / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * np.cos(angle))


def relu_slope(q, p, c):
    return (np.pi - np.arccos(np.clip(c / np.sqrt(q * p), -1, 1))) / (2 * np.pi)


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
def test_relu_keeps_variances_and_counts_layers(depth):
    nngp, tangent = ntk(INPUTS, None, "relu", depth, weight_variance=2.0)
    norms = 2 * np.sum(INPUTS**2, axis=1) / 6
    np.testing.assert_allclose(np.diag(nngp), norms, rtol=1e-14)
    np.testing.assert_allclose(np.diag(tangent), depth * norms, rtol=1e-14)


def test_linear_network_is_depth_times_the_linear_kernel():
    nngp, tangent = ntk(INPUTS, OTHERS, "linear", 4)
    np.testing.assert_allclose(nngp, INPUTS @ OTHERS.T / 6, atol=1e-15)
    np.testing.assert_allclose(tangent, 4 * INPUTS @ OTHERS.T / 6, atol=1e-14)


def test_relu_is_the_recursion_of_arc_cosine_kernels():
    expected = recursion(INPUTS, OTHERS, relu_value, relu_slope, 4, 1.7, 0.3)
    for found, wanted in zip(ntk(INPUTS, OTHERS, "relu", 4, 1.7, 0.3), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


SMOOTH = {
    "erf": (lambda z: np.vectorize(__import__("math").erf)(z), lambda z: 2 / np.sqrt(np.pi) * np.exp(-(z**2))),
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "z**2": (np.square, lambda z: 2 * z),
    "hermite:3": (lambda z: (z**3 - 3 * z) / np.sqrt(6), lambda z: (3 * z**2 - 3) / np.sqrt(6)),
    "sin(z) + z": (lambda z: np.sin(z) + z, lambda z: np.cos(z) + 1),
}


@pytest.mark.parametrize("activation", SMOOTH)
@pytest.mark.parametrize("inputs", ["of different norms", "on the sphere"])
def test_smooth_activations_against_direct_quadrature(activation, inputs):
    points = (ON_SPHERE if inputs == "on the sphere" else INPUTS)[:4]
    value, slope = (by_trapezoid(part) for part in SMOOTH[activation])
    expected = recursion(points, points[::-1], value, slope, 3, 0.8, 0.2)
    for found, wanted in zip(ntk(points, points[::-1], activation, 3, 0.8, 0.2), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10 * np.abs(wanted).max())


def test_a_kink_without_closed_form_is_a_combination_of_relu_and_linear():
    def value(q, p, c):
        # leaky(z) = 0.1 z + 0.9 relu(z), E[z relu(z')] = c/2
        return 0.01 * c + 0.09 * c + 0.81 * relu_value(q, p, c)

    def slope(q, p, c):
        return 0.01 + 0.09 + 0.81 * relu_slope(q, p, c)

    for points in (INPUTS[:2], ON_SPHERE[:3]):
        expected = recursion(points, points[:1], value, slope, 2, 1.0, 0.0)
        for found, wanted in zip(ntk(points, points[:1], "max(z, 0.1*z)", 2), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-8)


@pytest.mark.parametrize("activation", ["relu", "erf", "square", "hermite:3"])
def test_the_symmetric_half_is_the_whole(activation):
    for half, whole in zip(
        ntk(INPUTS, None, activation, 3, 1.2, 0.4), ntk(INPUTS, INPUTS.copy(), activation, 3, 1.2, 0.4), strict=True
    ):
        # off the diagonal equal; on it the angle of two equal inputs is only known to the root of rounding
        np.testing.assert_allclose(half, whole, rtol=1e-7)
        np.testing.assert_array_equal(half, half.T)
        assert np.linalg.eigvalsh(half)[0] > 0


def test_trained_layers_add_up_for_two_layers():
    nngp, everything = ntk(INPUTS, OTHERS, "erf", 2, 1.3, 0.5)
    first, last = (ntk(INPUTS, OTHERS, "erf", 2, 1.3, 0.5, layers)[1] for layers in ("first", "last"))
    np.testing.assert_allclose(first + last, everything, rtol=1e-13)
    np.testing.assert_array_equal(last, nngp)


@pytest.mark.parametrize("layers", ["all", "first", "last"])
def test_diagonal_follows_the_trained_layers(layers):
    half, whole = (ntk(INPUTS, x2, "erf", 4, 1.3, 0.5, layers)[1] for x2 in (None, INPUTS.copy()))
    np.testing.assert_allclose(half, whole, rtol=1e-12)


@pytest.mark.parametrize(("depth", "expected"), [(2, (2 / np.pi, 2.0, 4.0)), (3, (1.3714172726, 1.9162261, 6.0))])
def test_relu_on_the_sphere(depth, expected):
    kernel = sphere_kernel("relu", depth, weight_variance=2.0)
    np.testing.assert_allclose((kernel.at_zero, kernel.slope, kernel.at_one), expected, rtol=2e-8)
    np.testing.assert_allclose(kernel([0.0, 1.0]), [kernel.at_zero, kernel.at_one], rtol=1e-8)


@pytest.mark.parametrize("activation", ["relu", "erf", "hermite:2", "tanh"])
@pytest.mark.parametrize("layers", ["all", "first", "last"])
def test_sphere_kernel_is_the_kernel_on_the_sphere(activation, layers):
    kernel = sphere_kernel(activation, 3, 0.9, 0.3, layers)
    cosines = ON_SPHERE @ ON_SPHERE[:3].T / 6
    np.testing.assert_allclose(kernel(cosines), ntk(ON_SPHERE, ON_SPHERE[:3], activation, 3, 0.9, 0.3, layers)[1], 1e-7)
    h = 1e-3
    fourth_order = (8 * (kernel(h) - kernel(-h)) - (kernel(2 * h) - kernel(-2 * h))) / (12 * h)
    np.testing.assert_allclose(kernel.slope, fourth_order, rtol=1e-8)
    np.testing.assert_allclose(kernel.at_zero, kernel(0.0), rtol=1e-13)


def test_tangent_model_without_curvature_is_linear_regression():
    # sigma linear: the kernel is u itself, no remainder; least-norm regression below capacity has bias 1 - n/d
    assert tangent_kernel("linear").tail == pytest.approx(0.0, abs=1e-14)
    risk = tangent_model("linear", 400, 100)
    assert risk.test == pytest.approx(0.75, rel=1e-9)
    relu = tangent_kernel("relu")
    assert (relu.at_zero, relu.slope, relu.at_one) == pytest.approx((0.0, 0.25, 0.5), abs=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 3)), None, "relu", 2), "must not contain the zero vector"),
        ((np.ones((2, 3)), np.ones((2, 4)), "relu", 2), "x2 must have the dimension of x1"),
        ((np.ones(3), None, "relu", 2), "x1 must be a matrix"),
        ((np.ones((2, 3)), None, "relu", 0), "depth must be"),
        ((np.ones((2, 3)), None, "sign(z)", 2), "activation must be continuous"),
        ((np.ones((2, 3)), None, "relu", 2, -1.0), "weight_variance must be positive"),
        ((np.ones((2, 3)), None, "relu", 2, 1.0, 0.0, "middle"), "layers must be one of"),
        ((np.full((2, 3), np.nan), None, "relu", 2), "x1 must not be NaN"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InputError, match=message):
        ntk(*arguments)


def test_zero_vector_is_allowed_with_a_bias():
    nngp, _ = ntk(np.zeros((1, 3)), None, "relu", 2, 1.0, 1.0)
    assert nngp[0, 0] == pytest.approx(1.5)
