"""The diffusion of the overlaps: its volatility, and its paths against the exact chain."""

import numpy as np
import pytest

from limen.problem import InputError
from limen.simulation.overlap_chain import chain
from limen.theory.one_pass.diffusion import sphere_diffusion, sphere_volatility

M, RATE, NOISE = 0.5, 0.08, 0.3


def test_volatility_numbers():
    assert sphere_volatility(M, RATE, NOISE) == pytest.approx(34.38, abs=0.005)
    without = 4 * (1 - M**2) * (12 * (1 - M**2) * (1 + 2 * M**2) + NOISE)
    assert without == pytest.approx(41.40)
    assert sphere_volatility(M, 0.0, NOISE) == pytest.approx(without - (4 * M * (1 - M**2)) ** 2)
    assert sphere_volatility(np.array([0.0, 1.0]), RATE, 0.0) == pytest.approx([48.0, 0.0], abs=1e-9)


def test_volatility_is_that_of_the_chain_and_without_the_norm_term_it_is_not():
    d, steps, seeds = 4000, 1000, 12_000
    run = chain([[1.0]], [[M]], [[1.0]], [1.0], [1.0], "square", RATE, NOISE, d, [steps], seeds, spherical=True).dataset
    moved = run.overlap.values.ravel() - M
    # Variance in units of (rate/d)^2 per step; its standard error from the fourth moment.
    scaled = (moved - moved.mean()) ** 2 / (steps * (RATE / d) ** 2)
    error = scaled.std() / np.sqrt(seeds)
    # The drift's slope widens the law by exp(2 f' t), f' = 4 (1 - 6 rate)(1 - 3 m^2) - 2 rate noise.
    time = steps * RATE / d
    widened = 1 + time * (4 * (1 - 6 * RATE) * (1 - 3 * M**2) - 2 * RATE * NOISE)
    assert abs(scaled.mean() - widened * sphere_volatility(M, RATE, NOISE)) < 3.5 * error
    assert abs(scaled.mean() - widened * 41.40) > 6 * error
    assert abs(scaled.mean() - widened * 39.15) > 4 * error


def test_paths_have_the_moments_of_the_chain():
    """Mean and spread at two times; of order 1/d apart."""
    d, times, start = 1000, np.array([0.3, 0.8]), 0.4
    steps = np.rint(times * d / 0.05).astype(int)
    exact = chain([[1.0]], [[start]], [[1.0]], [1.0], [1.0], "square", 0.05, NOISE, d, steps, 600, spherical=True)
    closed = sphere_diffusion(start, 0.05, NOISE, d, times, 4000)
    one, other = exact.dataset.overlap, closed.dataset.overlap
    error = np.sqrt(one.var("seed") / 600 + other.var("seed") / 4000)
    assert float(np.abs(one.mean("seed") - other.mean("seed")).max()) < 4 * float(error.max()) + 3 / d
    # The spread of 600 runs is known to 3%.
    np.testing.assert_allclose(one.std("seed"), other.std("seed"), rtol=0.12)


def test_what_is_refused():
    with pytest.raises(InputError, match="m0 must lie"):
        sphere_diffusion(1.2, 0.05, 0.0, 100, [1.0], 2)
    with pytest.raises(InputError, match="times must be"):
        sphere_diffusion(0.2, 0.05, 0.0, 100, [1.0, 0.5], 2)
