"""Regression on subsets of rows: equal rows, exact averages over all subsets, both routes, mistakes."""

import numpy as np
import pytest

from limen import InputError
from limen.theory.kernel.finite_population import finite_population_risk
from limen.theory.kernel.rows import subsets
from limen.theory.kernel.rows.flow import exponential_fractions, flow_fractions, subset_flow
from limen.theory.kernel.rows.subsets import RandomFeatures, subset_risk


def test_orthogonal_rows_are_exact():
    """Rows that do not see each other: a row left out has its label as residual, one drawn the fraction δ/(δ+k)."""
    kernel, labels, ridge = np.diag([1.0, 4.0, 0.5, 2.0]), np.array([1.0, -2.0, 0.3, 0.7]), 0.5
    risk = subset_risk(None, kernel, labels, 2.0, ridge)
    np.testing.assert_allclose(risk.test, labels**2, rtol=1e-6)
    np.testing.assert_allclose(risk.train, (labels * ridge / (ridge + np.diag(kernel))) ** 2, rtol=1e-6)


def test_rows_of_equal_leverage_are_the_finite_population():
    """Columns of a Hadamard matrix: every row has the same leverage, and the spectrum is all there is."""
    hadamard = np.array([[1.0]])
    for _ in range(6):
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    features = hadamard[:, 1:33] * np.linspace(1.0, 0.1, 32)
    labels = features @ np.linspace(-1.0, 2.0, 32) + 0.1 * hadamard[:, 40]
    risk = subset_risk(features, None, labels, 20.0, 3.0)
    values, vectors = np.linalg.eigh(features @ features.T / 64)
    wanted = finite_population_risk(np.maximum(values, 0.0), (vectors.T @ labels) ** 2 / 64, 20.0, np.inf, 3.0)
    assert risk.test.mean() == pytest.approx(wanted.test, rel=0.02)
    assert risk.train.mean() == pytest.approx(wanted.train, rel=0.02)


def test_average_over_many_subsets():
    """20 of 60 rows of very unequal lengths, 4000 times: the mean is known to half a per cent."""
    generator = np.random.default_rng(1)
    features = generator.standard_normal((60, 6)) * np.geomspace(0.3, 3.0, 60)[:, None]
    labels, ridge = features @ np.linspace(-1.0, 1.0, 6) + generator.standard_normal(60), 2.0
    squares = []
    for _ in range(4000):
        order = generator.permutation(60)
        seen, rest = order[:20], order[20:]
        inside = features[seen].T @ features[seen] + ridge * np.eye(6)
        residual = labels - features @ np.linalg.solve(inside, features[seen].T @ labels[seen])
        squares.append((np.mean(residual[rest] ** 2), np.mean(residual[seen] ** 2)))
    risk = subset_risk(features, None, labels, 20.0, ridge)
    np.testing.assert_allclose([risk.test.mean(), risk.train.mean()], np.mean(squares, axis=0), rtol=0.02)
    # The spectrum alone, which takes all rows to be of one leverage, misses by more.
    values, vectors = np.linalg.eigh(features @ features.T / 60)
    even = finite_population_risk(np.maximum(values, 0.0), (vectors.T @ labels) ** 2 / 60, 20.0, np.inf, ridge)
    assert abs(even.test / np.mean(squares, axis=0)[0] - 1.0) > 0.04


def test_rows_kernel_and_iteration_agree(monkeypatch):
    generator = np.random.default_rng(0)
    features = generator.standard_t(5, (80, 10))
    labels = generator.standard_normal((80, 2))
    one = subset_risk(features, None, labels, 25.0, 1.0)
    two = subset_risk(None, features @ features.T, labels, 25.0, 1.0)
    monkeypatch.setattr(subsets, "MOST_DENSE", 10)
    three = subset_risk(features, None, labels, 25.0, 1.0)
    for other in (two, three):
        np.testing.assert_allclose(other.test, one.test, rtol=1e-6)
        np.testing.assert_allclose(other.left_out, one.left_out, rtol=1e-5, atol=1e-8)


def unequal_rows(rows=60, columns=6):
    """Rows of very unequal lengths."""
    generator = np.random.default_rng(1)
    features = generator.standard_normal((rows, columns)) * np.geomspace(0.3, 3.0, rows)[:, None]
    return generator, features, features @ np.linspace(-1.0, 1.0, columns) + generator.standard_normal(rows)


