"""The Hessian of trained networks: edge, outlier, eigenvector and unstable share against the law on the theory's paths.

The neuron is GeLU with square loss on the bounded link ±4 tanh(z²/4); the sign of its second layer goes with the
link's, which changes nothing but the formulas. Training starts without overlap: from a random start it begins to learn
at these sizes, and the lowest eigenvector then leans further on the hidden direction than in the limit.
"""

from functools import lru_cache

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import t as student_t

from limen.experiments.thresholds.hessian_spectrum import HessianSpectrum
from limen.problem import GradientDescent, OverlapStart, TwoLayer, network, target
from limen.simulation.descent.trained_weights import trained_weights
from limen.simulation.thresholds.hessian import alignment, bulk_edge, network_hessian
from limen.theory.thresholds.along_training import hessian, neuron_samples, scrambles_of
from limen.theory.thresholds.hessian_law import HessianLaw, hessian_law
from limen.theory.thresholds.hessian_weights import neuron_weights

pytestmark = pytest.mark.slow


def problem(delta: float = 12.0, sign: int = 1) -> TwoLayer:
    link = target("4*tanh(z**2/4)" if sign > 0 else "-4*tanh(z**2/4)")
    layers, start = network(1, "gelu", second_layer=float(sign)), OverlapStart(overlap=0.0)
    return TwoLayer(link, layers, GradientDescent(0.5), samples_per_dim=delta, start=start)


@lru_cache(maxsize=16)
def law(step: int, delta: float = 12.0, sign: int = 1) -> HessianLaw:
    found = hessian(problem(delta, sign), step, paths=8192)
    assert isinstance(found, HessianLaw)
    return found


@lru_cache(maxsize=8)
def measured(step: int, delta: float, sign: int, d: int, seeds: int) -> dict[str, np.ndarray]:
    rows = []
    for seed in range(seeds):
        trained = trained_weights(problem(delta, sign), [step], d, seed)
        layers = (trained.first_layer[0], trained.second_layer[0], trained.bias)
        space = network_hessian(trained.inputs, trained.labels, *layers, "gelu", "square").eigenspace()
        along = alignment(space.vectors, trained.directions)
        seen = np.concatenate([trained.directions, trained.first_layer[0]])
        rows.append([space.values[0], along[0], along[space.values < 0.0].sum(), bulk_edge(space, seen)])
    return dict(zip(("outlier", "alignment", "share", "edge"), np.array(rows).T, strict=True))


def agrees(values: np.ndarray, predicted: float, allowance: float = 0.0) -> bool:
    """Within the 99.8% band of the mean and the finite-size allowance."""
    error = values.std(ddof=1) / np.sqrt(values.size)
    return bool(abs(values.mean() - predicted) <= student_t.ppf(0.999, values.size - 1) * error + allowance)


def check(predicted: HessianLaw, found: dict[str, np.ndarray], d: int) -> None:
    assert predicted.outliers.size == 1
    assert agrees(found["outlier"], predicted.outliers[0])
    assert agrees(found["alignment"], predicted.alignment[0])
    assert agrees(found["share"], predicted.unstable_share[0])
    width = predicted.right_edge - predicted.left_edge
    assert agrees(found["edge"], predicted.left_edge, width * d ** (-2 / 3))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_trained_network_has_the_hessian_of_its_step(sign):
    d, found = 300, measured(4, 12.0, sign, 300, 10)
    check(law(4, 12.0, sign), found, d)
    # Planted: weights of the start, and of many steps later.
    for wrong in (law(0, 12.0, sign), law(12, 12.0, sign)):
        assert not agrees(found["outlier"], wrong.outliers[0])
        assert not agrees(found["alignment"], wrong.alignment[0])


