"""Effective ranks and the harm of interpolation: closed forms, limits, and a bound that holds."""

import numpy as np
import pytest

import limen
from limen.problem import InputError

benign, ranks = limen.kernel.benign_overfitting, limen.kernel.effective_ranks


def test_equal_eigenvalues_count_themselves():
    found = ranks(np.full(7, 0.3))
    np.testing.assert_allclose(found.tail_rank, np.arange(7, 0, -1), rtol=1e-14)
    np.testing.assert_allclose(found.spread_rank, np.arange(7, 0, -1), rtol=1e-14)
    assert (found.split(7), found.split(8)) == (0.0, float("inf"))


def test_the_ranks_of_a_geometric_spectrum_are_its_length():
    ratio = np.exp(-1 / 6)
    found = ranks(ratio ** np.arange(400))
    np.testing.assert_allclose(found.tail_rank[:200], 1 / (1 - ratio), rtol=1e-10)
    np.testing.assert_allclose(found.spread_rank[:200], (1 + ratio) / (1 - ratio), rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_one_rank_bounds_the_other_and_order_is_of_no_matter(seed):
    values = np.random.default_rng(seed).exponential(size=60) ** 3
    found, again = ranks(values), ranks(np.sort(values))
    assert (found.tail_rank <= found.spread_rank * (1 + 1e-12)).all()
    assert (found.spread_rank <= found.tail_rank**2 * (1 + 1e-12)).all()
    np.testing.assert_array_equal(found.tail_rank, again.tail_rank)


def test_an_isotropic_interpolator_is_the_known_one():
    found = benign(np.ones(300), 100, 0.5, np.full(300, 1 / 300))
    assert found.variance == pytest.approx(0.5 * 100 / 200, rel=1e-12)
    assert found.bias == pytest.approx(2 / 3, rel=1e-12)
    assert found.test == found.bias + found.variance
    assert (found.split, found.estimate) == (0.0, pytest.approx(0.5 / 3))
    # 1 - V >= 1 - (n/p) / (1 - n/p)^2
    assert found.bound == pytest.approx(0.5 * 0.75 / 0.25)


@pytest.mark.parametrize("power", [1.5, 2.0, 3.0])
def test_a_power_law_costs_its_exponent_less_one(power):
    values = np.arange(1.0, 60_001.0) ** -power
    costs = [benign(values, count, 1.0).variance for count in (100, 300)]
    assert costs == pytest.approx([power - 1] * 2, rel=0.07)


def test_a_geometric_spectrum_costs_ever_more():
    values = np.exp(-np.arange(1.0, 1201.0) / 20)
    found = [benign(values, count, 1.0) for count in (200, 400)]
    assert [risk.variance for risk in found] == pytest.approx([200 / 20 - 1, 400 / 20 - 1], rel=1e-3)
    assert all(np.isinf(risk.bound) and np.isinf(risk.estimate) for risk in found)


def test_a_floor_makes_it_harmless_and_the_bound_holds_and_closes():
    gaps = []
    for count in (300, 800, 2400):
        directions = np.arange(1.0, round(count**1.6) + 1)
        found = benign(np.exp(-directions / 10) + 1 / directions.size, count, 1.0)
        assert found.variance <= found.bound
        gaps.append(found.bound / found.variance)
        assert 0.8 < found.estimate / found.variance < 1.3
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[-1] < 1.5
    assert found.variance < 0.06


def test_mistakes_are_named():
    with pytest.raises(InputError, match="samples must be fewer than the eigenvalues"):
        benign(np.ones(5), 5, 0.1)
    with pytest.raises(InputError, match="eigenvalues must be positive, got 0"):
        ranks([1.0, 0.0])
    with pytest.raises(InputError, match="signal must have as many entries"):
        benign(np.ones(5), 2, 0.1, np.ones(4))
