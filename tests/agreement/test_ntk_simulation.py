"""Networks of finite width against their kernels: the limit in width, training against its linearisation, laziness.

Means over seeds are compared with simultaneous Student bands (Bonferroni, 99 %), without allowance for finite size.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import t as student

from limen.problem.spec import InputError
from limen.simulation.kernel.networks.lazy_training import lazy_training
from limen.simulation.kernel.networks.mlp import MLP, draw_parameters, empirical_ntk, forward, outputs
from limen.simulation.kernel.networks.mlp_training import train_by_descent, train_by_flow
from limen.simulation.kernel.networks.tangent_features import simulate_tangent_features
from limen.theory.kernel.tangent.lazy import lazy_bounds, two_layer_lipschitz
from limen.theory.kernel.tangent.linearized import linearized_descent, linearized_training
from limen.theory.kernel.tangent.neural_tangent import ntk
from limen.theory.kernel.tangent.tangent_model import tangent_model

GENERATOR = np.random.default_rng(0)
INPUTS, FRESH = GENERATOR.standard_normal((10, 10)), GENERATOR.standard_normal((20, 10))
LABELS = np.sign(GENERATOR.standard_normal(10))
WIDTHS = np.array([64, 256, 1024])


def slope(sizes, values) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def within_band(samples: np.ndarray, limit: np.ndarray) -> bool:
    """Whether the means over the first axis are compatible with the limit, all entries at once."""
    seeds, points = len(samples), samples[0].size
    error = samples.std(axis=0, ddof=1) / np.sqrt(seeds)
    return bool(np.all(np.abs(samples.mean(axis=0) - limit) <= student.ppf(1 - 0.005 / points, seeds - 1) * error))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_empirical_kernel_is_the_product_of_jacobians(activation):
    mlp = MLP((5, 7, 6), activation, 1.4, 0.6)
    parameters = draw_parameters(mlp, 1)
    x1, x2 = INPUTS[:4, :5], FRESH[:3, :5]
    with jax.enable_x64(True):
        trees = jax.jacobian(lambda p: forward(mlp, p, jnp.asarray(np.concatenate([x1, x2]))))(parameters)
    blocks = [np.concatenate([np.asarray(leaf).reshape(7, -1) for leaf in level], axis=1) for level in trees]
    for layers, chosen in {"all": blocks, "first": blocks[:1], "last": blocks[2:]}.items():
        expected = sum(block[:4] @ block[4:].T for block in chosen)
        np.testing.assert_allclose(empirical_ntk(mlp, parameters, x1, x2, layers), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("activation", ["erf", "relu"])
def test_mean_kernel_of_two_layers_is_the_limit_at_any_width(activation):
    # the neurons of two layers are independent, so that the mean is exact without corrections in the width
    mlp = MLP((10, 60), activation, 1.5, 0.4)
    upper = np.triu_indices(10)
    samples = np.array([empirical_ntk(mlp, draw_parameters(mlp, seed), INPUTS)[upper] for seed in range(200)])
    assert within_band(samples, ntk(INPUTS, None, activation, 2, 1.5, 0.4)[1][upper])
    assert not within_band(samples, ntk(INPUTS, None, activation, 2, 1.5 * 1.05, 0.4)[1][upper])
    assert not within_band(samples, ntk(INPUTS, None, activation, 2, 1.5, 0.4, "first")[1][upper])


@pytest.mark.parametrize("activation", ["erf", "relu"])
def test_deviation_of_three_layers_halves_per_fourfold_width(activation):
    limit = ntk(INPUTS, None, activation, 3, 2.0, 0.2)[1]

    kernels = []
    for width in WIDTHS:
        mlp = MLP((10, int(width), int(width)), activation, 2.0, 0.2)
        kernels.append([empirical_ntk(mlp, draw_parameters(mlp, seed), INPUTS) for seed in range(20)])

    def deviations(against):
        squares = np.sum((np.array(kernels) - against) ** 2, axis=(2, 3)) / np.sum(against**2)
        return np.sqrt(squares.mean(axis=1))

    measured = deviations(limit)
    assert -0.58 < slope(WIDTHS, measured) < -0.42
    assert measured[-1] < 0.12
    # a kernel 30 % too large is a floor that width cannot lower
    assert slope(WIDTHS, deviations(1.3 * limit)) > -0.25


@pytest.fixture(scope="module")
def trained():
    """Per width: the largest gap to the linearised outputs, to those 10 % too early, and the drifts; seeds averaged."""
    times = np.array([1.0, 3.0, 10.0, 30.0])
    rows = []
    for width in WIDTHS:
        mlp = MLP((10, int(width)), "erf")
        gaps = []
        for seed in range(16):
            start = draw_parameters(mlp, seed)
            run = train_by_flow(mlp, start, INPUTS, LABELS, times, FRESH)
            arguments = {
                "outputs": outputs(mlp, start, INPUTS),
                "cross_kernel": empirical_ntk(mlp, start, FRESH, INPUTS),
                "cross_outputs": outputs(mlp, start, FRESH),
            }
            kernel = empirical_ntk(mlp, start, INPUTS)
            right, early = (linearized_training(kernel, LABELS, s * times, **arguments).test for s in (1.0, 0.9))
            gap, wrong = np.abs(run.test - right).max(), np.abs(run.test - early).max()
            gaps.append([gap, wrong, run.kernel_drift, run.weight_drift[0], run.weight_drift[1], run.error])
        rows.append(np.exp(np.mean(np.log(gaps), axis=0)))
    return np.array(rows).T


@pytest.mark.slow
def test_training_approaches_its_linearisation_like_the_inverse_width(trained):
    gap, wrong, *_, error = trained
    assert -1.15 < slope(WIDTHS, gap) < -0.85
    assert np.all(error < 0.01 * gap)
    assert gap[-1] < 0.015
    # with the clock 10 % off the gap stays
    assert slope(WIDTHS[1:], wrong[1:]) > -0.5
    assert wrong[-1] > 4 * gap[-1]


def test_kernel_and_weights_move_less_in_wider_networks(trained):
    kernel_drift, first, last = trained[2:5]
    assert -1.2 < slope(WIDTHS, kernel_drift) < -0.8
    # the rows of the last layer have m entries; the first layer's fan-in is fixed, its drift does not depend on m
    assert -0.6 < slope(WIDTHS, last) < -0.4
    assert abs(slope(WIDTHS, first)) < 0.1


def test_descent_follows_its_own_linearisation_and_approaches_the_flow():
    mlp = MLP((10, 256), "erf")
    start = draw_parameters(mlp, 3)
    kernel = empirical_ntk(mlp, start, INPUTS)
    cross, before, new = (
        empirical_ntk(mlp, start, FRESH, INPUTS),
        outputs(mlp, start, INPUTS),
        outputs(mlp, start, FRESH),
    )
    step = 1.8 * len(INPUTS) / np.linalg.eigvalsh(kernel)[-1]
    run = train_by_descent(mlp, start, INPUTS, LABELS, step, [1, 2, 5], FRESH)
    linear = linearized_descent(kernel, LABELS, step, [1, 2, 5], before, cross, new)
    as_flow = linearized_training(kernel, LABELS, step * np.array([1, 2, 5]), before, cross, new)
    assert np.abs(run.test - linear.test).max() < 0.25 * np.abs(run.test - as_flow.test).max()
    flow = train_by_flow(mlp, start, INPUTS, LABELS, [4.0], FRESH).test
    errors = [
        np.abs(train_by_descent(mlp, start, INPUTS, LABELS, 4.0 / k, [k], FRESH).test - flow).max() for k in (50, 100)
    ]
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.05)


TIMES = np.geomspace(0.3, 300.0, 16)


def test_distance_and_deviation_fall_with_the_first_and_second_power_of_alpha():
    alphas = np.array([2.0, 4.0, 8.0, 16.0])
    runs = [lazy_training(alpha, TIMES) for alpha in alphas]
    distance = np.array([run.distance.max() for run in runs])
    deviation = np.array([run.parameter_deviation.max() for run in runs])
    assert slope(alphas, distance) == pytest.approx(-1.0, abs=0.01)
    assert slope(alphas, deviation) == pytest.approx(-2.0, abs=0.03)
    assert all(run.error < 1e-2 * run.parameter_deviation.max() for run in runs)
    assert all(run.residual[-1] < 1e-6 for run in runs)


def test_without_a_mirrored_start_training_does_not_become_lazy():
    runs = [lazy_training(alpha, TIMES, mirrored=False) for alpha in (8.0, 16.0, 32.0)]
    for quantity in ("distance", "parameter_deviation"):
        values = [getattr(run, quantity).max() for run in runs]
        assert values[2] > 0.9 * values[1] > 0.75 * values[0]
    assert runs[2].initial_residual == pytest.approx(2 * runs[1].initial_residual, rel=0.1)


def test_lazy_bounds_hold_inside_their_hypothesis():
    for seed in range(4):
        alpha = 128.0
        run = lazy_training(alpha, TIMES, seed=seed)
        lipschitz = two_layer_lipschitz(run.inputs, "tanh", 40, alpha)
        bounds = lazy_bounds(run.initial_residual, run.sigma_min, run.sigma_max, lipschitz, 12)
        assert bounds.holds
        clock = run.times / alpha**2
        early = run.residual > 1e-9  # later residuals are rounding
        relative = (run.residual / run.initial_residual) ** 2
        assert np.all(relative[early] <= bounds.loss_factor(clock)[early])
        assert run.distance.max() <= bounds.distance
        assert run.parameter_deviation.max() <= bounds.parameter_deviation
        assert run.output_deviation.max() <= bounds.output_deviation
        # the slowest mode decays four times faster than the bound and no faster
        assert not np.all(relative[early] <= bounds.loss_factor(8 * clock)[early])


def test_tangent_features_peak_where_they_begin_to_interpolate():
    settings = {"dimension": 50, "samples": 200, "seeds": 6, "nonlinear": 0.1, "noise": 0.1}
    runs = {neurons: simulate_tangent_features("tanh", neurons, **settings) for neurons in (2, 4, 5, 8, 16, 64)}
    errors = {neurons: np.median(run.test) for neurons, run in runs.items()}
    assert errors[4] > 10 * errors[2]
    assert errors[4] > errors[5] > errors[8] > errors[16] > errors[64]
    assert runs[2].train.min() > 0.01
    assert max(runs[neurons].train.max() for neurons in (5, 8, 16, 64)) < 1e-20


@pytest.mark.slow
def test_many_tangent_neurons_reach_the_kernel_line():
    settings = {"dimension": 100, "samples": 300, "seeds": 20, "nonlinear": 0.1, "noise": 0.1, "test_samples": 400}
    run = simulate_tangent_features("tanh", 400, **settings)
    assert within_band(run.test, tangent_model("tanh", 100, 300, 0.0, 1.0, 0.1, 0.1).test)
    assert not within_band(run.test, tangent_model("tanh", 100, 300, 0.0, 1.0, 0.1, 0.0).test)
    assert not within_band(run.test, tangent_model("tanh", 100, 240, 0.0, 1.0, 0.1, 0.1).test)


@pytest.mark.parametrize(("samples", "expected"), [(50, 0.5), (200, 0.1 * 100 / 99)])
def test_linear_activation_is_linear_regression(samples, expected):
    noise = 0.0 if samples == 50 else 0.1
    run = simulate_tangent_features(
        "linear", 1, dimension=100, samples=samples, seeds=40, noise=noise, test_samples=500
    )
    assert within_band(run.test, np.array([expected]))
    assert not within_band(run.test, np.array([1.2 * expected]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MLP((), "relu"), "widths must be positive"),
        (lambda: MLP((3, 4), "relu", -1.0), "weight_variance must be positive"),
        (lambda: empirical_ntk(MLP((3, 4), "relu"), (), INPUTS, layers="some"), "layers must be one of"),
        (lambda: lazy_training(0.0, TIMES), "alpha must be positive"),
        (lambda: lazy_training(1.0, TIMES, width=5), "width must be even"),
        (lambda: lazy_training(1.0, TIMES[::-1]), "times must be an increasing list"),
        (lambda: simulate_tangent_features("tanh", 0, dimension=3, samples=3, seeds=1), "neurons must be at least 1"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call()
