"""Search, hitting times and random starts against integrals written down here; one step of the chains, by hand."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import erf, ndtr

import limen
from limen import BinaryMixture, OnlinePCA, SingleIndex, SpikedTensor, effective
from limen.precision import in_double
from limen.simulation.effective.spherical_chain import overlap_step, sample_block, solve_seeds
from limen.simulation.effective.spherical_losses import spherical_loss
from limen.simulation.effective.tensor_chain import tensor_block, tensor_step
from limen.theory.effective.search.search_moments import search_moments
from limen.theory.effective.search.search_phase import search_rates
from limen.theory.effective.sphere.sphere_drift import SphereDrift

HE3 = "z**3-3*z"
# Exponent 2 with a cubic part: a_2 = 8 and a_3 = 16, so that on the negative side nothing is stable beyond -1/2.
LOPSIDED = SingleIndex("z**2 + (z**3-3*z)*2/3", step=1e-3)


def test_loss_of_the_binary_mixture_by_another_quadrature():
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    weight, m = 0.8, 0.3
    field = 0.5 * np.log(weight / (1 - weight))
    sides = [weights @ np.log(np.cosh(nodes + sign * m + field)) for sign in (1, -1)]
    expected = -(weight * sides[0] + (1 - weight) * sides[1])
    assert effective.population_loss(BinaryMixture(weight, 0.1), m) == pytest.approx(expected, rel=1e-9)


def drift(problem, m):
    slope, (square, _) = effective.population_slope(problem, m), effective.gradient_noise(problem, m)
    return -slope * (1 - m * m) - 0.5 * problem.step * m * square


def hitting_law(problem, size, level, times):
    """Both sides of a Gaussian amplitude, each carried on by the ODE from a tiny overlap: the integral of 1/b."""
    tiny, h = 1e-6, 1e-5
    growth = (drift(problem, h) - drift(problem, -h)) / (2 * h)
    wide = 1 + problem.step * effective.gradient_noise(problem, 0.0)[1] / (2 * growth)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    half = 0.5 * np.log(level / tiny)
    m = tiny * np.exp(half * (1 + nodes))
    law = np.zeros(len(times))
    for sign in (1.0, -1.0):
        outwards = sign * drift(problem, sign * m)
        if outwards.min() > 0:
            time = half * (weights * m / outwards).sum()
            law += ndtr(-tiny * np.exp(growth * (time - times)) * np.sqrt(size / wide))
    return law


@pytest.mark.slow
def test_the_two_sides_of_a_lopsided_loss():
    """At 0.15 both sides arrive, one later; at 0.6 only the positive one: half of all runs never do."""
    size, times = 10_000, np.linspace(0.3, 1.0, 8)
    for level, most in ((0.15, 1.0), (0.6, 0.5)):
        expected = hitting_law(LOPSIDED, size, level, times)
        found = effective.hitting_probability(LOPSIDED, size, level, times)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-9)
        assert 0.85 * most < expected[-1] < most
        quantiles = effective.hitting_time(LOPSIDED, size, level, expected)
        np.testing.assert_allclose(quantiles, times, rtol=2e-4)
    assert effective.hitting_time(LOPSIDED, size, 0.6, 0.55) == np.inf


def test_rates_of_the_cubic_search():
    """a_3 = 36, sigma^2(0) = 13824 and v^2(0) = 16416 of He_3."""
    size, step = 400, 1e-3
    exponent, rates = search_rates(SingleIndex(HE3, step=step), size)
    now = rates(0.0)
    assert exponent == 3
    np.testing.assert_allclose(
        (now.push, now.restoring, now.volatility), (36 / 20, step / 2 * 13824, step * 16416), rtol=1e-9
    )


def cubic(size):
    return SingleIndex(HE3, step=0.01 / size**0.5)


def test_after_the_search_the_ode_leads():
    """From half of the stable overlap on every quantile is later by the integral of 1/b, at any dimension."""
    size, problem = 200, cubic(200)
    end = effective.fixed_point(problem)
    weak, strong = (effective.hitting_time(problem, size, part * end, (0.1, 0.3)) for part in (0.5, 0.9))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    descent = 0.2 * end * (weights / drift(problem, (0.7 + 0.2 * nodes) * end)).sum()
    np.testing.assert_allclose(strong - weak, descent, rtol=1e-6)


def test_the_barrier_of_a_cubic_search():
    """Where the drift first vanishes beyond zero."""
    problem = cubic(200)
    barrier = SphereDrift(problem).barrier()
    assert brentq(lambda m: drift(problem, m), 0.05, 0.4) == pytest.approx(barrier, rel=1e-6)


@pytest.mark.slow
def test_strong_recovery_of_a_cubic_student():
    """From weak to strong recovery at N = 80, run by run: the law, and not the search diffusion carried on to there."""
    size = 80
    problem = SingleIndex("tanh(z**3-3*z)", "0.03*(z**3-3*z)", step=20 / size**0.5)
    end = effective.fixed_point(problem)
    medians = [
        np.median(effective.simulated_hitting_times(problem, size, part * end, 2000, 600.0, both_sides=False))
        for part in (0.5, 0.9)
    ]
    theory = [effective.hitting_time(problem, size, part * end, 0.5) for part in (0.5, 0.9)]
    assert medians[1] - medians[0] == pytest.approx(theory[1] - theory[0], rel=0.3)
    assert theory[1] - theory[0] > 15.0


def test_the_descent_of_a_tensor_is_its_flow():
    size, low, high = 2000, 1.2, 1.9
    problem = SpikedTensor(3, 0.3 * size**0.5, 1.0)
    times = [effective.hitting_time(problem, size, level, 0.02) for level in (low, high)]
    assert effective.tensor_flow(problem, low, 1.0, times[1] - times[0])[0] == pytest.approx(high, rel=1e-6)
    part = effective.hitting_probability(problem, size, high, times[1])
    assert part == pytest.approx(0.02, rel=1e-3)


def test_the_square_at_rest_of_a_tensor():
    """The time to fall from 1 to r is the integral of 1/(4 k r^(k-1) (r - c))."""
    c, order = 0.5, 3
    times = [0.0, 0.02, 0.1, 0.4]
    found = effective.search_diffusion(SpikedTensor(order, 1.0, c), 100, times, paths=2).dataset
    for t, r in zip(times[1:], found.orthogonal_square.values[1:], strict=True):
        assert quad(lambda s: 1 / (4 * order * s ** (order - 1) * (s - c)), r, 1.0)[0] == pytest.approx(t, rel=1e-6)


def growth_of_a_matrix(signal, c, times):
    """E(t)^2 = e^{8 (signal - c) t} r(t) from r(0) = 1, and the variance that the noise adds to the amplitude."""
    gap = signal - c
    r = effective.tensor_flow(SpikedTensor(2, signal, c), 0.0, 1.0, times)[1]
    return np.exp(8 * gap * times) * r, c / gap * -np.expm1(-8 * gap * times)


@pytest.mark.parametrize(("signal", "c"), [(0.3, 0.5), (2.0, 0.7)])
def test_moments_of_the_search_while_the_square_settles(signal, c):
    times = np.linspace(0.0, 0.6, 5)
    variance, growth = search_moments(SpikedTensor(2, signal, c), times)
    square, noise = growth_of_a_matrix(signal, c, times)
    np.testing.assert_allclose(growth**2, square, rtol=1e-6)
    np.testing.assert_allclose(variance, square * (1 + noise), rtol=1e-6)


@pytest.mark.slow
def test_mean_overlap_of_a_matrix_from_random_starts():
    """Early: the start times its growth. Late: its sign is kept with the probability that noise leaves it."""
    signal, c, size = 2.0, 0.7, 10**8
    times = np.array([0.0, 0.1, 0.3, 8.0])
    found = limen.predict(SpikedTensor(2, signal, c), times, d=size, seeds=3).dataset.overlap.values
    square, _ = growth_of_a_matrix(signal, c, times)
    np.testing.assert_allclose(found[:, :3], found[:, :1] * np.sqrt(square[:3]), rtol=1e-4)
    spread = np.sqrt(c / ((signal - c) * size))
    kept = erf(found[:, 0] / (spread * np.sqrt(2)))
    np.testing.assert_allclose(found[:, 3], np.sqrt(signal - c) * kept, atol=0.006)


def test_mean_overlap_of_online_pca_from_random_starts():
    """Late: the stable overlap times the mean sign; noise adds (1/m_*^2 - 1)/N to the amplitude's variance."""
    problem, size = OnlinePCA(2.0, 0.5), 10**8
    found = limen.predict(problem, np.array([0.0, 12.0]), d=size, seeds=3).dataset.overlap.values
    end = effective.fixed_point(problem)
    kept = erf(found[:, 0] / np.sqrt(2 * (end**-2 - 1) / size))
    np.testing.assert_allclose(found[:, 1], end * kept, atol=0.004)


