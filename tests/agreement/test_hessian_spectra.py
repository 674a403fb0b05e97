"""Hessian laws against the spectra of finite networks: edges, informative outliers, eigenvectors, whole bulks."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import qmc
from scipy.stats import t as student_t

from limen.problem import InputError
from limen.simulation.spectra.spectrum import Eigenspace
from limen.simulation.thresholds.hessian import alignment, bulk_edge, network_hessian
from limen.theory.thresholds.hessian_law import HessianLaw, hessian_law
from limen.theory.thresholds.hessian_weights import network_weights, neuron_weights
from limen.theory.thresholds.matrix_hessian import MatrixHessianLaw, matrix_hessian_law


def bounded_link(z: np.ndarray) -> np.ndarray:
    return 4.0 * np.tanh(z**2 / 4.0)


@dataclass(frozen=True)
class Setting:
    """An untrained GeLU network of unit orthogonal neurons, square loss, on labels of one hidden direction."""

    delta: float
    second_layer: tuple[float, ...]
    bias: tuple[float, ...]
    neuron: int | None

    @property
    def width(self) -> int:
        return len(self.second_layer)

    def law(self, fields: np.ndarray, hidden: np.ndarray, delta: float) -> HessianLaw | MatrixHessianLaw:
        network = ("gelu", "square", self.second_layer, self.bias, fields, bounded_link(hidden))
        if self.neuron is None:
            return matrix_hessian_law(network_weights(*network), hidden, delta)
        return hessian_law(neuron_weights(*network, self.neuron), hidden, delta)

    def prediction(self, delta: float) -> HessianLaw | MatrixHessianLaw:
        normals = ndtri(qmc.Sobol(self.width + 1, rng=1).random(8192))
        return self.law(normals[:, 1:], normals[:, 0], delta)

    def inputs(self, d: int, seed: int) -> np.ndarray:
        return np.random.default_rng([seed, d]).standard_normal((round(self.delta * d), d))

    def spectrum(self, x: np.ndarray) -> Eigenspace:
        """Hidden direction and neurons are the first unit vectors, which loses nothing."""
        neurons = np.eye(x.shape[1])[1 : self.width + 1]
        labels = bounded_link(x[:, 0])
        hessian = network_hessian(x, labels, neurons, self.second_layer, self.bias, "gelu", "square", self.neuron)
        return hessian.eigenspace()


def agrees(measured: list[float], predicted: float, allowance: float = 0.0) -> bool:
    """Within the 99.8% band of the mean, as the number of draws allows, and the finite-size allowance."""
    error = np.std(measured, ddof=1) / np.sqrt(len(measured))
    return bool(abs(np.mean(measured) - predicted) <= student_t.ppf(0.999, len(measured) - 1) * error + allowance)


def extremes(setting: Setting, d: int, seeds: int, side: int) -> dict[str, list[float]]:
    """Outlier, its alignment with the hidden direction, and bulk edges; `side` is -1 below, 1 above."""
    found: dict[str, list[float]] = {"outlier": [], "alignment": [], "left_edge": [], "right_edge": []}
    known = np.eye(d)[: setting.width + 1]
    for seed in range(seeds):
        values, vectors = setting.spectrum(setting.inputs(d, seed))
        aligned = alignment(vectors, np.eye(d)[:1])
        outermost = -1 if side > 0 else 0
        found["outlier"].append(float(values[outermost]))
        found["alignment"].append(float(aligned[outermost]))
        found["left_edge"].append(bulk_edge(Eigenspace(values, vectors), known))
        found["right_edge"].append(bulk_edge(Eigenspace(values[::-1], vectors[:, ::-1]), known))
    return found


def distance(law: HessianLaw | MatrixHessianLaw, values: np.ndarray, points: int) -> float:
    """Largest difference between the distribution of eigenvalues and the integral of the density."""
    x = np.linspace(law.left_edge, law.right_edge, points)
    density = law.density(x)
    below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(x))])
    counted = np.searchsorted(np.sort(values), x) / len(values)
    return float(np.abs(counted - below / below[-1]).max())


ONE = Setting(12.0, (1.0,), (0.0,), 0)
TWO = Setting(10.0, (1.0, 1.5), (0.0, 0.3), None)
POSITIVE = Setting(12.0, (1.0, -1.0, 2.0), (0.0, 0.3, -0.2), 0)
NEGATIVE = Setting(12.0, (1.0, -1.0, 2.0), (0.0, 0.3, -0.2), 1)


@pytest.mark.parametrize(
    ("setting", "d", "side"),
    [
        pytest.param(ONE, 300, -1, id="one neuron"),
        pytest.param(TWO, 200, -1, id="full matrix of width two"),
        pytest.param(POSITIVE, 300, -1, id="block of a positive neuron of three"),
        pytest.param(NEGATIVE, 300, 1, id="block of a negative neuron of three"),
    ],
)
def test_edges_outlier_and_eigenvector_of_untrained_networks(setting, d, side):
    law, found = setting.prediction(setting.delta), extremes(setting, d, 8, side)
    # Edges fall short of their limit by the Tracy-Widom scale.
    width = law.right_edge - law.left_edge
    assert agrees(found["left_edge"], law.left_edge, width * d ** (-2 / 3))
    assert agrees(found["right_edge"], law.right_edge, width * d ** (-2 / 3))
    assert law.outliers.size == 1
    assert agrees(found["outlier"], law.outliers[0])
    assert agrees(found["alignment"], law.alignment[0])
    # Planted: the curvature of the activation enters with the wrong sign.
    normals = ndtri(qmc.Sobol(setting.width + 1, rng=1).random(8192))
    network = ("gelu", "square", setting.second_layer, setting.bias, normals[:, 1:], bounded_link(normals[:, 0]))
    weights = network_weights(*network)
    straight = network_weights("gelu", "square", setting.second_layer, setting.bias, normals[:, 1:], _outputs(network))
    planted = matrix_hessian_law(2.0 * straight - weights, normals[:, 0], setting.delta)
    if setting.neuron is not None:
        block = (2.0 * straight - weights)[:, setting.neuron, setting.neuron]
        planted = hessian_law(block, normals[:, 0], setting.delta)
    seen = [z for z in planted.outliers if side * z > 0.0]
    assert not any(agrees(found["outlier"], z) for z in seen)
    assert not agrees(found["left_edge"], planted.left_edge, width * d ** (-2 / 3))


def _outputs(network: tuple) -> np.ndarray:
    """The network's own outputs: labels for which the slope of the square loss vanishes."""
    _, _, second_layer, bias, fields, _ = network
    places = fields + np.asarray(bias)
    return places * ndtr(places) @ np.asarray(second_layer) / fields.shape[1]


