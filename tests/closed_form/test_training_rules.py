"""Training on a fixed sample by every rule, against the same steps written out in NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

import limen
from limen.precision import in_double
from limen.problem.algorithms import step_sizes
from limen.simulation.descent.fixed_sample_training import prepare
from limen.simulation.descent.target_frame import carried, target_frame

D, STEPS = 40, 5


def problem(algorithm, entries="gaussian"):
    network = limen.network(2, "tanh", second_layer=(1.0, -0.5), bias=0.1, train_second_layer=True)
    return limen.TwoLayer(limen.target("z1 + z2**2", 0.1, entries=entries), network, algorithm, 3.0)


def gradients(x, y, theta, a):
    values = np.tanh(x @ theta.T + 0.1)
    residual = (values @ a / 2 - y) / 2
    factors = residual[:, None] * (1 - values**2) * a
    return factors.T @ x / len(y), residual @ values / len(y)


def by_hand(rule, algorithm):
    """First and second layers after STEPS steps of `rule(t, step, entries, gradient, memory)` on plain weights."""
    with_double = in_double(lambda: prepare(problem(algorithm), D, 1, "float64"))()
    x, y = (np.asarray(part) for part in with_double.sample)
    theta, a = (np.array(part) for part in with_double.start[:2])
    memories = ({}, {})
    for t, step in enumerate(step_sizes(algorithm, STEPS)):
        first, second = gradients(x, y, theta, a)
        theta = rule(t, step / np.sqrt(D), 1 / np.sqrt(D), theta, first, memories[0])
        a = rule(t, step, 1.0, a, second, memories[1])
    return theta @ np.asarray(with_double.frame).T, a


def heavy_ball(t, step, unit, entries, gradient, memory):
    # Linear rules have the same step in plain units.
    memory["u"] = 0.7 * memory.get("u", 0.0) - step / unit * gradient
    return entries + memory["u"]


def nesterov(t, step, unit, entries, gradient, memory):
    step = step / unit
    memory["u"] = 0.7 * memory.get("u", 0.0) - step * gradient
    return entries + 0.7 * memory["u"] - step * gradient


def adam(t, step, unit, entries, gradient, memory):
    memory["m"] = 0.8 * memory.get("m", 0.0) + 0.2 * gradient
    memory["v"] = 0.9 * memory.get("v", 0.0) + 0.1 * gradient**2
    root = np.sqrt(memory["v"] / (1 - 0.9 ** (t + 1)))
    return entries - step * memory["m"] / (1 - 0.8 ** (t + 1)) / (root + 0.05 * unit)


def soft_sign(t, step, unit, entries, gradient, memory):
    return entries - step * gradient / (np.abs(gradient) + 0.05 * unit)


RULES = {
    "heavy ball": (limen.GradientDescent(0.3, momentum=0.7), heavy_ball),
    "schedule": (limen.GradientDescent("0.3/(1 + t)", momentum=0.7), heavy_ball),
    "nesterov": (limen.GradientDescent(0.3, momentum=0.7, nesterov=True), nesterov),
    "adam": (limen.Adam(0.1, 0.8, 0.9, 0.05), adam),
    "sign": (limen.SignDescent("0.1/(1 + t)", 0.05), soft_sign),
    "own": (limen.EntrywiseDescent(0.1, lambda g: g / (jnp.abs(g) + 0.05)), soft_sign),
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_its_plain_training(name):
    algorithm, rule = RULES[name]
    overlap, second = by_hand(rule, algorithm)
    run = limen.simulate(problem(algorithm), [0, STEPS], d=D, seeds=[1], dtype="float64")
    np.testing.assert_allclose(run.dataset["overlap"].values[0, -1], overlap, atol=1e-10)
    np.testing.assert_allclose(run.dataset["second_layer"].values[0, -1], second, atol=1e-10)


def test_sizes_are_told_in_plain_units():
    run = limen.simulate(problem(limen.Adam(0.1)), [1], d=100, seeds=1)
    assert run.status == "Adam on n = 300 samples in d = 100; in plain units step 0.01, epsilon 0.001."


def test_directions_have_the_entries_asked_for():
    sparse = target_frame(limen.target("z", entries="sparse:0.1"), 2000, 0)
    assert np.mean(sparse != 0.0) == pytest.approx(0.1, abs=0.02)
    frame = target_frame(limen.target("z1*z2*z3", entries="sparse:0.5"), 50, 0)
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
    vectors = np.random.default_rng(0).standard_normal((2, 50))
    moved = carried(np.concatenate([np.eye(3, 50), vectors]), frame)
    np.testing.assert_allclose(moved[:3], frame, atol=1e-12)
    np.testing.assert_allclose(moved[3:] @ frame.T, vectors[:, :3], atol=1e-12)
    np.testing.assert_allclose(moved[3:] @ moved[3:].T, vectors @ vectors.T, atol=1e-12)


def test_descent_does_not_feel_the_entries_of_the_target():
    """Rotation invariance, exactly: a rotated sample gives rotated weights, so means over seeds must agree."""
    found = {}
    for entries in ("gaussian", "sparse:0.1"):
        algorithm = limen.GradientDescent(0.3, momentum=0.5)
        run = limen.simulate(problem(algorithm, entries), [4], d=60, seeds=40).dataset["overlap"].values[:, 0, 0, 0]
        found[entries] = run.mean(), run.std(ddof=1) / np.sqrt(len(run))
    (first, error), (second, other) = found.values()
    assert abs(first - second) < 4 * np.hypot(error, other)
