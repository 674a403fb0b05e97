"""Overlap equations of one-pass SGD: averages against independent quadrature, conservation laws, exact solutions."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import limen
from limen import InputError, one_pass
from limen.gaussian import sobol_normals
from limen.gaussian.polynomial_degree import polynomial_degree
from limen.precision import in_double
from limen.problem.activations import as_activation
from limen.theory.one_pass.arcsine import arcsine
from limen.theory.one_pass.committee import committee_population, committee_weights, problem_rule
from limen.theory.one_pass.increments import problem_increments
from limen.theory.one_pass.overlap_equations import overlap_ode
from limen.theory.one_pass.overlap_equations.integration import Motion, Schedule
from limen.theory.one_pass.overlap_equations.overlap_ode import given_overlaps, population_of, problem_motion
from limen.theory.one_pass.overlap_equations.right_hand_side import projected
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.erf_population import pair_noise
from limen.theory.one_pass.populations.frozen_points import frozen_points
from limen.theory.one_pass.symmetry import lasting_symmetry

ACTIVATIONS = {
    "saad-solla": (lambda z: erf(z / 2**0.5), lambda z: (2 / np.pi) ** 0.5 * np.exp(-(z**2) / 2)),
    "erf(0.4*z)": (lambda z: erf(0.4 * z), lambda z: 0.8 / np.pi**0.5 * np.exp(-0.16 * z**2)),
    "square": (lambda z: z**2, lambda z: 2 * z),
    "linear": (lambda z: z, np.ones_like),
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
}
# Two students, one teacher.
Q2 = np.array([[0.9, 0.2], [0.2, 1.3]])
M2 = np.array([[0.5], [-0.3]])
P1 = np.array([[1.1]])
A2, S1 = np.array([1.2, -0.7]), np.array([0.8])


def reference(Q, M, P, a, a_star, functions, rate, noise, d=None):
    """The same averages on a fine trapezoid grid over independent normals; |x|^2 = |z|^2 + chi^2 with d - n degrees."""
    value, slope = functions
    p, k = M.shape
    n = p + k
    C = np.block([[Q, M], [M.T, P]])
    nodes = np.arange(-7.6, 7.7, 0.2 if n == 2 else 0.3)
    axis = np.exp(-(nodes**2) / 2)
    axis /= axis.sum()
    grid = np.stack([g.ravel() for g in np.meshgrid(*[nodes] * n, indexing="ij")])
    weights = np.prod(np.stack([g.ravel() for g in np.meshgrid(*[axis] * n, indexing="ij")]), axis=0)
    fields = np.linalg.cholesky(C) @ grid
    error = a_star @ value(fields[p:]) / k - a @ value(fields[:p]) / p
    push = a[:, None] * slope(fields[:p])
    radius = 1.0 if d is None else ((grid**2).sum(axis=0) + d - n) / d
    drift = (push * (error * weights)) @ fields.T
    square = (push * ((error**2 + noise) * radius * weights)) @ push.T
    return {
        "Q": drift[:, :p] + drift[:, :p].T + rate / p * square,
        "M": drift[:, p:],
        "a": value(fields[:p]) @ (error * weights),
    }


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("d", [None, 40])
def test_right_hand_side_against_quadrature(name, d):
    arguments = (Q2, M2, P1, A2, S1)
    wanted = reference(*arguments, ACTIVATIONS[name], 0.7, 0.3, d)
    found = one_pass.right_hand_side(*arguments, name, 0.7, 0.3, d=d, train_second_layer=True)
    np.testing.assert_allclose(found["M"], wanted["M"], atol=1e-10)
    np.testing.assert_allclose(found["a"], wanted["a"], atol=1e-10)
    # tanh: the noise term is an average over frozen points, its stated error 2e-3 of itself.
    noise = wanted["Q"] - reference(*arguments, ACTIVATIONS[name], 0.0, 0.3, d)["Q"]
    allowed = 2e-3 * np.abs(noise).max() if name == "tanh" else 1e-10
    np.testing.assert_allclose(found["Q"], wanted["Q"], atol=allowed)


@pytest.mark.parametrize("d", [None, 25])
def test_tanh_of_one_student_is_exact_noise_included(d):
    arguments = (Q2[:1, :1], M2[:1], P1, A2[:1], S1)
    wanted = reference(*arguments, ACTIVATIONS["tanh"], 0.7, 0.3, d)
    found = one_pass.right_hand_side(*arguments, "tanh", 0.7, 0.3, d=d, train_second_layer=True)
    for key in "QMa":
        np.testing.assert_allclose(found[key], wanted[key], atol=1e-10)


def polar_relu(q, m, a, a_star, rate, noise, d=None):
    """ReLU, one student and one teacher of norm 1: radial moments by hand, angles by Gauss-Legendre between kinks."""
    rest = np.sqrt(q - m**2)
    kinks = np.sort(np.mod([np.pi / 2, -np.pi / 2, *(np.arctan2(-m, rest) + np.array([0.0, np.pi]))], 2 * np.pi))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    angles, masses = [], []
    for low, high in zip(kinks, [*kinks[1:], kinks[0] + 2 * np.pi], strict=True):
        angles.append(low + (high - low) * (nodes + 1) / 2)
        masses.append((high - low) / 2 * weights / (2 * np.pi))
    angle, mass = np.concatenate(angles), np.concatenate(masses)
    teacher, student = np.cos(angle), m * np.cos(angle) + rest * np.sin(angle)
    error = a_star * np.maximum(teacher, 0) - a * np.maximum(student, 0)
    on = student > 0
    # E r^2 = 2, E r^4 = 8 for two normals; the integrands are of degree 2 and, without noise, 2 in the radius.
    average = lambda values, power: {0: 1, 2: 2, 4: 8}[power] * mass @ values  # noqa: E731
    extra = 1.0 if d is None else (8 / 2 + d - 2) / d
    flat = 1.0 if d is None else (2 + d - 2) / d
    push = a * average(on * error * student, 2)
    square = a**2 * (extra * average(on * error**2, 2) + flat * noise * average(on, 0))
    return {
        "M": a * average(on * error * teacher, 2),
        "a": average(np.maximum(student, 0) * error, 2),
        "Q": 2 * push + rate * square,
    }


@pytest.mark.parametrize("d", [None, 30])
def test_relu_against_polar_quadrature(d):
    still = polar_relu(0.8, 0.4, 1.2, 0.9, 0.0, 0.3, d)["Q"]
    for rate in (0.0, 0.7):
        wanted = polar_relu(0.8, 0.4, 1.2, 0.9, rate, 0.3, d)
        found = one_pass.right_hand_side(0.8, 0.4, 1.0, 1.2, 0.9, "relu", rate, 0.3, d=d, train_second_layer=True)
        assert found["M"][0, 0] == pytest.approx(wanted["M"], abs=1e-10)
        assert found["a"][0] == pytest.approx(wanted["a"], abs=1e-10)
        assert found["Q"][0, 0] == pytest.approx(wanted["Q"], abs=1e-10 + 1e-2 * abs(wanted["Q"] - still))


def test_another_kink_is_an_average_over_frozen_points():
    """relu(z - 0.3) is not homogeneous: compare with two million random samples."""
    functions = (lambda z: np.maximum(z - 0.3, 0), lambda z: (z > 0.3) * 1.0)
    rng = np.random.default_rng(0)
    C = np.block([[Q2, M2], [M2.T, P1]])
    fields = np.linalg.cholesky(C) @ rng.standard_normal((3, 2_000_000))
    error = S1 @ functions[0](fields[2:]) - A2 @ functions[0](fields[:2]) / 2
    wanted = (A2[:, None] * functions[1](fields[:2]) * error) @ fields[2:].T / error.size
    found = one_pass.right_hand_side(Q2, M2, P1, A2, S1, "relu(z-0.3)", 0.0, 0.0)["M"]
    np.testing.assert_allclose(found, wanted, atol=1e-2 * np.abs(wanted).max())


@pytest.mark.slow
def test_frozen_points_converge():
    wanted = reference(Q2, M2, P1, A2, S1, ACTIVATIONS["tanh"], 1.0, 0.0)["Q"]
    errors = [
        np.abs(one_pass.right_hand_side(Q2, M2, P1, A2, S1, "tanh", 1.0, 0.0, points=points)["Q"] - wanted).max()
        for points in (1 << 8, 1 << 16)
    ]
    # 256 times more points: Monte Carlo would gain a factor 16
    assert errors[1] < errors[0] / 30


@pytest.mark.slow
def test_arcsine_and_the_fourth_moment():
    import jax

    with jax.enable_x64(True):
        x = np.linspace(-1, 1, 20_001)
        np.testing.assert_allclose(np.asarray(arcsine(x)), np.arcsin(x), atol=3e-16)
        slope = jax.vmap(jax.grad(arcsine))(x[1:-1])
        np.testing.assert_allclose(slope, 1 / np.sqrt(1 - x[1:-1] ** 2), rtol=1e-9)
    # C = I: E[s'_1 s'_2 s_3 s_4] = 0 and E[s^2] = 1/3, seen through the risk and the cross noise of two students.
    start = one_pass.flow(np.eye(1), [[0.0]], 1.0, 0.0, 1.0, "saad-solla", 0.0, 0.0, [0.0]).dataset
    assert float(start.excess_risk[0]) == pytest.approx(1 / 6, abs=1e-15)


@pytest.mark.parametrize("name", [*ACTIVATIONS, "relu"])
def test_perfect_solutions_are_stationary_up_to_label_noise(name):
    P = np.array([[1.0, 0.3], [0.3, 0.8]])
    a = np.array([1.0, -0.5])
    still = one_pass.right_hand_side(P, P, P, a, a, name, 1.0, 0.0, train_second_layer=True)
    noisy = one_pass.right_hand_side(P, P, P, a, a, name, 1.0, 0.4, train_second_layer=True)
    for key in "QMa":
        np.testing.assert_allclose(still[key], 0.0, atol=1e-12)
    np.testing.assert_allclose(noisy["M"], 0.0, atol=1e-12)
    slopes = noisy["Q"] / (0.2 * np.outer(a, a))
    rows = limen.gaussian.covariance_dual_prime(name, P.diagonal()[:, None], P.diagonal()[None], P)
    np.testing.assert_allclose(slopes, rows, rtol=1e-9)


def test_linear_neuron_in_closed_form():
    r"""$D=|u-u^*|^2$: $\dot D=-(2-\gamma)D+\gamma\Delta$, and the exact mean recursion at finite d."""
    q, m, rate, noise, d = 0.7, 0.2, 0.6, 0.3, 12
    distance = q - 2 * m + 1
    limit = one_pass.right_hand_side(q, m, 1.0, 1.0, 1.0, "linear", rate, noise)
    assert limit["Q"][0, 0] - 2 * limit["M"][0, 0] == pytest.approx(-(2 - rate) * distance + rate * noise, rel=1e-12)
    finite = one_pass.right_hand_side(q, m, 1.0, 1.0, 1.0, "linear", rate, noise, d=d)
    eta = rate / d
    after = distance + eta * (finite["Q"][0, 0] - 2 * finite["M"][0, 0])
    assert after == pytest.approx(distance * (1 - 2 * eta + eta**2 * (d + 2)) + eta**2 * d * noise, rel=1e-12)


@pytest.mark.parametrize("name", ["saad-solla", "square", "relu", "tanh"])
def test_large_d_is_the_limit(name):
    arguments = (Q2, M2, P1, A2, S1, name, 0.7, 0.3)
    limit = one_pass.right_hand_side(*arguments)["Q"]
    gaps = [np.abs(one_pass.right_hand_side(*arguments, d=d)["Q"] - limit).max() for d in (10**3, 10**6)]
    assert gaps[0] > 1e-4 * np.abs(limit).max() and gaps[1] == pytest.approx(gaps[0] / 1000, rel=1e-3)


@pytest.mark.parametrize("name", ["saad-solla", "square"])
def test_one_step_mean_against_sampled_steps(name):
    """One step of SGD in d = 8 from fixed vectors, averaged over samples."""
    value, slope = ACTIVATIONS[name]
    d, rate, noise = 8, 4.0, 1.0
    factor = np.linalg.cholesky(np.block([[Q2, M2], [M2.T, P1]]))
    units = np.concatenate([factor, np.zeros((3, d - 3))], axis=1)
    rng = np.random.default_rng(1)
    count = 400_000
    x = rng.standard_normal((count, d))
    fields = x @ units.T
    residual = value(fields[:, 2]) * S1[0] - value(fields[:, :2]) @ A2 / 2 + noise**0.5 * rng.standard_normal(count)
    push = A2 * slope(fields[:, :2]) * residual[:, None]
    change = (
        push[:, :, None] * fields[:, None, :2]
        + push[:, None, :] * fields[:, :2, None]
        + rate / (2 * d) * push[:, :, None] * push[:, None, :] * (x**2).sum(axis=1)[:, None, None]
    )
    mean, error = change.mean(axis=0), change.std(axis=0) / count**0.5
    found = one_pass.right_hand_side(Q2, M2, P1, A2, S1, name, rate, noise, d=d)["Q"]
    assert (np.abs(found - mean) < 4 * error).all()
    limit = one_pass.right_hand_side(Q2, M2, P1, A2, S1, name, rate, noise)["Q"]
    assert (np.abs(limit - mean) > 4 * error).any()


@pytest.mark.slow
@pytest.mark.parametrize("name, factor", [("square", 2.0), ("relu", 1.0), ("linear", 1.0)])
def test_gradient_flow_conserves_norm_against_second_layer(name, factor):
    path = one_pass.flow(Q2, M2, P1, A2, S1, name, 0.0, 0.0, [0.0, 1.0, 3.0], train_second_layer=True, tolerance=1e-9)
    dataset = path.dataset
    kept = np.diagonal(dataset.gram.values, axis1=1, axis2=2) - factor * dataset.second_layer.values**2
    np.testing.assert_allclose(kept - kept[0], 0.0, atol=1e-7)
    assert np.abs(dataset.second_layer.values[-1] - A2).max() > 0.05
    assert (np.diff(dataset.excess_risk.values) < 0).all()


@pytest.mark.slow
def test_symmetries_and_positivity():
    rng = np.random.default_rng(3)
    U = rng.standard_normal((4, 30)) / 30**0.5
    Us = np.linalg.qr(rng.standard_normal((30, 2)))[0].T
    Q, M, P, a, s = U @ U.T, U @ Us.T, np.eye(2), np.array([1.0, 0.7, -0.4, 0.5]), np.array([1.0, 0.6])
    base = one_pass.right_hand_side(Q, M, P, a, s, "saad-solla", 0.8, 0.1, train_second_layer=True)
    students, teachers = [2, 0, 3, 1], [1, 0]
    moved = one_pass.right_hand_side(
        Q[np.ix_(students, students)],
        M[np.ix_(students, teachers)],
        P,
        a[students],
        s[teachers],
        "saad-solla",
        0.8,
        0.1,
    )
    np.testing.assert_allclose(moved["Q"], base["Q"][np.ix_(students, students)], atol=1e-14)
    np.testing.assert_allclose(moved["M"], base["M"][np.ix_(students, teachers)], atol=1e-14)
    flip = np.array([1.0, -1.0, 1.0, 1.0])
    odd = one_pass.right_hand_side(Q * np.outer(flip, flip), M * flip[:, None], P, a * flip, s, "saad-solla", 0.8, 0.1)
    np.testing.assert_allclose(odd["Q"], base["Q"] * np.outer(flip, flip), atol=1e-14)
    plain = one_pass.right_hand_side(Q, M, P, a, s, "square", 0.1, 0.1)
    even = one_pass.right_hand_side(Q * np.outer(flip, flip), M * flip[:, None], P, a, s, "square", 0.1, 0.1)
    np.testing.assert_allclose(even["M"], plain["M"] * flip[:, None], atol=1e-14)
    # duplicated students: each copy follows the gradient flow of its original
    twice = [0, 0, 1, 1, 2, 2, 3, 3]
    copies = one_pass.right_hand_side(Q[np.ix_(twice, twice)], M[twice], P, a[twice], s, "saad-solla", 0.0, 0.0)
    single = one_pass.right_hand_side(Q, M, P, a, s, "saad-solla", 0.0, 0.0)
    np.testing.assert_allclose(copies["Q"], single["Q"][np.ix_(twice, twice)], atol=1e-13)
    path = one_pass.flow(Q, M, P, a, s, "saad-solla", 0.8, 0.1, 30.0).dataset
    joint = np.block(
        [[path.gram.values, path.overlap.values], [np.swapaxes(path.overlap.values, 1, 2), np.tile(P, (101, 1, 1))]]
    )
    assert np.linalg.eigvalsh(joint).min() > -1e-9


def logistic(start, rate, noise, times):
    c = 1 - 6 * rate - rate * noise / 2
    limit = c / (1 - 6 * rate)
    return limit / (1 + (limit / start**2 - 1) * np.exp(-8 * c * times))


def test_sphere_solves_the_logistic_equation_and_its_order_is_five():
    """Phase retrieval with one neuron on the sphere; the error falls like the fifth power of the number of steps."""
    times, rate, noise = np.linspace(0.0, 4.0, 9), 0.05, 0.3
    exact = logistic(0.05, rate, noise, times)
    errors, steps = [], []
    for tolerance in (1e-5, 1e-7, 1e-9, 1e-11):
        result = one_pass.flow(
            1.0, 0.05, 1.0, 1.0, 1.0, "square", rate, noise, times, spherical=True, tolerance=tolerance
        )
        np.testing.assert_allclose(result.dataset.gram.values[:, 0, 0], 1.0, atol=1e-14)
        errors.append(np.abs(result.dataset.overlap.values[:, 0, 0] ** 2 - exact).max())
        steps.append(result.statistics["steps"])
        assert errors[-1] < 100 * tolerance
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert -6.5 < slope < -4.5
    np.testing.assert_allclose(result.dataset.excess_risk.values, 2 * (1 - exact), atol=1e-9)


@pytest.mark.slow
def test_plateaus_of_label_noise():
    for rate, ratio in ((0.1, 1.026), (1.0, 1.33)):
        end = one_pass.flow(1.0, 0.9, 1.0, 1.0, 1.0, "saad-solla", rate, 1e-3, [0.0, 4000.0]).dataset
        excess = float(end.excess_risk[-1])
        formula = one_pass.noise_plateau("saad-solla", rate, 1e-3)
        assert excess / formula == pytest.approx(ratio, rel=0.02)
        assert excess == pytest.approx(one_pass.single_neuron_plateau("saad-solla", rate, 1e-3), rel=0.02)
    assert one_pass.noise_plateau("saad-solla", 0.1, 0.2, a=[1.0, 1.0], variances=[1.0, 1.0]) == pytest.approx(
        0.5 * 0.1 * 0.2 / 4 * 2 / np.pi / 3**0.5, rel=1e-12
    )


def test_largest_stable_rates_and_regimes():
    assert one_pass.largest_stable_rate("saad-solla") == pytest.approx(np.pi * (5 / 3) ** 0.5, rel=1e-12)
    assert one_pass.largest_stable_rate("square") == pytest.approx(1 / 6, rel=1e-12)
    assert one_pass.largest_stable_rate("linear") == pytest.approx(2.0, rel=1e-12)
    assert one_pass.largest_stable_rate("relu") == pytest.approx(2.0, rel=1e-12)
    # the bound is where the flow near the solution changes sign: excess error D = |u - u*|^2, both sides of it
    for factor, stable in ((0.95, True), (1.05, False)):
        rate = factor * one_pass.largest_stable_rate("saad-solla")
        slope = one_pass.right_hand_side(1.0 + 1e-4, 1.0, 1.0, 1.0, 1.0, "saad-solla", rate, 0.0)
        assert (slope["Q"][0, 0] - 2 * slope["M"][0, 0] < 0) == stable
    answers = {
        (0.3, 0.2): "gradient flow",
        (0.25, -0.25): "saad-solla",
        (0.0, -0.3): "noise dominated",
        (0, -0.5): "no ode",
    }
    for scaling, answer in answers.items():
        assert one_pass.regime(*scaling) == answer


@pytest.mark.slow
def test_the_three_regimes_are_limits_of_one_equation():
    start = (0.5, 0.3, 1.0, 1.0, 1.0, "saad-solla")
    slow = one_pass.flow(*start, 1e-6, 0.2, 5.0).dataset.excess_risk
    gradient = one_pass.flow(*start, 0.0, 0.2, 5.0).dataset.excess_risk
    np.testing.assert_allclose(slow, gradient, atol=1e-6)
    wild = one_pass.flow(*start, 100.0, 0.2, [0.0, 0.01]).dataset
    limit = one_pass.noise_dominated_flow(*start, 0.2, [0.0, 1.0]).dataset
    assert float(wild.gram[-1, 0, 0]) == pytest.approx(0.7308, abs=1e-4)
    assert float(limit.gram[-1, 0, 0]) == pytest.approx(0.7329, abs=1e-4)
    assert float(wild.overlap[-1, 0, 0]) == pytest.approx(0.3026, abs=1e-4)
    assert float(limit.overlap[-1, 0, 0]) == 0.3


def test_phase_retrieval_plateau_and_growth():
    width, rate, noise = 3, 0.05, 0.2
    q = one_pass.unconstrained_plateau(width, rate, noise)
    slope = one_pass.right_hand_side(q * np.eye(width), np.zeros((width, 1)), 1.0, 1.0, 1.0, "square", rate, noise)
    np.testing.assert_allclose(slope["Q"], 0.0, atol=1e-12)
    assert one_pass.unconstrained_plateau(width, 0.0, 0.0) == pytest.approx(width / (width + 2), rel=1e-12)
    threshold = (5760**0.5 - 24) / 288
    assert np.isfinite(one_pass.unconstrained_plateau(1, threshold - 1e-9, 0.0))
    assert np.isinf(one_pass.unconstrained_plateau(1, threshold + 1e-9, 0.0))
    small = np.full((width, 1), 1e-7)
    raw = one_pass.right_hand_side(np.eye(width), small, 1.0, 1.0, 1.0, "square", rate, noise)
    rates = raw["M"][:, 0] / 1e-7 - 0.5 * raw["Q"].diagonal()
    np.testing.assert_allclose(rates, 4 * one_pass.phase_retrieval_growth(width, rate, noise), rtol=1e-9)
    best = one_pass.best_rate(width, noise)
    cost = lambda gamma: 1 / (gamma * one_pass.phase_retrieval_growth(width, gamma, noise))  # noqa: E731
    assert cost(best) < min(cost(0.9 * best), cost(1.1 * best))
    assert one_pass.sample_budget(1, 10**9, 0.0) / one_pass.sample_budget(10**6, 10**9, 0.0) == pytest.approx(
        6, rel=0.05
    )


@pytest.mark.slow
def test_schedules_batches_and_many_sets():
    start = (0.8, 0.4, 1.0, 1.0, 1.0, "linear")
    constant = one_pass.flow(*start, 0.8, 0.2, 6.0).dataset
    formula = one_pass.flow(*start, "0.8 + 0*t", 0.2, 6.0).dataset
    np.testing.assert_allclose(formula.gram, constant.gram, atol=1e-9)
    batches = one_pass.flow(*start, 1.6, 0.2, 6.0, batch=2).dataset
    np.testing.assert_allclose(batches.gram, constant.gram, atol=1e-9)
    decayed = one_pass.flow(*start, "1/(1+t)", 0.1, [0.0, 400.0]).dataset
    assert float(decayed.excess_risk[-1]) < 0.02 * one_pass.noise_plateau("linear", 1.0, 0.1)
    start = ([[0.8]], [[0.4]], *start[2:])
    many = one_pass.flows(*start, [0.8, 0.0, 0.8], [0.2, 0.2, 0.0], 6.0).dataset
    np.testing.assert_allclose(many.gram[0], constant.gram, atol=1e-7)
    gradient = one_pass.flow(*start, 0.0, 0.0, 6.0).dataset
    np.testing.assert_allclose(many.gram[1], gradient.gram, atol=1e-7)
    assert many.sizes["set"] == 3


@pytest.mark.slow
def test_a_fast_second_layer_is_integrated_implicitly():
    start = (0.8, 0.4, 1.0, 0.5, 1.0, "saad-solla")
    fast = one_pass.flow(*start, 0.0, 0.0, [0.0, 0.5, 1.0], train_second_layer=True, second_layer_ratio=1e5)
    assert "kvaerno5" in fast.status and fast.ok
    overlap, gram = fast.dataset.overlap.values[-1, 0, 0], fast.dataset.gram.values[-1, 0, 0]
    # the second layer has followed its optimum E[s s*]/E[s^2]
    best = np.arcsin(overlap / np.sqrt(2 * (1 + gram))) / np.arcsin(gram / (1 + gram))
    assert fast.dataset.second_layer.values[-1, 0] == pytest.approx(best, rel=1e-3)


def test_committees_are_recognised():
    saad, square = limen.activation("saad-solla"), limen.activation("square")
    np.testing.assert_allclose(committee_weights(limen.target("committee:3"), saad), 1.0, rtol=1e-12)
    np.testing.assert_allclose(committee_weights(limen.target("(z1**2+3*z2**2)/2"), square), [1.0, 3.0], rtol=1e-12)
    np.testing.assert_allclose(
        committee_weights(limen.target("2*tanh(z)"), limen.activation("tanh")), [2.0], rtol=1e-12
    )
    for target, activation in (("z1*z2", square), ("committee:2", limen.activation("erf")), ("sign(z+e)", saad)):
        assert committee_weights(limen.target(target), activation) is None


@pytest.mark.slow
def test_what_goes_wrong_is_said():
    diverging = one_pass.flow(1.0, 0.3, 1.0, 1.0, 1.0, "square", 0.4, 0.1, 50.0)
    assert not diverging.ok and "take a smaller rate" in diverging.status
    assert np.isnan(diverging.dataset.excess_risk.values[-1])
    assert "stays there for ever" in one_pass.flow(1.0, 0.0, 1.0, 1.0, 1.0, "square", 0.05, 0.0, 5.0).status
    equal = one_pass.flow(np.eye(2), [[0.2], [0.2]], 1.0, 1.0, 1.0, "saad-solla", 0.5, 0.0, 5.0)
    assert "students 0 and 1" in equal.status
    np.testing.assert_allclose(equal.dataset.overlap[:, 0], equal.dataset.overlap[:, 1], atol=1e-13)
    teachers = one_pass.flow(np.eye(1), [[0.2, 0.2]], np.eye(2), 1.0, 1.0, "saad-solla", 0.5, 0.0, 5.0)
    assert "teachers 0 and 1" in teachers.status
    refused = {
        "positive semidefinite": dict(Q=1.0, M=1.5),
        "P must have shape": dict(P=np.eye(2)),
        "rate must be finite and not negative": dict(rate=-1.0),
        "noise must be finite and not negative": dict(noise=-0.1),
        "d must be at least students": dict(d=1),
        "must be continuous": dict(activation="sign(z)"),
        "a must be one number or 1": dict(a=[1.0, 2.0]),
        "M must be finite": dict(M=np.nan),
    }
    plain = dict(Q=1.0, M=0.3, P=1.0, a=1.0, a_star=1.0, activation="saad-solla", rate=0.5, noise=0.0)
    for sentence, change in refused.items():
        with pytest.raises(InputError, match=sentence):
            one_pass.right_hand_side(**{**plain, **change})
    with pytest.raises(InputError, match="rate must be finite and not negative at all times"):
        one_pass.flow(1.0, 0.3, 1.0, 1.0, 1.0, "saad-solla", "1 - t", 0.0, 5.0)
    with pytest.raises(InputError, match="fraction must be between 0 and 1"):
        one_pass.sample_budget(2, 1000, 0.0, fraction=1.0)
    problem = limen.TwoLayer("committee:2", limen.network(3, "saad-solla"), limen.OnePassSGD(rate=1.0))
    with pytest.raises(InputError, match="d and seeds are required"):
        limen.predict(problem, 1.0)
    assert limen.theories(problem)["overlap-ode"] == "applies"


@in_double
def test_noise_of_many_students_is_that_of_their_pairs():
    """Eighteen students, worked through in blocks, of which the last is half full: a target that is met leaves the
    label noise."""
    p, noise = 18, 0.4
    vectors = np.random.default_rng(2).normal(size=(p, 25)) / 5
    covariance = vectors @ vectors.T
    width = 1 + np.diag(covariance)
    found = pair_noise(jnp.asarray(covariance), jnp.zeros(p), jnp.asarray(noise), p)
    expected = 2 / np.pi * noise / np.sqrt(np.outer(width, width) - covariance**2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_many_rates_of_two_equal_linear_students():
    """The pair is one student with half the noise, whose squared distance has a closed form."""
    rates, noise, times = np.array([0.3, 1.0, 2.5]), 0.2, np.array([0.0, 0.6, 2.0])
    found = one_pass.flows(np.ones((2, 2)), np.zeros((2, 1)), 1.0, 1.0, 1.0, "linear", rates, noise, times).dataset
    half = rates[:, None] / 2
    fallen = np.exp(-(2 - half) * times)
    np.testing.assert_allclose(
        found.excess_risk, 0.5 * (2 * fallen + half * noise / (2 - half) * (1 - fallen)), rtol=1e-6
    )


@in_double
def test_a_cut_series_is_said_for_the_teachers_too():
    """Students of small norm, teachers of a norm beyond a hundred Hermite terms."""
    small = Overlaps(jnp.full((1, 1), 0.1), jnp.zeros((1, 1)), jnp.ones(1))
    errors = [
        committee_population("tanh", 1, np.full((1, 1), P), np.ones(1), 0.0).truncation(small) for P in (0.1, 1e4)
    ]
    assert errors[0] < 1e-12 and errors[1] > 1e-3


@pytest.mark.parametrize("weights, said", [((1.0, 1.0), "teachers 0 and 1"), ((1.0, 0.5), None)])
@in_double
def test_teachers_of_unequal_weight_are_told_apart(weights, said):
    start = Overlaps(jnp.eye(1), jnp.full((1, 2), 0.2), jnp.ones(1))
    population = committee_population("saad-solla", 1, np.eye(2), np.array(weights), 0.0)
    motion = Motion(Schedule(jnp.asarray(0.5)), jnp.asarray(1.0), None, False, True)
    found = lasting_symmetry(start, motion, population, np.array(weights))
    assert found is None if said is None else said in found


def test_a_start_of_given_norm_has_its_square_on_the_diagonal():
    network = limen.network(2, "tanh", initial_norm=1.5)
    problem = limen.TwoLayer(
        "z1*z2", network, limen.OnePassSGD(0.1), start=limen.OverlapStart(((0.5, 0.1), (0.2, -0.4)))
    )
    _, gram = given_overlaps(problem)
    np.testing.assert_allclose(gram, [[2.25, 0.06], [0.06, 2.25]], atol=1e-14)


def test_overlaps_of_no_vectors_are_refused():
    """Each pair alone could be: three students with pairwise overlaps -0.9 cannot."""
    gram = np.full((3, 3), -0.9) + 1.9 * np.eye(3)
    with pytest.raises(InputError, match="positive semidefinite"):
        one_pass.right_hand_side(gram, np.zeros((3, 1)), 1.0, 1.0, 1.0, "square", 0.1, 0.0)


def test_plateaus_of_label_noise_by_hand():
    """A quarter of rate, noise and trace of the Hessian: a_i^2 E[sigma'^2] / p^2."""
    assert one_pass.noise_plateau("linear", 0.1, 0.2, a=[1.0, 2.0]) == pytest.approx(0.02 / 4 * 5 / 4, rel=1e-12)
    found = one_pass.noise_plateau("square", 0.1, 0.2, a=[1.0, 2.0], variances=[0.5, 3.0])
    assert found == pytest.approx(0.02 / 4 * (4 * 0.5 + 4 * 4 * 3.0) / 4, rel=1e-12)
    # A linear neuron settles where 2 rho = rate (rho + noise).
    for rate in (0.1, 1.5):
        assert one_pass.single_neuron_plateau("linear", rate, 0.2) == pytest.approx(0.1 * rate / (2 - rate), rel=1e-12)


@in_double
def test_noise_inside_and_beside_the_labels_are_two():
    """Linear neuron, labels z + e/2 and noise of variance 1/4: second moments of frozen points are exact. Huber's loss
    from 100 on is the square loss, with the noise sampled."""
    q, m = 0.8, 0.3
    state = Overlaps(jnp.full((1, 1), q), jnp.full((1, 1), m), jnp.ones(1))
    parts = (limen.target("z+0.5*e", noise=0.25), limen.network(1, "linear"), limen.OnePassSGD(0.1))
    for loss in ("square", "huber:100"):
        problem = limen.TwoLayer(*parts, loss=loss)
        excess, test = population_of(problem)[0].losses(state)
        assert float(excess) == pytest.approx(0.5 * (1 + q - 2 * m + 0.25), rel=1e-9)
        assert float(test) == pytest.approx(0.5 * (1 + q - 2 * m + 0.5), rel=1e-9)
        sampled = problem_increments(problem)
        square = float(sampled.sample(state).residual ** 2 @ sampled.weights)
        assert square == pytest.approx(1 + q - 2 * m + 0.5, rel=1e-9)


@in_double
def test_the_sphere_takes_back_what_lengthens_each_vector():
    """Two vectors that move and are put back to their lengths: products of their velocities, by hand."""
    rng = np.random.default_rng(1)
    u, teacher, velocity = rng.normal(size=(2, 5)), rng.normal(size=(1, 5)), rng.normal(size=(2, 5))
    inward = velocity @ u.T
    state = Overlaps(*map(jnp.asarray, (u @ u.T, u @ teacher.T, np.ones(2))))
    slope = Overlaps(*map(jnp.asarray, (inward + inward.T, velocity @ teacher.T, np.ones(2))))
    tangent = velocity - (velocity * u).sum(axis=1, keepdims=True) / (u * u).sum(axis=1, keepdims=True) * u
    found = projected(state, slope)
    np.testing.assert_allclose(found.gram, tangent @ u.T + u @ tangent.T, atol=1e-12)
    np.testing.assert_allclose(found.overlap, tangent @ teacher.T, atol=1e-12)


def test_frozen_points_have_exact_second_moments():
    points, weights = frozen_points(5, 256)
    np.testing.assert_allclose((points * weights) @ points.T, np.eye(5), atol=1e-12)
    # The weights cost a third of the points.
    assert 0.6 * 256 < 1.0 / np.sum(weights**2) < 256
    # High moments live in the tails, where points of the law itself are few: E[z^8] = 105.
    points, weights = frozen_points(5)
    plain = sobol_normals(weights.size, 5).T
    errors = [np.abs(moments - 105.0).max() for moments in (points**8 @ weights, (plain**8).mean(axis=1))]
    assert errors[0] < 0.02 * 105.0 < errors[1]


def test_polynomials_are_averaged_exactly():
    """Square neurons on z^3 - z from overlap zero, by hand: only the Gram matrix moves."""
    problem = limen.TwoLayer(
        limen.target("z**3-z"),
        limen.network(2, "square"),
        limen.OnePassSGD(0.1),
        start=limen.OverlapStart(((0.0,), (0.0,)), gram=((0.6, 0.0), (0.0, 0.6))),
    )
    rule = problem_rule(as_activation("square"), 2, problem.target, problem.loss)
    assert rule.exact and rule.weights.size == 6**3
    found = right_hand_side_of(problem)
    # With Q = q I and M = 0: e = y - q (x1^2 + x2^2) / 2, E[x1^2 e] = -q (3 + 1) / 2, E[y^2] = 10, and
    # E[x1^2 e^2] = 10 + q^2 E[x1^2 (x1^2 + x2^2)^2] / 4 = 10 + q^2 (15 + 6 + 3) / 4.
    q, weight = 0.6, 0.1 / 2
    slope = 2 * 2 * q * (-2 * q) + weight * 4 * q * (10 + 6 * q**2)
    np.testing.assert_allclose(found.gram, slope * np.eye(2), atol=1e-12)
    np.testing.assert_allclose(found.overlap, 0.0, atol=1e-12)


@pytest.mark.parametrize(("points", "most", "error"), [(1 << 14, 13_000, 2e-9), (1 << 10, 2_000, 2e-6)])
def test_two_smooth_fields_have_a_product_rule_of_the_size_asked_for(points, most, error):
    """Against Gauss-Hermite products of 400 nodes, steep and growing functions of two correlated fields."""
    target = limen.target("cos(z)+0.5*z")
    rule = problem_rule(as_activation("tanh"), 1, target, limen.problem.Loss(name="square"), points)
    nodes, weights = np.polynomial.hermite_e.hermegauss(180)
    weights = weights / weights.sum()
    fine = np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes)])
    assert rule.exact and rule.weights.size < most

    def mean(points, weights):
        z, other = points[0], 0.6 * points[0] + 0.8 * points[1]
        return np.array([np.tanh(2 * z) * z * other**2, np.cos(z) * np.tanh(z) ** 2, z**4 * other**4]) @ weights

    np.testing.assert_allclose(
        mean(rule.nodes, rule.weights), mean(fine, np.outer(weights, weights).ravel()), rtol=error
    )


