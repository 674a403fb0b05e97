"""Gradient descent and mini-batch SGD on a fixed sample: gradients, updates, closed forms of the linear neuron."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy import stats

from limen.comparison import compare
from limen.problem import (
    GradientDescent,
    GradientFlow,
    InputError,
    Inputs,
    OverlapStart,
    RandomStart,
    TwoLayer,
    network,
    target,
)
from limen.problem.algorithms import Algorithm
from limen.problem.starts import Start
from limen.result import Result
from limen.simulation import training_record
from limen.simulation.data import draw_inputs
from limen.simulation.descent.fixed_sample_training import prepare
from limen.simulation.two_layer_gradient import Weights, functions_of, risk_and_gradient
from limen.verbs import predict, simulate

RANDOM = RandomStart()
ISOTROPIC = Inputs()


def two_layer(
    activation="tanh",
    width=2,
    loss="square",
    link="z1**2 + z2",
    noise=0.1,
    start: Start = RANDOM,
    inputs: Inputs = ISOTROPIC,
    **algorithm,
) -> TwoLayer:
    return TwoLayer(
        target=target(link, noise=noise),
        network=network(
            width=width,
            activation=activation,
            second_layer=tuple(np.linspace(0.8, 1.5, width)),
            bias=tuple(np.linspace(-0.2, 0.3, width)),
            initial_norm=1.2,
            train_second_layer=algorithm.pop("train_second_layer", True),
            train_bias=algorithm.pop("train_bias", False),
        ),
        algorithm=GradientDescent(**{"step": 0.3, **algorithm}),
        samples_per_dim=4.0,
        loss=loss,
        start=start,
        inputs=inputs,
    )


@pytest.mark.parametrize(
    ("activation", "width", "loss"),
    [
        ("tanh", 1, "square"),
        ("gelu", 3, "square"),
        ("relu", 2, "logistic"),
        ("hermite:3", 2, "pseudo-huber:0.5"),
        ("saad-solla", 4, "huber:0.7"),
        ("square", 2, "squared-hinge"),
    ],
)
def test_gradients_are_those_of_the_empirical_risk(activation, width, loss, monkeypatch):
    # Blocks much shorter than the sample, and a remainder.
    monkeypatch.setattr("limen.simulation.two_layer_gradient.BLOCK_BYTES", 7 * 30 * 8)
    monkeypatch.setattr("limen.simulation.two_layer_gradient.ONE_NEURON_BLOCK_BYTES", 7 * 30 * 8)
    problem = two_layer(activation, width, loss)
    functions = functions_of(problem)
    generator = np.random.default_rng(width)
    x, y = generator.standard_normal((120, 30)), generator.choice([-1.0, 1.0], 120)
    first, second = generator.standard_normal((width, 30)) / 5, generator.standard_normal(width)

    def risk(weights: Weights, bias, x, y):
        fields = x @ weights.first.T + (bias if weights.bias is None else weights.bias)
        return functions.loss(y, functions.activation(fields) @ weights.second / width).mean()

    @jax.jit
    def both(weights: Weights, *sample):
        return jax.value_and_grad(risk)(weights, *sample), risk_and_gradient(functions, weights, *sample)

    with jax.enable_x64(True):
        bias, first, second, x, y = map(jnp.asarray, (problem.network.per_neuron("bias"), first, second, x, y))
        (wanted_risk, wanted), (found_risk, found) = both(Weights(first, second), bias, x, y)
    assert float(found_risk) == pytest.approx(float(wanted_risk), rel=1e-13)
    np.testing.assert_allclose(found.first, wanted.first, atol=1e-13)
    np.testing.assert_allclose(found.second, wanted.second, atol=1e-13)
    with jax.enable_x64(True):
        (_, wanted), (_, trained) = both(Weights(first, second, bias), bias + 1.0, x, y)
    np.testing.assert_allclose(trained.bias, wanted.bias, atol=1e-13)
    assert found.bias is None


def numpy_descent(problem: TwoLayer, d: int, seed: int, steps: int) -> list[dict[str, np.ndarray]]:
    """tanh and square loss, written out."""
    algorithm, m = problem.algorithm, problem.network.width
    assert isinstance(algorithm, GradientDescent)
    with jax.enable_x64(True):
        setting = prepare(problem, d, seed, "float64")
    x, y, bias, frame = (np.asarray(part) for part in (*setting.sample, setting.bias, setting.frame))
    theta, a = (np.array(part) for part in setting.start[:2])
    n, path = len(y), []
    for _ in range(steps + 1):
        values = np.tanh(x @ theta.T + bias)
        residual = values @ a / m - y
        path.append(
            {
                "overlap": theta @ frame.T, "gram": theta @ theta.T, "second_layer": a, "bias": bias,
                "train_loss": np.mean(residual**2) / 2, "theta": theta,
            }
        )  # fmt: skip
        gradient = np.array([((residual * (1 - values[:, j] ** 2) * a[j])[:, None] * x).sum(0) for j in range(m)])
        second_gradient = values.T @ residual
        theta = theta - algorithm.step * algorithm.weight_decay * theta - algorithm.step / (n * m) * gradient
        if algorithm.spherical:
            theta = problem.network.initial_norm * theta / np.linalg.norm(theta, axis=1)[:, None]
        if problem.network.train_second_layer:
            a_after = a - algorithm.second_layer_ratio * algorithm.step / (n * m) * second_gradient
        else:
            a_after = a
        if problem.network.train_bias:
            bias = bias - algorithm.step / (n * m) * a * ((1 - values**2).T @ residual)
        a = a_after
    return path


@pytest.mark.parametrize(
    "algorithm",
    [
        {},
        {"weight_decay": 0.4, "train_second_layer": False},
        {"weight_decay": 0.2, "spherical": True},
        {"second_layer_ratio": 2.5, "train_bias": True},
    ],
    ids=["free", "weight-decay", "spherical", "outer"],
)
def test_steps_are_those_of_numpy(algorithm):
    problem = two_layer(**algorithm)
    run = simulate(problem, 6, d=40, seeds=[3], dtype="float64").dataset.isel(seed=0)
    path = numpy_descent(problem, 40, 3, 6)
    names = ["overlap", "gram", "second_layer", "train_loss"] + ["bias"] * problem.network.train_bias
    for name in names:
        np.testing.assert_allclose(run[name], [point[name] for point in path], atol=1e-12, err_msg=name)
    theta = np.array([point["theta"] for point in path])
    np.testing.assert_allclose(run["correlation"], np.einsum("tjd,uld->tujl", theta, theta), atol=1e-12)


def test_recorded_times_and_precision_change_nothing():
    every = simulate(two_layer(), 6, d=40, seeds=[3], dtype="float64").dataset
    some = simulate(two_layer(), [2, 3, 6], d=40, seeds=[3]).dataset
    wanted = every.sel(time=[2.0, 3.0, 6.0], time2=[2.0, 3.0, 6.0])
    for name in every.data_vars:
        np.testing.assert_allclose(some[name], wanted[name], atol=3e-6, err_msg=str(name))
    assert some["step"].values.tolist() == [2, 3, 6]


def test_sphere_keeps_norms_and_start_has_given_overlaps():
    overlap, gram = ((0.6, 0.0), (0.1, -0.2)), ((1.44, 0.3), (0.3, 1.44))
    for law in ("gaussian", "rademacher"):
        problem = two_layer(spherical=True, start=OverlapStart(overlap=overlap, gram=gram), inputs=Inputs(law))
        run = simulate(problem, 6, d=40, seeds=2).dataset
        np.testing.assert_allclose(run["gram"].values[:, :, [0, 1], [0, 1]], 1.44, rtol=1e-6)
        np.testing.assert_allclose(run["overlap"].isel(time=0), [overlap] * 2, atol=1e-6)
        np.testing.assert_allclose(run["gram"].isel(time=0), [gram] * 2, atol=1e-6)


@pytest.mark.parametrize("law", ["rademacher", "student-t"])
def test_other_inputs_have_unit_variance_and_labels_of_the_target(law):
    problem = two_layer(link="z1 - 2*z2", noise=0.0, inputs=Inputs(law))
    with jax.enable_x64(True):
        setting = prepare(problem, 60, 1, "float32")
        x, y, frame = np.asarray(setting.sample.x), np.asarray(setting.sample.y), np.asarray(setting.frame)
    np.testing.assert_allclose(frame @ frame.T, np.eye(2), atol=1e-6)
    np.testing.assert_allclose(x @ frame.T @ [1.0, -2.0], y, atol=1e-5)
    # 14,400 entries: variance known to 4 * sqrt((kurtosis - 1) / 14400), kurtosis 4.5 for Student's t.
    assert np.var(x) == pytest.approx(1.0, abs=4 * np.sqrt(3.5 / x.size))
    assert law != "rademacher" or set(np.unique(x)) == {-1.0, 1.0}


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_heavy_tails_have_their_law(precision):
    with jax.enable_x64(True):
        x = np.asarray(draw_inputs(jax.random.key(3), (500, 400), "student-t", precision), dtype=float)
    assert stats.kstest(x.ravel() * np.sqrt(8.0 / 6.0), stats.t(8).cdf).pvalue > 1e-3
    assert stats.kstest(x.ravel() * np.sqrt(8.0 / 6.0), stats.t(6).cdf).pvalue < 1e-3
    neighbours = np.corrcoef(x[:, 1:].ravel() ** 2, x[:, :-1].ravel() ** 2)[0, 1]
    assert abs(neighbours) < 4.0 / np.sqrt(x.size)


def test_inputs_of_several_variances():
    overlap = ((0.3, -0.2), (0.1, 0.4))
    inputs = Inputs(variances=(0.5, 2.0), fractions=(2 / 3, 1 / 3))
    problem = two_layer(link="z1 - 2*z2", noise=0.0, start=OverlapStart(overlap), inputs=inputs)
    with jax.enable_x64(True):
        setting = prepare(problem, 60, 1, "float64")
    x, y, frame = np.asarray(setting.sample.x), np.asarray(setting.sample.y), np.asarray(setting.frame)
    covariance = np.diag(np.repeat([0.5, 2.0], [40, 20]))
    np.testing.assert_allclose(frame @ frame.T, np.eye(2), atol=1e-14)
    np.testing.assert_allclose(frame @ covariance @ frame.T, np.eye(2), atol=1e-14)
    np.testing.assert_allclose((frame[:, :40] ** 2).sum(1), 2 / 3, atol=1e-14)
    np.testing.assert_allclose(np.asarray(setting.start.first) @ frame.T, overlap, atol=1e-14)
    np.testing.assert_allclose(x @ frame.T @ [1.0, -2.0], y, atol=1e-5)
    for part, variance in ((x[:, :40], 0.5), (x[:, 40:], 2.0)):
        assert np.var(part) == pytest.approx(variance, rel=4 * np.sqrt(2 / part.size))


def test_losses_on_inputs_of_several_variances():
    """A linear neuron on a linear target: half of (theta - theta_*)^T Sigma (theta - theta_*)."""
    inputs = Inputs(variances=(0.5, 2.0), fractions=(2 / 3, 1 / 3))
    problem = linear_neuron(GradientDescent(step=STEP)).model_copy(update={"inputs": inputs})
    run = simulate(problem, 3, d=60, seeds=[1], dtype="float64").dataset.isel(seed=0)
    with jax.enable_x64(True):
        setting = prepare(problem, 60, 1, "float64")
    x, y, (frame,), (theta,) = (np.asarray(part) for part in (*setting.sample, setting.frame, setting.start.first))
    variances = np.repeat([0.5, 2.0], [40, 20])
    for step in range(4):
        assert run.excess_risk[step] == pytest.approx(0.5 * variances @ (theta - frame) ** 2, abs=1e-10)
        assert run.gram[step].item() == pytest.approx(theta @ theta, abs=1e-12)
        theta = theta - STEP / len(y) * (x @ theta - y) @ x


@pytest.mark.parametrize(
    ("fields", "d", "words"),
    [
        ({"law": "rademacher"}, 30, "law must be gaussian"),
        ({"law": "cauchy"}, 30, "must be one of 'gaussian', 'rademacher'"),
        ({"fractions": (0.5, 0.5)}, 30, "average to 1"),
        ({"fractions": (0.5, 0.4)}, 30, "sum to 1"),
        ({"fractions": (1.0,)}, 30, "one length"),
        ({"variances": (-0.5, 4.0)}, 30, "not be negative"),
        ({}, 4, "at least 2 dimensions"),
    ],
)
def test_bad_inputs_are_refused(fields, d, words):
    fields = {"variances": (0.5, 2.0), "fractions": (2 / 3, 1 / 3), **fields}
    with pytest.raises(InputError, match=words):
        simulate(two_layer(width=1, inputs=Inputs(**fields)), 2, d=d, seeds=1)


@pytest.mark.parametrize("option", [{"inputs": "rademacher"}, {"variances": (0.5, 1.5)}, {"fractions": (0.5, 0.5)}])
def test_inputs_are_part_of_the_problem(option):
    for call in (simulate, predict):
        with pytest.raises(InputError, match=r"is part of the problem: TwoLayer\(\.\.\., inputs=limen\.Inputs"):
            call(two_layer(), 2, **option, **({"d": 30, "seeds": 1} if call is simulate else {}))


def test_a_seed_does_not_depend_on_its_company():
    alone = simulate(two_layer(), 6, d=40, seeds=[2]).dataset
    together = simulate(two_layer(), 6, d=40, seeds=3).dataset.sel(seed=[2])
    xr.testing.assert_identical(alone, together)
    assert not np.allclose(together["overlap"], simulate(two_layer(), 6, d=40, seeds=[1]).dataset["overlap"].values)


def test_divergence_is_said():
    for fraction in (1.0, 0.2):
        run = simulate(two_layer("square", step=1e4, batch_fraction=fraction), 6, d=40, seeds=1)
        assert not run.ok
        assert run.status == "training diverged at d = 40: take a smaller step."


def test_too_large_problems_are_refused_or_said(monkeypatch):
    monkeypatch.setattr("limen.machine.memory.available_memory", lambda: 8e9)
    with pytest.raises(InputError, match=r"the inputs, needs 10 GB of memory, and 8 GB are free: take a smaller d"):
        simulate(two_layer(), 2, d=25_000, seeds=1)
    with pytest.raises(InputError, match=r"dtype must be one of float32, float64, got 'float16'\."):
        simulate(two_layer(), 2, d=30, seeds=1, dtype="float16")
    monkeypatch.setattr(training_record, "MOST_CORRELATIONS", 35)
    run = simulate(two_layer(), 6, d=40, seeds=1)
    assert run.ok
    assert "correlation" not in run.dataset
    assert "correlations left out" in run.status


# The linear neuron in closed form: y = z + s e, theta(0) orthogonal to theta_*, r = 1 - eta x, averages over
# Marchenko-Pastur's law of X^T X / n with n/d = delta >= 1.
STEP, DELTA, NOISE = 0.5, 2.0, 0.25


def linear_neuron(algorithm: Algorithm) -> TwoLayer:
    return TwoLayer(
        target=target("z", noise=NOISE),
        network=network(width=1, activation="linear"),
        algorithm=algorithm,
        samples_per_dim=DELTA,
        start=OverlapStart(overlap=0.0),
    )


LINEAR = linear_neuron(GradientDescent(step=STEP))
TIMES = np.array([0.0, 1.0, 2.0, 4.0, 7.0, 12.0])


def marchenko_pastur_mean(function) -> np.ndarray:
    """By Gauss-Chebyshev of the second kind: the density is sqrt((b-x)(x-a)) delta/(2 pi x) on [a, b]."""
    low, high = (1 - DELTA**-0.5) ** 2, (1 + DELTA**-0.5) ** 2
    angle = np.pi * np.arange(1, 401) / 401
    x = (low + high) / 2 + (high - low) / 2 * np.cos(angle)
    weight = np.pi / 401 * ((high - low) / 2 * np.sin(angle)) ** 2 * DELTA / (2 * np.pi * x)
    return np.tensordot(function(x), weight, axes=(-1, 0))


def linear_theory(times=TIMES, step=STEP, noise=NOISE, times2=None) -> Result:
    t = times[:, None]
    u = (times if times2 is None else times2)[:, None]

    def decay(x, t):
        return (1 - step * x) ** t

    def correlation(x):
        one, other = decay(x, t)[:, None], decay(x, u)[None]
        return one * other + (1 - one) * (1 - other) * (1 + noise / (DELTA * x))

    squared = marchenko_pastur_mean(lambda x: decay(x, 2 * t))
    fit = marchenko_pastur_mean(lambda x: (1 - decay(x, t)) ** 2 / (DELTA * x))
    residual = marchenko_pastur_mean(lambda x: x * decay(x, 2 * t))
    excess = squared + noise * fit / 2
    dataset = xr.Dataset(
        {
            "overlap": (("time", "neuron", "latent"), marchenko_pastur_mean(lambda x: 1 - decay(x, t))[:, None, None]),
            "train_loss": ("time", residual + noise / 2 * (1 - 1 / DELTA + squared / DELTA)),
            "test_loss": ("time", noise / 2 + excess),
            "excess_risk": ("time", excess),
            "correlation": (
                ("time", "time2", "neuron", "neuron2"), marchenko_pastur_mean(correlation)[:, :, None, None]
            ),
        },
        coords={"time": TIMES, "time2": TIMES},
    )  # fmt: skip
    return Result(dataset, LINEAR.describe(), "theory")


@pytest.fixture(scope="module")
def linear_runs() -> list[Result]:
    return [simulate(LINEAR, TIMES, d=d, seeds=40) for d in (300, 600)]


def test_quadrature_against_known_values():
    assert marchenko_pastur_mean(np.ones_like) == pytest.approx(1.0, abs=1e-12)
    assert marchenko_pastur_mean(lambda x: x**2) == pytest.approx(1 + 1 / DELTA, abs=1e-12)
    assert marchenko_pastur_mean(lambda x: 1 / x) == pytest.approx(DELTA / (DELTA - 1), abs=1e-12)
    assert linear_theory(np.array([10.0] * 6)).dataset["overlap"].values[0, 0, 0] == pytest.approx(0.91323, abs=5e-6)


@pytest.mark.slow
def test_linear_neuron_agrees(linear_runs):
    comparison = compare(linear_theory(), linear_runs)
    assert {variable.name for variable in comparison.variables} == {
        "overlap", "train_loss", "test_loss", "excess_risk", "correlation"
    }  # fmt: skip
    assert comparison.verdict == "agrees", str(comparison)


def second_time_ignored() -> Result:
    """C(t, t) in the place of C(t, u)."""
    dataset = linear_theory().dataset
    equal_times = dataset["correlation"].values[range(6), range(6)]
    return Result(dataset.assign(correlation=dataset["correlation"] * 0 + equal_times[:, None]), {}, "theory")


@pytest.mark.parametrize(
    ("wrong", "seen_by"),
    [
        # Not by the train loss, which at this step is nearly stationary in the step.
        (linear_theory(step=1.1 * STEP), ("overlap", "correlation")),
        (linear_theory(noise=0.0), ("train_loss", "test_loss", "excess_risk", "correlation")),
        (linear_theory(times2=np.roll(TIMES, 1)), ("correlation",)),
        (second_time_ignored(), ("correlation",)),
    ],
    ids=["growth rate x 1.1", "noise dropped", "two times swapped", "second time ignored"],
)
def test_planted_errors_are_caught(wrong, seen_by, linear_runs):
    comparison = compare(wrong, linear_runs)
    assert comparison.verdict == "disagrees", str(comparison)
    for name in seen_by:
        assert comparison[name].verdict == "disagrees", str(comparison)


@pytest.mark.parametrize("replacement", [True, False])
def test_batch_of_nearly_all_samples_is_nearly_gradient_descent(replacement):
    # 159 of 160 samples: what is left out moves the weights by its share of the step.
    full = simulate(two_layer(weight_decay=0.1), 6, d=40, seeds=2, dtype="float64")
    problem = two_layer(weight_decay=0.1, batch_fraction=159 / 160, replacement=replacement)
    batches = simulate(problem, 6, d=40, seeds=2, dtype="float64")
    assert full.status == "gradient descent on n = 160 samples in d = 40."
    assert batches.status == "mini-batch SGD (batches of 159) on n = 160 samples in d = 40."
    np.testing.assert_allclose(batches.dataset["overlap"], full.dataset["overlap"], atol=0.02)
    assert not np.allclose(batches.dataset["overlap"], full.dataset["overlap"], atol=1e-6)
    per_epoch = 160 / 159 if replacement else 1
    np.testing.assert_allclose(batches.dataset["epoch"], full.dataset["time"] / per_epoch)


def test_an_epoch_uses_every_sample_once():
    # The steps of an epoch add up to one full step, up to second order in the step.
    difference = []
    for step in (0.02, 0.01):
        one = simulate(two_layer(step=4 * step), [1], d=40, seeds=[0], dtype="float64").dataset
        problem = two_layer(step=step, batch_fraction=0.25, replacement=False)
        epoch = simulate(problem, [4], d=40, seeds=[0], dtype="float64").dataset
        difference.append(float(np.abs(one["overlap"].values - epoch["overlap"].values).max()))
    assert difference[0] / difference[1] == pytest.approx(4.0, rel=0.15)


def test_small_batches_follow_descent_on_average():
    step, batch, d = 0.0125, 25, 100
    times = np.array([0.0, 8.0, 16.0, 24.0, 48.0, 64.0])
    problem = linear_neuron(GradientDescent(step=step))
    full = simulate(problem, times, d=d, seeds=16).dataset["overlap"]
    small = linear_neuron(GradientDescent(step=step, batch_fraction=batch / (DELTA * d), replacement=False))
    batches = simulate(small, times, d=d, seeds=16).dataset["overlap"]
    difference = (batches - full).values[:, 1:, 0, 0]
    error = difference.std(axis=0, ddof=1) / 4
    assert (error > 1e-4).all()
    # Batches of one epoch are negatively correlated: the mean over orders leaves descent by step^2 t d / (2 batch).
    assert (np.abs(difference.mean(axis=0)) < step**2 * times[1:] * d / (2 * batch) + 4 * error).all()


def test_minibatch_refuses_what_it_cannot_do():
    with pytest.raises(InputError, match=r"batch_fraction times n = 120 must be at least 1, got 0\.12"):
        simulate(two_layer(batch_fraction=0.001), 2, d=30)
    with pytest.raises(InputError, match="it runs descent on a fixed sample, not GradientFlow"):
        simulate(linear_neuron(GradientFlow()), 2, d=30, simulator="gradient-descent")
