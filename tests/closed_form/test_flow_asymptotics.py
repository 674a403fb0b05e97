"""Interpolation threshold, ageing states, growth of complexity, mean field and bounds: against closed forms."""

import inspect

import numpy as np
import pytest
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.optimize import fsolve

import limen
from limen.result import Result
from limen.theory.flow.continuous import continuous_state, integrate
from limen.theory.flow.long_times.ageing_state import NoiseCovariance, local_slope
from limen.theory.flow.long_times.consistent_threshold import consistent_state
from limen.theory.flow.long_times.threshold import ageing_state
from limen.theory.flow.one_step import one_step, one_step_threshold, stable_at_end, stable_at_zero

SQUARE, CUBE, MIXED = [0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.5, 0.5]
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)


def curve(times, train, test):
    data = {"train_loss": ("time", np.asarray(train)), "test_loss": ("time", np.asarray(test))}
    return Result(xr.Dataset(data, coords={"time": np.asarray(times)}), {"type": "curve"}, "theory")


def pure_power_threshold(p, ratio):
    return np.sqrt(p * ratio / (2.0 * (p - 1.0) * (2.0 - ratio)))


@pytest.mark.parametrize(
    ("h", "expected"),
    [
        (SQUARE, (0.22948, 0.33375, 0.42140, 0.50317, 0.58397)),
        (CUBE, (0.19868, 0.28868, 0.36380, 0.43301, 0.50000)),
        (MIXED, (0.20914, 0.30359, 0.38220, 0.45437, 0.52396)),
    ],
)
def test_thresholds_at_five_ratios(h, expected):
    found = [limen.flow.interpolation_threshold(h, ratio) for ratio in RATIOS]
    assert np.allclose(found, expected, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("p", [3, 4, 7])
def test_the_closed_form_of_pure_powers(p):
    h = [0.3, 2.0, *[0.0] * (p - 2), 2.5]
    for ratio in (0.05, 0.4, 0.95):
        found = limen.flow.interpolation_threshold(h, ratio, noise=0.7)
        assert found == pytest.approx(np.sqrt(0.7 / 2.5) * pure_power_threshold(p, ratio), rel=1e-12)


def unscaled_one_step(h, ratio, gamma, chi, y):
    """Both equations of the one-step state in the units of the problem, zero at a solution (noise variance 1)."""
    covariance = NoiseCovariance(h)
    value, first, second = (covariance(1.0, order) for order in (0, 1, 2))
    resolvent, width = 1.0 + gamma**2 * first * chi, gamma**2 * value
    whole = resolvent + y * width
    correlation = width / (resolvent * whole) + 1.0 / whole**2
    plateau = chi * (chi + y) * ratio * gamma**2 * first * correlation - 1.0
    marginal = chi**2 * ratio * gamma**2 * (gamma**2 * first**2 / resolvent**2 + second * correlation) - 1.0
    return np.array([plateau, marginal]), 0.5 * correlation


@pytest.mark.parametrize(("h", "ratio"), [(CUBE, 0.3), (MIXED, 0.4)])
def test_the_one_step_threshold_is_where_the_response_diverges(h, ratio):
    threshold = limen.flow.interpolation_threshold(h, ratio)
    gammas = []
    for chi in (1e3, 1e4):
        solution, _, code, _ = fsolve(
            lambda u, chi=chi: unscaled_one_step(h, ratio, u[0], chi, chi * u[1])[0],
            [threshold, 1.5],
            full_output=True,
            xtol=1e-13,
        )
        assert code == 1
        gammas.append(solution[0])
    assert gammas[1] + (gammas[1] - gammas[0]) / 9.0 == pytest.approx(threshold, abs=2e-6)


@pytest.mark.parametrize(("h", "ratio", "gamma"), [(CUBE, 0.3, 0.25), (MIXED, 0.3, 0.3), (CUBE, 0.5, 0.02)])
def test_the_one_step_error_solves_the_unscaled_equations(h, ratio, gamma):
    state = ageing_state(NoiseCovariance(h), ratio, gamma / ratio**0.5)
    assert state is not None and state.structure == "one step"
    # One divided by the gap is the unit of the problem.
    chi, y = (part / (gamma * ratio**0.5 * state.gap) for part in (state.response, state.slope))
    residual, error = unscaled_one_step(h, ratio, gamma, chi, y)
    assert np.abs(residual).max() < 1e-10
    assert limen.flow.asymptotic_error(h, ratio, gamma) == pytest.approx(error, rel=1e-10)
    assert np.abs(unscaled_one_step(h, ratio, gamma, chi, 1.001 * y)[0]).max() > 1e-5


@pytest.mark.parametrize(("h", "ratio", "gamma"), [(SQUARE, 0.3, 0.38), ([0, 0, 0.9, 0.1], 0.5, 0.5)])
def test_the_continuous_state_solves_the_integral_equations(h, ratio, gamma):
    """The equations of the problem in its own units, by quadrature; the library integrates their second derivative."""
    covariance, kappa = NoiseCovariance(h), gamma / ratio**0.5
    state = continuous_state(covariance, ratio, kappa)
    solution = integrate(covariance, ratio, kappa, 0.0, covariance(0.0, 2) ** -0.5, 1.0, 1.0)
    assert state is not None and solution is not None
    q = np.linspace(0.0, 1.0, 4001)
    x, resolvent, correlation = solution.sol(q)
    chi, resolvent = x / (gamma * ratio**0.5 * state.gap), resolvent / state.gap
    correlation = correlation * state.gap**2
    force = covariance(q, 1)

    def primitive(values):
        steps = np.concatenate([[0.0], 0.5 * (values[1:] + values[:-1]) * np.diff(q)])
        return np.cumsum(steps)

    plateau = primitive(chi**-2.0) - ratio * gamma**2 * force * correlation
    assert np.abs(plateau).max() < 1e-6 * primitive(chi**-2.0)[-1]
    assert resolvent[-1] == pytest.approx(1.0 + gamma**2 * force[-1] * chi[-1], rel=1e-9)
    assert np.allclose(correlation, resolvent[0] ** -2 + primitive(gamma**2 * force / resolvent**2), rtol=1e-6)
    assert np.allclose(resolvent, resolvent[-1] - gamma**2 * _from_the_end(q, force * np.gradient(chi, q)), rtol=1e-5)
    assert limen.flow.asymptotic_error(h, ratio, gamma) == pytest.approx(0.5 * correlation[-1], rel=1e-9)
    slopes = [local_slope(covariance, ratio, kappa, float(at), *solution.sol(at)) for at in (0.0, 0.5, 1.0)]
    assert slopes[0] < slopes[1] < slopes[2]
    step = one_step(covariance, ratio, kappa)
    assert step is not None and not stable_at_zero(covariance, step)


def _from_the_end(q, values):
    steps = np.concatenate([[0.0], 0.5 * (values[1:] + values[:-1]) * np.diff(q)])
    return np.cumsum(steps)[-1] - np.cumsum(steps)


def test_errors_of_published_accuracy():
    assert limen.flow.asymptotic_error(SQUARE, 0.3, 0.38) == pytest.approx(0.00408, abs=5e-6)
    assert limen.flow.asymptotic_error(CUBE, 0.3, 0.25) == pytest.approx(0.04266, abs=5e-6)
    assert limen.flow.asymptotic_error(SQUARE, 0.3, [0.0, 0.4214, 0.9]).tolist() == [0.5, 0.0, 0.0]


@pytest.mark.parametrize("h", [SQUARE, CUBE, MIXED])
def test_small_gamma_is_a_spin_glass(h):
    energy, ratio, noise = limen.flow.threshold_energy(h), 0.3, 0.6
    gammas = np.array([1e-3, 2e-3])
    slopes = (0.5 * noise - limen.flow.asymptotic_error(h, ratio, gammas, noise)) / gammas
    assert 2.0 * slopes[0] - slopes[1] == pytest.approx(noise**0.5 * energy / ratio**0.5, rel=1e-5)


def test_threshold_energies():
    for p in (2, 3, 5):
        expected = 2.0 * np.sqrt(1.7 * (p - 1) / p)
        assert limen.flow.threshold_energy([0.0] * p + [1.7]) == pytest.approx(expected, rel=1e-12)
    # q^2 with a little q^4: one step is unstable and the energy is the integral of sqrt(h'').
    q = (np.arange(20000) + 0.5) / 20000
    expected = np.sqrt(1.8 + 1.2 * q**2).mean()
    assert limen.flow.threshold_energy([0, 0, 0.9, 0, 0.1]) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("h", [SQUARE, CUBE])
def test_scalings(h):
    noise, factor, ratio, gamma = 0.37, 2.3, 0.3, 0.15
    threshold = limen.flow.interpolation_threshold(h, ratio)
    assert limen.flow.interpolation_threshold(h, ratio, noise) == pytest.approx(noise**0.5 * threshold, rel=1e-9)
    stretched = [3.0, 5.0, *(factor * c for c in h[2:])]
    assert limen.flow.interpolation_threshold(stretched, ratio) == pytest.approx(threshold / factor**0.5, rel=1e-8)
    error = limen.flow.asymptotic_error(h, ratio, gamma)
    scaled = limen.flow.asymptotic_error(h, ratio, gamma * noise**0.5, noise)
    assert scaled == pytest.approx(noise * error, rel=1e-9)
    assert limen.flow.asymptotic_error(stretched, ratio, -gamma / factor**0.5) == pytest.approx(error, rel=1e-8)


@pytest.mark.parametrize("h", [SQUARE, CUBE, MIXED])
def test_the_ratio_inverts_the_threshold(h):
    for ratio in (0.02, 0.45, 0.85):
        gamma = limen.flow.interpolation_threshold(h, ratio, noise=0.4)
        assert limen.flow.interpolation_ratio(h, gamma, noise=0.4) == pytest.approx(ratio, rel=1e-6)
    assert limen.flow.interpolation_ratio(h, 30.0) == 1.0


def test_the_step_of_pure_powers_is_stable_at_its_end_up_to_a_known_ratio():
    for p in (3, 4, 6):
        covariance, edge = NoiseCovariance([0.0] * p + [1.0]), (p - 2) / (2 * p - 3)
        for ratio, expected in ((0.99 * edge, True), (1.01 * edge, False)):
            kappa = (1.0 - 1e-7) * one_step_threshold(covariance, ratio)[0] / ratio**0.5
            step = one_step(covariance, ratio, kappa)
            assert step is not None and stable_at_end(covariance, ratio, kappa, step) is expected


def test_consistent_states_obey_what_their_structure_asks_for():
    for h, ratio, gamma, structure in (
        (CUBE, 0.3, 0.3, "one step"),
        (SQUARE, 0.5, 0.4, "continuous"),
        (CUBE, 0.7, 0.62, "one step, then continuous"),
        ([0, 0, 0.9, 0, 0.1], 0.5, 0.1, "continuous, then one step"),
    ):
        covariance, kappa = NoiseCovariance(h), gamma / ratio**0.5
        state = consistent_state(covariance, ratio, kappa)
        assert state is not None and state.structure == structure
        # Marginal stability at q = 1, and the plateau equation there, in every structure.
        first, second = covariance(1.0, 1), covariance(1.0, 2)
        marginal = second * state.correlation + ratio * (kappa * first / state.resolvent) ** 2
        assert state.response**2 * marginal == pytest.approx(1.0, abs=1e-8)
        simple = ageing_state(covariance, ratio, kappa)
        assert simple is not None and state.training_error > 0.0
        if structure in ("one step", "continuous"):
            assert state.training_error == simple.training_error


def test_the_consistent_threshold():
    assert limen.flow.consistent_threshold(SQUARE, 0.3) == limen.flow.interpolation_threshold(SQUARE, 0.3)
    assert limen.flow.consistent_threshold(CUBE, 0.3) == pytest.approx(pure_power_threshold(3, 0.3), rel=1e-9)
    found = [limen.flow.consistent_threshold(CUBE, ratio) for ratio in (0.4, 0.5, 0.7)]
    assert np.allclose(found, [0.433120, 0.500910, 0.643670], atol=1e-6)
    assert limen.flow.consistent_error(CUBE, 0.7, 0.64, noise=1.0) > 0.0
    assert limen.flow.consistent_error(CUBE, 0.7, [0.65]).tolist() == [0.0]
    with pytest.raises(limen.InputError, match="no consistent state"):
        limen.flow.consistent_threshold([0, 0, 0, 0.9, 0, 0, 0, 0, 0, 0, 0.1], 0.1)


def test_adiabatic_growth():
    result = limen.flow.adiabatic(SQUARE, 0.3, [0.1, 0.3, 1.0, 2.0])
    assert np.allclose(result.dataset.gamma, [0.0694, 0.1711, 0.3371, 0.4016], atol=6e-5)
    assert float(result.dataset.threshold) == pytest.approx(0.42140, abs=1e-5)
    assert float(result.dataset.initial_slope) == pytest.approx(np.sqrt(0.3 * 2.0), rel=1e-12)
    expected = limen.flow.asymptotic_error(SQUARE, 0.3, result.dataset.gamma.values)
    assert np.allclose(result.dataset.train_loss, expected, atol=1e-7)


def test_adiabatic_growth_conserves_what_it_should():
    """The error lost is the integral of the squared speed over alpha; the end is the threshold; noise only rescales."""
    result = limen.flow.adiabatic(CUBE, 0.3, np.linspace(0.0, 8.0, 2001))
    gamma, s = result.dataset.gamma.values, result.dataset.time.values
    speed = np.gradient(gamma, s)
    dissipated = np.trapezoid(speed**2, s) / 0.3
    assert 0.5 - float(result.dataset.train_loss[-1]) == pytest.approx(dissipated, rel=1e-4)
    assert gamma[-1] == pytest.approx(pure_power_threshold(3, 0.3), rel=1e-4)
    chords = gamma[1:3] / s[1:3]
    assert 2.0 * chords[0] - chords[1] == pytest.approx(float(result.dataset.initial_slope), rel=1e-4)
    noisy = limen.flow.adiabatic(CUBE, 0.3, [1.0], noise=0.3)
    assert float(noisy.dataset.gamma[0]) == pytest.approx(0.3**0.5 * np.interp(1.0, s, gamma), rel=1e-6)
    until = limen.flow.adiabatic(CUBE, 0.3)
    assert float(until.dataset.gamma[-1]) == pytest.approx(0.999 * gamma[-1], rel=1e-4)


def network_problem(width=40, noise=0.3, second_layer=1.0, start=None, trained=True, target=None, ratio=0.5):
    return limen.TwoLayer(
        target=target or limen.target(hermite=[0.0, 1.0], noise=noise),
        network=limen.network(
            width, limen.activation(hermite=[0.0, 0.8, 0.6]), second_layer, train_second_layer=trained
        ),
        algorithm=limen.GradientFlow(),
        samples_per_dim=ratio * width,
        start=start or limen.RandomStart(),
    )


def test_mean_field_of_equal_neurons_is_two_dimensional():
    """Against the two equations written out, in their own time."""
    result = limen.flow.mean_field(network_problem(), [0.0, 1.0, 2.0, 20.0])

    def slopes(_, state):
        a, v = state
        h, slope = 0.64 * v**2 + 0.36 * v**4, 0.64 + 0.72 * v**2
        return [0.8 * v - a * h, a * (1 - v**2) * (0.8 - a * slope * v)]

    expected = solve_ivp(slopes, (0.0, 10.0), [1.0, 0.0], t_eval=[0.0, 0.5, 1.0, 10.0], rtol=1e-11, atol=1e-13)
    assert np.allclose(result.dataset.second_layer.values[:, 0], expected.y[0], atol=1e-7)
    assert np.allclose(result.dataset.overlap.values[:, 0, 0], expected.y[1], atol=1e-7)
    assert float(result.dataset.overlap[2, 0, 0]) == pytest.approx(0.5194, abs=5e-5)
    a, v = expected.y
    loss = 0.5 * (0.3 + 1.0 - 1.6 * a * v + a**2 * (0.64 * v**2 + 0.36 * v**4))
    assert np.allclose(result.dataset.train_loss, loss, atol=1e-7)
    assert np.array_equal(result.dataset.train_loss, result.dataset.test_loss)
    assert np.allclose(result.dataset.gram.values[:, 0, 0], v**2, atol=1e-7)
    assert np.allclose(np.diagonal(result.dataset.correlation), 1.0)


def test_mean_field_descends_the_population_risk():
    """m different particles, two latents: the loss falls by the squared speed of all particles, averaged."""
    rng = np.random.default_rng(0)
    second = tuple(rng.normal(size=6))
    overlap = tuple(map(tuple, 0.4 * rng.normal(size=(6, 2)).clip(-1, 1)))
    problem = network_problem(
        6, 0.1, second, limen.OverlapStart(overlap), target=limen.target("z1*z2 + 0.5*z1", noise=0.1)
    )
    times = np.linspace(0.0, 4.0, 801)
    result = limen.flow.mean_field(problem, times)
    data, clock = result.dataset, 0.5 * times
    a, v = data.second_layer.values, data.overlap.values
    assert v.shape == (801, 6, 2)
    speed_a, speed_v = np.gradient(a, clock, axis=0), np.gradient(v, clock, axis=0)
    # On the sphere the orthogonal part moves too, along its own direction.
    rest = np.sqrt(1.0 - (v**2).sum(axis=2))
    squared = (speed_a**2 + (speed_v**2).sum(axis=2) + np.gradient(rest, clock, axis=0) ** 2).mean(axis=1)
    lost = -np.gradient(data.train_loss.values, clock)
    assert np.allclose(lost[2:-2], squared[2:-2], rtol=2e-3)
    twin = np.roll(squared, 40)
    assert not np.allclose(lost[2:-2], twin[2:-2], rtol=2e-3)


def test_mean_field_groups_stand_for_their_neurons():
    start = limen.OverlapStart(((0.3,), (0.3,), (-0.2,), (0.3,)))
    whole = limen.flow.mean_field(network_problem(4, second_layer=(1.0, 1.0, -0.5, 1.0), start=start), [0.0, 3.0])
    assert whole.dataset.group_size.values.tolist() == [3, 1]
    nudged = limen.OverlapStart(((0.3,), (0.3 + 1e-13,), (-0.2,), (0.3 - 1e-13,)))
    split = limen.flow.mean_field(network_problem(4, second_layer=(1.0, 1.0, -0.5, 1.0), start=nudged), [0.0, 3.0])
    assert split.dataset.sizes["group"] == 4
    assert np.allclose(split.dataset.test_loss, whole.dataset.test_loss, atol=1e-9)
    frozen = limen.flow.mean_field(network_problem(trained=False), [0.0, 3.0])
    assert np.array_equal(frozen.dataset.second_layer.values.ravel(), [1.0, 1.0])


def test_relaxation_time_of_an_exponential():
    t = np.linspace(0.0, 40.0, 81)
    decay = 0.5 * np.exp(-t / 2.5) * (1.0 + 0.3 * np.exp(-t))
    assert limen.flow.relaxation_time(curve(t, decay, decay)) == pytest.approx(2.5, rel=1e-3)
    stopped = np.maximum(decay, 1e-9)
    assert limen.flow.relaxation_time(curve(t, stopped, decay)) == pytest.approx(2.5, rel=1e-3)
    with pytest.raises(limen.InputError, match="not exponential"):
        limen.flow.relaxation_time(curve(1.0 + t * 50.0, (1.0 + t * 50.0) ** -2.0, t))
    with pytest.raises(limen.InputError, match="solve longer"):
        limen.flow.relaxation_time(curve(t[:8], decay[:8], t[:8]))


def test_the_lazy_rate_is_the_edge_of_a_wishart_matrix():
    """Sampled at 75 and 600 rows; the edge is late by a term in rows^(-2/3), which is extrapolated away."""
    gamma = 0.9
    rng = np.random.default_rng(1)

    def edge(rows, draws):
        columns = rows * 10 // 3
        draw = (rng.normal(size=(rows, columns)) / np.sqrt(columns) for _ in range(draws))
        return np.mean([np.linalg.eigvalsh(features @ features.T)[0] for features in draw])

    expected = 2.0 * gamma**2 * 2.0 * (4.0 * edge(600, 2) - edge(75, 60)) / 3.0
    assert limen.flow.lazy_relaxation_rate(SQUARE, 0.3, gamma) == pytest.approx(expected, rel=0.015)
    assert limen.flow.lazy_relaxation_rate(SQUARE, 0.33, gamma) != pytest.approx(expected, rel=0.015)


def test_early_stopping_finds_the_minimum_and_says_what_follows():
    t = np.geomspace(0.1, 1e4, 151)
    test = 0.3 + 0.02 * np.log(t / 7.0) ** 2 / (1 + 0.1 * np.log(t / 7.0) ** 2)
    found = limen.flow.early_stopping(curve(t, 0.2 / (1 + t), test))
    assert found.time == pytest.approx(7.0, rel=1e-3) and found.test_loss == pytest.approx(0.3, abs=1e-6)
    assert found.verdict == "overfits" and found.interior and "overfits" in str(found)
    cut = limen.flow.early_stopping(curve(t, 0.2 / (1 + t), np.where(t < 2000.0, test, np.nan)))
    assert (cut.time, cut.verdict) == (found.time, "overfits") and cut.final_test_loss < found.final_test_loss
    flat = 0.2 + 0.3 * np.exp(-t)
    assert limen.flow.early_stopping(curve(t, 0.9 * flat, flat + 0.01 * t / (300 + t))).verdict == "trapped"
    assert limen.flow.early_stopping(curve(t, 0.4 * flat, flat + 0.01 * t / (300 + t))).verdict == "overfits"
    assert limen.flow.early_stopping(curve(t, t**-0.1, t**-0.1)).verdict == "still training"


def test_bounds_meet():
    """The time bound is where the gap bound of the second-layer bound reaches the gap."""
    numbers = {"size": 1.3, "slope": 0.8}
    found = limen.flow.overfitting_time_bound(0.2, 4e4, 1.0, 0.6, 1.3, 0.8, label_power=1.2)
    largest = limen.flow.second_layer_bound(found, 1.0, 1.3, 0.6)
    assert limen.flow.generalization_bound(largest, 4e4, **numbers, label_power=1.2) == pytest.approx(0.2, rel=1e-12)
    assert limen.flow.overfitting_time_bound(0.2, 10.0, 1.0, 0.6, 1.3, 0.8, 1.2) == 0.0
    late = [limen.flow.overfitting_time_bound(0.2, n, 0.0, 0.6, 1.3, 0.8, 1.2) for n in (1e12, 16e12)]
    assert late[1] / late[0] == pytest.approx(2.0, rel=1e-2)
    assert limen.flow.bartlett_bound([1.0, -3.0], 16.0) == 0.5


def test_the_gap_bound_holds_where_the_worst_network_is_known():
    """One linear neuron on clipped labels: no network of its class can do better on the sample than this one."""
    rng = np.random.default_rng(2)
    d, n, norm = 60, 600, 1.0
    x, y = rng.normal(size=(n, d)), rng.normal(size=n)
    w = np.tanh(x).T @ y
    w /= np.linalg.norm(w)
    fit = norm * np.tanh(x @ w)
    fresh = rng.normal(size=(200_000,))
    risk = 0.5 * (1.0 + norm**2 * np.mean(np.tanh(fresh) ** 2))
    gap = risk - 0.5 * np.mean((y - fit) ** 2)
    size, slope = limen.flow.activation_bounds(limen.activation("tanh"))
    bound = limen.flow.generalization_bound(norm, n / d, size, slope, 1.0)
    assert (size, slope) == (pytest.approx(1.0), pytest.approx(1.0))
    assert 0.05 * bound < gap < bound


def test_overfitting_bounds_of_a_problem():
    problem = limen.TwoLayer(
        target=limen.target("tanh(z)", noise=0.3),
        network=limen.network(50, "tanh", 1e-3, train_second_layer=True),
        algorithm=limen.GradientFlow(),
        samples_per_dim=2e6,
    )
    result = limen.flow.overfitting_bounds(problem, [0.0, 1e-4], gap=0.1)
    power = 0.3 + float(limen.gaussian.dual("tanh")(1.0))
    assert float(result.dataset.second_layer_bound[0]) == pytest.approx(1e-3)
    growth = float(result.dataset.second_layer_bound[1] - 1e-3) / (4e4 * 1e-4)
    assert growth == pytest.approx(power**0.5, rel=1e-3)
    assert float(result.dataset.overfitting_time) > 0.0
    with pytest.raises(limen.InputError, match="bounded"):
        limen.flow.overfitting_bounds(network_problem(), 1.0)


def noise_problem(series, width, ratio, second_layer, trained):
    return limen.TwoLayer(
        target=limen.target(hermite=[0.0], noise=1.0),
        network=limen.network(width, limen.activation(hermite=series), second_layer, train_second_layer=trained),
        algorithm=limen.GradientFlow(),
        samples_per_dim=ratio * width,
    )


@pytest.mark.slow
def test_a_trained_second_layer_grows_adiabatically():
    """Two-time equations at m = 10240 from a = 1: neither knows of the other."""
    m, s = 10240, np.array([0.1, 0.3, 1.0, 2.0])
    run = limen.flow.solve(noise_problem([0.0, 0.0, 1.0], m, 0.3, 1.0, True), m * s)
    assert run.ok
    gamma = run.dataset.second_layer.values.ravel() / m**0.5
    assert np.allclose(gamma, [0.0694, 0.1707, 0.3371, 0.4021], atol=3e-4)
    assert np.allclose(gamma, limen.flow.adiabatic(SQUARE, 0.3, s).dataset.gamma, atol=1e-3)
    assert not np.allclose(gamma, limen.flow.adiabatic(SQUARE, 0.32, s).dataset.gamma, atol=1e-3)


@pytest.mark.slow
def test_complexity_ends_at_the_interpolation_threshold():
    """With a linear target to be learnt first: what remains after it is noise for the quadratic part."""
    m = 20000
    run = limen.flow.solve(network_problem(m, ratio=0.3), [0.0, 30.0 * m], tolerance=3e-3)
    assert "interpolates" in run.status
    expected = limen.flow.interpolation_threshold([0.0, 0.64, 0.36], 0.3, noise=0.3)
    assert expected == pytest.approx(0.3847, abs=5e-5)
    assert float(run.dataset.second_layer[-1, 0]) / m**0.5 == pytest.approx(expected, abs=1.5e-3)


@pytest.mark.slow
def test_finite_width_is_one_over_m_from_mean_field():
    limit = float(limen.flow.mean_field(network_problem(), [2.0]).dataset.overlap[0, 0, 0])
    found = np.array(
        [float(limen.flow.solve(network_problem(m), [2.0]).dataset.overlap[0, 0, 0]) for m in (10, 40, 160)]
    )
    assert np.allclose(found, [0.4615, 0.5034, 0.5151], atol=3e-4)
    deviation = limit - found
    assert 3.3 < deviation[0] / deviation[1] < 4.5 and 3.6 < deviation[1] / deviation[2] < 4.4


@pytest.mark.slow
def test_a_target_with_a_quadratic_part_traps_wide_networks():
    """The same network and target; 100 neurons fit the noise and 2000 stay where they have learnt."""
    series, times = [0.0, 0.8, 0.6], np.geomspace(0.1, 5e4, 64)
    target = limen.target(hermite=series, noise=0.3)
    narrow, wide = (
        limen.flow.early_stopping(limen.flow.solve(network_problem(m, target=target, ratio=0.3), times, tolerance=5e-3))
        for m in (100, 2000)
    )
    assert (narrow.verdict, wide.verdict) == ("overfits", "trapped")
    assert narrow.interior and narrow.final_test_loss > 0.2 > wide.final_test_loss


@pytest.mark.slow
@pytest.mark.parametrize(
    ("series", "gamma", "rate", "end"),
    [
        ([0.0, 0.0, 1.0], 0.7, 0.31, 40.0),
        ([0.0, 0.0, 1.0], 0.5, 0.027, 700.0),
        ([0.0, 0.0, 0.0, 1.0], 0.44, 0.021, 900.0),
    ],
)
def test_relaxation_above_the_threshold(series, gamma, rate, end):
    """Rates still fall a little at late times, so that fits of earlier windows are larger by up to 6%."""
    run = limen.flow.solve(noise_problem(series, 4, 0.3, 2.0 * gamma, False), np.linspace(0.0, end, 81))
    found = 1.0 / limen.flow.relaxation_time(run)
    assert 0.92 * rate < found < rate
    assert found < limen.flow.lazy_relaxation_rate(np.square(series), 0.3, gamma)


@pytest.mark.slow
def test_a_long_step_ends_between_the_two_thresholds():
    """q^3 at alpha = 0.7, where the step is unstable at overlap 1."""
    m = 10240
    run = limen.flow.solve(noise_problem([0.0, 0.0, 0.0, 1.0], m, 0.7, 1.0, True), [m, 30.0 * m], tolerance=3e-3)
    gamma = float(run.dataset.second_layer[-1, 0]) / m**0.5
    assert limen.flow.interpolation_threshold(CUBE, 0.7) + 3e-3 < gamma < limen.flow.consistent_threshold(CUBE, 0.7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: limen.flow.interpolation_threshold(SQUARE, 1.0), "samples_per_parameter must be between 0 and 1"),
        (lambda: limen.flow.interpolation_threshold(SQUARE, 0.0), "samples_per_parameter must be between 0 and 1"),
        (lambda: limen.flow.interpolation_threshold(SQUARE, 0.3, noise=0.0), "noise must be a positive variance"),
        (lambda: limen.flow.interpolation_threshold([1.0, 1.0], 0.3), "degree 2 or more"),
        (lambda: limen.flow.interpolation_threshold([0.0, 0.0, -1.0], 0.3), "not negative"),
        (lambda: limen.flow.interpolation_threshold("q**2", 0.3), "unknown name 'q'"),
        (lambda: limen.flow.interpolation_ratio(SQUARE, -1.0), "gamma must be positive"),
        (lambda: limen.flow.asymptotic_error(SQUARE, 0.3, np.nan), "gamma must be finite"),
        (lambda: limen.flow.adiabatic(SQUARE, 0.3, [1.0], noise=-1.0), "noise must be a positive variance"),
        (lambda: limen.flow.bartlett_bound(1.0, 0.0), "samples_per_dim must be positive"),
        (lambda: limen.flow.early_stopping(curve([0.0, 1.0], [1.0, 0.5], [1.0, 0.5])), "4 solved times or more"),
    ],
)
def test_mistakes_are_said_in_a_sentence(call, message):
    with pytest.raises(limen.InputError, match=message):
        call()


def test_public_names_are_documented():
    for name in limen.flow.__all__:
        assert inspect.getdoc(getattr(limen.flow, name)), name