@in_double
def right_hand_side_of(problem):
    population, _ = population_of(problem)
    overlap, gram = given_overlaps(problem)
    start = Overlaps(jnp.asarray(gram), jnp.asarray(overlap), jnp.ones(problem.network.width))
    return problem_motion(problem, np.array([1.0])).slope(population, start, jnp.zeros(()))


@pytest.mark.parametrize(
    ("formula", "degree"),
    [("z**3-z", 3), ("z", 1), ("z1*z2+z1", 2), ("(z1+z2)**4", 4), ("tanh(z)", None), ("3+0*z", 0)],
)
def test_degrees_of_polynomials(formula, degree):
    target = limen.target(formula)
    assert polynomial_degree(lambda z: target.function(z, np.zeros(len(z))), target.latents) == degree


def test_no_polynomial_of_any_degree():
    assert polynomial_degree(lambda z: np.maximum(z, 0.0) ** 2, 1) is None
    assert polynomial_degree(lambda z: np.log(z), 1) is None
    assert polynomial_degree(lambda z: z**7, 1) is None
    assert polynomial_degree(lambda z: np.where(z > 6.0, z**2, z), 1) is None


def test_error_of_the_points_is_stated_and_averages_out_over_rows():
    """ReLU on a heavy target, against 32 times as many points."""
    problem = limen.TwoLayer(
        limen.target("z**3-z"),
        limen.network(2, "relu"),
        limen.OnePassSGD(0.1),
        start=limen.OverlapStart(((0.3,), (0.1,)), gram=((0.6, 0.1), (0.1, 0.5))),
    )
    one = limen.predict(problem, [1.0, 2.0]).dataset
    many = overlap_ode.solve(problem, np.array([1.0, 2.0]), points=1 << 19).dataset
    for name in ("overlap", "gram", "test_loss"):
        error, stated = np.abs(one[name] - many[name]).max(), one[f"{name}_spread"].max()
        assert error < 4.0 * stated
        assert stated < 0.02 * np.abs(many[name]).max()
    # Every seed starts alike up to 1/sqrt(d): rows of the same scramble are one path.
    points, fields = 1 << 12, 5
    seeds = (*range(32), overlap_ode.NUMBERS_IN_ALL // (points * fields))
    rows = overlap_ode.solve(problem, np.array([1.0, 2.0]), 10**9, seeds, points=points).dataset.gram
    np.testing.assert_allclose(rows[0], rows[32], rtol=1e-5)
    assert np.abs(rows[0] - rows[1]).max() > 1e-4
    apart = np.abs(rows[:32] - many.gram).max(axis=(1, 2, 3))
    # Thirty-two scrambles: 0.18 of the error of one, if they are independent.
    assert np.abs(rows[:32].mean("seed") - many.gram).max() < 0.4 * np.sqrt((apart**2).mean())


@in_double
def test_biases_shift_the_answers_and_not_the_inputs():
    """Linear neuron with a bias b: E[lambda e] = m - q, E[z e] = 1 - m, E[e^2] = 1 + q - 2m + b^2."""
    q, m, b = 0.8, 0.3, 0.7
    problem = limen.TwoLayer("z", limen.network(1, "linear", bias=b), limen.OnePassSGD(0.1))
    population = population_of(problem)[0]
    state = Overlaps(jnp.full((1, 1), q), jnp.full((1, 1), m), jnp.ones(1))
    np.testing.assert_allclose(population.drift(state), [[m - q, 1 - m]], atol=1e-9)
    np.testing.assert_allclose(population.noise(state), [[1 + q - 2 * m + b**2]], rtol=1e-9)
    np.testing.assert_allclose(population.response(state), [m - q - b**2], atol=1e-9)
