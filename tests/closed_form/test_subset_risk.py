"""Regression on subsets of rows: equal rows, exact averages over all subsets, both routes, mistakes."""

import numpy as np
import pytest

from limen import InputError
from limen.theory.kernel import subsets
from limen.theory.kernel.finite_population import finite_population_risk
from limen.theory.kernel.subsets import subset_risk


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
        np.testing.assert_allclose(other.moments, one.moments, rtol=1e-5, atol=1e-8)


def test_mistakes():
    with pytest.raises(InputError, match="samples must lie between 0 and the number of rows"):
        subset_risk(np.eye(3), None, np.ones(3), 3.0, 1.0)
    with pytest.raises(InputError, match="ridge must be positive"):
        subset_risk(np.eye(3), None, np.ones(3), 2.0, 0.0)
