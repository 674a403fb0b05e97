"""Max margin, the logistic flow and its constants: cases with closed forms, an independent solver, and bad input."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, minimize
from scipy.special import expit

from limen.problem import InputError
from limen.theory.kernel.classification.logistic_flow import (
    direction_error,
    log_logistic_loss,
    logistic_flow,
    normalized_margin,
)
from limen.theory.kernel.classification.max_margin import margin_asymptotics, max_margin


def labelled_points(seed, samples, dimension, gap=0.3):
    generator = np.random.default_rng(seed)
    inputs, teacher = generator.standard_normal((samples, dimension)), generator.standard_normal(dimension)
    teacher /= np.linalg.norm(teacher)
    return inputs * np.sign(inputs @ teacher)[:, None] + gap * teacher


def test_orthogonal_rows_have_known_multipliers():
    best = max_margin(np.diag([1.0, 2.0, 5.0]))
    np.testing.assert_allclose(best.weights, [1, 1 / 2, 1 / 5], rtol=1e-14)
    np.testing.assert_allclose(best.multipliers, [1, 1 / 4, 1 / 25], rtol=1e-14)
    assert best.margin == pytest.approx((1 + 1 / 4 + 1 / 25) ** -0.5, rel=1e-14)


@pytest.mark.parametrize(("samples", "dimension"), [(30, 2), (100, 10), (20, 30), (400, 40)])
def test_optimality_conditions(samples, dimension):
    rows = labelled_points(1, samples, dimension)
    best = max_margin(rows)
    margins = rows @ best.weights
    assert margins.min() == pytest.approx(1, abs=1e-11)
    assert best.multipliers.min() >= 0
    np.testing.assert_allclose(rows.T @ best.multipliers, best.weights, atol=1e-11)
    assert best.multipliers.sum() == pytest.approx(best.weights @ best.weights, rel=1e-10)
    assert np.abs(best.multipliers * (margins - 1)).max() < 1e-9


def test_another_solver_finds_the_same_separator():
    rows = labelled_points(2, 25, 3)
    start = 100 * max_margin(rows).weights
    found = minimize(
        lambda w: w @ w / 2,
        start,
        jac=lambda w: w,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda w: rows @ w - 1, "jac": lambda w: rows},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(max_margin(rows).weights, found.x, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-2, 1e-4, 1e-6])
def test_narrow_margins_lose_no_digits(size):
    best = max_margin(np.array([[1, size], [-1, size], [0.3, 2 * size]]))
    np.testing.assert_allclose(best.weights * size, [0, 1], atol=1e-9)
    np.testing.assert_allclose(best.multipliers * size**2, [0.5, 0.5, 0], atol=1e-9)


def test_scaling_the_data():
    rows = labelled_points(3, 30, 4)
    one, many = max_margin(rows), max_margin(1e6 * rows)
    np.testing.assert_allclose(one.weights, 1e6 * many.weights, rtol=1e-10)
    np.testing.assert_allclose(one.multipliers, 1e12 * many.multipliers, atol=1e-9)


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[1.0, 0.0], [-1.0, 0.0]]),
        np.array([[1.0, 1.0], [-1.0, 0.5], [0.0, -1.0]]),
        np.zeros((3, 2)),
        np.array([[1.0, 2.0], [0.0, 0.0]]),
        np.random.default_rng(0).standard_normal((60, 10)),
    ],
)
def test_data_that_are_not_separable_are_refused(rows):
    for function in (max_margin, margin_asymptotics, lambda points: logistic_flow(points, [1.0])):
        with pytest.raises(InputError, match="separable"):
            function(rows)


def test_bad_shapes_and_times_are_refused():
    rows = labelled_points(0, 10, 2)
    for wrong in (np.zeros(3), np.zeros((0, 2)), np.full((2, 2), np.inf), [["a"]]):
        with pytest.raises(InputError, match="rows"):
            max_margin(wrong)
    for times in ([2.0, 1.0], [1.0, 1.0], [], [np.inf], [np.nan]):
        with pytest.raises(InputError, match="log_times"):
            logistic_flow(rows, times)
    with pytest.raises(InputError, match="softness must be non-negative"):
        logistic_flow(rows, [1.0], softness=-1.0)
    with pytest.raises(InputError, match="start"):
        logistic_flow(rows, [1.0], start=[0.0])
    with pytest.raises(InputError, match="weights"):
        normalized_margin(rows, np.zeros(2))


def test_flow_on_orthogonal_rows_is_known_at_every_time():
    # m_i = c_i w_i obeys m + e^m - 1 = c_i^2 t / n
    lengths, log_times = np.array([1.0, 2.0, 0.5]), np.array([-30.0, -2.0, 0.0, 3.0, 10.0, 100.0, 1000.0])

    def margin(length, log_time):
        drive = 2 * np.log(length) + log_time - np.log(3)
        if drive > 50:
            return drive - np.exp(np.log(drive) - drive)
        return brentq(lambda m: m + np.expm1(m) - np.exp(drive), 0, 60, xtol=1e-16, rtol=1e-14)

    known = [[margin(length, log_time) / length for length in lengths] for log_time in log_times]
    np.testing.assert_allclose(logistic_flow(np.diag(lengths), log_times), known, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("softness", [0.0, 0.2, 7.0])
def test_softer_and_harder_losses_on_orthogonal_rows(softness):
    # m_i = l_i w_i obeys c m + e^m - 1 = l_i^2 t / n
    lengths, log_times = np.array([1.0, 2.0]), np.array([-2.0, 0.0, 3.0, 10.0])

    def margin(drive):
        return brentq(lambda m: softness * m + np.expm1(m) - drive, 0, 60, xtol=1e-16, rtol=1e-14)

    known = [[margin(length**2 * np.exp(late) / 2) / length for length in lengths] for late in log_times]
    found = logistic_flow(np.diag(lengths), log_times, softness=softness)
    np.testing.assert_allclose(found, known, rtol=1e-8, atol=1e-9)
    losses = np.exp(-found * lengths)
    plain = losses if softness == 0.0 else np.log1p(softness * losses) / softness
    expected = np.log(plain.mean(axis=1))
    np.testing.assert_allclose(log_logistic_loss(np.diag(lengths), found, softness), expected, rtol=1e-12)


@pytest.mark.parametrize("softness", [0.0, 20.0])
def test_the_tail_alone_decides_the_constants(data, softness):
    constants = margin_asymptotics(data)
    (weights,) = logistic_flow(data, [400.0], softness=softness)
    np.testing.assert_allclose(weights - 400 * constants.weights, constants.offset, atol=1e-7)
    assert np.exp(log_logistic_loss(data, weights, softness) + 400.0) == pytest.approx(
        constants.loss_constant, rel=1e-7
    )
    early = [logistic_flow(data, [3.0], softness=value)[0] for value in (1.0, softness)]
    assert np.abs(early[0] - early[1]).max() > 0.01


def test_flow_agrees_with_an_explicit_solver_in_plain_time():
    rows = labelled_points(4, 20, 3)
    times = np.array([0.1, 1.0, 7.0, 40.0, 200.0])
    start = np.array([0.5, -1.0, 0.2])
    plain = solve_ivp(
        lambda t, w: rows.T @ expit(-(rows @ w)) / 20, (0, 200), start, "DOP853", times, rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(logistic_flow(rows, np.log(times), start), plain.y.T, atol=2e-8)


def test_flow_at_time_zero_and_in_many_dimensions():
    rows, start = labelled_points(5, 6, 40), np.random.default_rng(0).standard_normal(40)
    weights = logistic_flow(rows, [-np.inf, 5.0], start)
    np.testing.assert_array_equal(weights[0], start)
    moved = weights[1] - start
    np.testing.assert_allclose(rows.T @ np.linalg.lstsq(rows.T, moved)[0], moved, atol=1e-12)


def test_loss_is_finite_where_it_underflows():
    rows = np.eye(2)
    assert log_logistic_loss(rows, [1000.0, 1000.0]) == pytest.approx(-1000)
    assert log_logistic_loss(rows, [0.3, -2.0]) == pytest.approx(
        np.log((np.log1p(np.exp(-0.3)) + np.log1p(np.exp(2.0))) / 2), rel=1e-14
    )
    assert log_logistic_loss(rows, np.zeros((4, 2))).shape == (4,)


@pytest.fixture(scope="module", params=[(1, 30, 2), (3, 40, 5)])
def data(request):
    return labelled_points(*request.param)


def test_offset_on_the_span_of_the_support(data):
    constants = margin_asymptotics(data)
    (weights,) = logistic_flow(data, [400.0])
    np.testing.assert_allclose(weights - 400 * constants.weights, constants.offset, atol=1e-7)
    selected = constants.support
    np.testing.assert_allclose(
        data[selected] @ constants.offset, -np.log(len(data) * constants.multipliers[selected]), atol=1e-11
    )


def test_loss_margin_and_direction_constants(data):
    constants, log_times = margin_asymptotics(data), np.array([400.0, 800.0])
    weights = logistic_flow(data, log_times)
    assert np.exp(log_logistic_loss(data, weights) + log_times) == pytest.approx(constants.loss_constant, rel=1e-8)
    shortfall = (1 / np.sqrt(constants.loss_constant) - normalized_margin(data, weights)) * log_times
    turn = direction_error(data, weights) * log_times
    # corrections are O(1/log t): 2 % at log t = 400, and two times remove the first of them
    for values, limit in ((shortfall, constants.margin_constant), (turn, constants.direction_constant)):
        assert values[0] == pytest.approx(limit, rel=0.02)
        assert values[0] != pytest.approx(limit, rel=0.002)
        assert 2 * values[1] - values[0] == pytest.approx(limit, rel=3e-4)
    # the multipliers alone decide, and dividing by n where it does not belong would not go unseen
    a = constants.multipliers[constants.support]
    assert constants.margin_constant == pytest.approx(
        (np.log(a).max() - a @ np.log(a) / a.sum()) / np.sqrt(a.sum()), rel=1e-9
    )
    wrong = constants.offset + np.linalg.lstsq(data[constants.support], np.full(len(a), np.log(len(data))))[0]
    assert np.abs(weights[0] - 400 * constants.weights - wrong).max() > 1


@pytest.mark.parametrize(
    ("rows", "exponent", "log_times"),
    [
        # the slowest direction of the support decides
        ([[1.0, 0.0, 0.2], [0.0, 1.5, 0.1], [0.3, 0.1, 1.2]], 0.313180, [40.0, 50.0]),
        # the next margin decides: 1.25 after 1
        ([[1.0, 0.0], [0.0, 1.0], [1.0, 0.25]], 0.25, [50.0, 60.0]),
    ],
)
def test_approach_exponent(rows, exponent, log_times):
    constants = margin_asymptotics(rows)
    assert constants.approach_exponent == pytest.approx(exponent, abs=1e-6)
    residual = logistic_flow(rows, log_times) - np.outer(log_times, constants.weights) - constants.offset
    first, second = np.linalg.norm(residual, axis=1)
    assert np.log(first / second) / np.diff(log_times)[0] == pytest.approx(exponent, rel=0.01)


def test_support_that_does_not_span_the_data():
    rows = labelled_points(7, 6, 3)
    constants = margin_asymptotics(rows)
    assert constants.support.sum() == 2
    assert constants.direction_constant is None
    residual = logistic_flow(rows, [100.0, 200.0, 400.0]) - np.outer([100.0, 200.0, 400.0], constants.weights)
    span = np.linalg.svd(rows[constants.support], full_matrices=False)[2]
    np.testing.assert_allclose(residual[2] @ span.T, constants.offset @ span.T, atol=1e-9)
    # beyond the span it converges too, but to something that depends on where training started
    np.testing.assert_allclose(residual[1], residual[2], atol=1e-5)
    other = logistic_flow(rows, [400.0], start=rows[np.argmax(rows @ constants.weights)])[0] - 400 * constants.weights
    np.testing.assert_allclose(other @ span.T, residual[2] @ span.T, atol=1e-8)
    assert np.linalg.norm(other - residual[2]) > 0.05


def test_dependent_support_vectors():
    rows = np.array([[1, 1], [1, -1], [1, 0], [1.0, 0.5]])
    constants = margin_asymptotics(rows)
    assert constants.support.all()
    assert not constants.degenerate
    weights = logistic_flow(rows, [200.0])[0]
    np.testing.assert_allclose(weights - [200, 0], constants.offset, atol=1e-9)
    np.testing.assert_allclose(rows.T @ constants.multipliers, [1, 0], atol=1e-12)


def test_degenerate_support():
    rows = np.array([[1.0, 0.0], [1.0, 1.0]])
    constants = margin_asymptotics(rows)
    assert constants.degenerate
    assert constants.offset is None
    assert constants.margin_constant is None
    assert "log log" in constants.status
    np.testing.assert_allclose(constants.weights, [1, 0], atol=1e-12)
    log_times = np.array([400.0, 1600.0])
    weights = logistic_flow(rows, log_times)
    drift = weights[:, 0] - log_times + np.log(2)
    assert np.abs(drift[1]) < 1e-3
    assert drift[0] / drift[1] == pytest.approx(4, rel=0.03)
    assert weights[1, 1] / np.log(1600) == pytest.approx(0.9994, abs=1e-4)
    assert np.exp(log_logistic_loss(rows, weights) + log_times)[1] == pytest.approx(constants.loss_constant, rel=1e-3)


def test_equal_multipliers_leave_no_margin_constant():
    constants = margin_asymptotics(np.eye(3))
    assert constants.margin_constant == pytest.approx(0, abs=1e-14)
    assert constants.direction_constant == pytest.approx(0, abs=1e-14)
    assert constants.loss_constant == pytest.approx(3)