@pytest.mark.parametrize(
    ("setting", "d", "points"),
    [pytest.param(ONE, 300, 201, id="one neuron"), pytest.param(TWO, 250, 41, id="two neurons")],
)
def test_bulk_follows_the_law_of_its_own_weights(setting, d, points):
    """With the weights of the very sample the law has no sampling error: 10% in the sample size shows."""
    right, wrong = [], []
    for seed in range(2):
        x = setting.inputs(d, seed)
        values = setting.spectrum(x).values
        fields = x[:, 1 : setting.width + 1]
        right.append(distance(setting.law(fields, x[:, 0], setting.delta), values, points))
        wrong.append(distance(setting.law(fields, x[:, 0], 1.1 * setting.delta), values, points))
    assert np.mean(right) < 3.0 / len(values)
    assert np.mean(wrong) > 4.5 / len(values)


def test_no_outlier_below_the_threshold():
    few = Setting(1.0, (1.0,), (0.0,), 0)
    law = few.prediction(1.0)
    assert law.outliers.size == 0
    assert law.kappa > 0.0
    d = 400
    found = extremes(few, d, 5, -1)
    assert np.mean(found["alignment"]) < 0.15
    edge = [few.law(x[:, 1:2], x[:, 0], 1.0).left_edge for x in (few.inputs(d, seed) for seed in range(5))]
    gaps = np.array(found["outlier"]) - edge
    width = law.right_edge - law.left_edge
    assert 0.0 < gaps.mean() < 2.0 * width * d ** (-2 / 3)
    # Planted: the law of twelve times the samples has an outlier that two thirds of the direction lean on.
    assert not agrees(found["alignment"], ONE.prediction(12.0).alignment[0])


