"""Chi-square blocks: their law at every number of degrees of freedom, and independence of place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2, kstest

from limen.gaussian.chi_square import chi_square_block, spares_of
from limen.precision import in_double

BLOCK, DRAWS = 64, 400


@in_double
def draws(freedoms: list[float]) -> tuple[np.ndarray, np.ndarray]:
    def one(key):
        keys = jax.random.split(key)
        shape = (len(freedoms), BLOCK + spares_of(BLOCK))
        normals = jax.random.normal(keys[0], shape, jnp.float64)
        return chi_square_block(normals, jax.random.uniform(keys[1], shape, jnp.float64), jnp.array(freedoms))

    values, enough = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), DRAWS))
    return np.asarray(values), np.asarray(enough)


def test_the_law_at_few_and_at_many_degrees_of_freedom():
    freedoms = [1.0, 2.0, 3.0, 7.0, 54.0, 1e3, 1e9]
    values, enough = draws(freedoms)
    assert enough.mean() > 0.99
    for row, freedom in enumerate(freedoms):
        sample = values[enough, row]
        assert kstest(sample.ravel(), chi2(freedom).cdf).pvalue > 1e-3, freedom
        # Places filled by spares are like all others.
        assert abs(sample[:, -1].mean() - freedom) < 5 * np.sqrt(2 * freedom / len(sample))
    neighbours = values[:, 1, :-1].ravel(), values[:, 1, 1:].ravel()
    assert abs(np.corrcoef(*neighbours)[0, 1]) < 4 / np.sqrt(neighbours[0].size)


def test_no_direction_left():
    values, enough = draws([0.0, -1.0])
    assert enough.all() and np.all(values == 0.0)


@pytest.mark.parametrize("wrong", [2.0, 54.0])
def test_one_degree_too_many_is_caught(wrong):
    values, enough = draws([wrong + 1.0])
    assert kstest(values[enough].ravel(), chi2(wrong).cdf).pvalue < 1e-6
