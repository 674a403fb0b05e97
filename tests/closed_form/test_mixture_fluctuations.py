"""Mean and spread of the overlap on the binary mixture to the next order in 1/N, against a step of the exact chain."""

import math

import numpy as np
import pytest
from scipy.integrate import cumulative_simpson

from limen import BinaryMixture
from limen.theory.effective.mixtures.mixture_fluctuations import overlap_fluctuations, step_moments


def normal_grid():
    """A uniform grid on both sides of zero: the trapezoidal rule is exact to rounding for smooth functions."""
    nodes = np.linspace(-8.5, 8.5, 121)
    density = np.exp(-(nodes**2) / 2)
    return nodes, density / density.sum()


def one_step(problem, m, size):
    """Mean and variance of the change of m in one step of the chain in `size` dimensions."""
    nodes, masses = normal_grid()
    delta, across = problem.step / size, nodes[None, :]
    chances, changes = [], []
    for sign, chance in ((1.0, problem.weight), (-1.0, 1 - problem.weight)):
        towards = sign + nodes[:, None]
        s = m * towards + math.sqrt(1 - m * m) * across
        c = -np.tanh(s + 0.5 * math.log(problem.weight / (1 - problem.weight)))
        # The spread of the chi-square of the other directions enters at the third order in 1/N only.
        square = towards**2 + across**2 + (size - 2) - s**2
        # m is taken off inside the fraction, where nothing cancels.
        root = np.sqrt(1 + delta**2 * c**2 * square)
        changes.append(-(delta * c * (towards - s * m) + m * (delta**2 * c**2 * square) / (1 + root)) / root)
        chances.append(chance * np.outer(masses, masses))
    mean = sum(float((p * x).sum()) for p, x in zip(chances, changes, strict=True))
    square = sum(float((p * x**2).sum()) for p, x in zip(chances, changes, strict=True))
    return mean, square - mean**2


@pytest.mark.parametrize(("weight", "step", "m"), [(0.8, 1.0, 0.3), (0.7, 1.7, -0.4), (0.9, 0.6, 0.75)])
def test_moments_of_a_step_are_those_of_the_chain(weight, step, m):
    problem = BinaryMixture(weight=weight, step=step)
    variance, next_order = step_moments(problem, m)
    # N E[change] = -b1 + b2 / N + ..., from three sizes.
    sizes = np.array([1e4, 2e4, 4e4])
    means, variances = np.array([one_step(problem, m, size) for size in sizes]).T
    shifts = np.polynomial.polynomial.polyfit(1e4 / sizes, sizes * means, 2)
    assert shifts[1] * 1e4 == pytest.approx(step**2 * next_order, rel=1e-3)
    assert sizes[-1] ** 2 * variances[-1] == pytest.approx(step**2 * variance, rel=1e-3)


def test_fluctuations_are_integrals_along_the_path():
    r"""With $\dot m=b$: $\Sigma=b^2[b_0^{-2}+\delta\int V/b^2dt]$ and $\mu=b\int(\ldots)/b\,dt$, over $m$."""
    problem = BinaryMixture(weight=0.8, step=1.2)
    times = np.array([0.0, 0.5, 1.0, 2.0])
    limit, shift, spread = overlap_fluctuations(problem, times)
    path = np.linspace(0.0, limit[-1], 81)
    moments = np.array([step_moments(problem, m) for m in path])
    # The drift is what a step of the chain does as the size grows, a polynomial through Chebyshev points near enough.
    drift = np.polynomial.Chebyshev.interpolate(
        lambda ms: np.array([1e6 * one_step(problem, m, 1e6)[0] / problem.step for m in ms]), 16, [-0.05, 0.95]
    )
    b, slope, bend = drift(path), drift.deriv()(path), drift.deriv(2)(path)
    clock = cumulative_simpson(1 / b, x=path, initial=0)
    sigma = b**2 * (1 / b[0] ** 2 + problem.step * cumulative_simpson(moments[:, 0] / b**3, x=path, initial=0))
    source = 0.5 * bend * sigma + problem.step * (moments[:, 1] - 0.5 * b * slope)
    mu = b * cumulative_simpson(source / b**2, x=path, initial=0)
    assert np.allclose(np.interp(times, clock, path), limit, atol=2e-4)
    assert np.allclose(np.interp(times, clock, sigma), spread, rtol=2e-3)
    assert np.allclose(np.interp(times, clock, mu), shift, atol=2e-3 * np.abs(shift).max())