def test_weights_without_the_sign_of_the_second_layer_are_caught():
    found = measured(4, 12.0, -1, 300, 10)
    negative = problem(sign=-1)
    paths = scrambles_of(negative, 4, 8192, 2, 0)
    weights, coordinates = neuron_samples(negative, paths, 4, 0)
    fields = np.concatenate([one.found.fields[4] for one in paths])
    # The network's own outputs as labels leave only the part without the slope of the loss.
    outputs = -fields[:, 0] * ndtr(fields[:, 0])
    straight = neuron_weights("gelu", "square", -1.0, 0.0, fields, outputs)
    planted = hessian_law(2.0 * straight - weights, coordinates, 12.0)
    assert not agrees(found["share"], planted.unstable_share[0])
    assert not any(agrees(found["outlier"], outlier) for outlier in planted.outliers if outlier < 0.0)


def test_few_samples_lose_the_outlier():
    few = law(12, 5.0)
    assert few.outliers.size == 0
    assert few.kappa > 0.0
    found = measured(12, 5.0, 1, 300, 8)
    assert found["alignment"].mean() < 0.15
    assert agrees(found["share"], few.unstable_share[0])
    # Planted: the same step with more samples still has its outlier.
    assert not agrees(found["alignment"], law(12).alignment[0])
    assert not agrees(found["share"], law(12).unstable_share[0])


@pytest.mark.slow
@pytest.mark.parametrize("step", [4, 12])
def test_hessians_of_large_trained_networks(step):
    d = 1000
    found = measured(step, 12.0, 1, d, 6)
    check(law(step), found, d)
    wrong = law(0 if step == 4 else 4)
    assert not agrees(found["outlier"], wrong.outliers[0])
    assert not agrees(found["share"], wrong.unstable_share[0])


@pytest.mark.parametrize("delta", [2.0, 10.0])
def test_share_and_resolvent_of_drawn_weights(delta):
    """Untrained weights, dense matrices of 400 rows; planted: a hard coordinate that the weights do not depend on."""
    d, rng = 400, np.random.default_rng(7)
    shares, smooth = [], []
    for _ in range(6):
        x = rng.standard_normal((round(delta * d), d))
        weights = 1.0 - np.minimum(x[:, 0] ** 2, 3.0)
        values, vectors = np.linalg.eigh((x * weights[:, None]).T @ x / len(x))
        shares.append((vectors[0, values < 0.0] ** 2).sum())
        smooth.append((vectors[0] ** 2 * values / (values**2 + 0.04)).sum())
    sample = rng.standard_normal(40_000)
    law = hessian_law(1.0 - np.minimum(sample**2, 3.0), sample, delta)
    planted = hessian_law(1.0 - np.minimum(sample**2, 3.0), rng.standard_normal(40_000), delta)
    for found, right, wrong in (
        (shares, law.unstable_share[0], planted.unstable_share[0]),
        (smooth, law.hard_resolvent(0.2j)[0, 0].real, planted.hard_resolvent(0.2j)[0, 0].real),
    ):
        band = 4.0 * np.std(found, ddof=1) / np.sqrt(len(found))
        assert abs(np.mean(found) - right) < band
        assert abs(np.mean(found) - wrong) > 2.0 * band


def test_products_with_vectors_see_what_all_eigenvalues_show(monkeypatch):
    """Beyond dimension 2000 `hessian-spectrum` uses Lanczos; on the same training it finds the same."""
    given = HessianSpectrum(d=400, times=(0, 4), samples_per_dim=(6,))
    dense = given.train(0).dataset
    monkeypatch.setattr("limen.experiments.thresholds.hessian_spectrum.LARGEST_DENSE", 100)
    found = given.train(0).dataset
    np.testing.assert_allclose(found.outlier.values, dense.outlier.values, rtol=1e-6)
    np.testing.assert_allclose(found.alignment.values, dense.alignment.values, atol=1e-5)
    # Gauss rules smear by the distance of their nodes, and by the four probes.
    np.testing.assert_allclose(found.unstable_share.values, dense.unstable_share.values, atol=0.05)
    spread = np.ptp(dense.eigenvalue.values)
    np.testing.assert_allclose(found.eigenvalue.values, dense.eigenvalue.values, atol=0.03 * spread)
