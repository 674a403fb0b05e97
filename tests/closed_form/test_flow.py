"""The Gaussian model of gradient flow: closed forms, conservation laws, symmetries, orders, bad input."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import RectBivariateSpline, make_interp_spline

import limen
from limen.problem.groups import neuron_groups
from limen.theory.flow.finite_step import descend
from limen.theory.flow.integrator import adapt, follow, initial_time, refined
from limen.theory.flow.long_times.trapped import find_plateau
from limen.theory.flow.model import activation_series, gaussian_model
from limen.theory.flow.series import PowerSeries

MIXED = (0.0, 0.8, 0.6)


def flow_problem(
    width=5,
    samples_per_dim=5.0,
    noise=0.3,
    second_layer: Any = 1.0,
    activation: Any = MIXED,
    target: Any = (0.0, 1.0),
    train=True,
    algorithm=None,
    **start,
):
    if not isinstance(activation, str):
        activation = limen.activation(hermite=activation)
    link = limen.target(target, noise=noise) if isinstance(target, str) else limen.target(hermite=target, noise=noise)
    return limen.TwoLayer(
        target=link,
        network=limen.network(width, activation, second_layer, train_second_layer=train),
        algorithm=algorithm or limen.GradientFlow(),
        samples_per_dim=samples_per_dim,
        **start,
    )


def noise_problem(alpha=0.3, gamma=0.3, degree=2, width=100, noise=1.0):
    """A fixed second layer that fits pure noise."""
    series = (0.0,) * degree + (1.0,)
    return flow_problem(width, alpha * width, noise, gamma * width**0.5, series, (0.0,), train=False)


def last(result, name):
    return result.dataset[name].isel(time=-1).values.ravel()[0]


# closed forms


def marchenko_pastur_mean(function, ratio):
    """Mean over the spectrum of X^T X / d with n/d = ratio, by Chebyshev quadrature; zero mode included."""
    low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2
    angle = (np.arange(400) + 0.5) * np.pi / 400
    x = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(angle)
    weights = (0.5 * (high - low) * np.sin(angle)) ** 2 * (np.pi / 400) / (2 * np.pi * x)
    return weights @ function(x) + max(0.0, 1 - ratio) * function(np.zeros(1))[0]


@pytest.mark.parametrize("ratio", [1.5, 0.6])
def test_a_linear_neuron_without_sphere_is_linear_regression(ratio):
    noise, beta = 0.25, 0.7
    problem = flow_problem(1, ratio, noise, 1.0, (0.0, 1.0), (0.0, beta), train=False)
    model = replace(gaussian_model(problem), spherical=False)
    coarse, _ = adapt(model, 4.0, 1.06)
    grid = coarse.time[: coarse.count] * (4.0 / coarse.time[coarse.count - 1])
    offset = initial_time(model)
    coarse, _ = follow(model, grid)
    fine, _ = follow(model, refined(grid, offset))
    for t, node in ((grid[20], 20), (4.0, coarse.count - 1)):
        decay = marchenko_pastur_mean(lambda x, t=t: np.exp(-2 * x * t), ratio)
        fit = marchenko_pastur_mean(
            lambda x, t=t: np.where(x > 0, np.expm1(-x * t) ** 2 / np.where(x > 0, x, 1), 0), ratio
        )
        slope = marchenko_pastur_mean(lambda x, t=t: x * np.exp(-2 * x * t), ratio)
        train = ((1 + beta**2) * slope + noise * (ratio - 1 + decay)) / (2 * ratio)
        test = 0.5 * (noise + (1 + beta**2) * decay + noise * fit)
        for name, exact in (("train_loss", train), ("test_loss", test)):
            one, two = getattr(coarse, name)[node], getattr(fine, name)[2 * node]
            assert two + (two - one) / 3 == pytest.approx(exact, rel=2e-5)
    if ratio == 1.5:
        assert (train, test) == (pytest.approx(0.050737, abs=1e-6), pytest.approx(0.276897, abs=1e-6))


def test_values_found_by_two_independent_schemes():
    result = limen.flow.solve(flow_problem(), [0.0, 5.0])
    assert result.ok
    wanted = {
        "train_loss": 0.08580,
        "test_loss": 0.34584,
        "second_layer": 1.5221,
        "overlap": 0.5262,
        "gram": 0.1621,
    }
    for name, value in wanted.items():
        assert last(result, name) == pytest.approx(value, abs=6e-5), name


def test_losses_at_the_start():
    result = limen.flow.solve(flow_problem(width=7, second_layer=1.3), [0.0, 0.1])
    dual_one, dual_zero = 1.0, 0.0
    start = 0.5 * (0.3 + 1.0 + 1.3**2 * (dual_one + 6 * dual_zero) / 7)
    assert result.dataset.train_loss[0] == pytest.approx(start, rel=1e-12)
    assert result.dataset.test_loss[0] == pytest.approx(start, rel=1e-12)


def test_the_first_velocity_of_the_overlap():
    problem = flow_problem(samples_per_dim=4.0, width=8, second_layer=1.5)
    result = limen.flow.solve(problem, [0.0, 1e-3])
    assert last(result, "overlap") / 1e-3 == pytest.approx(0.5 * 0.8 * 1.0 * 1.5, rel=5e-3)


# conservation and symmetry


def test_energy_balance_of_what_is_reported():
    problem, offset = flow_problem(width=10), 0.2
    alpha = 0.5
    log_time = np.linspace(np.log(offset), np.log(45.0), 250)
    times = np.exp(log_time) - offset
    found = limen.flow.solve(problem, times).dataset
    loss_rate = make_interp_spline(log_time, found.train_loss.values, 5).derivative()(log_time)
    layer_rate = make_interp_spline(log_time, found.second_layer.values[:, 0], 5).derivative()(log_time)
    two_time = RectBivariateSpline(log_time, log_time, found.correlation.values, kx=5, ky=5)
    speed = two_time.ev(log_time, log_time, 1, 1)
    balance = loss_rate + (speed + layer_rate**2) / (alpha * (times + offset))
    assert np.abs(balance / loss_rate)[8:-8].max() < 1e-3
    assert (np.diff(found.train_loss) < 0).all()


def test_kernels_are_symmetric_positive_and_on_the_sphere():
    model = gaussian_model(flow_problem(width=6, samples_per_dim=2.0, target=(0.2, 0.7, 0.3)))
    history, _ = adapt(model, 20.0, 1.1)
    n = history.count
    for kernel in (history.residual[0, :n, :n], history.collective[0, :n, :n], history.relative[0, 0, :n, :n]):
        assert np.array_equal(kernel, kernel.T)
        assert np.linalg.eigvalsh(kernel).min() > -1e-4 * np.linalg.eigvalsh(kernel).max()
    own = history.own_correlation[0]
    assert np.allclose(np.diagonal(own), 1.0, atol=1e-7)
    assert np.abs(own).max() < 1 + 1e-7


def test_without_linear_part_noise_is_fitted_independently_of_the_width():
    grid = np.geomspace(0.2, 100.2, 60) - 0.2
    grid[0] = 0.0
    runs = [follow(gaussian_model(noise_problem(width=m)), grid)[0] for m in (1, 3, 1_000_000)]
    for run in runs[1:]:
        assert np.allclose(run.train_loss, runs[0].train_loss, rtol=1e-6)
        assert np.allclose(run.gram, 0.0, atol=1e-12)


def test_scaling_with_the_size_of_the_noise():
    tau2 = 4.0
    times = np.geomspace(0.05, 20.0, 5)
    scaled = limen.flow.solve(noise_problem(gamma=0.6, noise=tau2), times)
    unit = limen.flow.solve(noise_problem(gamma=0.3), tau2 * times)
    assert np.allclose(scaled.dataset.train_loss, tau2 * unit.dataset.train_loss, rtol=1e-4)


# groups and several latent directions


def brute_force_descent(problem, step, steps):
    """Explicit steps of the equations with one row per neuron and no use of symmetry, the single-index case."""
    groups = neuron_groups(problem)
    m, ratio = problem.network.width, problem.samples_per_dim
    s, f = np.zeros(4), np.zeros(4)
    s[: len(problem.network.activation.hermite)] = problem.network.activation.hermite
    f[: len(problem.target.hermite)] = problem.target.hermite
    h = np.polynomial.Polynomial(s**2)
    link = np.polynomial.Polynomial(s * f)
    a, v = np.zeros((steps + 1, m)), np.zeros((steps + 1, m))
    c = np.zeros((steps + 1, steps + 1, m, m))
    r = np.zeros((steps + 1, steps + 1, m, m))
    a[0], v[0] = groups.second_layer[groups.label], groups.overlap[groups.label, 0]
    c[0, 0] = np.outer(v[0], v[0])
    np.fill_diagonal(c[0, 0], 1.0)
    losses, response, residual = [], np.zeros((steps + 1, steps + 1)), np.zeros((steps + 1, steps + 1))
    source, reaction = np.zeros((steps + 1, steps + 1)), np.zeros((steps + 1, steps + 1))
    for n in range(steps + 1):
        for t in range(n + 1):
            both = np.outer(a[n], a[t]) / m**2
            source[n, t] = source[t, n] = (
                problem.target.noise + f @ f - (a[n] @ link(v[n]) + a[t] @ link(v[t])) / m + (both * h(c[n, t])).sum()
            )
            reaction[n, t] = (both * h.deriv()(c[n, t]) * r[n, t]).sum()
        inverse = np.linalg.inv(np.eye(n + 1) + reaction[: n + 1, : n + 1])
        response[: n + 1, : n + 1] = inverse
        residual[: n + 1, : n + 1] = inverse @ source[: n + 1, : n + 1] @ inverse.T
        losses.append((0.5 * residual[n, n], 0.5 * source[n, n]))
        if n == steps:
            break
        rho = response[n, : n + 1].sum()
        both = ratio * a[n][:, None] * a[: n + 1, None, :] / m**2
        c_n, r_n = c[n, : n + 1], r[n, : n + 1]
        damped, noisy = response[n, : n + 1, None, None], residual[n, : n + 1, None, None]
        kernel_r = both * (damped * h.deriv()(c_n) - noisy * h.deriv(2)(c_n) * r_n)
        kernel_c = both * noisy * h.deriv()(c_n)
        force = ratio / m * a[n] * rho * link.deriv()(v[n])
        new_v = v[n] + step * (force - np.einsum("tij,tj->i", kernel_r, v[: n + 1]))
        new_r = r[n].copy()
        new_r[n] += step * np.eye(m)
        new_c = c[n].copy()
        for t in range(n + 1):
            new_r[t] -= step * np.einsum("sij,sjk->ik", kernel_r, r[: n + 1, t])
            new_c[t] += step * (
                np.outer(force, v[t])
                - np.einsum("sij,sjk->ik", kernel_r, c[: n + 1, t])
                + np.einsum("sij,skj->ik", kernel_c, r[t, : n + 1])
            )
        corner = new_c[n].T + step * (
            np.outer(force, new_v)
            - np.einsum("sij,skj->ik", kernel_r, new_c[: n + 1])
            + np.einsum("sij,skj->ik", kernel_c, new_r[: n + 1])
        )
        norm = np.sqrt(np.diagonal(corner))
        c[n + 1, : n + 1] = new_c[: n + 1] / norm[:, None]
        c[: n + 1, n + 1] = c[n + 1, : n + 1].transpose(0, 2, 1)
        c[n + 1, n + 1] = corner / np.outer(norm, norm)
        r[n + 1, : n + 1] = new_r[: n + 1] / norm[:, None]
        v[n + 1] = new_v / norm
        pull = link(v[n]) * rho - np.einsum("t,tj,tij->i", response[n, : n + 1], a[: n + 1], h(c_n)) / m
        pull += np.einsum("t,tj,tij,tij->i", residual[n, : n + 1], a[: n + 1], h.deriv()(c_n), r_n) / m
        a[n + 1] = a[n] + step * ratio / m * pull
    return np.array(losses), a, v, c


def test_groups_reproduce_the_equations_of_all_neurons():
    start = limen.OverlapStart(overlap=((0.1,), (0.1,), (-0.3,), (-0.3,), (-0.3,), (0.4,)))
    second_layer = (1.0, 1.0, -0.7, -0.7, -0.7, 0.5)
    step, steps = 0.3, 12
    problem = flow_problem(6, 4.0, 0.3, second_layer, (0.1, 0.7, 0.5, 0.4), (0.2, 0.8, 0.3), start=start)
    losses, a, v, c = brute_force_descent(problem, step, steps)
    stepped = problem.model_copy(update={"algorithm": limen.GradientDescent(step=step * 4.0, spherical=True)})
    found = limen.flow.finite_step(stepped, steps).dataset
    groups = neuron_groups(problem)
    assert groups.sizes.tolist() == found.group_size.values.tolist() == [2, 3, 1]
    assert np.allclose(found.train_loss, losses[:, 0], rtol=1e-10)
    assert np.allclose(found.test_loss, losses[:, 1], rtol=1e-10)
    assert np.allclose(found.second_layer, groups.means(a), rtol=1e-10)
    assert np.allclose(found.overlap[..., 0], groups.means(v), rtol=1e-10)
    equal = c[np.arange(steps + 1), np.arange(steps + 1)]
    assert np.allclose(found.gram, groups.pair_means(equal), atol=1e-10)
    assert np.allclose(found.correlation, np.einsum("tsjj->ts", c) / 6, atol=1e-10)


def test_splitting_a_group_changes_nothing():
    problem, times = flow_problem(width=6), [0.0, 1.0, 8.0]
    whole, split = (limen.flow.solve(problem, times, groups=sizes) for sizes in (None, (2, 4)))
    assert split.dataset.sizes["group"] == 2
    for name in ("train_loss", "test_loss", "correlation"):
        assert np.allclose(whole.dataset[name], split.dataset[name], atol=1e-6)
    for name in ("second_layer", "overlap", "gram"):
        assert np.allclose(split.dataset[name], whole.dataset[name].values, atol=1e-6)


def test_opposite_signs_of_the_second_layer():
    gamma, width = 0.6, 40
    signs = np.tile([1.0, -1.0], width // 2) * gamma * width**0.5
    mixed = flow_problem(width, 0.3 * width, 0.3, tuple(signs), train=True)
    found = limen.flow.solve(mixed, [0.0, 0.5, 3.0]).dataset
    assert found.sizes["group"] == 2
    # The collective part of the output cancels: labels and the neurons' own fluctuations are left.
    assert found.test_loss[0] == pytest.approx(0.5 * (1.3 + gamma**2), rel=1e-12)
    assert found.overlap.values[-1, 0, 0] > 0 > found.overlap.values[-1, 1, 0]


def test_an_odd_activation_makes_opposite_signs_mirror_images():
    odd, width = (0.0, 0.8, 0.0, 0.6), 12
    plain = flow_problem(width, 4.0, 0.3, 1.0, odd)
    mixed = flow_problem(width, 4.0, 0.3, (1.0, -1.0) * (width // 2), odd)
    times = [0.0, 0.5, 5.0]
    one, two = (limen.flow.solve(problem, times).dataset for problem in (plain, mixed))
    assert np.allclose(one.train_loss, two.train_loss, atol=1e-6)
    assert np.allclose(one.overlap[:, 0], two.overlap[:, 0], atol=1e-6)
    assert np.allclose(two.overlap[:, 0], -two.overlap[:, 1], atol=1e-7)
    assert np.allclose(one.gram[:, 0, 0], -two.gram[:, 0, 1], atol=1e-6)


def test_a_rotated_target_of_two_latents_is_the_single_index_target():
    single = flow_problem(8, 4.0, target=(0.0, 0.6, 0.8), start=limen.OverlapStart(0.2))
    rotated = flow_problem(
        8,
        4.0,
        target="0.6*(0.6*z1 + 0.8*z2) + 0.8*((0.6*z1 + 0.8*z2)**2 - 1)/sqrt(2)",
        start=limen.OverlapStart(overlap=((0.12, 0.16),) * 8),
    )
    one, two = (limen.flow.solve(problem, [0.0, 2.0, 10.0]).dataset for problem in (single, rotated))
    assert np.allclose(one.train_loss, two.train_loss, atol=1e-8)
    assert np.allclose(one.overlap.values * [0.6, 0.8], two.overlap.values, atol=1e-8)


# orders of convergence


def orders(errors):
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


def test_the_flow_converges_to_second_order_and_descent_to_first():
    model = gaussian_model(flow_problem())
    runs = [follow(model, np.linspace(0, 2.0, n + 1))[0] for n in (20, 40, 80, 160)]
    for name in ("train_loss", "test_loss"):
        values = [getattr(run, name)[-1] for run in runs]
        assert orders(np.abs(np.diff(values))) == pytest.approx(2.0, abs=0.15)
    limit = runs[-1].train_loss[-1] + (runs[-1].train_loss[-1] - runs[-2].train_loss[-1]) / 3
    steps = [descend(model, 2.0 / n, n).train_loss[-1] for n in (20, 40, 80)]
    assert orders(np.abs(np.array(steps) - limit)) == pytest.approx(1.0, abs=0.1)


def test_the_grid_error_bounds_the_error():
    problem, times = flow_problem(width=10), np.geomspace(0.1, 30.0, 8)
    rough, fine = limen.flow.solve(problem, times, tolerance=5e-3), limen.flow.solve(problem, times, tolerance=5e-4)
    difference = np.abs(rough.dataset.train_loss - fine.dataset.train_loss)
    assert (difference <= rough.dataset.grid_error + 1e-7).all()
    assert fine.dataset.grid_error.max() < 5e-4


def test_reported_values_do_not_depend_on_the_other_times():
    problem = flow_problem()
    few, many = limen.flow.solve(problem, [1.0, 6.0]).dataset, limen.flow.solve(problem, 6.0).dataset
    assert few.train_loss[-1] == pytest.approx(float(many.train_loss[-1]), rel=1e-12)
    assert few.correlation[0, 1] == pytest.approx(float(many.correlation.interp(time=1.0)[-1]), abs=1e-4)


# ends of a run


def test_after_interpolation_the_state_is_constant():
    result = limen.flow.solve(noise_problem(gamma=1.0, width=4), [1.0, 1e3, 1e6])
    assert result.ok and "interpolates" in result.status
    assert result.dataset.train_loss[-1] < 2e-9
    assert result.dataset.test_loss[1] == result.dataset.test_loss[2]
    assert result.dataset.correlation[1, 2] == pytest.approx(1.0, abs=1e-6)


def test_a_state_that_stays_is_confirmed_with_capped_steps():
    result = limen.flow.solve(flow_problem(4, 40.0, activation=(0.0, 1.0)), [1.0, 100.0], tolerance=1e-2)
    assert result.ok and "settled" in result.status and "confirmed" in result.status


def saddle_problem():
    """Neurons that start next to the saddle of a target without linear part, with enough samples not to fit noise."""
    return flow_problem(4, 4000.0, target=(0.0, 0.0, 1.0), train=False, start=limen.OverlapStart(1e-10))


def test_a_saddle_on_which_long_steps_sit_is_not_called_a_trap():
    model = gaussian_model(saddle_problem())
    # What steps that damp the overlap would find: the run in which it is zero.
    sitting, _ = adapt(replace(model, overlap=0.0 * model.overlap), 5.0, 1.15)
    sitting.model = model
    plateau = find_plateau(sitting, 1.1)
    assert plateau is not None and not plateau.confirmed


def test_the_growth_of_a_tiny_overlap_is_followed():
    times = [0.005, 0.01, 0.015]
    rough, fine = (limen.flow.solve(saddle_problem(), times, tolerance=t).dataset for t in (1e-3, 3e-4))
    growth = np.log(np.abs(rough.overlap.values.ravel()))
    assert growth == pytest.approx(np.log(np.abs(fine.overlap.values.ravel())), abs=0.02)
    assert growth[-1] > np.log(1e-10) + 5


# activations and targets


@pytest.mark.parametrize("name", ["erf", "tanh"])
def test_hermite_series_of_smooth_activations(name):
    coefficients, missing = activation_series(limen.activation(name))
    assert missing < 1e-9
    exact, series = limen.gaussian.dual(name), PowerSeries(coefficients**2)
    q = np.linspace(-1, 1, 41)
    for found, wanted in zip(series(q), (exact(q), exact.prime(q), exact.second(q)), strict=True):
        assert np.allclose(found, wanted, atol=1e-9)


def test_power_series_against_polynomials():
    rng = np.random.default_rng(0)
    q = rng.uniform(-1, 1, 50)
    for size in (3, 40):
        c = rng.random(size) / (1 + np.arange(size)) ** 2
        p = np.polynomial.Polynomial(c)
        for found, wanted in zip(PowerSeries(c)(q), (p(q), p.deriv()(q), p.deriv(2)(q)), strict=True):
            assert np.allclose(found, wanted, rtol=1e-10)


def test_a_smooth_activation_and_a_formula_target_run():
    problem = flow_problem(10, 5.0, activation="tanh", target="tanh(z)")
    assert limen.predict(problem, [0.0, 5.0]).ok


# bad input


def refused(match, **changes):
    with pytest.raises(limen.InputError, match=match):
        limen.flow.solve(flow_problem(**changes), [1.0])


def test_bad_input_is_refused_with_a_sentence():
    refused("h''\\(1\\).*infinite for relu.*softplus", activation="relu")
    refused("second_layer must not be 0", second_layer=0.0)
    refused("second_layer must not be 0", second_layer=0.0, train=False)
    refused("noise must be positive", target=(0.0,), noise=0.0)
    refused("overlap must be positive", target=(0.0, 0.0, 1.0))
    refused("at most 12 groups", width=13, second_layer=tuple(np.arange(1.0, 14.0)))
    problem = flow_problem()
    wrong: list[Any] = [(2, 2), (2.5, 2.5), (0, 5), ()]
    for groups in wrong:
        with pytest.raises(limen.InputError, match="groups must"):
            limen.flow.solve(problem, [1.0], groups=groups)
    with pytest.raises(limen.InputError, match="equal second_layer"):
        limen.flow.solve(flow_problem(width=2, second_layer=(1.0, -1.0)), [1.0], groups=(2,))
    for tolerance in (0.0, 1.0):
        with pytest.raises(limen.InputError, match="tolerance must be between"):
            limen.flow.solve(problem, [1.0], tolerance=tolerance)
    with pytest.raises(limen.InputError, match="it solves GradientFlow"):
        limen.flow.solve(flow_problem(algorithm=limen.GradientDescent(step=0.1)), [1.0])
    with pytest.raises(limen.InputError, match="spherical=True"):
        limen.flow.finite_step(flow_problem(algorithm=limen.GradientDescent(step=0.1)), 3)
    for name, value in (("bias", 0.5), ("initial_norm", 2.0)):
        network = problem.network.model_copy(update={name: value})
        with pytest.raises(limen.InputError, match=name):
            limen.flow.solve(problem.model_copy(update={"network": network}), [1.0])


# tables (slow)


@pytest.mark.slow
def test_ageing_to_a_hundred_thousand():
    losses = []
    for tolerance in (3e-3, 1e-3, 3e-4):
        result = limen.flow.solve(noise_problem(), [1e5], tolerance=tolerance)
        assert result.ok
        losses.append(last(result, "train_loss"))
    assert losses == pytest.approx([0.036645] * 3, abs=1e-6)


@pytest.mark.slow
def test_a_geometric_grid_against_a_uniform_one():
    model = gaussian_model(flow_problem(width=10))
    uniform, _ = follow(model, np.linspace(0.0, 50.0, 1001))
    reference = uniform.train_loss[-1]
    offset = 0.2
    for nodes, bound in ((52, 0.02), (100, 0.005), (197, 0.0015)):
        grid = np.geomspace(offset, 50.0 + offset, nodes) - offset
        grid[0], grid[-1] = 0.0, 50.0
        history, _ = follow(model, grid)
        assert abs(history.train_loss[-1] / reference - 1) < bound
        assert history.second_layer[nodes - 1, 0] == pytest.approx(uniform.second_layer[1000, 0], abs=bound / 5)


@pytest.mark.slow
def test_a_target_with_curvature_is_overfitted_by_narrow_networks_and_traps_wide_ones():
    narrow, wide = (
        limen.flow.solve(flow_problem(m, 0.3 * m, target=MIXED), np.append(0.0, np.geomspace(0.1, t, 30)))
        for m, t in ((200, 1e5), (1000, 3e4))
    )
    assert "interpolates" in narrow.status
    # The wide network keeps what it learned: a second layer of order one, far from the 0.38 sqrt(m) that interpolates.
    assert last(wide, "train_loss") > 0.13 and last(wide, "overlap") > 0.6 and last(wide, "second_layer") < 2.0


@pytest.mark.slow
def test_mean_field_is_approached_as_one_over_the_width():
    widths = np.array([10, 40, 160])
    overlaps = np.array([last(limen.flow.solve(flow_problem(m, 0.5 * m), [2.0]), "overlap") for m in widths.tolist()])
    assert overlaps[[0, 2]] == pytest.approx([0.461611, 0.515283], abs=3e-5)
    # Mean field: da/dt = 0.8 v - a h(v^2), dv/dt = a (1 - v^2)(0.8 - a h'(v^2) v) with its own time, at 1.
    distance = (0.5194 - overlaps) * widths
    assert distance[1:] == pytest.approx([0.64, 0.66], abs=0.04)
