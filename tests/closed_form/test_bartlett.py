"""Bartlett draws: moments, the law against explicit vectors, very large dimensions."""

import jax
import numpy as np
import pytest
from scipy.stats import chi2, ks_2samp, kstest

from limen.gaussian import bartlett_factor, bartlett_gram, sphere_gram
from limen.problem.spec import InputError

DRAWS = 4000
KEYS = jax.random.split(jax.random.key(5), DRAWS)


def explicit_gram(count: int, d: int) -> np.ndarray:
    vectors = np.random.default_rng(1).normal(size=(DRAWS, count, d)) / np.sqrt(d)
    return vectors @ np.swapaxes(vectors, 1, 2)


def determinant_p_value(gram: np.ndarray, count: int, d: int) -> float:
    return float(ks_2samp(np.linalg.slogdet(gram)[1], np.linalg.slogdet(explicit_gram(count, d))[1]).pvalue)


def test_mean_and_covariance():
    d = 20
    gram = bartlett_gram(KEYS, 4, d)
    assert np.max(np.abs(gram.mean(0) - np.eye(4))) < 5 * np.sqrt(2 / d / DRAWS)
    # Var G_ij = (1 + delta_ij)/d
    variance = gram.var(0) * d
    assert np.max(np.abs(variance - 1 - np.eye(4))) < 0.25


def test_law_against_explicit_vectors_and_planted_error():
    count, d = 4, 20
    factor = bartlett_factor(KEYS, count, d)
    assert determinant_p_value(factor @ np.swapaxes(factor, 1, 2), count, d) > 0.01
    # The planted error: d degrees of freedom in every row instead of d - i.
    wrong = factor.copy()
    rows = np.arange(count)
    square = chi2.rvs(d, size=(DRAWS, count), random_state=2) / d
    wrong[:, rows, rows] = np.sqrt(square)
    assert determinant_p_value(wrong @ np.swapaxes(wrong, 1, 2), count, d) < 1e-10


def test_squared_norms_are_chi_square_in_every_row():
    d = 20
    gram = bartlett_gram(KEYS, 4, d)
    for i in range(4):
        assert kstest(d * gram[:, i, i], chi2(d).cdf).pvalue > 1e-3


def test_sphere_overlaps_have_their_law():
    d = 20
    gram = sphere_gram(KEYS, 4, d)
    assert np.all(gram[:, range(4), range(4)] == 1.0)
    explicit = explicit_gram(4, d)
    norms = np.sqrt(np.einsum("nii->ni", explicit))
    explicit = explicit / norms[:, :, None] / norms[:, None, :]
    for i, j in ((0, 1), (1, 3), (2, 3)):
        assert ks_2samp(gram[:, i, j], explicit[:, i, j]).pvalue > 1e-3
    assert np.mean(gram[:, 0, 1] ** 2) == pytest.approx(1 / d, rel=0.1)


def test_a_billion_dimensions():
    d = 10**9
    gram = bartlett_gram(KEYS, 4, d)
    off, diagonal = np.sqrt(d) * gram[:, 0, 1], np.sqrt(d / 2) * (gram[:, 2, 2] - 1)
    assert kstest(off, "norm").pvalue > 1e-3
    assert kstest(diagonal, "norm").pvalue > 1e-3


def test_square_case_shapes_and_repeatability():
    key = jax.random.key(0)
    single = bartlett_gram(key, 4, 4)
    assert single.shape == (4, 4) and np.linalg.eigvalsh(single).min() > 0
    assert single.dtype == np.float64 and np.array_equal(single, bartlett_gram(key, 4, 4))
    grid = KEYS[:6].reshape(2, 3)
    assert bartlett_factor(grid, 4, 9).shape == (2, 3, 4, 4)
    assert np.array_equal(bartlett_factor(grid, 4, 9)[1, 2], bartlett_factor(KEYS[5], 4, 9))


def test_what_is_refused():
    with pytest.raises(InputError, match="d must be a whole number of at least count = 4, got 3"):
        bartlett_gram(jax.random.key(0), 4, 3)
    with pytest.raises(InputError, match="count must be at least 1"):
        bartlett_gram(jax.random.key(0), 0, 3)
    with pytest.raises(InputError, match="key must be"):
        bartlett_gram(0, 2, 3)
