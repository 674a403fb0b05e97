"""Gradient flow of networks and of their Gaussian model at finite dimension, against what is known exactly."""

from typing import Any

import numpy as np
import pytest

import limen
from limen.precision import in_double
from limen.simulation import work
from limen.simulation.descent.fixed_sample import Sample
from limen.simulation.effective.symmetric_tensors import symmetric_powers
from limen.simulation.flow import gaussian_model, gradient_flow
from limen.simulation.flow.flow_record import flow_rule
from limen.simulation.flow.sphere_flow import FlowRule, SphereFlow, chebyshev_step, flow_path
from limen.simulation.flow.target_tensors import target_tensors

# One dimension, sample size and noise for all: drawing a sample is compiled once.
D = 20
LEARNER = limen.TwoLayer(
    limen.target(hermite=[0, 1], noise=0.3),
    limen.network(5, limen.activation(hermite=[0, 0.8, 0.6]), train_second_layer=True),
    limen.GradientFlow(),
    samples_per_dim=5.0,
)
CUBIC = limen.activation(hermite=[0.3, 0.8, -0.5, 0.4])
TWO_INDEX = limen.TwoLayer(
    limen.target("z1 + 0.7*z1*z2 - 0.4*z2**3 + 0.2", noise=0.3),
    limen.network(3, CUBIC, second_layer=(1.0, -2.0, 0.5), train_second_layer=True),
    limen.GradientFlow(),
    samples_per_dim=5.0,
)
LINEAR = limen.TwoLayer(
    limen.target("z", noise=0.3),
    limen.network(3, "linear", second_layer=(1.0, 1.0, -1.5), train_second_layer=True),
    limen.GradientFlow(),
    samples_per_dim=5.0,
)
draw_model = in_double(gaussian_model.draw_model)


def changed(problem: limen.TwoLayer, **values) -> limen.TwoLayer:
    return limen.TwoLayer(**{name: values.get(name, getattr(problem, name)) for name in type(problem).model_fields})


def on_sphere(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    w = rng.standard_normal((m, d))
    return w / np.linalg.norm(w, axis=1, keepdims=True)


def central_differences(function, point: np.ndarray, step: float = 1e-5) -> np.ndarray:
    shifts = step * np.eye(point.size).reshape(-1, *point.shape)
    return np.array([(function(point + s) - function(point - s)) / (2 * step) for s in shifts]).reshape(point.shape)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_powers_of_vectors_have_the_inner_product_of_tensors(degree):
    rng = np.random.default_rng(degree)
    u, v, w = rng.standard_normal((3, 5))
    powers = symmetric_powers(5, degree)
    one = powers.sum_of_powers(u[None], np.ones(1))
    two = powers.sum_of_powers(np.stack([v, w]), np.array([2.0, -1.0]))
    assert one @ two == pytest.approx(2 * (u @ v) ** degree - (u @ w) ** degree, rel=1e-12)
    np.testing.assert_allclose(powers.contracted(one, v[None])[0], (u @ v) ** (degree - 1) * u, rtol=1e-12)


def test_target_tensors_hold_hermite_coefficients():
    tensors, rest = target_tensors(limen.target("z1*z2 + 3*z1**2 + z2"), 4, (0, 1, 2))
    assert tensors[0] == pytest.approx([3.0])
    np.testing.assert_allclose(tensors[1], [0, 1, 0, 0], atol=1e-10)
    expected = np.zeros(10)
    expected[:2] = 3 * 2**0.5, 1.0
    np.testing.assert_allclose(tensors[2], expected, atol=1e-10)
    assert rest == 0.0
    # A degree that is not asked for, and noise inside the link, are left over.
    assert target_tensors(limen.target("z1*z2 + 3*z1**2 + z2"), 4, (0, 1))[1] == pytest.approx(19.0, rel=1e-9)
    assert target_tensors(limen.target("z + 2*e"), 4, (0, 1))[1] == pytest.approx(4.0, rel=1e-9)


@pytest.mark.parametrize("norm", [1.0, 1.7])
def test_gradient_of_the_gaussian_model(norm):
    problem = changed(TWO_INDEX, network=TWO_INDEX.network.model_copy(update={"initial_norm": norm}))
    model = draw_model(problem, D, seed=1)
    first, second = norm * on_sphere(np.random.default_rng(0), 3, D), np.array([1.0, -2.0, 0.5])
    _, slope, second_slope = model.risk_and_gradient(first, second)
    found = central_differences(lambda w: model.risk_and_gradient(w, second)[0], first)
    np.testing.assert_allclose(slope, found, atol=1e-8)
    found = central_differences(lambda a: model.risk_and_gradient(first, a)[0], second)
    np.testing.assert_allclose(second_slope, found, atol=1e-8)


@in_double
def test_gradient_of_a_network():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 4)), rng.standard_normal(20)
    gradient = gradient_flow.network_gradient(LEARNER, Sample(x, y))  # pyright: ignore[reportArgumentType]
    first, second = on_sphere(rng, 5, 4), rng.standard_normal(5)
    fields = first @ x.T
    output = second @ (0.8 * fields + 0.6 * (fields**2 - 1) / 2**0.5) / 5
    risk, slope, second_slope = gradient(first, second)
    assert risk == pytest.approx(0.5 * np.mean((y - output) ** 2), rel=1e-12)
    np.testing.assert_allclose(slope, central_differences(lambda w: gradient(w, second)[0], first), atol=1e-8)
    np.testing.assert_allclose(second_slope, central_differences(lambda a: gradient(first, a)[0], second), atol=1e-8)