def test_matrix_weights_with_hidden_and_other_coordinates():
    """Weights drawn, not derived: they depend on a hard coordinate, on a seen one and on noise."""
    d, delta = 200, 8.0

    def draw(rows: np.ndarray, noise: np.ndarray) -> np.ndarray:
        hard, seen = np.minimum(rows[:, 0] ** 2, 4.0), np.tanh(rows[:, 1])
        weights = np.empty((len(rows), 2, 2))
        weights[:, 0, 0], weights[:, 1, 1] = 0.5 - 0.8 * hard + 0.3 * seen, 0.4 * np.cos(noise) - 0.1 * hard
        weights[:, 0, 1] = weights[:, 1, 0] = 0.4 * seen + 0.3 * hard
        return weights

    normals = ndtri(qmc.Sobol(3, rng=2).random(8192))
    law = matrix_hessian_law(draw(normals[:, :2], normals[:, 2]), normals[:, 0], delta)
    assert law.outliers.size >= 1
    lowest, aligned, first_share = [], [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((round(delta * d), d))
        weights = draw(rows, rng.standard_normal(len(rows)))
        blocks = [[(rows * weights[:, i, j, None]).T @ rows / len(rows) for j in range(2)] for i in range(2)]
        values, vectors = np.linalg.eigh(np.block(blocks))
        lowest.append(values[0])
        aligned.append(alignment(vectors[:, :1], np.eye(d)[:1])[0])
        first_share.append(vectors[0, 0] ** 2 / aligned[-1])
    assert agrees(lowest, law.outliers[0])
    assert agrees(aligned, law.alignment[0])
    assert agrees(first_share, law.directions[0, 0, 0] ** 2, 2.0 / d)
    planted = matrix_hessian_law(draw(normals[:, :2], normals[:, 2]) * [[1, 0], [0, 1]], normals[:, 0], delta)
    assert not agrees(lowest, planted.outliers[0])


@pytest.mark.parametrize("loss", ["square", "huber:1", "pseudo-huber:2"])
def test_automatic_hessian_is_the_weighted_gram_matrix(loss):
    rng = np.random.default_rng(0)
    x, y, theta = rng.standard_normal((60, 7)), rng.standard_normal(60), rng.standard_normal((3, 7))
    a, b = np.array([1.0, -2.0, 0.5]), np.array([0.0, 0.3, -1.0])
    weights = network_weights("tanh", loss, a, b, x @ theta.T, y)
    expected = np.einsum("nij,nk,nl->ikjl", weights, x, x).reshape(21, 21) / 60
    whole = network_hessian(x, y, theta, a, b, "tanh", loss)
    np.testing.assert_allclose(whole.dense(), expected, atol=1e-12)
    block = network_hessian(x, y, theta, a, b, "tanh", loss, neuron=1)
    np.testing.assert_allclose(block.dense(), expected[7:14, 7:14], atol=1e-12)
    values = np.linalg.eigvalsh(expected)
    np.testing.assert_allclose(whole.bottom(3).values, values[:3], atol=1e-10)
    np.testing.assert_allclose(whole.top(3).values, values[::-1][:3], atol=1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.ones(3)}, "labels must be one per row of inputs"),
        ({"first_layer": np.ones((1, 4))}, r"first_layer must have shape \(m, 2\)"),
        ({"neuron": 1}, "neuron must be a whole number from 0 to 0, or None, got 1."),
        ({"bias": np.ones(2)}, "bias must be one number or 1"),
    ],
)
def test_bad_input_to_a_network_hessian(change, message):
    given = {"inputs": np.ones((4, 2)), "labels": np.ones(4), "first_layer": np.ones((1, 2)), "second_layer": 1.0}
    with pytest.raises(InputError, match=message):
        network_hessian(**{**given, "bias": 0.0, "activation": "gelu", "loss": "square", **change})


def test_a_dense_hessian_too_large_and_too_few_eigenvectors_are_refused():
    large = network_hessian(np.ones((2, 3001)), np.ones(2), np.ones((1, 3001)), 1.0, 0.0, "gelu", "square")
    with pytest.raises(InputError, match="at most 3000 rows, got 3001"):
        large.dense()
    with pytest.raises(InputError, match="count must be larger"):
        bulk_edge(Eigenspace(np.ones(1), np.eye(3)[:, :1]), np.eye(3)[:1])
