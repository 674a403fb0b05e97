"""Hessian laws against closed forms: constant and two-valued weights, large samples, blocks, symmetries, bad input."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from limen.experiments.thresholds.hessian_spectrum import CLEAR
from limen.problem import InputError
from limen.problem.activations import activation
from limen.problem.losses import Loss
from limen.theory.thresholds.hessian_law import hessian_law, zero_level
from limen.theory.thresholds.hessian_weights import network_weights, neuron_weights
from limen.theory.thresholds.matrix_hessian import matrix_hessian_law, matrix_zero_level

SIGNS = np.tile([1.0, -1.0], 8)


def gaussian_grid(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two independent standard normals on a tensor grid of midpoint quantiles."""
    points = ndtri((np.arange(count) + 0.5) / count)
    first, second = np.meshgrid(points, points, indexing="ij")
    return first.ravel(), second.ravel()


def sobol_pair(count: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = ndtri(qmc.Sobol(2, rng=1).random(count)).T
    return first, second


def two_valued(share: float, low: float, high_square: float, count: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """G = 1 with U^2 = `high_square` in a `share` of the samples, else G = `low` with E[U^2] = 1 overall."""
    ups = round(share * count)
    weights = np.where(np.arange(count) < ups, 1.0, low)
    squares = np.where(weights == 1.0, high_square, (1.0 - share * high_square) / (1.0 - share))
    return weights, np.sqrt(squares)


def rational_map(weights: np.ndarray, squares: np.ndarray, delta: float, alpha: complex) -> tuple[complex, complex]:
    """z(alpha) and Psi(alpha), straight from their definition."""
    kernel = delta * weights / (delta + weights * alpha)
    z = -1.0 / alpha + kernel.mean()
    return z, (kernel * squares).mean() - z


def real_roots(values: np.ndarray) -> np.ndarray:
    return np.sort(values[np.abs(values.imag) < 1e-9].real)


def stationary_points(share: float, low: float, delta: float) -> np.ndarray:
    """Real alpha with z'(alpha) = 0 for the two-valued law, from the numerator's polynomial."""
    up, down = np.poly1d([1.0, delta]), np.poly1d([low, delta])
    alpha = np.poly1d([1.0, 0.0])
    return real_roots((up**2 * down**2 - alpha**2 * delta * (share * down**2 + (1.0 - share) * low**2 * up**2)).roots)


@pytest.mark.parametrize("delta", [1.5, 4.0, 30.0])
def test_constant_weights_give_marchenko_pastur_without_outliers(delta):
    law = hessian_law(np.ones(16), SIGNS, delta)
    assert law.left_edge == pytest.approx((1.0 - delta**-0.5) ** 2, abs=1e-12)
    assert law.right_edge == pytest.approx((1.0 + delta**-0.5) ** 2, abs=1e-12)
    assert law.outliers.size == law.alignment.size == law.negative_outliers == 0
    # z = 0 at alpha = delta / (delta - 1), where Psi = 1 / alpha.
    assert law.kappa == pytest.approx((delta - 1.0) / delta, rel=1e-10)
    x = np.linspace(law.left_edge, law.right_edge, 9)[1:-1]
    exact = delta * np.sqrt((law.right_edge - x) * (x - law.left_edge)) / (2.0 * np.pi * x)
    np.testing.assert_allclose(law.density(x), exact, atol=1e-8)


def test_fewer_samples_than_dimensions_leave_zeros_at_the_edge():
    law = hessian_law(np.ones(16), SIGNS, 0.5)
    assert law.left_edge == law.kappa == 0.0
    assert law.negative_outliers == 0
    matrix = matrix_hessian_law(np.ones((16, 1, 1)), SIGNS, 0.5)
    assert matrix.left_edge == matrix.kappa == 0.0
    assert matrix.right_edge == pytest.approx(law.right_edge, rel=1e-12)


@pytest.mark.parametrize(
    ("share", "low", "delta"), [(0.5, -1.0, 6.0), (0.8, -3.0, 2.0), (0.9, 0.2, 5.0), (0.3, -0.5, 0.6)]
)
def test_two_valued_weights_have_the_edges_of_their_polynomial(share, low, delta):
    weights, coordinates = two_valued(share, low, 1.0)
    law = hessian_law(weights, coordinates, delta)
    places = np.array(
        [rational_map(weights, coordinates**2, delta, a)[0] for a in stationary_points(share, low, delta)]
    )
    assert law.left_edge == pytest.approx(places.min(), abs=1e-9)
    assert law.right_edge == pytest.approx(places.max(), abs=1e-9)


@pytest.mark.parametrize(
    ("share", "low", "square", "delta"), [(0.5, -1.0, 0.2, 8.0), (0.7, -2.0, 0.1, 20.0), (0.6, -1.0, 1.5, 30.0)]
)
def test_two_valued_outliers_solve_their_polynomial(share, low, square, delta):
    weights, coordinates = two_valued(share, low, square)
    law = hessian_law(weights, coordinates, delta)
    other = coordinates[-1] ** 2
    up, down, alpha = np.poly1d([1.0, delta]), np.poly1d([low, delta]), np.poly1d([1.0, 0.0])
    pull = delta * (share * (square - 1.0) * down + (1.0 - share) * low * (other - 1.0) * up)
    edges = stationary_points(share, low, delta)
    roots = [a for a in real_roots((up * down + alpha * pull).roots) if edges.min() < a < edges.max()]
    # Between the two outermost stationary points, alpha is a resolvent outside the bulk.
    expected = sorted((rational_map(weights, coordinates**2, delta, a)[0], a) for a in roots)
    assert len(expected) >= 1
    np.testing.assert_allclose(law.outliers, [z for z, _ in expected], atol=1e-9)
    for (_, a), aligned in zip(expected, law.alignment, strict=True):
        (z1, psi1), (z0, psi0) = (rational_map(weights, coordinates**2, delta, a + h) for h in (1e-6, -1e-6))
        assert aligned == pytest.approx(-(z1 - z0) / (psi1 - psi0), abs=1e-6)


def test_many_samples_give_the_population_hessian():
    v, u = gaussian_grid(40)
    weights = np.tanh(v) + 0.5 * np.cos(2.0 * u)
    second = float(np.mean(weights**2))
    for delta in (1e4, 1e8):
        law = hessian_law(weights, u, delta)
        assert law.left_edge == pytest.approx(weights.mean() - 2.0 * (second / delta) ** 0.5, abs=4.0 / delta)
        assert law.right_edge == pytest.approx(weights.mean() + 2.0 * (second / delta) ** 0.5, abs=4.0 / delta)
        assert law.outliers == pytest.approx([np.mean(weights * u**2)], abs=40.0 / delta)
        assert law.alignment == pytest.approx([1.0], abs=40.0 / delta)


def test_time_zero_of_phase_retrieval_with_bounded_labels():
    v, u = sobol_pair(16384)
    weights = neuron_weights("gelu", "square", 1.0, 0.0, v, 4.0 * np.tanh(u**2 / 4.0))
    law = hessian_law(weights, u, 12.0)
    assert law.left_edge == pytest.approx(-0.421, abs=0.002)
    assert law.outliers == pytest.approx([-0.629], abs=0.004)
    assert law.alignment == pytest.approx([0.670], abs=0.004)
    assert law.negative_outliers == 1
    assert hessian_law(weights, u, 1.0).outliers.size == 0


def test_trimmed_threshold_at_time_zero_of_phase_retrieval():
    """Square labels: the untrimmed threshold follows the smallest sample, the trimmed one is 3.3."""
    v, u = sobol_pair(2**17)
    weights = neuron_weights("gelu", "square", 1.0, 0.0, v, u**2)
    assert hessian_law(weights, u, 3.1, trim=1e-3).kappa > 0.0 > hessian_law(weights, u, 3.5, trim=1e-3).kappa
    law = hessian_law(weights, u, 3.5, trim=1e-3)
    assert law.trimmed == pytest.approx(1e-3, abs=1e-4)
    assert law.minimum_weight == weights.min() < law.weights.min()


def test_trimming_stops_when_the_edge_reaches_the_level():
    weights = np.concatenate([np.ones(995), np.full(5, -50.0)])
    coordinates = np.tile([1.0, -1.0], 500)
    assert hessian_law(weights, coordinates, 20.0, trim=0.003).trimmed == 0.003
    stopped = hessian_law(weights, coordinates, 20.0, trim=0.02)
    assert stopped.trimmed == 0.005
    assert stopped.left_edge > 0.0
    assert hessian_law(np.ones(100), coordinates[:100], 20.0, trim=0.02).trimmed == 0.0
    matrix = matrix_hessian_law(weights[:, None, None] * np.eye(2), coordinates, 20.0, trim=0.02)
    assert matrix.trimmed == 0.005


def test_kappa_is_negative_exactly_when_an_outlier_lies_below_bulk_and_level():
    v, u = gaussian_grid(24)
    seen = set()
    for shift in (-0.2, 0.3, 1.0):
        weights = 0.5 * np.tanh(v) + shift - 0.4 * np.minimum(u**2, 4.0)
        for delta in (0.7, 2.0, 8.0, 60.0):
            for level in (0.0, -0.4):
                laws = (
                    hessian_law(weights, u, delta, level=level),
                    matrix_hessian_law(weights[:, None, None], u, delta, level=level),
                )
                for law in laws:
                    below = int((law.outliers < min(law.left_edge, level)).sum())
                    assert law.negative_outliers == below
                    assert (law.kappa < 0.0) == (below > 0)
                    seen.add((below, law.left_edge > level))
    assert {(0, True), (0, False), (1, True), (1, False)} <= seen


def test_each_hard_direction_has_its_own_outlier():
    v, u = gaussian_grid(40)
    weights = 0.3 - 0.4 * np.minimum(u**2, 4.0) - 0.2 * np.minimum(v**2, 4.0)
    law = hessian_law(weights, np.stack([u, v], axis=1), 200.0)
    assert law.negative_outliers == 2
    np.testing.assert_allclose(np.abs(law.directions[:2]), np.eye(2), atol=1e-6)
    alone = hessian_law(weights, v, 200.0)
    assert law.outliers[1] == pytest.approx(alone.outliers[0], abs=1e-10)
    assert law.alignment[1] == pytest.approx(alone.alignment[0], abs=1e-10)
    empty = hessian_law(weights, np.empty((weights.size, 0)), 200.0)
    assert empty.outliers.size == 0
    assert empty.kappa == np.inf


def test_scaling_the_weights_scales_the_spectrum():
    v, u = gaussian_grid(24)
    weights = np.tanh(v) - np.exp(-(u**2))
    law, scaled = hessian_law(weights, u, 5.0), hessian_law(3.0 * weights, u, 5.0)
    assert scaled.left_edge == pytest.approx(3.0 * law.left_edge, rel=1e-12)
    assert scaled.kappa == pytest.approx(3.0 * law.kappa, rel=1e-10)
    np.testing.assert_allclose(scaled.outliers, 3.0 * law.outliers, rtol=1e-10)
    np.testing.assert_allclose(scaled.alignment, law.alignment, rtol=1e-9)
    mirrored = hessian_law(-weights, u, 5.0)
    np.testing.assert_allclose(mirrored.outliers, -law.outliers[::-1], atol=1e-12)


@pytest.mark.parametrize("level", [0.0, -0.3])
def test_zero_level_solves_the_cubic_of_two_valued_weights(level):
    share, low, delta, epsilon = 0.6, -1.5, 7.0, 0.02
    weights, coordinates = two_valued(share, low, 0.3)
    z = level + 1j * epsilon
    up, down, alpha = np.poly1d([1.0, delta]), np.poly1d([low, delta]), np.poly1d([1.0, 0.0])
    cubic = (1.0 + alpha * z) * up * down - alpha * delta * (share * down + (1.0 - share) * low * up)
    (root,) = [a for a in cubic.roots if a.imag > 1e-6]
    _, psi = rational_map(weights, coordinates**2, delta, root)
    assert zero_level(weights, coordinates, delta, epsilon, level) == pytest.approx(psi.real, abs=1e-9)
    matrix = matrix_zero_level(weights[:, None, None], coordinates, delta, epsilon, level)
    assert matrix == pytest.approx(psi.real, abs=1e-9)


@pytest.mark.parametrize("delta", [0.6, 3.0, 15.0])
def test_one_by_one_matrices_are_the_scalar_law(delta):
    v, u = gaussian_grid(40)
    weights = np.tanh(v) - 1.2 * np.exp(-(u**2)) + 0.2
    scalar, matrix = hessian_law(weights, u, delta), matrix_hessian_law(weights[:, None, None], u, delta)
    for name in ("left_edge", "right_edge", "kappa", "minimum_weight", "negative_outliers"):
        assert getattr(matrix, name) == pytest.approx(getattr(scalar, name), abs=1e-9)
    np.testing.assert_allclose(matrix.outliers, scalar.outliers, atol=1e-9)
    np.testing.assert_allclose(matrix.alignment, scalar.alignment, atol=1e-9)
    x = np.linspace(scalar.left_edge, scalar.right_edge, 8)[[1, 2, 3, 6]]
    np.testing.assert_allclose(matrix.density(x), scalar.density(x), atol=1e-5)
    assert matrix_zero_level(weights[:, None, None], u, delta) == pytest.approx(zero_level(weights, u, delta), abs=1e-9)


def test_block_diagonal_weights_are_independent_scalar_laws():
    v, u = gaussian_grid(32)
    limited = np.minimum(u**2, 4.0)
    first, second = 0.5 * np.tanh(v) - 0.6 * limited, 0.5 * np.cos(v) + 0.6 * limited
    parts = [hessian_law(first, u, 9.0), hessian_law(second, u, 9.0)]
    weights = np.zeros((u.size, 2, 2))
    weights[:, 0, 0], weights[:, 1, 1] = first, second
    rotation = np.array([[0.8, -0.6], [0.6, 0.8]])
    for frame in (np.eye(2), rotation):
        law = matrix_hessian_law(frame @ weights @ frame.T, u, 9.0)
        assert law.left_edge == pytest.approx(min(part.left_edge for part in parts), abs=1e-8)
        assert law.right_edge == pytest.approx(max(part.right_edge for part in parts), abs=1e-8)
        found = sorted((z, c) for part in parts for z, c in zip(part.outliers, part.alignment, strict=True))
        outside = [(z, c) for z, c in found if not law.left_edge <= z <= law.right_edge]
        assert len(outside) >= 2
        np.testing.assert_allclose(law.outliers, [z for z, _ in outside], atol=1e-8)
        np.testing.assert_allclose(law.alignment, [c for _, c in outside], atol=1e-7)
        np.testing.assert_allclose(np.abs(law.directions[0, :, 0]), np.abs(frame[:, 0]), atol=1e-6)
    x = np.array([-0.3, 0.1, 0.7])
    np.testing.assert_allclose(law.density(x), 0.5 * (parts[0].density(x) + parts[1].density(x)), atol=1e-5)


def test_many_samples_give_the_population_matrix():
    v, u = gaussian_grid(32)
    weights = network_weights(
        "tanh", "square", [1.0, -2.0], [0.1, 0.4], np.stack([v, 0.6 * v + 0.3], axis=1), np.cos(u)
    )
    law = matrix_hessian_law(weights, u, 1e9)
    bulk = np.linalg.eigvalsh(weights.mean(axis=0))
    assert [law.left_edge, law.right_edge] == pytest.approx([bulk[0], bulk[-1]], abs=1e-3)
    expected = np.linalg.eigvalsh((weights * u[:, None, None] ** 2).mean(axis=0))
    outside = expected[(expected < law.left_edge) | (expected > law.right_edge)]
    assert outside.size >= 1
    np.testing.assert_allclose(law.outliers, outside, atol=1e-6)
    np.testing.assert_allclose(law.alignment, 1.0, atol=1e-5)


def test_matrices_of_rank_one_leave_zeros_at_the_edge():
    """A linear network's Hessian has rank at most n: below m samples per dimension it has zeros."""
    v, u = gaussian_grid(16)
    vectors = np.stack([np.cos(v), np.sin(v)], axis=1)
    law = matrix_hessian_law(vectors[:, :, None] * vectors[:, None, :], u, 1.5)
    assert law.left_edge == 0.0
    assert law.kappa == pytest.approx(0.0, abs=1e-9)
    assert matrix_hessian_law(vectors[:, :, None] * vectors[:, None, :], u, 4.0).left_edge > 0.0


def test_weights_of_a_quadratic_neuron():
    v, y = np.array([0.3, -1.2, 2.0]), np.array([0.5, 1.0, -2.0])
    np.testing.assert_allclose(neuron_weights("square", "square", 1.0, 0.0, v, y), 6.0 * v**2 - 2.0 * y, rtol=1e-12)


def test_weights_of_gelu_by_hand():
    v, y = np.array([0.3, -1.2, 2.0]), np.array([0.5, 1.0, -2.0])
    bell = np.exp(-(v**2) / 2.0) / np.sqrt(2.0 * np.pi)
    slope, bend = ndtr(v) + v * bell, bell * (2.0 - v**2)
    expected = 4.0 * slope**2 - 2.0 * (-2.0 * v * ndtr(v) - y) * bend
    np.testing.assert_allclose(neuron_weights("gelu", "square", -2.0, -1.0, v + 1.0, y), expected, rtol=1e-10)


@pytest.mark.parametrize(
    "loss", ["square", "huber:0.7", "pseudo-huber:1.3", "logistic", "exponential", "squared-hinge"]
)
def test_matrix_weights_are_second_differences_of_the_loss(loss):
    import jax

    rng = np.random.default_rng(3)
    fields, labels = rng.standard_normal((40, 3)), np.sign(rng.standard_normal(40))
    a, b = np.array([1.0, -0.7, 2.0]), np.array([0.1, 0.0, -0.4])
    weights = network_weights("gelu", loss, a, b, fields, labels)
    sigma, ell = activation("gelu").function, Loss(name=loss).function

    def value(v: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(ell(labels, np.asarray(sigma(v + b)) @ a / 3.0))

    h = 1e-4
    for i in range(3):
        for j in range(3):
            along, across = h * np.eye(3)[i], h * np.eye(3)[j]
            corners = value(fields + along + across) - value(fields + along - across)
            corners -= value(fields - along + across) - value(fields - along - across)
            np.testing.assert_allclose(weights[:, i, j], 3.0 * corners / (4.0 * h * h), atol=2e-6)
        np.testing.assert_allclose(neuron_weights("gelu", loss, a, b, fields, labels, i), weights[:, i, i], atol=1e-14)


def test_curvature_of_huber_is_one_at_the_bottom_and_zero_in_the_tails():
    curvature = Loss(name="huber:1").curvature(0.0, np.array([-3.0, -0.5, 0.0, 0.5, 3.0]))
    np.testing.assert_array_equal(np.asarray(curvature), [0.0, 1.0, 1.0, 1.0, 0.0])


def test_a_kink_in_the_slope_is_no_kink():
    """The square of relu has a second derivative that jumps, which is enough."""
    weights = neuron_weights("relu(z)**2", "square", 1.0, 0.0, np.array([-1.0, 2.0]), np.array([1.0, 1.0]))
    np.testing.assert_allclose(weights, [0.0, 16.0 + 2.0 * 3.0], rtol=1e-12)


ONES, PAIR = np.ones(4), np.ones((4, 2, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hessian_law(ONES, ONES, -2.0), "samples_per_dim must be positive and finite, got -2.0."),
        (lambda: hessian_law(np.zeros(4), ONES, 2.0), "weights must contain a non-zero value"),
        (lambda: hessian_law(PAIR, ONES, 2.0), r"weights must be finite with shape \(N,\)"),
        (lambda: hessian_law(ONES, np.ones(3), 2.0), r"hard_coordinates must be finite with shape \(4, r\)"),
        (lambda: hessian_law(ONES, ONES, 2.0, trim=1.0), "trim must be at least 0 and less than 1, got 1.0."),
        (lambda: hessian_law(ONES, ONES, 2.0, level=np.nan), "level must be a finite number, got nan."),
        (lambda: zero_level(ONES, ONES, 2.0, epsilon=0.0), "epsilon must be positive and finite, got 0.0."),
        (lambda: matrix_hessian_law(ONES, ONES, 2.0), r"weights must be finite with shape \(N, m, m\)"),
        (lambda: matrix_hessian_law(PAIR * [[1.0, 2.0], [0.0, 1.0]], ONES, 2.0), "weights must be symmetric"),
        (lambda: matrix_hessian_law(0.0 * PAIR, ONES, 2.0), "weights must contain a non-zero value"),
        (lambda: neuron_weights("relu", "square", 1.0, 0.0, ONES, ONES), "activation must have a second derivative"),
        (lambda: neuron_weights("abs(z)", "square", 1.0, 0.0, ONES, ONES), "kink at 0: use a smooth one"),
        (
            lambda: neuron_weights("gelu", "square", 1.0, 0.0, ONES, ONES, 1),
            "neuron must be a whole number from 0 to 0",
        ),
        (lambda: neuron_weights("gelu", "square", [1.0, 2.0], 0.0, ONES, ONES), "second_layer must be one number or 1"),
        (lambda: network_weights("gelu", "square", 1.0, 0.0, np.ones((4, 2)), np.ones(3)), "labels must be finite"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_where_an_outlier_is_clear_of_the_bulk_at_finite_dimension():
    r"""The rule of `hessian-spectrum`, $c_*^2>2.5\,d^{-1/3}$, on a spiked covariance in plain NumPy: there alignments
    are those of the limit, $\frac{1-\gamma/s^2}{1+\gamma/s}$ for a spike $1+s$, to 4% and three standard errors; at
    $d^{-1/3}$ it is too large by more than a tenth less three."""
    gamma, d, count, generator = 0.25, 60, 1000, np.random.default_rng(0)

    def aligned(s):
        return (1 - gamma / s**2) / (1 + gamma / s)

    for times in (CLEAR, 1.0):
        wanted = times * d ** (-1 / 3)
        spike = brentq(lambda s, wanted=wanted: aligned(s) - wanted, gamma**0.5, 50.0)
        found = []
        for _ in range(count):
            x = generator.normal(size=(d, round(d / gamma)))
            x[0] *= (1 + spike) ** 0.5
            found.append(np.linalg.eigh(x @ x.T)[1][0, -1] ** 2)
        excess, error = np.mean(found) / wanted - 1.0, np.std(found) / count**0.5 / wanted
        if times == CLEAR:
            assert abs(excess) < 0.04 + 3 * error < 0.08
        else:
            assert excess > 0.1 - 3 * error > 0.02
