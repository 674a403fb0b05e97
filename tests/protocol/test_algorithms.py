"""Algorithms as specs: what is allowed, what is said, and that nothing ignores what it cannot do."""

import jax.numpy as jnp
import numpy as np
import pytest

import limen
from limen import InputError
from limen.problem.algorithms import move_of, plain_units, step_sizes


def problem(algorithm, **entries):
    return limen.TwoLayer(limen.target("tanh(2*z)", **entries), limen.network(1, "tanh"), algorithm, 2.0)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: limen.GradientDescent(0.1, momentum=1.0), "momentum must be less than 1.0, got 1.0"),
        (lambda: limen.GradientDescent(0.1, momentum=-0.1), "momentum must be at least 0.0, got -0.1"),
        (lambda: limen.GradientDescent(0.1, batch_fraction=0), "batch_fraction must be greater than 0.0, got 0"),
        (lambda: limen.GradientDescent(0.1, batch_fraction=1.5), "batch_fraction must be at most 1"),
        (lambda: limen.GradientDescent("1 - t"), "step must be finite and positive, got 0 at t = 1"),
        (lambda: limen.GradientDescent("1/(1 + s)"), "s"),
        (lambda: limen.Adam(0.1, beta1=1.0), "beta1 must be at most 0.999999"),
        (lambda: limen.Adam(0.1, epsilon=0), "epsilon must be greater than 0, got 0: without it the rule jumps"),
        (lambda: limen.SignDescent(0.1, 0), "smoothing must be greater than 0, got 0: without it the rule jumps"),
        (lambda: limen.EntrywiseDescent(0.1, 3), "rule must be callable, got 3"),
        (lambda: limen.EntrywiseDescent(0.1, lambda g: g / jnp.linalg.norm(g)), "treat every entry alone"),
        (lambda: limen.EntrywiseDescent(0.1, lambda g, m: (g, m.sum() + g), 1), "treat every entry alone"),
        (lambda: limen.EntrywiseDescent(0.1, lambda g, m: (g, m[:3]), 1), "rule must keep shapes"),
        (lambda: limen.EntrywiseDescent(0.1, lambda g, m: (g, m)), "its memory if memories > 0 (got 0)"),
        (lambda: limen.OnePassSGD(0.1, momentum=1.0), "momentum must be less than 1.0"),
        (lambda: limen.target("z", entries="one-hot"), "a single entry of size sqrt(d) has no limit"),
        (lambda: limen.target("z", entries="sparse:2"), "sparse:p with 0 < p <= 1, got 'sparse:2'"),
        (lambda: limen.target("z", entries="dense"), "entries must be gaussian or sparse:p"),
    ],
)
def test_a_mistake_is_one_sentence(make, words):
    with pytest.raises(InputError) as caught:
        make()
    assert words in str(caught.value)


def test_fields_keep_their_places():
    algorithm = limen.GradientDescent(0.1, 0.2, True)
    assert (algorithm.step, algorithm.weight_decay, algorithm.spherical) == (0.1, 0.2, True)
    assert limen.GradientDescent("0.5").step == 0.5
    assert problem(limen.Adam(0.1)).counts_steps and problem(limen.SignDescent(0.1)).counts_steps


def test_steps_follow_their_formula():
    np.testing.assert_allclose(step_sizes(limen.Adam("0.5/(1 + t)"), 3), [0.5, 0.25, 0.5 / 3])
    np.testing.assert_array_equal(step_sizes(limen.SignDescent(0.5), 3), [0.5] * 3)
    with pytest.raises(InputError, match="step must be finite and positive"):
        step_sizes(limen.GradientDescent("5 - t"), 8)


def test_plain_units_are_those_of_a_size():
    algorithm = limen.Adam(0.1, epsilon=0.02, weight_decay=0.5)
    assert plain_units(algorithm, 400) == "in plain units step 0.005, epsilon 0.001, weight_decay 10"
    assert plain_units(algorithm) == "in plain units step 0.1/√d, epsilon 0.02/√d, weight_decay 0.5·√d"


def test_adam_is_the_published_rule():
    """Kingma & Ba 2015, algorithm 1, one entry at a time, by hand."""
    algorithm = limen.Adam(0.3, 0.8, 0.95, 0.05, weight_decay=0.2)
    move, numbers = move_of(algorithm)
    gradients = np.random.default_rng(0).standard_normal((5, 3))
    entry, memory = jnp.ones(3), jnp.zeros((2, 3))
    theta, mean, square = np.ones(3), np.zeros(3), np.zeros(3)
    for t, gradient in enumerate(gradients):
        entry, memory = move.apply(numbers, 0.3, 1.0 - 0.3 * 0.2, t, entry, jnp.asarray(gradient), memory)
        mean, square = 0.8 * mean + 0.2 * gradient, 0.95 * square + 0.05 * gradient**2
        unbiased = mean / (1.0 - 0.8 ** (t + 1)) / (np.sqrt(square / (1.0 - 0.95 ** (t + 1))) + 0.05)
        theta = theta - 0.3 * 0.2 * theta - 0.3 * unbiased
        np.testing.assert_allclose(entry, theta, rtol=1e-5)
