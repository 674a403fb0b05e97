"""Handwritten digits: networks that fit anything, spectra of their Hessians, and theory on a real spectrum."""

import sys

import numpy as np
import pytest

from limen.experiments.effective.hessian_digits import HessianDigits, infinite_width_kernel
from limen.experiments.kernel.digits_population import digits_classes, digits_risk
from limen.experiments.kernel.random_labels import RandomLabels
from limen.problem.spec import InputError
from limen.result import merge
from limen.simulation.effective.classifier_hessian import class_mean_eigenvalues, dense_hessian, hessian_operator
from limen.simulation.kernel.classifier import initial_weights, train_classifier
from limen.simulation.kernel.digits import CLASSES, corrupted, corruption_noise, load_digits, one_hot, split_digits
from limen.simulation.kernel.digits_regression import relu_kernel, simulate_digits_features
from limen.simulation.spectra.spectrum import lanczos, top_eigenspace
from limen.theory.kernel import random_features_spectrum
from limen.theory.kernel.finite_population import finite_population_risk

pytestmark = pytest.mark.slow

SAMPLES = 150


def test_the_data_are_what_they_claim():
    digits = load_digits()
    assert digits.inputs.shape == (1797, 64)
    np.testing.assert_allclose(np.linalg.norm(digits.inputs, axis=1), 8.0)
    assert set(digits.labels.tolist()) == set(range(CLASSES))
    split = split_digits(3, SAMPLES)
    assert np.array_equal(np.sort(np.concatenate([split.train, split.test])), np.arange(1797))
    assert np.array_equal(split.train_labels, digits.labels[split.train])
    assert np.array_equal(corrupted(split, 0.0, 3).train_labels, split.train_labels)


def test_corrupted_labels_have_the_stated_mean_and_variance():
    split, corruption = split_digits(0, 1500), 0.3
    truth = one_hot(split.train_labels)
    drawn = np.stack([one_hot(corrupted(split, corruption, seed).train_labels) for seed in range(40)])
    signal = np.mean(np.sum(drawn * truth, axis=2)) / np.mean(np.sum(truth**2, axis=1))
    variance = np.mean(np.sum((drawn - (1 - corruption) * truth) ** 2, axis=2))
    assert signal == pytest.approx(1 - corruption, abs=0.01)
    assert variance == pytest.approx(corruption_noise(corruption), abs=0.01)


def test_without_scikit_learn_one_sentence_says_what_to_install(monkeypatch):
    load_digits.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=r'^the digits come with scikit-learn, .*pip install "limen\[data\]"\.$'):
        load_digits()


@pytest.mark.parametrize("loss", ["logistic", "square"])
def test_a_network_fits_random_labels(loss):
    digits, split = load_digits(), corrupted(split_digits(0, SAMPLES), 1.0, 0)
    trained = train_classifier(
        initial_weights(0, 64, 64, 2, CLASSES, output_scale=0.1), digits.inputs[split.train], split.train_labels, loss,
        rate=0.4, steps=2000, goal=0.05,
    )  # fmt: skip
    assert trained.error == 0.0
    assert trained.error_on(digits.inputs[split.test], digits.labels[split.test]) > 0.8


def test_small_batches_learn_too():
    digits, split = load_digits(), split_digits(0, SAMPLES)
    start = initial_weights(0, 64, 64, 2, CLASSES, output_scale=0.1)
    trained = train_classifier(
        start, digits.inputs[split.train], split.train_labels, "logistic", rate=0.1, steps=400, batch=16
    )
    assert trained.error == 0.0
    assert trained.error_on(digits.inputs[split.test], digits.labels[split.test]) < 0.25


def test_a_rate_that_diverges_is_refused():
    digits, split = load_digits(), split_digits(0, SAMPLES)
    with pytest.raises(InputError, match=r"^rate is too large for this network, got 100: .*\.$"):
        train_classifier(
            initial_weights(0, 64, 16, 2, CLASSES), digits.inputs[split.train], split.train_labels, "square", rate=100.0
        )