def second_moment(one, two, target_square: float, link_overlap) -> float:
    """E F F' by its formula in overlaps."""
    (w, a), (u, b) = one, two
    m, q = len(a), w @ u.T
    series = np.array(TWO_INDEX.network.activation.hermite)
    h = sum(s**2 * q**k for k, s in enumerate(series))
    crossed = [(c @ np.array([link_overlap(x) for x in y[:, :2]])) / m for y, c in (one, two)]
    return TWO_INDEX.target.noise + target_square - sum(crossed) + a @ h @ b / m**2


def test_second_moments_of_the_gaussian_model():
    rng = np.random.default_rng(2)
    # Neurons with large overlaps, so that every degree counts.
    points = [(on_sphere(rng, 3, D), rng.standard_normal(3) + 1.0) for _ in range(2)]
    for first, _ in points:
        first[:, :2] += rng.standard_normal((3, 2))
        first /= np.linalg.norm(first, axis=1, keepdims=True)
    s = TWO_INDEX.network.activation.hermite
    assert s is not None

    def link_overlap(v):
        # he_1, he_2, he_3 tensors of z1 + 0.7 z1 z2 - 0.4 z2**3 + 0.2, with E z2**3 he_1 = 3 and E z2**3 he_3 = sqrt 6
        degree_one = v[0] - 1.2 * v[1]
        return 0.2 * s[0] + s[1] * degree_one + s[2] * 0.7 * 2**0.5 * v[0] * v[1] - s[3] * 0.4 * 6**0.5 * v[1] ** 3

    target_square = 0.2**2 + 1.0 + 1.2**2 + 0.7**2 + 0.4**2 * 6
    products = []
    for seed in range(100):
        model = draw_model(TWO_INDEX, D, seed)
        one, two = (
            sum(model.tensors[k] @ part for k, part in model.differences(*point).items()) - model.noise
            for point in points
        )
        products.append(one * two)
        if seed == 0:
            exact = [second_moment(point, point, target_square, link_overlap) for point in points]
            np.testing.assert_allclose([model.test_loss(w, a) for w, a in points], np.array(exact) / 2, rtol=1e-9)
    mean, error = np.mean(products), np.std(products) / np.size(products) ** 0.5
    crossed = second_moment(points[0], points[1], target_square, link_overlap)
    assert abs(mean - crossed) < 4 * error
    assert abs(mean - (crossed - TWO_INDEX.target.noise)) > 6 * error


