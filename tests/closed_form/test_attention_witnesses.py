"""Attention, what tokens are moved and measured by: order conditions, moments, loops over pairs, Brownian motion."""

import math

import numpy as np
import pytest

from limen.problem import SelfAttention
from limen.simulation.attention.ensemble import Matrices, run_ensemble
from limen.simulation.attention.field import attention_velocity
from limen.simulation.attention.observables import cluster_count, clustered_pairs, cosine_gaps, energy
from limen.simulation.attention.particles import ERROR, NODES, STAGES
from limen.theory.attention.free_matrices import _jacobi

BETA = 1.7


def tokens(n, d, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_the_pair_of_methods_has_the_orders_five_and_four():
    """Row sums, bushy trees up to order five, one tall tree of each order; the error weights are a difference of two
    methods of order four."""
    c = np.array([0.0, *NODES])
    a = np.zeros((7, 7))
    for i, row in enumerate(STAGES):
        a[i + 1, : len(row)] = row
    np.testing.assert_allclose(a.sum(axis=1), c, atol=1e-14)
    b = a[-1]
    for power in range(5):
        assert b @ c**power == pytest.approx(1 / (power + 1), abs=1e-14)
    assert b @ a @ c == pytest.approx(1 / 6, abs=1e-14)
    assert b @ (c * (a @ c)) == pytest.approx(1 / 8, abs=1e-14) and b @ a @ c**2 == pytest.approx(1 / 12, abs=1e-14)
    assert b @ a @ a @ c == pytest.approx(1 / 24, abs=1e-14) and b @ a @ a @ a @ c == pytest.approx(1 / 120, abs=1e-14)
    assert b @ a @ c**3 == pytest.approx(1 / 20, abs=1e-14)
    difference = np.array(ERROR)
    for power in range(4):
        assert difference @ c**power == pytest.approx(0.0, abs=1e-14)
    assert abs(difference @ c**4) > 1e-4


@pytest.mark.parametrize(("value", "moments"), [("goe", (1, 0, 1, 0, 2, 0, 5)), ("wishart", (1, 1, 2, 5, 14, 42))])
def test_words_of_a_value_matrix_have_the_moments_of_its_law(value, moments):
    """Catalan numbers: of the semicircle, and of squares of a square Gaussian matrix."""
    jacobi = _jacobi(SelfAttention(beta=1.0, tokens=3, dim=50, value=value), 1.0, 8)
    found = [np.linalg.matrix_power(jacobi, power)[0, 0] for power in range(len(moments))]
    np.testing.assert_allclose(found, moments, rtol=1e-12)


@pytest.mark.parametrize("normalized", [True, False])
def test_velocities_are_sums_over_pairs(normalized):
    """Two heads, one of them plain; where it is not normalised, a plain head leaves out the token's own pull."""
    x, weights, generator = tokens(4, 3), np.array([1.0, 2.0, 0.5, 1.5]), np.random.default_rng(1)
    query, value = generator.normal(size=(2, 3, 3))
    found = attention_velocity(x, BETA, [(None, None), (query, value)], normalized, weights)
    expected = np.zeros_like(x)
    for i in range(4):
        for b, v in ((np.eye(3), np.eye(3)), (query, value)):
            pulls = [weights[j] * math.exp(BETA * x[i] @ b @ x[j]) for j in range(4)]
            total = sum(pulls) if normalized else weights.sum()
            kept = [j for j in range(4) if normalized or v is value or j != i]
            expected[i] += sum(pulls[j] / total * v @ x[j] for j in kept)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_gaps_clusters_and_energy_of_few_tokens():
    x = np.array([[1.0, 0.0], [0.0, 1.0], [math.cos(0.01), math.sin(0.01)]])
    gaps = cosine_gaps(x)
    assert gaps[0, 1] == pytest.approx(1.0) and gaps[0, 2] == pytest.approx(1 - math.cos(0.01), rel=1e-12)
    assert cluster_count(x) == 2 and float(clustered_pairs(x @ x.T)) == pytest.approx(1 / 3)
    # Beyond 2^24 numbers: the same by one minus the cosines.
    many = np.tile(x, (1000, 1))
    np.testing.assert_allclose(cosine_gaps(many)[:3, -3:], gaps, atol=1e-15)
    weights, query = np.array([1.0, 2.0, 1.0]), np.array([[0.5, 0.3], [-0.2, 1.1]])
    pairs = [
        weights[i] * weights[j] / 16 * (math.exp(BETA * x[i] @ query @ x[j]) - 1) for i in range(3) for j in range(3)
    ]
    assert energy(x, BETA, query, weights) == pytest.approx(sum(pairs) / (2 * BETA), rel=1e-12)
    assert energy(x, 1e-13) == pytest.approx(energy(x, 1e-6), rel=1e-5)


def test_tokens_that_feel_nothing_move_like_brownian_motion():
    r"""Value matrix 0: two tokens from one place, $E\langle x,y\rangle=e^{-2(d-1)\kappa t}$ at noise $\kappa$."""
    systems, d, noise, time = 3000, 3, 0.3, 0.5
    start = np.repeat(tokens(1, d)[None], systems, axis=0).repeat(2, axis=1)
    still = Matrices(None, np.zeros((systems, 1, d, d)))
    found = np.asarray(run_ensemble(start, 1.0, np.array([time]), still, noise=noise, step=0.01).mean_cosine)[0]
    error = found.std() / systems**0.5
    # Steps of 0.01 leave an error of the same relative size.
    assert found.mean() == pytest.approx(math.exp(-2 * (d - 1) * noise * time), abs=3 * error + 0.01)
    assert error < 0.015