def test_sampled_search_of_online_pca_relaxes_to_its_variance():
    """A = 2 (signal - step) = -2 and stationary variance 4, from variance 1."""
    paths = effective.search_diffusion(OnlinePCA(1.0, 2.0), 1000, [0.5], paths=20_000).dataset
    exact = 4.0 - 3.0 * np.exp(-2.0)
    assert paths.rescaled_overlap.values.var() == pytest.approx(exact, rel=4 * np.sqrt(2 / 20_000))


@in_double
def test_a_step_of_the_spherical_chain_is_one_in_four_dimensions():
    m, rate = 0.3, 0.4
    x = np.array([m, np.sqrt(1 - m * m), 0.0, 0.0])
    a = np.array([0.7, -1.1, 0.4, 0.9])
    slope = lambda s_star, s, e, parameter: 0.5 * s_star - s**2 + 2.0 * e + parameter  # noqa: E731
    s = a @ x
    moved = x - rate * slope(a[0], s, 0.25, 0.1) * (a - s * x)
    draws = np.array([[a[0]], [a[1]], [0.25], [a[2] ** 2 + a[3] ** 2]])
    found = overlap_step(slope, np.array([m]), rate, 0.1, draws)  # pyright: ignore[reportArgumentType]
    assert float(found[0]) == pytest.approx(moved[0] / np.linalg.norm(moved), rel=1e-13)