def test_degrees_that_the_activation_lacks_are_noise():
    """A cubic part of the target that no quadratic activation sees: variance 4, in the labels and in the test loss."""
    cubic = changed(LEARNER, target=limen.target(hermite=[0, 1.0, 0.0, 2.0], noise=0.3))
    plain, noisy = draw_model(LEARNER, D, seed=3), draw_model(cubic, D, seed=3)
    extra = noisy.noise - plain.noise
    assert noisy.noise_variance == pytest.approx(4.3)
    assert extra.std() == pytest.approx(2.0, rel=0.25)
    assert abs(extra @ plain.noise) < 4.0 * 2.0 * 0.3**0.5 * extra.size**0.5
    w, a = np.eye(5, D), np.ones(5)
    assert noisy.test_loss(w, a) - plain.test_loss(w, a) == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("stages", [2, 5, 12])
def test_steps_are_of_second_order(stages):
    # R = <b, w>: the overlap with b/|b| runs down as tanh.
    flow = SphereFlow(lambda w, a: (w[0, 0], np.eye(1, 4), np.zeros(1)), (1, 4), FlowRule(1.0, 0.0, 1.0, 1e-6))
    start = np.array([0.6, 0.8, 0.0, 0.0, 1.0])
    exact = np.tanh(np.arctanh(0.6) - 1.0)
    errors = []
    for count in (20, 40):
        weights = start
        for _ in range(count):
            velocity = flow.velocity(weights)[1]
            weights = flow.on_sphere(chebyshev_step(flow, weights, velocity, 1.0 / count, stages))
        errors.append(abs(weights[0] - exact))
    assert errors[1] < 1e-3
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)


def test_stiff_flow_is_accurate_and_cheap():
    # A quadratic risk of the second layer: rates over five decades, exact exponentials.
    rates = np.geomspace(1e-2, 1e3, 11)

    def gradient(w, a):
        return 0.5 * float(rates @ a**2), np.zeros_like(w), rates * a

    flow = SphereFlow(gradient, (11, 1), FlowRule(1.0, 1.0, 1.0, 1e-5))
    times = np.array([0.0, 1e-3, 0.1, 10.0, 100.0])
    path = flow_path(flow, np.ones((11, 1)), np.ones(11), times)
    np.testing.assert_allclose(path.second, np.exp(-times[:, None] * rates), atol=2e-4)
    assert path.finished
    # An ordinary explicit method is stable for steps below 3 / 1000: at least 6 * 30,000 gradients.
    assert path.gradients < 1.5 * work.flow_gradients(100.0, 1.2e3) < 1e4


@in_double
def test_flow_lowers_the_risk_by_the_square_of_its_speed():
    model = draw_model(LEARNER, D, seed=0)
    n = model.noise.size
    flow = SphereFlow(model.risk_and_gradient, (5, D), flow_rule(LEARNER, n, D, 1e-7))
    first = gaussian_model.start_weights(LEARNER, D, 0)
    middle, step = np.array([0.3, 1.0, 4.0]), 1e-3
    path = flow_path(flow, first, np.ones(5), np.sort(np.concatenate([middle - step, middle, middle + step])))
    assert (np.diff(path.risk) < 0).all()
    np.testing.assert_allclose(np.linalg.norm(path.first, axis=-1), 1.0, rtol=1e-13)
    for i in (1, 4, 7):
        velocity = flow.velocity(np.concatenate([path.first[i].ravel(), path.second[i]]))[1]
        slope = (path.risk[i + 1] - path.risk[i - 1]) / (2 * step)
        assert slope == pytest.approx(-D / n * velocity @ velocity, rel=1e-5)
        # Tangent to the sphere.
        assert abs((path.first[i] * velocity[: 5 * D].reshape(5, D)).sum(axis=1)).max() < 1e-14