def test_random_features_and_wrong_labels_averaged_over_draws():
    """20 of 60 rows, N features of the kernel drawn anew, labels attenuated and noisy: 3000 times. Without what
    features scatter the theory is far off."""
    generator, rows, labels = unequal_rows(columns=40)
    kernel, ridge, s, noise = rows @ rows.T / 40.0, 0.3, 0.7, 0.4
    root = np.linalg.cholesky(kernel + 1e-9 * np.eye(60))
    for count in (12, 30):
        squares = []
        for _ in range(3000):
            order = generator.permutation(60)
            seen, rest = order[:20], order[20:]
            phi = root @ generator.standard_normal((60, count)) / np.sqrt(count)
            given = s * labels[seen] + np.sqrt(noise) * generator.standard_normal(20)
            inside = phi[seen].T @ phi[seen] + ridge * np.eye(count)
            outputs = phi @ np.linalg.solve(inside, phi[seen].T @ given)
            squares.append((np.mean((labels - outputs)[rest] ** 2), np.mean((given - outputs[seen]) ** 2)))
        wanted = np.mean(squares, axis=0)
        risk = subset_risk(None, kernel, labels, 20.0, ridge, RandomFeatures(count))
        assert risk.settled
        found = [part.mean() for part in risk.with_noise(labels[:, None], s, noise)]
        # The rest is of the order of one over the number of features.
        np.testing.assert_allclose(found, wanted, rtol=0.08)
        planted = [
            part.mean() for part in subset_risk(None, kernel, labels, 20.0, ridge).with_noise(labels[:, None], s, noise)
        ]
        assert abs(planted[1] / wanted[1] - 1.0) > 0.2


def test_many_features_are_the_kernel():
    _, rows, labels = unequal_rows()
    kernel = rows @ rows.T
    many = subset_risk(None, kernel, labels, 20.0, 2.0, RandomFeatures(1e9))
    np.testing.assert_allclose(many.test, subset_risk(None, kernel, labels, 20.0, 2.0).test, rtol=1e-5)


def test_features_of_several_lengths():
    """Two lengths: the equations of chi, solved by hand from the solution's own effective ridge."""
    _, rows, labels = unequal_rows()
    equal = subset_risk(rows, None, labels, 20.0, 2.0, RandomFeatures(15.0, rows @ np.eye(6)[:, :1] * np.ones((1, 4))))
    same = subset_risk(rows, None, labels, 20.0, 2.0, RandomFeatures(15.0))
    np.testing.assert_allclose(equal.test, same.test, rtol=1e-6)
    uneven = RandomFeatures(15.0, rows[:, :1] * np.array([0.3, 0.3, 1.5, 1.5]))
    assert subset_risk(rows, None, labels, 20.0, 2.0, uneven).train.mean() > 1.01 * same.train.mean()


def test_five_fractions_are_the_exponential():
    poles, residues = exponential_fractions()
    x = np.append(0.0, np.geomspace(1e-6, 1e6, 500))
    assert np.abs((residues / (x[:, None] - poles)).sum(axis=1) - np.exp(-x)).max() < 5e-5
    for decay in (0.0, 0.3):
        parts = flow_fractions(2.0, decay)
        g = sum((2.0 if a.imag else 1.0) * (a * e / (e + x)).real for a, e in parts)
        wanted = (decay + x * np.exp(-2.0 * (x + decay))) / np.where(x + decay > 0, x + decay, 1.0)
        if decay == 0.0:
            wanted[0] = 1.0
        np.testing.assert_allclose(g, wanted, atol=1e-4)


def test_flow_averaged_over_subsets_and_its_ends():
    """Long flow with decay is ridge regression, short flow leaves the labels; between, 3000 subsets."""
    generator, rows, labels = unequal_rows()
    y = labels[:, None]
    late, ridge = subset_flow(rows, y, 20.0, 1e3, 0.1), subset_risk(rows, None, labels, 20.0, 2.0)
    np.testing.assert_allclose(late.test, ridge.test, rtol=2e-3)
    np.testing.assert_allclose(late.noise, ridge.noise, rtol=2e-3)
    early = subset_flow(rows, y, 20.0, 1e-7)
    np.testing.assert_allclose(early.test, labels**2, rtol=3e-4)
    for time in (0.3, 3.0):
        squares = []
        for _ in range(3000):
            order = generator.permutation(60)
            seen, rest = order[:20], order[20:]
            values, vectors = np.linalg.eigh(rows[seen].T @ rows[seen] / 20)
            growth = -np.expm1(-time * values) / values
            outputs = rows @ (vectors @ (growth * (vectors.T @ rows[seen].T @ labels[seen] / 20)))
            residual = labels - outputs
            squares.append((np.mean(residual[rest] ** 2), np.mean(residual[seen] ** 2)))
        risk = subset_flow(rows, y, 20.0, time)
        assert risk.settled
        np.testing.assert_allclose([risk.test.mean(), risk.train.mean()], np.mean(squares, axis=0), rtol=0.03)
        planted = subset_flow(rows, y, 20.0, 2.0 * time)
        assert abs(planted.train.mean() / np.mean(squares, axis=0)[1] - 1.0) > 0.04


def test_mistakes():
    with pytest.raises(InputError, match="samples must lie between 0 and the number of rows"):
        subset_risk(np.eye(3), None, np.ones(3), 3.0, 1.0)
    with pytest.raises(InputError, match="ridge must be positive"):
        subset_risk(np.eye(3), None, np.ones(3), 2.0, 0.0)
