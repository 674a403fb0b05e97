"""The flow chapter on cases small enough to be written out: unequal groups, starts, grids, bounds, particles."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.integrate import cumulative_trapezoid, quad

import limen
from limen.gaussian.hermite import hermite_coefficients
from limen.result import Result
from limen.theory.flow.continuous import integrate
from limen.theory.flow.finite_step import descend
from limen.theory.flow.history import History
from limen.theory.flow.integrator import follow
from limen.theory.flow.link_overlap import label_mean_square, link_overlap
from limen.theory.flow.long_times.ageing_state import NoiseCovariance
from limen.theory.flow.long_times.consistent_threshold import consistent_state
from limen.theory.flow.model import activation_series, gaussian_model
from limen.theory.flow.observables import Observables, extrapolate, grid_error, mean_correlation
from limen.theory.flow.one_step import one_step, one_step_threshold, stable_at_zero

SERIES, LABEL, NOISE = np.array([0.3, 0.7, 0.5]), np.array([0.2, 0.8, 0.4]), 0.3
POWER = NOISE + float(LABEL @ LABEL)
LAYER, OVERLAP = np.array([1.4, 1.4, -0.8]), np.array([0.2, 0.2, -0.5])


def unequal_problem(**changes: Any) -> limen.TwoLayer:
    """Two neurons that start alike and a third that does not; constants, linear and quadratic parts everywhere."""
    parts: dict[str, Any] = {
        "target": limen.target(hermite=LABEL.tolist(), noise=NOISE),
        "network": limen.network(3, limen.activation(hermite=SERIES.tolist()), tuple(LAYER), train_second_layer=True),
        "algorithm": limen.GradientFlow(),
        "samples_per_dim": 2.4,
        "start": limen.OverlapStart(tuple((v,) for v in OVERLAP)),
    }
    return limen.TwoLayer(**parts | changes)


def start_loss(dual, link) -> float:
    """Half the second moment of a residual at the start, by the sum over all pairs of neurons."""
    gram = np.outer(OVERLAP, OVERLAP)
    np.fill_diagonal(gram, 1.0)
    return 0.5 * (POWER - 2.0 * LAYER @ link(OVERLAP) / 3 + LAYER @ dual(gram) @ LAYER / 9)


# two-time equations


def test_the_loss_at_the_start_of_unequal_groups():
    dual, link = np.polynomial.Polynomial(SERIES**2), np.polynomial.Polynomial(SERIES * LABEL)
    expected = start_loss(dual, link)
    history = History(gaussian_model(unequal_problem()))
    assert history.train_loss == pytest.approx([expected], rel=1e-13)
    assert history.test_loss == pytest.approx([expected], rel=1e-13)
    assert history.gram[0] == pytest.approx(np.array([[0.04, -0.1], [-0.1, 1.0]]), abs=1e-15)


def test_the_flow_of_unequal_groups_is_the_limit_of_short_steps():
    """Implicit rows of second order against explicit steps of first order, both extrapolated to no step at all."""
    model, end = gaussian_model(unequal_problem()), 0.8

    def ends(history: History) -> np.ndarray:
        last = history.count - 1
        one_time = [history.train_loss[last], history.test_loss[last], *history.second_layer[last]]
        correlation = mean_correlation(history)
        return np.array([*one_time, *history.overlap[last].ravel(), *history.gram[last].ravel(), correlation[last, 0]])

    coarse, fine = (ends(follow(model, np.linspace(0.0, end, n + 1))[0]) for n in (16, 32))
    rows = fine + (fine - coarse) / 3.0
    one, two, four = (ends(descend(model, end / n, n)) for n in (20, 40, 80))
    steps = (8.0 * four - 6.0 * two + one) / 3.0
    assert rows == pytest.approx(steps, abs=2e-4)
    # Everything has moved by far more than that, but for the gram of a group of one neuron, which is 1.
    moved = np.abs(fine - ends(History(model)))
    assert moved[9] < 1e-12
    assert np.delete(moved, 9).min() > 5e-3
    assert np.ptp(fine[2:4]) > 0.1


def test_steps_asked_for_are_steps_of_the_whole_run():
    problem = unequal_problem(algorithm=limen.GradientDescent(step=0.4, spherical=True))
    whole, some = (limen.flow.finite_step(problem, steps).dataset for steps in (5, [0, 2, 5]))
    for name in ("train_loss", "overlap", "gram", "second_layer"):
        assert np.array_equal(some[name], whole[name].sel(time=[0, 2, 5]))
    assert np.array_equal(some.correlation, whole.correlation.sel(time=[0, 2, 5], time2=[0, 2, 5]))


def test_two_grids_give_the_limit_and_the_error_of_the_finer():
    """Errors of second order planted by hand: four times as large on the coarser grid."""
    rng = np.random.default_rng(0)
    shapes = {"test_loss": (3,), "second_layer": (3, 2), "overlap": (3, 2, 1), "gram": (3, 2, 2), "correlation": (3, 3)}
    exact = {name: rng.random(shape) for name, shape in shapes.items()}
    error = {name: 1e-4 * rng.random(shape) for name, shape in shapes.items()}
    error["second_layer"][0, 1], error["gram"][1, 0, 1], error["overlap"][2, 1, 0] = 0.02, 0.01, 0.03
    train, factor = np.array([1e-2, 1e-4, 1e-8]), 1.001

    def grid(size: float) -> Observables:
        return Observables(train * factor**size, **{name: exact[name] + size * error[name] for name in exact})

    found = extrapolate(grid(4.0), grid(1.0))
    assert found.train_loss == pytest.approx(train, rel=1e-12)
    for name, values in exact.items():
        assert getattr(found, name) == pytest.approx(values, abs=1e-14), name
    layer = 0.02 / (1.0 + abs(exact["second_layer"][0, 1] + 0.02))
    assert grid_error(grid(4.0), grid(1.0)) == pytest.approx([layer, 0.01, 0.03], rel=1e-10)


# activation and target


def test_what_a_hermite_series_misses_is_told():
    """tanh(7z) has a second derivative that 300 degrees do not hold: the part that is missing, by quadrature."""
    coefficients, missing = activation_series(limen.activation("tanh(7*z)"))
    slope_jumps = quad(
        lambda z: (98.0 * np.tanh(7 * z) / np.cosh(7 * z) ** 2) ** 2 * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi),
        -4.0,
        4.0,
        points=[-0.2, 0.0, 0.2],
        limit=200,
        epsabs=0.0,
        epsrel=1e-12,
    )[0]
    k = np.arange(coefficients.size)
    assert missing == pytest.approx(1.0 - (k * (k - 1.0)) @ coefficients**2 / slope_jumps, rel=1e-3)
    assert 1e-4 < missing < 0.5


@pytest.mark.slow
def test_a_target_of_four_latents():
    overlap = np.array([[0.3, -0.4, 0.2, 0.5], [0.1, 0.6, -0.2, 0.4]])
    found = link_overlap(limen.target("z1*z2 - 0.5*z3*z4 + 0.7*z4 + 0.2"), SERIES)
    value = SERIES[2] * 2**0.5 * (overlap[:, 0] * overlap[:, 1] - 0.5 * overlap[:, 2] * overlap[:, 3])
    value += 0.7 * SERIES[1] * overlap[:, 3] + 0.2 * SERIES[0]
    assert found.value(overlap) == pytest.approx(value, abs=2e-3)
    turned = SERIES[2] * 2**0.5 * overlap[:, [1, 0, 3, 2]] * [1.0, 1.0, -0.5, -0.5]
    turned[:, 3] += 0.7 * SERIES[1]
    assert found.slope(overlap) == pytest.approx(turned, abs=3e-3)
    assert label_mean_square(limen.target("z1*z2 - 0.5*z3*z4 + 0.7*z4 + 0.2")) == pytest.approx(1.78, abs=5e-3)


def test_noise_inside_a_formula_counts_in_labels_and_not_in_the_link():
    inside = limen.target("z + 2*e", noise=0.3)
    assert label_mean_square(inside) == pytest.approx(5.0, rel=1e-9)
    overlap = np.array([[0.3], [-0.6]])
    assert link_overlap(inside, SERIES).value(overlap) == pytest.approx(SERIES[1] * overlap[:, 0], abs=1e-9)


def test_degrees_that_a_target_of_two_latents_leaves_out_are_bounded():
    """A function of z1 + z2 alone: what is left out beyond degree 24 by its one-dimensional series."""
    series = activation_series(limen.activation("tanh(3*z)"))[0]
    found = link_overlap(limen.target("tanh(2*(z1 + z2))"), series)
    single = hermite_coefficients(limen.target(f"tanh({2 * 2**0.5!r}*z)"), 300)
    left_out = np.sqrt((single[25:] ** 2).sum() * (series[25:] ** 2).sum())
    assert found.truncation == pytest.approx(left_out / np.sqrt((single**2).sum() * (series**2).sum()), rel=1e-3)
    assert found.truncation > 1e-3


# particles


def test_correlations_of_particles_follow_from_their_overlaps():
    """The part of a neuron orthogonal to the target keeps its direction; two neurons weigh twice as much as one."""
    found = limen.flow.mean_field(unequal_problem(), [0.0, 0.7, 3.0]).dataset
    v = found.overlap.values[:, :, 0]
    angle = np.arccos(v)
    expected = np.cos(angle[:, None] - angle[None]) @ [2 / 3, 1 / 3]
    assert found.correlation.values == pytest.approx(expected, abs=1e-12)
    assert np.abs(angle[2] - angle[0]).min() > 0.05
    assert found.gram.values[:, 0, 0] == pytest.approx(v[:, 0] ** 2, abs=1e-14)
    assert found.gram.values[:, 0, 1] == pytest.approx(v[:, 0] * v[:, 1], abs=1e-14)
    assert found.gram.values[:, 1, 1] == pytest.approx(1.0, abs=1e-14)


# bounds


def test_bounds_in_numbers():
    assert limen.flow.generalization_bound(2.0, 16.0, size=3.0, slope=0.5, label_power=4.0) == 8.0
    assert limen.flow.second_layer_bound([0.0, 2.0], 1.5, 3.0, 0.5).tolist() == [1.5, 7.5]
    for name, size, slope in (("erf", 1.0, 2.0 / np.pi**0.5), ("sigmoid", 1.0, 0.25)):
        found = limen.flow.activation_bounds(limen.activation(name))
        assert found == (pytest.approx(size, rel=1e-6), pytest.approx(slope, rel=1e-5))
    assert limen.flow.activation_bounds(limen.activation("3*tanh(z)")) == pytest.approx((3.0, 3.0), rel=1e-5)


def bounded(trained: bool, samples_per_dim: float, layer: Any) -> limen.TwoLayer:
    network = limen.network(3, "erf", layer, train_second_layer=trained)
    return unequal_problem(network=network, samples_per_dim=samples_per_dim)


def test_bounds_of_a_problem_start_from_its_own_loss():
    """The second layer grows by S sqrt(2 loss) per mean-field time, with the loss of three neurons written out."""
    found = limen.flow.overfitting_bounds(bounded(True, 6.0, tuple(LAYER)), [0.0, 5.0]).dataset
    # erf has h(q) = 2/pi arcsin(2q/3), and E[z erf(z)] = 2/sqrt(3 pi) is its only part in he_0, he_1, he_2.
    loss = start_loss(
        lambda q: 2.0 / np.pi * np.arcsin(2.0 * q / 3.0),
        lambda v: LABEL[1] * 2.0 / np.sqrt(3.0 * np.pi) * v,
    )
    bound = 1.4 + np.sqrt(2.0 * loss) * 2.0 * 5.0
    assert found.second_layer_bound.values == pytest.approx([1.4, bound], rel=1e-6)
    expected = 4.0 * bound * 2.0 / np.sqrt(np.pi * 6.0) * (np.sqrt(POWER) + bound)
    assert float(found.gap_bound[1]) == pytest.approx(expected, rel=1e-5)


def test_the_excluded_time_of_a_problem_is_where_its_gap_bound_arrives():
    problem = bounded(True, 1e6, (0.02, 0.02, -0.01))
    until = float(limen.flow.overfitting_bounds(problem, 1.0, gap=0.1).dataset.overfitting_time)
    assert until > 0.0
    assert float(limen.flow.overfitting_bounds(problem, [until], gap=0.1).dataset.gap_bound[0]) == pytest.approx(0.1)
    frozen = limen.flow.overfitting_bounds(bounded(False, 1e6, (0.02, 0.02, -0.01)), [0.0, 1.0], gap=0.1).dataset
    assert frozen.second_layer_bound.values.tolist() == [0.02, 0.02]
    assert np.isinf(float(frozen.overfitting_time))


# asymptotics


def test_noise_rescales_growth_and_errors():
    noise, h = 0.3, [0.0, 0.0, 0.0, 1.0]
    one, some = (limen.flow.adiabatic(h, 0.3, [0.4, 1.0], noise=tau2).dataset for tau2 in (1.0, noise))
    for name, factor in (("gamma", noise**0.5), ("train_loss", noise), ("threshold", noise**0.5)):
        assert some[name].values == pytest.approx(factor * one[name].values, rel=1e-9), name
    assert float(some.initial_slope) == pytest.approx(np.sqrt(0.3 * noise) * 2.0 * np.sqrt(2.0 / 3.0), rel=1e-12)
    assert float(some.threshold_energy) == pytest.approx(2.0 * np.sqrt(2.0 / 3.0), rel=1e-12)
    error = limen.flow.consistent_error(h, 0.7, 0.55)
    assert limen.flow.consistent_error(h, 0.7, [0.55 * noise**0.5], noise)[0] == pytest.approx(noise * error, rel=1e-8)


@pytest.mark.parametrize(
    ("h", "ratio", "gamma"), [([0, 0, 0, 1.0], 0.7, 0.62), ([0, 0, 0.9, 0, 0.1], 0.5, 0.1)], ids=["first", "last"]
)
def test_states_with_a_step_and_a_continuous_part_solve_the_integral_equations(h, ratio, gamma):
    """z(q) put together from its two parts; x, D, C and g by quadrature from q = 0, where D = C = 1."""
    covariance, kappa = NoiseCovariance(h), gamma / ratio**0.5
    state = consistent_state(covariance, ratio, kappa)
    assert state is not None and state.breaks is not None
    step_first = state.structure == "one step, then continuous"
    below, above = np.linspace(0.0, state.breaks, 4001), np.linspace(state.breaks, 1.0, 4001)

    def primitive(q, values):
        return cumulative_trapezoid(values, q, initial=0.0)

    if step_first:
        slope, *start = step_from_zero(covariance, ratio, kappa, state.breaks)
        solution = integrate(covariance, ratio, kappa, state.breaks, *start)
        assert solution is not None
        z_above = -np.gradient(solution.sol(above)[0], above, edge_order=2)
        z_below = np.full(below.size, slope)
    else:
        solution = integrate(covariance, ratio, kappa, 0.0, covariance(0.0, 2) ** -0.5, 1.0, 1.0)
        assert solution is not None
        z_below = -np.gradient(solution.sol(below)[0], below, edge_order=2)
        z_above = np.full(above.size, state.slope)
    q, z = np.concatenate([below, above]), np.concatenate([z_below, z_above])
    force = covariance(q, 1)
    x = state.response + primitive(q, z)[-1] - primitive(q, z)
    resolvent = state.resolvent + kappa * (primitive(q, force * z)[-1] - primitive(q, force * z))
    correlation = 1.0 + ratio * kappa**2 * primitive(q, force / resolvent**2)
    g = force * correlation - primitive(q, x**-2.0)
    assert resolvent[0] == pytest.approx(1.0, abs=1e-6)
    assert correlation[-1] == pytest.approx(state.correlation, rel=1e-6)
    assert abs(g[-1]) < 1e-5 * force[-1] and g.max() < 1e-5
    assert state.gap == pytest.approx(resolvent[-1] - kappa * force[-1] * x[-1], rel=1e-9)
    assert state.training_error == pytest.approx(0.5 * state.gap**2 * correlation[-1], rel=1e-6)


def step_from_zero(h: NoiseCovariance, alpha: float, kappa: float, end: float) -> tuple[float, float, float, float]:
    """z, x, D and C at the end of a step from 0, from its four equations by bisection on z."""

    def parts(z: float) -> tuple[float, float, float]:
        resolvent = 1.0 - kappa * z * h(end)
        correlation = 1.0 + alpha * kappa**2 * h(end) / resolvent
        return (h(end, 2) * correlation + alpha * (kappa * h(end, 1) / resolvent) ** 2) ** -0.5, resolvent, correlation

    def excess(z: float) -> float:
        x, _, correlation = parts(z)
        return x * (x + end * z) * h(end, 1) * correlation - end

    low = 0.0
    high = next(z for z in np.linspace(0.01, 0.999 / (kappa * h(end)), 1000) if excess(z) > 0.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) < 0.0 else (low, middle)
    return (low, *parts(low))


def test_a_step_is_stable_at_the_threshold_where_it_is_just_below_whatever_the_scale_of_h():
    found = []
    for share in np.linspace(0.1, 0.9, 9):
        for scale in (0.1, 9.0):
            covariance = NoiseCovariance([0.0, 0.0, scale * (1.0 - share), scale * share])
            gamma, stable = one_step_threshold(covariance, 0.3)
            step = one_step(covariance, 0.3, (1.0 - 1e-6) * gamma / 0.3**0.5)
            assert step is not None and stable is stable_at_zero(covariance, step)
            found.append(stable)
    assert found[:2] == [False, False] and found[-2:] == [True, True] and found[::2] == found[1::2]


def test_early_stopping_on_a_grid_from_zero_and_over_seeds():
    """A parabola in t with its minimum between the first two steps of a grid that starts at 0."""
    t = np.array([0.0, 1.0, 2.0, 5.0, 10.0])
    test, train = 0.2 + 0.01 * (t - 1.2) ** 2, 0.5 - 0.04 * t
    seeds = xr.Dataset(
        {
            "train_loss": (("seed", "time"), np.array([train - 0.1, train + 0.1])),
            "test_loss": (("seed", "time"), np.array([test + 0.05, test - 0.05])),
        },
        coords={"time": t, "seed": [0, 1]},
    )
    found = limen.flow.early_stopping(Result(seeds, {"type": "curve"}, "simulation"))
    assert (found.time, found.test_loss) == (pytest.approx(1.2), pytest.approx(0.2))
    assert found.train_loss == pytest.approx(0.5 - 0.04 * 1.2)
    assert found.final_test_loss == pytest.approx(test[-1]) and found.interior
    falling = seeds.assign(test_loss=seeds.train_loss)
    assert not limen.flow.early_stopping(Result(falling, {"type": "curve"}, "simulation")).interior


@pytest.mark.parametrize("theory", ["small-steps", "gaussian-model", "equal-small-steps"])
def test_the_start_of_a_flow_is_answered_alone(theory):
    problem = limen.TwoLayer("z", limen.network(2, "tanh"), limen.GradientFlow(), 2.0)
    found = limen.predict(problem, [0.0], theory)
    later = limen.predict(problem, [0.0, 0.1], theory)
    assert found.ok and found.dataset.time.values.tolist() == [0.0]
    np.testing.assert_allclose(found.dataset.test_loss, later.dataset.test_loss[:1], rtol=1e-2)