def test_lanczos_finds_the_spectrum_of_the_dense_hessian():
    digits, split = load_digits(), split_digits(0, 40)
    images, labels = digits.inputs[split.train], split.train_labels
    for loss in ("logistic", "square"):
        weights = initial_weights(1, 64, 4, 3, CLASSES)
        matrix = dense_hessian(weights, images, labels, loss)
        exact = np.linalg.eigvalsh(matrix)[::-1]
        product = hessian_operator(weights, images, labels, loss)
        np.testing.assert_allclose(top_eigenspace(product, len(matrix), 12).values, exact[:12], rtol=1e-8)
        single = hessian_operator(weights, images, labels, loss, "float32")
        np.testing.assert_allclose(top_eigenspace(single, len(matrix), 3).values, exact[:3], rtol=1e-4)
        spectrum = lanczos(product, len(matrix), 30, 8)
        mean, error = (part[1] for part in spectrum.moments(2))
        assert abs(mean - np.mean(exact**2)) < 4 * error


def test_class_means_see_the_gauss_newton_matrix_of_one_image_per_class():
    digits = load_digits()
    chosen = np.array([int(np.flatnonzero(digits.labels == digit)[0]) for digit in range(CLASSES)])
    images, labels = digits.inputs[chosen], digits.labels[chosen]
    weights = initial_weights(0, 64, 5, 2, CLASSES, dtype=np.float64)
    # With one image per class the means are the gradients themselves, and nothing is left out. By hand:
    first, second = weights
    fields = np.sqrt(2 / 64) * images @ first
    hidden, active = np.maximum(fields, 0), (fields > 0) * np.sqrt(2 / 64) * np.sqrt(2 / 5)
    outer = np.einsum("ik,jk->ij", hidden, hidden) * 2 / 5
    inner = np.einsum("ik,jk,ka,kb->iajb", active, active, second, second) * (images @ images.T)[:, None, :, None]
    gram = (inner + np.einsum("ij,ab->iajb", outer, np.eye(CLASSES))).reshape(100, 100) / CLASSES
    expected = np.linalg.eigvalsh(gram)[::-1]
    np.testing.assert_allclose(class_mean_eigenvalues(weights, images, labels)[:60], expected[:60], atol=1e-10)


def test_a_large_population_gives_the_theory_of_independent_samples():
    values, energies = 1.0 / np.arange(1.0, 41.0) ** 1.5, 1.0 / np.arange(1.0, 41.0) ** 2
    for features in (20.0, 25.0, 80.0, np.inf):
        padded = finite_population_risk(
            np.pad(values, (0, 10**6)), np.pad(energies, (0, 10**6)), 30, features, 0.1, 0.2
        )
        usual = random_features_spectrum(values, energies, 30, features, 0.1, 0.2)
        assert padded.test == pytest.approx(usual.test, rel=1e-4)
        assert padded.train == pytest.approx(usual.train, rel=1e-4)
        assert padded.kappa == pytest.approx(usual.kappa, rel=1e-4)


def test_finite_population_of_random_eigenvectors_is_exact_to_chance():
    """Kernel regression on a population whose eigenvectors are spread evenly, half of it drawn, labels half wrong."""
    generator, size, samples, ridge, noise, scale = np.random.default_rng(0), 300, 150, 0.5, 0.3, 0.6
    values, found = 1.0 / np.arange(1.0, size + 1) ** 1.2, []
    energies = np.zeros(size)
    energies[:20] = 0.05
    for _ in range(20):
        vectors, _ = np.linalg.qr(generator.standard_normal((size, size)))
        kernel = size * (vectors * values) @ vectors.T
        target = np.sqrt(size) * vectors @ (np.sqrt(energies) * generator.choice([-1.0, 1.0], size))
        labels = scale * target[:samples] + np.sqrt(noise) * generator.standard_normal(samples)
        dual = np.linalg.solve(kernel[:samples, :samples] + ridge * np.eye(samples), labels)
        fit = kernel[:, :samples] @ dual
        found.append([np.mean((fit - target)[samples:] ** 2), np.mean((fit[:samples] - labels) ** 2)])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    risk = finite_population_risk(values, energies, samples, np.inf, ridge, noise, scale)
    assert np.all(np.abs(mean - [risk.test, risk.train]) < 4 * error + 0.002)
    independent = random_features_spectrum(values, energies, samples, np.inf, ridge, noise)
    assert abs(mean[1] - independent.train) > 8 * error[1], "the planted error: draws taken for independent"


