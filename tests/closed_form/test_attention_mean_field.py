"""Mean-field attention: slopes against growth rates, closed forms at beta = 0, particles from quiet starts."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import i0, i1

from limen.problem.spec import InputError
from limen.theory import attention
from limen.theory.attention.bessel import bessel_ratios, log_uniform_transform
from limen.theory.attention.height_rule import height_rule


def bump(theta):
    return 1 + 0.3 * np.cos(theta) + 0.2 * np.sin(2 * theta)


def particles(angles, beta, duration, normalized=True):
    def slope(t, theta):
        difference = theta[None, :] - theta[:, None]
        weights = np.exp(beta * np.cos(difference))
        total = (weights * np.sin(difference)).sum(axis=1)
        return total / (weights.sum(axis=1) if normalized else len(theta))

    return solve_ivp(slope, (0, duration), angles, "DOP853", rtol=1e-9, atol=1e-10).y[:, -1]


# Quadrature and special functions


@pytest.mark.parametrize("d", [2, 3, 7, 600])
def test_heights_of_uniform_points(d):
    nodes, weights = height_rule(d, 20)
    assert weights.sum() == pytest.approx(1.0, abs=1e-13)
    assert weights @ nodes**2 == pytest.approx(1 / d, rel=1e-12)
    assert weights @ nodes**4 == pytest.approx(3 / (d * (d + 2)), rel=1e-12)
    fine, own = height_rule(d, 60)
    assert math.log(own @ np.exp(3.0 * fine)) == pytest.approx(float(log_uniform_transform(d, 3.0)), abs=1e-13)


def test_bessel_ratios():
    x = np.array([-2.0, 0.0, 1e-8, 1.0, 30.0])
    expected = np.divide(i1(x), i0(x))
    np.testing.assert_allclose(bessel_ratios(0.0, 1, x)[0], expected, rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(bessel_ratios(-0.5, 1, x)[0], np.tanh(x), rtol=1e-13, atol=1e-300)


# Circle


def test_poisson_kernel_follows_ott_antonsen():
    r, times = 0.3, [0.0, 1.0, 2.0]
    found = attention.circle_flow(lambda t: (1 - r * r) / (1 - 2 * r * np.cos(t) + r * r), 0.0, times)
    assert found.ok
    np.testing.assert_allclose(found.dataset.modes[:, 0], 1.0)
    exact = attention.ott_antonsen(r, times)
    np.testing.assert_allclose(found.dataset.modes[:, 1], exact, atol=1e-9)
    np.testing.assert_allclose(found.dataset.modes[:, 2], exact**2, atol=1e-9)
    np.testing.assert_allclose(found.dataset.density.mean("angle") * 2 * np.pi, 1.0, atol=1e-12)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("beta", [2.0, 5.0])
def test_slopes_of_small_modes_are_growth_rates(beta, normalized):
    """A twin with the rates of a nearby temperature is caught."""
    # Short enough that nothing grows by more than a factor two, or the run is no longer linear.
    duration = 0.5 if normalized else 0.5 / i0(beta)
    times = [0.0, duration]
    slopes = []
    for k in (1, 2, 3):
        modes = attention.circle_flow(lambda t, k=k: 1 + 1e-5 * np.cos(k * t), beta, times, normalized).dataset.modes
        slopes.append(float(np.log(modes[1, k] / modes[0, k])) / duration)
    np.testing.assert_allclose(slopes, attention.growth_rates(2, beta, [1, 2, 3], normalized), atol=5e-6)
    twin = attention.growth_rates(2, beta + 0.01, [1, 2, 3], normalized)
    assert np.abs(np.array(slopes) - twin).max() > 1e-4


@pytest.mark.parametrize("normalized", [True, False])
def test_quiet_particles_follow_the_density(normalized):
    angles = attention.quiet_angles(bump, 200)
    duration = 1.0 if normalized else 0.5
    density = attention.circle_flow(bump, 3.0, [duration], normalized).dataset
    moved = particles(angles, 3.0, duration, normalized)
    k = np.arange(1, 6)[:, None]
    np.testing.assert_allclose(np.cos(k * moved).mean(axis=1), density.modes[0, 1:6], atol=2e-5)
    np.testing.assert_allclose(np.sin(k * moved).mean(axis=1), density.sine_modes[0, 1:6], atol=2e-5)
    late = particles(angles, 3.0, 1.02 * duration, normalized)
    assert np.abs(np.cos(k * late).mean(axis=1) - density.modes[0, 1:6].values).max() > 5e-4


def test_quiet_start_lies_on_quantiles():
    tokens = attention.quiet_start(bump, 400)
    np.testing.assert_allclose(np.linalg.norm(tokens, axis=1), 1.0, atol=1e-14)
    angles = attention.quiet_angles(bump, 400)
    cdf = (angles + np.pi + 0.3 * np.sin(angles) - 0.1 * (np.cos(2 * angles) - 1.0)) / (2 * np.pi)
    np.testing.assert_allclose(cdf, (np.arange(400) + 0.5) / 400, atol=1e-13)
    assert np.cos(angles).mean() == pytest.approx(0.15, abs=1e-5)
    np.testing.assert_allclose(
        attention.quiet_angles(lambda t: 1.0, 4), [-0.75 * np.pi, -np.pi / 4, np.pi / 4, 0.75 * np.pi]
    )


def test_clusters_stop_the_run_honestly():
    found = attention.circle_flow(bump, 5.0, [0.0, 1.0, 40.0])
    assert not found.ok and "steepens" in found.status
    assert found.dataset.sizes["time"] == 2
    assert (found.dataset.density > 0).all()
    nothing = attention.circle_flow(bump, 5.0, [40.0])
    assert not nothing.ok and nothing.dataset.sizes["time"] == 0


def test_noise_shifts_rates_and_leads_to_the_stationary_law():
    modes = attention.circle_flow(
        lambda t: 1 + 1e-5 * np.cos(2 * t), 2.0, [0.0, 0.5], noise=0.3, points=64
    ).dataset.modes
    slope = float(np.log(modes[1, 2] / modes[0, 2])) / 0.5
    assert slope == pytest.approx(attention.growth_rates(2, 2.0, 2, noise=0.3), abs=1e-5)
    end = attention.circle_flow(lambda t: 1 + 0.8 * np.cos(t), 2.0, [120.0], noise=0.3, points=64).dataset
    law = attention.stationary_law(2.0, 0.3).dataset
    np.testing.assert_allclose(end.modes[0, :8], law.modes[:8], atol=1e-6)
    assert float(law.order_parameter) == pytest.approx(0.56037, abs=5e-6)


# Stationary laws


def test_kuramoto_stationary_law():
    r = float(attention.stationary_law(0.0, 0.25).dataset.order_parameter)
    assert r == pytest.approx(0.83146, abs=5e-6)
    assert r == pytest.approx(i1(r / 0.25) / i0(r / 0.25), abs=1e-11)
    near = attention.stationary_law(0.0, 0.25, start="uniform")
    assert near.ok and float(near.dataset.order_parameter) == pytest.approx(r, abs=1e-10)


def test_uniform_above_critical_noise_with_softmax():
    for beta in (1.0, 4.0):
        law = attention.stationary_law(beta, 1.05 * attention.critical_noise(2, beta))
        assert law.ok and abs(float(law.dataset.order_parameter)) < 1e-9
        ordered = attention.stationary_law(beta, 0.95 * attention.critical_noise(2, beta), start="uniform")
        assert ordered.ok and float(ordered.dataset.order_parameter) > 0.1


@pytest.mark.parametrize("beta, expected", [(1.0, 0.0), (2.0, 0.0), (4.0, 0.750), (8.0, 0.956)])
def test_transition_without_softmax_is_discontinuous_at_large_beta(beta, expected):
    noise = 1.02 * attention.critical_noise(2, beta, normalized=False)
    law = attention.stationary_law(beta, noise, normalized=False)
    assert law.ok and float(law.dataset.order_parameter) == pytest.approx(expected, abs=5e-4)
    nearby = attention.stationary_law(beta, noise, normalized=False, start="uniform")
    assert float(nearby.dataset.order_parameter) == pytest.approx(0.0, abs=1e-9)


def test_too_narrow_a_law_is_not_trusted():
    assert "more points" in attention.stationary_law(0.0, 1e-5, points=64).status


# Axial laws


def skewed(u):
    return 1 + 0.3 * u + 0.2 * (3 * u**2 - 1) / 2


def test_zonal_number_and_convergence():
    found = attention.zonal_flow(skewed, 3, 4.0, [0.0, 3.0])
    assert found.ok
    assert float(found.dataset.mean_height[0]) == pytest.approx(0.1, abs=1e-14)
    assert float(found.dataset.mean_height[1]) == pytest.approx(0.288325409, abs=1e-9)
    assert float(found.dataset.weight.sum()) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("d", [2, 5])
def test_zonal_at_beta_zero_is_one_shift(d):
    times = [0.5, 3.0]
    found = attention.zonal_flow(skewed, d, 0.0, times).dataset.mean_height
    np.testing.assert_allclose(found, attention.zonal_shift(skewed, d, times)[1], atol=1e-9)


@pytest.mark.parametrize("normalized", [True, False])
def test_zonal_and_circle_agree_in_two_dimensions(normalized):
    times = [1.0 if normalized else 0.3]
    zonal = attention.zonal_flow(lambda u: 1 + 0.3 * u, 2, 3.0, times, normalized).dataset
    circle = attention.circle_flow(lambda t: 1 + 0.3 * np.cos(t), 3.0, times, normalized).dataset
    assert float(zonal.mean_height[0]) == pytest.approx(float(circle.modes[0, 1]), abs=1e-8)
    second = 2 * float(zonal.height[0] ** 2 @ zonal.weight) - 1
    assert second == pytest.approx(float(circle.modes[0, 2]), abs=1e-8)


@pytest.mark.parametrize("d", [3, 8, 20])
def test_zonal_slopes_are_growth_rates(d):
    height = attention.zonal_flow(lambda u: 1 + 1e-5 * u, d, 5.0, [0.0, 0.5]).dataset.mean_height
    slope = math.log(float(height[1] / height[0])) / 0.5
    assert slope == pytest.approx(attention.growth_rates(d, 5.0, 1), abs=1e-6)
    assert abs(slope - attention.growth_rates(d + 1, 5.0, 1)) > 1e-3


def test_zonal_against_rings_of_tokens():
    """The same law as weighted tokens on rings of latitude in three dimensions, moved by plain attention."""
    heights, weights = height_rule(3, 12)
    weights = weights * skewed(heights)
    azimuths = 2 * np.pi * np.arange(16) / 16
    flat = np.sqrt(1 - heights**2)
    x0 = np.stack(
        np.broadcast_arrays(flat[:, None] * np.cos(azimuths), flat[:, None] * np.sin(azimuths), heights[:, None]), -1
    )
    x0, mass = x0.reshape(-1, 3), np.repeat(weights, 16) / (16 * weights.sum())

    def slope(t, state):
        x = state.reshape(-1, 3)
        scores = mass * np.exp(4.0 * x @ x.T)
        pull = scores / scores.sum(axis=1, keepdims=True) @ x
        return (pull - (pull * x).sum(axis=1, keepdims=True) * x).ravel()

    x = solve_ivp(slope, (0, 1), x0.ravel(), "DOP853", rtol=1e-8, atol=1e-9).y[:, -1].reshape(-1, 3)
    mean = attention.zonal_flow(skewed, 3, 4.0, [1.0, 1.01]).dataset.mean_height
    assert float(mass @ x[:, 2]) == pytest.approx(float(mean[0]), abs=1e-6)
    assert abs(float(mass @ x[:, 2]) - float(mean[1])) > 1e-4


def test_zonal_works_past_clustering():
    found = attention.zonal_flow(lambda u: np.exp(2 * u), 4, 3.0, [40.0])
    assert found.ok and float(found.dataset.mean_height[0]) == pytest.approx(1.0, abs=1e-6)


# Bad input


@pytest.mark.parametrize(
    "call, word",
    [
        (lambda: attention.circle_flow(lambda t: np.cos(t), 1.0, [1.0]), "density"),
        (lambda: attention.circle_flow(lambda t: np.sign(t) + 1, 1.0, [1.0]), "smooth"),
        (lambda: attention.circle_flow(lambda t: np.ones(3), 1.0, [1.0]), "density"),
        (lambda: attention.circle_flow(1.0, 1.0, [1.0]), "density"),
        (lambda: attention.circle_flow(bump, float("inf"), [1.0]), "beta"),
        (lambda: attention.circle_flow(bump, 1000.0, [1.0], normalized=False), "beta"),
        (lambda: attention.circle_flow(bump, 1.0, [1.0, 0.5]), "times"),
        (lambda: attention.circle_flow(bump, 1.0, []), "times"),
        (lambda: attention.circle_flow(bump, 1.0, [1.0], noise=-1.0), "noise"),
        (lambda: attention.circle_flow(bump, 1.0, [1.0], points=30), "points"),
        (lambda: attention.quiet_start(bump, 0), "n must"),
        (lambda: attention.zonal_flow(skewed, 1, 1.0, [1.0]), "d must"),
        (lambda: attention.zonal_flow(lambda u: u, 3, 1.0, [1.0]), "density"),
        (lambda: attention.zonal_flow(skewed, 3, 1.0, [1.0], nodes=3), "nodes"),
        (lambda: attention.stationary_law(1.0, 0.0), "noise"),
        (lambda: attention.stationary_law(1.0, 0.1, start="random"), "start"),
    ],
)
def test_bad_input_is_a_sentence(call, word):
    with pytest.raises(InputError, match=word) as caught:
        call()
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
