"""The parts of automatic effective dynamics on small cases solved by hand: errors, zeros, paths, exponents, rules."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limen.effective import Estimate, derive, momentum, run
from limen.experiments.effective.effective_dynamics import EffectiveDynamicsCheck
from limen.theory.effective.equilibria import find_fixed_points
from limen.theory.effective.estimates import pooled, spread
from limen.theory.effective.moments import Moments
from limen.theory.effective.scaling import fit_scaling


def test_errors_of_a_mean_over_lifts_and_groups():
    """Two lifts with means 2 and 4, variances 2 and 8 within: s_w^2/LG = 5/4, and sampling explains the rest."""
    groups = np.array([[1.0, 3.0], [2.0, 6.0]])[..., None]
    value, error = pooled(groups)
    assert (value[0], error[0]) == (3.0, pytest.approx(np.sqrt(5 / 4)))
    assert spread(groups).excess[0] == 0.0


def test_lifts_that_differ_are_seen_in_the_error():
    """Lifts at 0 and 10, of 50 groups at distance one: s_b^2 = 50, s_w^2 = 50/49."""
    groups = np.array([[0.0], [10.0]]) + np.tile([1.0, -1.0], 25)
    found = spread(groups[..., None])
    assert found.significant[0] and found.excess[0] == pytest.approx(np.sqrt(50 - 1 / 49))
    assert pooled(groups[..., None]).error[0] == pytest.approx(5.0)


def test_zero_of_a_lopsided_linear_drift():
    """b = A (u - u_*) + 0.1 (u_1 - 1)^2 e_1: the errors go through the inverse of A, which is not symmetric."""
    matrix, zero, noise = np.array([[-2.0, 3.0], [0.5, -4.0]]), np.array([1.0, -0.5]), np.array([0.1, 0.3])

    def drift(u):
        return Estimate(matrix @ (u - zero) + np.array([0.1 * (u[0] - 1.0) ** 2, 0.0]), noise)

    (found,) = find_fixed_points(drift, [np.array([1.4, -0.2])])
    np.testing.assert_allclose(found.value, zero, atol=1e-6)
    inverse = np.array([[-4.0, -3.0], [-0.5, -2.0]]) / 6.5
    np.testing.assert_allclose(found.error, np.sqrt(inverse**2 @ noise**2), rtol=1e-4)
    np.testing.assert_allclose(found.eigenvalues, -3.0 + np.array([1, -1]) * np.sqrt(2.5), rtol=1e-6)
    assert found.stable


def test_exponents_of_power_laws():
    """f ~ N^0, g/step ~ N, Sigma/step ~ N^0, moments N^4, N^0.5, N^2 at a step N^-1; the verdict of other steps."""

    def scaled(power, noise_norm=4.0):
        def at(size):
            delta = size**-power
            groups = {
                "population_drift": [2.0, 1.0], "corrector": [0.0, delta * size], "volatility": delta * np.eye(2),
                "noise_norm": size**noise_norm, "projected_noise": [size**0.5, 0], "curvature_noise": [0, size**2.0],
            }  # fmt: skip
            moments = Moments(**{name: np.asarray(part, float)[None, None] for name, part in groups.items()})
            return SimpleNamespace(check=np.asarray, moments=lambda u: moments, model=SimpleNamespace(delta=delta))

        model = SimpleNamespace(step=lambda size: size**-power)
        return fit_scaling(model, [10, 40, 90], [0.5, 0.5], at)  # pyright: ignore[reportArgumentType]

    found = scaled(1.0)
    names = ("step", "population_drift", "corrector", "volatility", "noise_norm", "projected_noise", "curvature_noise")
    np.testing.assert_allclose([getattr(found, name) for name in names], [-1, 0, 1, 0, 4, 0.5, 2], atol=1e-9)
    assert (found.regime, found.critical_step) == ("critical", pytest.approx(-1.0))
    assert [scaled(power).regime for power in (0.7, 1.3)] == ["too large", "sub-critical"]
    # E|noise|^8 may grow as step^-4 and no faster.
    assert (scaled(1.0, 5.0).regime, "localizability" in scaled(1.0, 5.0).sentence) == ("too large", True)


SIZE, STEP = 8, 0.02


def cloud(key):
    return jax.random.normal(key, (SIZE,))


def distance(x, y):
    return 0.5 * jnp.sum((x - y) ** 2)


def pair_and_square(x):
    return jnp.stack([x[0] + x[1], jnp.sum(x**2)])


@pytest.mark.slow
def test_momentum_in_all_three_terms():
    """V = I, J V J^T = [[2, 2u], [2u, 4w]]: f over 1 - beta, g and Sigma over its square."""
    beta, value = 0.5, np.array([0.6, 1.1])
    dynamics = derive(
        distance, cloud, pair_and_square, STEP, SIZE, update=momentum(beta), samples=2**16, memory=16, lifts=2
    )
    u, w = value
    terms = (
        (dynamics.population_drift(value), np.array([u, 2 * w]) / (1 - beta)),
        (dynamics.corrector(value), np.array([0.0, STEP * SIZE]) / (1 - beta) ** 2),
        (dynamics.volatility(value), STEP * np.array([[2, 2 * u], [2 * u, 4 * w]]) / (1 - beta) ** 2),
    )
    for found, exact in terms:
        assert (np.abs(found.value - exact) <= 4 * found.error + 1e-12).all()
        assert found.error.max() < 0.1 * np.abs(exact).max()


@pytest.mark.slow
def test_a_run_with_momentum_by_hand():
    """Noiseless x^2/2 from 1: v = beta v + x, x = x - step v, three steps."""
    beta, step, x, v, path = 0.5, 0.1, np.array([1.0, 2.0]), np.zeros(2), [1.0]
    for _ in range(3):
        v = beta * v + x
        x = x - step * v
        path.append(x[0])
    found = run(
        lambda x, y: 0.5 * jnp.sum(x**2) + 0.0 * y, lambda key: jax.random.normal(key), lambda x: x[0], step, 2,
        [0.0, 0.1, 0.2, 0.3], [1.0, 2.0], 2, momentum(beta),
    )  # fmt: skip
    np.testing.assert_allclose(found.dataset.statistics.values[..., 0], np.tile(path, (2, 1)), rtol=1e-12)
    assert found.dataset.step.values.tolist() == [0, 1, 2, 3]


def first(x):
    return x[0]


@pytest.fixture(scope="module")
def wandering():
    """x[0] is an Ornstein-Uhlenbeck process: du = -u dt + sqrt(step) dB."""
    return derive(distance, cloud, first, STEP, SIZE, lifts=64, samples=64 * 64)


@pytest.mark.slow
def test_a_flow_shows_how_far_runs_stray(wandering):
    times = np.array([0.0, 0.5, 2.0])
    found = wandering.flow(1.0, times).dataset
    np.testing.assert_allclose(found.statistics.values[:, 0], np.exp(-times), atol=0.01)
    exact = np.sqrt(0.5 * STEP * (1 - np.exp(-2 * times)))
    np.testing.assert_allclose(found.fluctuation.values[1:, 0], exact[1:], rtol=0.35)
    # The error of the mean over replicas is far below the spread of one of them, and not below its own deviation.
    assert (np.abs(found.statistics.values[1:, 0] - np.exp(-times[1:])) < 4 * found.error.values[1:, 0] + 2e-3).all()
    assert (found.error.values[1:, 0] < 0.2 * exact[1:]).all()


@pytest.mark.slow
def test_a_portrait_holds_drift_error_and_volatility():
    dynamics = derive(distance, cloud, pair_and_square, STEP, SIZE, lifts=2, samples=256)
    picture = dynamics.portrait([0.2, 0.6], [1.0, 1.5, 2.0]).dataset
    value, error = dynamics.effective_drift([0.6, 1.5])
    np.testing.assert_array_equal(picture.drift.values[1, 1], value)
    np.testing.assert_array_equal(picture.error.values[1, 1], error)
    np.testing.assert_array_equal(picture.volatility.values[1, 1], dynamics.volatility([0.6, 1.5]).value)


@pytest.mark.slow
def test_paths_that_explode_are_stopped_and_said():
    """du/dt = u^2 from 1 blows up at t = 1."""
    dynamics = derive(
        lambda x, y: -(x[0] ** 3) / 3.0 + 0.0 * y,
        lambda key: jax.random.normal(key),
        first,
        0.01,
        2,
        lifts=2,
        samples=64,
    )
    flow = dynamics.flow(1.0, [0.0, 0.5, 3.0])
    assert not flow.ok and "the path stopped at t = " in flow.status
    reached = float(flow.status.split("t = ")[1].split(":")[0])
    assert reached == pytest.approx(1.0, abs=0.03)
    assert flow.dataset.statistics.values[1, 0] == pytest.approx(2.0, rel=0.02)
    diffusion = dynamics.diffusion(1.0, [0.0, 3.0], paths=4)
    assert not diffusion.ok and "take shorter times" in diffusion.status


def test_exact_terms_of_the_experiment_are_those_of_the_gradient_covariance():
    """f = J grad Phi, g = step/2 <V, hess u> and Sigma = step J V J^T with V = 8 R^2 I + 8 x x^T, index by index."""
    signal, c = 3.0, 0.25
    experiment = EffectiveDynamicsCheck(d=8, signal=signal, step=c)
    size = experiment.d
    x = np.random.default_rng(0).normal(size=size)
    covariance = 8.0 * (x @ x) * np.eye(size) + 8.0 * np.outer(x, x)
    gradient = 4.0 * (x @ x) * x
    gradient[0] -= 4.0 * signal * x[0]
    rest = np.concatenate([[0.0], x[1:]])
    jacobian = np.stack([np.eye(size)[0], 2.0 * rest])
    f, g = experiment._exact(np.array([x[0], rest @ rest]))
    np.testing.assert_allclose(f, jacobian @ gradient, rtol=1e-12)
    np.testing.assert_allclose(g, [0.0, c / size * np.trace(covariance[1:, 1:])], rtol=1e-12)
    volatility = c / size * jacobian @ covariance @ jacobian.T
    found = experiment._exact_volatility(x[0], float(rest @ rest))
    np.testing.assert_allclose(found, volatility[np.triu_indices(2)], rtol=1e-12)
