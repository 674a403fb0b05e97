"""Linearised training against numerical integration, its limits and conserved parts; lazy bounds by their formulas."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from limen.problem.spec import InputError
from limen.theory.kernel.tangent.lazy import largest_second_derivative, lazy_bounds, two_layer_lipschitz
from limen.theory.kernel.tangent.linearized import linearized_descent, linearized_training, nearest_interpolator

GENERATOR = np.random.default_rng(2)
N, M, PARAMETERS = 6, 4, 15
JACOBIAN, NEW = GENERATOR.standard_normal((N, PARAMETERS)), GENERATOR.standard_normal((M, PARAMETERS))
KERNEL, CROSS = JACOBIAN @ JACOBIAN.T, NEW @ JACOBIAN.T
LABELS, START, NEW_START = (GENERATOR.standard_normal(size) for size in (N, N, M))
ARGUMENTS = {"outputs": START, "cross_kernel": CROSS, "cross_outputs": NEW_START}


def test_flow_against_integration_of_the_parameters():
    times = np.array([0.0, 0.3, 2.0, 9.0])

    def velocity(_, theta):
        return JACOBIAN.T @ (LABELS - START - JACOBIAN @ theta) / N

    exact = solve_ivp(velocity, (0, 9), np.zeros(PARAMETERS), t_eval=times, rtol=1e-11, atol=1e-12, method="DOP853")
    found = linearized_training(KERNEL, LABELS, times, **ARGUMENTS)
    np.testing.assert_allclose(found.train, START + (JACOBIAN @ exact.y).T, atol=1e-9)
    np.testing.assert_allclose(found.test, NEW_START + (NEW @ exact.y).T, atol=1e-9)
    np.testing.assert_allclose(found.coefficients @ JACOBIAN, exact.y.T, atol=1e-9)


def test_descent_against_the_iteration():
    step, theta, rows = 0.3, np.zeros(PARAMETERS), []
    for _ in range(8):
        rows.append(NEW_START + NEW @ theta)
        theta = theta + step / N * JACOBIAN.T @ (LABELS - START - JACOBIAN @ theta)
    found = linearized_descent(KERNEL, LABELS, step, np.arange(8), **ARGUMENTS)
    np.testing.assert_allclose(found.test, rows, atol=1e-13)


def test_small_steps_approach_the_flow_in_first_order():
    flow = linearized_training(KERNEL, LABELS, 1.0, **ARGUMENTS).test
    errors = [
        np.abs(linearized_descent(KERNEL, LABELS, 1.0 / k, k, **ARGUMENTS).test - flow).max() for k in (400, 800, 1600)
    ]
    ratios = np.array(errors[:-1]) / errors[1:]
    np.testing.assert_allclose(ratios, 2.0, rtol=0.02)


def test_limit_is_the_nearest_interpolator():
    limit = nearest_interpolator(KERNEL, LABELS, **ARGUMENTS)
    nearest = np.linalg.pinv(JACOBIAN) @ (LABELS - START)
    np.testing.assert_allclose(limit.train[0], LABELS, atol=1e-12)
    np.testing.assert_allclose(limit.test[0], NEW_START + NEW @ nearest, atol=1e-12)
    late = linearized_training(KERNEL, LABELS, 1e6, **ARGUMENTS)
    np.testing.assert_allclose(late.test, limit.test, atol=1e-10)
    many = linearized_descent(KERNEL, LABELS, 0.2, 10**6, **ARGUMENTS)
    np.testing.assert_allclose(many.test, limit.test, atol=1e-10)


def test_a_null_direction_takes_its_limit():
    # two equal inputs: their difference is never learned, and its coefficient grows like t/n
    kernel = np.array([[1.0, 1.0], [1.0, 1.0]])
    found = linearized_training(kernel, [1.0, -1.0], [0.0, 5.0, 100.0])
    np.testing.assert_allclose(found.train, 0.0, atol=1e-14)
    np.testing.assert_allclose(found.coefficients, np.outer([0.0, 2.5, 50.0], [1.0, -1.0]), atol=1e-12)
    with pytest.raises(InputError, match="labels must be reachable"):
        nearest_interpolator(kernel, [1.0, -1.0])
    np.testing.assert_allclose(nearest_interpolator(kernel, [2.0, 2.0]).train, [[2.0, 2.0]], atol=1e-14)


def test_several_outputs_are_trained_side_by_side():
    labels = np.stack([LABELS, START], axis=1)
    both = linearized_training(KERNEL, labels, [0.5, 1.0], cross_kernel=CROSS)
    for column, one in enumerate((LABELS, START)):
        single = linearized_training(KERNEL, one, [0.5, 1.0], cross_kernel=CROSS)
        np.testing.assert_allclose(both.train[..., column], single.train, atol=1e-14)
        np.testing.assert_allclose(both.test[..., column], single.test, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linearized_training(KERNEL, LABELS, -1.0), "times must be non-negative"),
        (lambda: linearized_training(KERNEL[:2], LABELS, 1.0), "kernel must be a square"),
        (lambda: linearized_training(np.triu(KERNEL), LABELS, 1.0), "kernel must be symmetric"),
        (lambda: linearized_training(-KERNEL, LABELS, 1.0), "kernel must be positive semi-definite"),
        (lambda: linearized_training(KERNEL, LABELS[:2], 1.0), "labels must have one row"),
        (lambda: linearized_training(KERNEL, LABELS, 1.0, cross_outputs=[1.0]), "cross_outputs must come with"),
        (lambda: linearized_training(KERNEL, LABELS, 1.0, outputs=[1.0]), "outputs must have shape"),
        (lambda: linearized_descent(KERNEL, LABELS, 10.0, 3), "step must be below 2n/lambda_max"),
        (lambda: linearized_descent(KERNEL, LABELS, 0.1, 2.5), "steps must be whole numbers"),
        (lambda: lazy_bounds(1.0, 2.0, 1.0, 0.1, 5), "sigma_max must be at least"),
        (lambda: two_layer_lipschitz(JACOBIAN, "relu", 10), "activation must have a continuous derivative"),
        (lambda: two_layer_lipschitz(JACOBIAN, "z**3", 10), "activation must have a bounded second derivative"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_stability_ends_at_twice_the_inverse_eigenvalue():
    edge = 2 * N / np.linalg.eigvalsh(KERNEL)[-1]
    linearized_descent(KERNEL, LABELS, 0.999 * edge, 5)
    with pytest.raises(InputError, match="stable"):
        linearized_descent(KERNEL, LABELS, 1.001 * edge, 5)


def test_lazy_bounds_are_the_stated_constants():
    bounds = lazy_bounds(residual=2.0, sigma_min=4.0, sigma_max=8.0, lipschitz=0.01, samples=5)
    assert bounds.condition == pytest.approx(0.005)
    assert bounds.holds
    assert bounds.rate == pytest.approx(1.6)
    assert bounds.distance == pytest.approx(1.0)
    assert bounds.output_deviation == pytest.approx(20 / 3 * 0.01 * 8 * 4 / 64)
    assert bounds.parameter_deviation == pytest.approx(104 / 3 * 0.01 * 64 * 4 / 1024)
    assert bounds.kernel_change == pytest.approx(5 * 0.01 * 2 * 8 / 4)
    assert bounds.loss_factor([0.0, 1.0]) == pytest.approx([1.0, np.exp(-1.6)])
    assert not lazy_bounds(2.0, 0.1, 8.0, 0.01, 5).holds


@pytest.mark.parametrize(
    ("activation", "expected"),
    [("tanh", 4 / (3 * np.sqrt(3))), ("erf", np.sqrt(8 / (np.pi * np.e))), ("square", 2.0), ("softplus", 0.25)],
)
def test_largest_second_derivative(activation, expected):
    assert largest_second_derivative(activation) == pytest.approx(expected, rel=1e-9)