def test_linear_network_is_its_own_gaussian_model():
    times = [0.0, 0.5, 3.0, 20.0]
    network = limen.simulate(LINEAR, times, d=D, seeds=2).dataset
    model = limen.simulate(LINEAR, times, d=D, seeds=2, simulator="sampled-gaussian-model").dataset
    for name in ("train_loss", "second_layer", "overlap", "gram", "correlation"):
        assert model[name].dims == network[name].dims
        np.testing.assert_allclose(model[name], network[name], atol=2e-6)
    np.testing.assert_allclose(model.test_loss, network.test_loss, rtol=2e-3)
    assert list(network.group_size) == [2, 1]
    np.testing.assert_allclose(network.gram[:, :, 1, 1], 1.0, rtol=1e-12)


@pytest.mark.slow
def test_projected_descent_of_the_linear_gaussian_model_is_that_of_the_network():
    problem = changed(LINEAR, algorithm=limen.GradientDescent(0.7, spherical=True))
    model = limen.simulate(problem, 6, d=D, seeds=1, simulator="sampled-gaussian-model").dataset
    network = limen.simulate(problem, 6, d=D, seeds=1, dtype="float64").dataset
    np.testing.assert_allclose(model.train_loss, network.train_loss, rtol=1e-6)
    overlap = network.overlap.values[0, :, :, 0]
    np.testing.assert_allclose(model.overlap[0, :, :, 0], np.c_[overlap[:, :2].mean(1), overlap[:, 2]], atol=1e-6)
    own = np.einsum("tsjj->tsj", network.correlation.values[0]).mean(axis=-1)
    np.testing.assert_allclose(model.correlation[0], own, atol=1e-6)
    assert list(model.step) == list(range(7))


def test_short_steps_follow_the_flow():
    flow = limen.simulate(LEARNER, [1.0], d=D, seeds=1, simulator="sampled-gaussian-model", tolerance=1e-8).dataset
    errors = []
    for count in (50, 100):
        # Time is eta d/n per step.
        descent = changed(LEARNER, algorithm=limen.GradientDescent(5.0 / count, spherical=True))
        found = limen.simulate(descent, [count], d=D, seeds=1, simulator="sampled-gaussian-model").dataset
        errors.append(abs(found.train_loss.item() - flow.train_loss.item()))
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.15)
    assert errors[1] < 5e-3


def test_what_cannot_be_run_is_refused_with_its_reason(monkeypatch):
    monkeypatch.setattr("limen.machine.memory.available_memory", lambda: 8e9)

    def run(problem, d=D, times: Any = 1.0, simulator: str | None = "sampled-gaussian-model", **options):
        return limen.simulate(problem, times, d=d, seeds=1, simulator=simulator, **options)

    smooth = changed(LEARNER, network=limen.network(5, "tanh"))
    with pytest.raises(limen.InputError, match=r"polynomial of degree at most 4.*tanh has 1.4% of its square beyond"):
        run(smooth)
    cubic = changed(LEARNER, network=limen.network(5, CUBIC))
    with pytest.raises(limen.InputError, match=r"degree 3 for 1000 samples, needs 11.1 GB of memory, and 8 GB"):
        run(cubic, d=200)
    with pytest.raises(limen.InputError, match="square loss, not of logistic"):
        run(changed(LEARNER, loss="logistic"))
    with pytest.raises(limen.InputError, match="it has no biases"):
        run(changed(LEARNER, network=limen.network(5, CUBIC, bias=0.1)))
    with pytest.raises(limen.InputError, match="spherical=True"):
        run(changed(LEARNER, algorithm=limen.GradientDescent(0.1)))
    with pytest.raises(limen.InputError, match="tolerance must be between"):
        run(LEARNER, simulator=None, tolerance=0.5)
    with pytest.raises(limen.InputError, match="times the work a flow accepts"):
        work.check_flow_work(1000, 1e6, 5.0, 1e9)
    with pytest.raises(limen.InputError, match="times must be fewer"):
        run(changed(LEARNER, network=limen.network(1000, CUBIC)), d=2000, times=np.arange(100.0), simulator=None)