def test_theory_that_knows_every_image_holds_at_the_peak_too():
    """Within 5% on real images, also in the training error; a theory of their spectrum alone, and one without the noise
    of wrong labels, are outside."""
    images, features, ridge, corruption = 500, [60, 130, 150, 400], 0.01, 0.2
    runs = [
        simulate_digits_features(
            corrupted(split_digits(seed, SAMPLES, images), corruption, seed), features, ridge, seed
        )
        for seed in range(200)
    ]
    test, train = (np.mean([getattr(run, name) for run in runs], axis=0) for name in ("test", "train"))
    labels, noise = digits_classes(images), corruption_noise(corruption)
    risks = [digits_risk(images, SAMPLES, ridge, count) for count in features]
    found = np.array([[p.mean() for p in risk.with_noise(labels, 1 - corruption, noise)] for risk in risks]).T
    assert np.abs(found[0] / test - 1).max() < 0.05
    assert np.abs(found[1] / train - 1).max() < 0.05
    values, vectors = np.linalg.eigh(relu_kernel(load_digits().inputs[:images]) / images)
    energies = np.sum((vectors.T @ labels) ** 2, axis=1) / images
    spectral = finite_population_risk(
        np.maximum(values, 0.0), energies, SAMPLES, features, ridge, noise, 1 - corruption
    )
    assert np.abs(spectral.train / train - 1).max() > 0.08
    planted = np.array([risk.with_noise(labels, 1 - corruption, 0.0)[0].mean() for risk in risks])
    assert np.abs(planted / test - 1).max() > 0.3


def test_relu_kernel_is_the_mean_over_features():
    images = load_digits().inputs[:5]
    weights = np.random.default_rng(0).standard_normal((200_000, 64))
    active = np.maximum(images @ weights.T / 8.0, 0.0)
    np.testing.assert_allclose(active @ active.T / 200_000, relu_kernel(images), atol=0.01)
    np.testing.assert_allclose(np.diagonal(infinite_width_kernel(images, 3)), 6.0)


def test_wrong_labels_raise_the_test_error_and_theory_follows():
    """Six networks see an error of a tenth in the test loss; they are too few to agree within 5%."""
    experiment = RandomLabels(n=150, width=48, depth=2, levels=3, steps=1500, draws=10, images=600)
    simulation = merge([experiment.simulate(seed) for seed in range(6)])
    assert simulation.dataset.network_train_error.max() == 0.0
    assert np.all(np.diff(simulation.dataset.network_test_error.values, axis=1) > 0.1)
    theory = experiment.theory()
    assert experiment.compare(theory, simulation)["test_mse"].verdict != "disagrees"
    planted = theory.dataset.assign(test_mse=theory.dataset.test_mse * 1.1)
    wrong = type(theory)(planted, theory.spec, "theory")
    assert experiment.compare(wrong, simulation)["test_mse"].verdict == "disagrees"


def test_the_hessian_has_an_outlier_for_each_class():
    experiment = HessianDigits(n=80, width=48, lanczos_steps=25, steps=300)
    simulation = merge([experiment.simulate(seed) for seed in range(5)])
    theory = experiment.theory()
    numbers = experiment.headline(theory, simulation)["simulation"]
    # Before training a network this narrow has an eleventh.
    assert numbers["outliers_after"] == CLASSES
    assert experiment.compare(theory, simulation)["class_share"].deviation < 0.003
    # Fluctuations of order width^(-1/2) around infinite width; the kernel of one layer more is far off.
    assert numbers["initial_outlier"] == pytest.approx(theory.dataset.initial_mean.values[0], rel=0.12)
    deeper = HessianDigits(n=80, width=48, depth=3).theory()
    assert abs(numbers["initial_outlier"] / deeper.dataset.initial_mean.values[0] - 1) > 0.3
