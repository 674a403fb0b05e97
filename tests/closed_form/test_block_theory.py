"""Blocks of the mixtures against explicit vectors: unequal classes, oblique means, off-diagonal blocks, soft edges."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import fminbound
from scipy.special import expit, softmax

import limen
from limen import GaussianMixture, OverlapStart, XorMixture, effective
from limen.theory.effective.mixtures.block_spectrum import WeightedInputs, block_spectrum

INF = math.inf
CHANCES = np.array([0.2, 0.3, 0.5])
LABELS = np.array([1.0, 1.0, 0.0, 0.0])
KINDS = (("hessian", effective.hessian_block), ("gradient", effective.gradient_block))


def explicit_mixture():
    """Means and rows of weights in eight dimensions, nothing orthogonal to anything."""
    rng = np.random.default_rng(3)
    return rng.standard_normal((3, 8)) / 2.0, rng.standard_normal((3, 8)) / 2.0


def given(means, rows, sharpness=INF):
    """The problem of these means, and the start at these rows."""
    problem = GaussianMixture(3, sharpness, 0.05, 1.0, probabilities=tuple(CHANCES), mean_gram=means @ means.T)
    return problem, OverlapStart(rows @ means.T, gram=rows @ rows.T)


def explicit_network(width):
    """Rows of a network in eight dimensions, of which mu and nu are the first two, its start and its second layer."""
    rng = np.random.default_rng(5)
    rows, second = rng.standard_normal((width, 8)) / 2.0, rng.standard_normal(width)
    return rows, OverlapStart(rows[:, :2], gram=rows @ rows.T), second


def clouds(dimensions):
    """The four means, one per row."""
    centres = np.zeros((4, dimensions))
    centres[[0, 1, 2, 3], [0, 0, 1, 1]] = 1.0, -1.0, 1.0, -1.0
    return centres


def aligned_with(matrix, row, count):
    """Norm of the projection on the `count` eigenvectors largest in absolute value, over the norm."""
    values, vectors = np.linalg.eigh(matrix)
    leading = vectors[:, np.argsort(-np.abs(values))[:count]]
    return np.linalg.norm(leading.T @ row) / np.linalg.norm(row)


def class_weights(chances, classes, kind, b, c):
    """Second derivative of the loss in the logits b and c, or product of its first derivatives."""
    if kind == "hessian":
        return (chances[:, b] if b == c else 0.0) - chances[:, b] * chances[:, c]
    return (chances[:, b] - (classes == b)) * (chances[:, c] - (classes == c))


@pytest.mark.parametrize("block", [(1, 1), (0, 2), (2, 1)])
@pytest.mark.parametrize(("kind", "find"), KINDS)
def test_sharp_blocks_of_oblique_classes_are_sums_over_the_means(kind, find, block):
    means, rows = explicit_mixture()
    problem, start = given(means, rows)
    weights = CHANCES * class_weights(softmax(means @ rows.T, axis=1), np.arange(3), kind, *block)
    matrix = means.T @ (weights[:, None] * means)
    values = np.linalg.eigvalsh(matrix)
    found = find(problem, 0.0, 4.0, start=start, block=block)
    assert np.allclose(found.outliers, values[values > 1e-9][::-1], rtol=1e-8)
    assert np.allclose(found.lower_outliers, values[values < -1e-9], rtol=1e-8)
    assert found.alignment == pytest.approx(aligned_with(matrix, rows[block[0]], 3), rel=1e-8)


def test_blocks_of_noisy_oblique_classes_are_averages_when_test_data_abound():
    """At d/M near zero outliers are eigenvalues of the mean block on the span of means and weights."""
    means, rows = explicit_mixture()
    problem, start = given(means, 2.0 * rows, sharpness=3.0)
    rng, count = np.random.default_rng(0), 400_000
    classes = rng.choice(3, count, p=CHANCES)
    noise = rng.standard_normal((count // 2, 8)) / math.sqrt(3.0)
    inputs = means[classes] + np.concatenate([noise, -noise])
    chances = softmax(inputs @ (2.0 * rows).T, axis=1)
    weights = class_weights(chances, classes, "hessian", 1, 1)
    values = np.linalg.eigvalsh(inputs.T @ (weights[:, None] * inputs) / count)[::-1]
    found = effective.hessian_block(problem, 0.0, 1e7, start=start, block=(1, 1), points=1 << 13)
    assert found.edge == pytest.approx(weights.mean() / 3.0, rel=5e-3)
    assert len(found.outliers) >= 3 and np.allclose(found.outliers[:3], values[:3], rtol=1e-2)


@pytest.mark.parametrize("block", [(0, 0), (0, 1), (1, 2)])
@pytest.mark.parametrize(("kind", "find"), KINDS)
def test_sharp_blocks_of_the_network_are_sums_over_the_clouds(kind, find, block):
    rows, start, second = explicit_network(3)
    # All three see mu, so that no block vanishes.
    rows[:, 0], rows[:, 1] = np.abs(rows[:, 0]), np.array([0.3, 0.4, -0.2])
    start = OverlapStart(rows[:, :2], gram=rows @ rows.T)
    fields = clouds(8) @ rows.T
    chances = expit(np.maximum(fields, 0.0) @ second)
    output = chances * (1 - chances) if kind == "hessian" else (chances - LABELS) ** 2
    i, j = block
    weights = 0.25 * second[i] * second[j] * output * (fields[:, i] > 0) * (fields[:, j] > 0)
    matrix = clouds(8).T @ (weights[:, None] * clouds(8))
    values = np.linalg.eigvalsh(matrix)
    found = find(XorMixture(3, INF, 0.05, 1.0), 0.0, 4.0, start=start, second_layer=second, block=block)
    assert np.allclose(found.outliers, values[values > 1e-9][::-1], rtol=1e-8)
    assert np.allclose(found.lower_outliers, values[values < -1e-9], rtol=1e-8)
    rank = int((np.abs(values) > 1e-9).sum())
    assert found.alignment == pytest.approx(aligned_with(matrix, rows[i], rank), rel=1e-8)


@pytest.mark.parametrize("kind", ["hessian", "gradient"])
def test_the_second_layer_aligns_with_four_eigenvectors(kind):
    rows, start, second = explicit_network(6)
    active = np.maximum(clouds(8) @ rows.T, 0.0)
    chances = expit(active @ second)
    output = chances * (1 - chances) if kind == "hessian" else (chances - LABELS) ** 2
    matrix = 0.25 * active.T @ (output[:, None] * active)
    problem = XorMixture(6, INF, 0.05, 1.0)
    found = effective.second_layer_block(problem, 0.0, kind, start=start, second_layer=second)
    assert np.allclose(found.matrix, matrix, atol=1e-12)
    assert found.alignment == pytest.approx(aligned_with(matrix, second, 4), rel=1e-8)
    assert 0.3 < found.alignment < 0.999


@pytest.mark.parametrize("kind", ["hessian", "gradient"])
def test_the_second_layer_block_of_one_neuron_is_that_of_quadrature(kind):
    """The field of a single neuron is Gaussian around the means, of variance (its squared length) over sharpness."""
    sharpness, mu, nu, rest, v = 5.0, 0.7, -0.3, 0.6, 1.4
    variance = (mu**2 + nu**2 + rest) / sharpness
    expected = 0.0
    for centre, label in ((mu, 1.0), (-mu, 1.0), (nu, 0.0), (-nu, 0.0)):

        def integrand(u, centre=centre, label=label):
            chance = expit(v * u)
            output = chance * (1 - chance) if kind == "hessian" else (chance - label) ** 2
            return output * u**2 * math.exp(-((u - centre) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)

        expected += 0.25 * quad(integrand, 0.0, 6.0)[0]
    start = OverlapStart(((mu, nu),), gram=((mu**2 + nu**2 + rest,),))
    problem = XorMixture(1, sharpness, 0.05, 1.0)
    found = effective.second_layer_block(problem, 0.0, kind, start=start, second_layer=(v,))
    assert found.matrix[0, 0] == pytest.approx(expected, rel=2e-3) and found.alignment == pytest.approx(1.0)


def test_the_heaviest_thousandth_makes_an_edge_soft():
    """A few weights of ten among ones, constant noise: the edge with and without them is that of explicit laws."""
    rng, ratio, variance = np.random.default_rng(0), 0.25, 0.5
    weights, masses = np.ones(4096), np.full(4096, 1.0 / 4096)
    weights[0], masses[0] = 10.0, 8e-4
    masses[1:] = (1 - masses[0]) / 4095
    inputs = WeightedInputs(weights, math.sqrt(variance) * rng.standard_normal((4096, 2)), masses, variance, np.ones(2))
    heavy, light = 10.0 * variance, variance

    def height(s):
        return -1 / s + masses[0] * heavy / (1 + ratio * heavy * s) + (1 - masses[0]) * light / (1 + ratio * light * s)

    edge = height(fminbound(height, -1 / (ratio * heavy) + 1e-9, -1e-3))
    without = variance * (1 + math.sqrt(ratio)) ** 2
    found = block_spectrum(inputs, ratio, 2)
    assert found.edge == pytest.approx(edge, rel=1e-3) and edge > 1.02 * without
    assert found.edge_uncertainty == pytest.approx(edge - without, rel=1e-2) and found.soft


def test_an_outlier_between_two_bands_is_neither_above_nor_below_the_bulk():
    """Few samples of weights 1 and 30 have two bands; a direction seen by the light ones stands between them."""
    weights, masses = np.array([1.0, 1.0, 30.0, 30.0]), np.full(4, 0.25)
    inputs = WeightedInputs(weights, np.array([[5.0], [-5.0], [0.0], [0.0]]), masses, 1.0, np.ones(1))
    found = block_spectrum(inputs, 3.0, 1)
    assert found.lower_edge < 5.0 and found.edge > 100.0
    assert found.outliers.size == found.lower_outliers.size == 0 and found.alignment == 0.0


def test_test_samples_needed_are_where_the_number_of_outliers_changes():
    problem = GaussianMixture(3, 10.0, 0.05, 1.0)
    overlaps = np.array([[1.2, -0.5, -0.3], [-0.6, 1.0, 0.0], [-0.2, 0.1, 0.8]])
    start = OverlapStart(overlaps, gram=overlaps @ overlaps.T + np.diag([0.5, 0.4, 0.6]))
    for outlier in (1, 2, 3):
        needed = effective.samples_for_outlier(problem, 0.0, outlier, start=start, points=1 << 8)
        counts = [
            len(effective.hessian_block(problem, 0.0, factor * needed, start=start, points=1 << 8).outliers)
            for factor in (0.97, 1.03)
        ]
        assert counts == [outlier - 1, outlier]


def test_ranks_that_have_not_left_the_bulk_lie_at_its_edge():
    problem = GaussianMixture(3, 10.0, 0.05, 1.0)
    zero = OverlapStart(0.0, gram=np.zeros((3, 3)))
    few = effective.block_path(problem, [0.0], 0.08, start=zero, points=1 << 8).dataset
    edge = (1 - 1 / 3) / 3 / 10.0 * (1 + math.sqrt(1 / 0.08)) ** 2
    assert int(few.outliers[0]) == 0 and np.allclose(few.eigenvalue.values, edge, rtol=1e-6)
    _, start, second = explicit_network(3)
    run = effective.block_path(XorMixture(3, INF, 0.05, 1.0), [0.0], 4.0, start=start, second_layer=second).dataset
    assert run.sizes["rank"] == 2


def test_a_pair_of_neurons_is_dead_when_one_of_them_is():
    # All three see mu, so that no block vanishes.
    start, problem = OverlapStart(((0.5, 0.1), (0.4, -0.2), (0.3, 0.2))), XorMixture(3, INF, 0.05, 1.0)
    found = [
        effective.hessian_block(problem, 0.0, 4.0, start=start, second_layer=(1.0, 1e-3, 0.06), block=block)
        for block in ((0, 0), (0, 1), (1, 0), (0, 2))
    ]
    assert [block.dead for block in found] == [False, True, True, False]
    assert all(block.outliers.size for block in found)


def test_overlaps_with_oblique_means_are_those_of_the_start():
    means, rows = explicit_mixture()
    problem, start = given(means, rows, sharpness=3.0)
    rest = rows - rows @ np.linalg.pinv(means) @ means
    begun = problem.model_copy(update={"start": start})
    runs = [limen.predict(begun, [0.0]).dataset]
    runs.append(limen.simulate(begun, [0.0], d=8, seeds=1, simulator="mixture-sgd").dataset.isel(seed=0))
    for run in runs:
        assert np.allclose(run.overlap.values[0], rows @ means.T, atol=1e-10)
        assert np.allclose(run.orthogonal_gram.values[0], rest @ rest.T, atol=1e-10)