@in_double
@pytest.mark.parametrize("order", [2, 3, 4])
def test_a_step_of_the_tensor_chain_is_one_in_four_dimensions(order):
    rate, signal, radial = 0.03, 1.7, -0.6
    x, g = np.array([0.5, 0.8, 0.0, 0.0]), np.array([0.7, -1.1, 0.4, 0.9])
    size = np.linalg.norm(x)
    gradient = 2 * order * size ** (2 * order - 2) * x
    gradient[0] -= 2 * order * signal * x[0] ** (order - 1)
    noise = -2 * (
        order**0.5 * size ** (order - 1) * g + (order * (order - 1)) ** 0.5 * size ** (order - 2) * radial * x
    )
    moved = x - rate * (gradient + noise)
    draws = np.array([[g[0]], [g[1]], [radial], [g[2] ** 2 + g[3] ** 2]])
    found = tensor_step(order, (x[:1], x[1:2] ** 2), signal, rate, draws)  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(np.ravel(found), [moved[0], (moved[1:] ** 2).sum()], rtol=1e-13)


def test_directions_that_are_left_are_all_but_two():
    """At d = 5: a chi squared with three degrees of freedom, mean 3 and variance 6."""
    generator, d, count = np.random.default_rng(0), 5, 40_000
    out = np.zeros((2, 4, count))
    sample_block(spherical_loss(OnlinePCA(1.0, 0.1)), d, generator, out[0])
    tensor_block(d, generator, out[1])
    for rest in out[:, 3]:
        assert abs(rest.mean() - 3.0) < 4 * np.sqrt(6 / count)
        assert rest.var() == pytest.approx(6.0, rel=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("both_sides", [True, False])
def test_hits_are_where_the_path_first_passes(both_sides):
    problem, size, level, count = OnlinePCA(2.0, 0.5), 50, 0.25, 150
    times = np.arange(count + 1) * problem.step / size
    path = solve_seeds(problem, times, size, range(12))[0].dataset.overlap.values
    passed = (np.abs(path) if both_sides else path) >= level
    expected = np.where(passed.any(axis=1), times[passed.argmax(axis=1)], np.inf)
    found = effective.simulated_hitting_times(problem, size, level, 12, times[-1], both_sides=both_sides)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert len(set(expected)) > 5 and (both_sides or np.isinf(expected).any())
