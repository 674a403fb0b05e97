"""Descent and thresholds, second witnesses in NumPy: linear posteriors, differences, and recursions written out."""

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import limen
from limen.precision import in_double
from limen.problem.losses import as_loss
from limen.simulation.descent import hard_cosines
from limen.simulation.spectra.random_matrices import stream_generator
from limen.simulation.thresholds import amp, several_amp
from limen.simulation.thresholds.hessian import network_hessian
from limen.simulation.thresholds.single_index import draw_single_index
from limen.theory.descent import forces
from limen.theory.descent.hard_fluctuations import _noise, hard_fluctuations
from limen.theory.thresholds.along_training import PathFields, path_weights, weight_decay_level
from limen.theory.thresholds.hessian_weights import second_layer_rows

GENERATOR = np.random.default_rng(7)


# Message passing, where the posterior is Gaussian


def test_scores_of_a_linear_link_are_those_of_a_gaussian():
    labels, fields = GENERATOR.normal(size=(2, 5))
    variance, noise = 0.7, 0.4
    found = amp._output(limen.target("z", noise=noise), labels, fields, variance)
    np.testing.assert_allclose(found, (labels - fields) / (variance + noise), rtol=1e-6)
    weights, covariance = np.array([1.3, -0.6]), np.array([[0.8, 0.3], [0.3, 0.5]])
    means = GENERATOR.normal(size=(5, 2))
    found = several_amp._scores(limen.target("1.3*z1 - 0.6*z2", noise=noise), labels, means, covariance)
    left = (labels - means @ weights) / (weights @ covariance @ weights + noise)
    np.testing.assert_allclose(found, left[:, None] * weights, rtol=1e-5)


def test_message_passing_of_a_linear_link_ends_at_ridge_regression():
    """With the noise as penalty; the algorithm knows its own error. Sampling errors are of order 1/d."""
    target, ratio, d, seed = limen.target("z", noise=0.5), 2.0, 400, 3
    found = amp.message_passing(target, ratio, d, [seed])
    rows, labels = draw_single_index(target, ratio, d, seed)
    rows = rows / np.sqrt(d)
    ridge = np.linalg.solve(rows.T @ rows + target.noise * np.eye(d), rows.T @ labels)
    assert found.overlaps[0, -1] == pytest.approx(ridge[0] ** 2 / (ridge @ ridge), abs=0.01)
    assert found.overlaps[0, -1] + found.variances[0, -1] == pytest.approx(1.0, abs=0.06)


def test_message_passing_of_a_linear_link_of_two_directions_ends_at_ridge_regression():
    """The label knows the sum along w alone: both estimates are shares of one ridge regression, with the noise as
    penalty. What is left of the start is gone; sampling errors are of order 1/d."""
    weights, noise, ratio, d, seed = np.array([1.3, -0.6]), 0.25, 2.0, 300, 4
    target = limen.target("1.3*z1 - 0.6*z2", noise=noise)
    found = several_amp.matrix_message_passing(target, ratio, d, [seed], 12, 0.2)[0, -1]
    rows = stream_generator(seed, d, "inputs").standard_normal((round(ratio * d), d))
    drawn = stream_generator(seed, d, "label noise").standard_normal(len(rows))
    labels, rows = rows[:, :2] @ weights + np.sqrt(noise) * drawn, rows / np.sqrt(d)
    ridge = np.linalg.solve(rows.T @ rows + noise / (weights @ weights) * np.eye(d), rows.T @ labels)
    np.testing.assert_allclose(found, np.outer(ridge[:2], weights) / (weights @ weights) / np.sqrt(d), atol=0.01)


# Derivatives of a network


def answer(fields, second, bias):
    """Output of tanh neurons at fields (n, m)."""
    return np.tanh(fields + bias) @ second / len(second)


def differences(function, at, step=1e-4):
    """Central differences of a function of a flat vector, last axis last."""
    return np.stack([(function(at + e) - function(at - e)) / (2 * step) for e in step * np.eye(at.size)], axis=-1)


def test_the_hessian_of_a_network_is_that_of_differences():
    second, bias = np.array([1.5, -0.8]), np.array([0.2, -0.1])
    x, y, theta = GENERATOR.normal(size=(9, 3)), GENERATOR.normal(size=9), GENERATOR.normal(size=(2, 3))

    def risk(flat):
        return 0.5 * np.mean((y - answer(x @ flat.reshape(2, 3).T, second, bias)) ** 2)

    expected = 2 * differences(lambda at: differences(risk, at), theta.ravel())
    whole = network_hessian(x, y, theta, second, bias, "tanh", "square")
    np.testing.assert_allclose(whole.dense(), expected, atol=2e-6)
    vector = GENERATOR.normal(size=6)
    np.testing.assert_allclose(whole.operator(vector), expected @ vector, atol=1e-5)
    block = network_hessian(x, y, theta, second, bias, "tanh", "square", neuron=1)
    np.testing.assert_allclose(block.dense(), expected[3:, 3:], atol=2e-6)


@in_double
def test_forces_are_slopes_of_the_loss():
    """Of the loss of every sample in its fields, of those slopes in the fields, and of the mean in the second layer."""
    second, bias = np.array([1.5, -0.8]), np.array([0.2, -0.1])
    fields, labels = GENERATOR.normal(size=(6, 2)), GENERATOR.normal(size=6)
    functions = (limen.network(1, "tanh").activation.function, as_loss("pseudo-huber:1").function)
    mean, force, jacobian, outer = (
        np.asarray(part) for part in forces._forces(functions, fields, labels, second, bias)
    )

    def losses(at, layer=second):
        return np.sqrt(1 + (labels - answer(at, layer, bias)) ** 2) - 1

    def slopes(at):
        moves = 1e-4 * np.eye(2)
        return np.stack([(losses(at + e) - losses(at - e)) / 2e-4 for e in moves])

    assert mean == pytest.approx(losses(fields).mean(), rel=1e-9)
    np.testing.assert_allclose(force, slopes(fields), atol=1e-7)
    bent = np.stack([(slopes(fields + e) - slopes(fields - e)) / 2e-4 for e in 1e-4 * np.eye(2)], axis=1)
    np.testing.assert_allclose(jacobian, bent, atol=2e-6)
    np.testing.assert_allclose(outer, differences(lambda layer: losses(fields, layer).mean(), second), atol=1e-7)
    each, pulls, answers = (
        np.asarray(part)[0]
        for part in forces._first_forces(functions, fields.T[None], labels[None], second[None], bias[None])
    )
    np.testing.assert_allclose(each, losses(fields), rtol=1e-9)
    np.testing.assert_allclose(pulls, slopes(fields), atol=1e-7)
    np.testing.assert_allclose(answers.mean(axis=1), outer, rtol=1e-9)


def test_weights_on_paths_are_curvatures_of_the_loss_and_decay_adds_to_all():
    """Of m times the loss in one neuron's field, bias and second layer of the step included; m times the decay."""
    second, bias = np.array([1.5, -0.8]), np.array([0.2, -0.6])
    network, rule = limen.network(2, "tanh", (9.0, 9.0), bias=tuple(bias)), limen.GradientDescent(0.1, weight_decay=0.3)
    problem = limen.TwoLayer("z", network, rule, 2.0)
    fields, labels = GENERATOR.normal(size=(7, 2)), GENERATOR.normal(size=7)
    one = PathFields({4: fields}, {4: second}, labels, np.zeros((7, 0)))

    def losses(at):
        return 0.5 * (labels - answer(at, second, bias)) ** 2

    for neuron, move in enumerate(1e-4 * np.eye(2)):
        bent = (losses(fields + move) - 2 * losses(fields) + losses(fields - move)) / 1e-8
        np.testing.assert_allclose(path_weights(problem, one, 4, neuron), 2 * bent, atol=1e-5)
    assert weight_decay_level(problem) == pytest.approx(-2 * 0.3)


def test_rows_of_the_second_layer_are_mixed_differences_of_the_loss():
    """Of m times the loss of every sample in a field and a weight; among weights, averaged over samples."""
    second, bias = np.array([1.5, -0.8]), np.array([0.2, -0.6])
    fields, labels = GENERATOR.normal(size=(7, 2)), GENERATOR.normal(size=7)
    mixed, own = second_layer_rows("tanh", "pseudo-huber:1", second, bias, fields, labels)

    def losses(flat):
        return 2 * (np.sqrt(1 + (labels - answer(fields + flat[:2], flat[2:], bias)) ** 2) - 1)

    bent = differences(lambda at: differences(losses, at), np.concatenate([np.zeros(2), second]))
    np.testing.assert_allclose(mixed, bent[:, :2, 2:], atol=1e-6)
    np.testing.assert_allclose(own, bent[:, 2:, 2:].mean(axis=0), atol=1e-6)


# Hard directions


def test_the_largest_cosine_with_hard_directions(monkeypatch):
    """Of z1² + z2 only the first direction is hard; frames need not be the first axes."""
    frame = np.linalg.qr(GENERATOR.normal(size=(5, 2)))[0].T
    weights = GENERATOR.normal(size=(3, 2, 5))
    monkeypatch.setattr(
        hard_cosines, "trained_weights", lambda *_: SimpleNamespace(first_layer=weights, directions=frame)
    )
    problem = limen.TwoLayer("z1**2 + z2", limen.network(2, "tanh"), limen.GradientDescent(0.1), 2.0)
    found = hard_cosines.largest_hard_cosine(problem, np.arange(3), 5, 0)
    cosines = np.abs(weights @ frame[0]) / np.linalg.norm(weights, axis=2)
    np.testing.assert_allclose(found, cosines.max(axis=1), rtol=1e-10)


def test_the_noise_along_hard_directions_by_loops():
    steps, m, r, paths, ratio = 2, 2, 2, 50, 3.0
    force, hard = GENERATOR.normal(size=(steps, m, paths)), GENERATOR.normal(size=(paths, r))
    spread = np.array([0.6, 0.8])
    problem: Any = SimpleNamespace(samples_per_dim=ratio)
    found = _noise(problem, force, hard, spread)
    found = found.reshape(steps, 2, m, r, steps, 2, m, r)
    for t, b, i, a, s, c, j, e in np.ndindex(*found.shape):
        pair = force[t, i] * force[s, j]
        along = spread[b] * spread[c] * np.mean(pair * hard[:, a] * hard[:, e])
        across = ((b == c) - spread[b] * spread[c]) * (a == e) * np.mean(pair)
        assert found[t, b, i, a, s, c, j, e] == pytest.approx((along + across) / ratio, rel=1e-10, abs=1e-12)


def test_fluctuations_along_a_hard_direction_by_their_recursion():
    """Two neurons, two steps, weight decay, lengths restored: the linear map of start and noise, written out."""
    m, paths, eta, decay, ratio, norm = 2, 40, 0.3, 0.1, 2.0, 1.2
    network = limen.network(m, "tanh", initial_norm=norm)
    rule = limen.GradientDescent(eta, weight_decay=decay)
    problem = limen.TwoLayer("z**2", network, rule, ratio)
    force, latent = GENERATOR.normal(size=(2, m, paths)), GENERATOR.normal(size=(paths, 1))
    response, lengths = GENERATOR.normal(size=(2, 2, 2, m, m)), np.array([[1.1, 0.9], [1.2, 0.8]])
    found: Any = SimpleNamespace(force=force, loss_response=response, lengths=lengths)
    variance, growth = hard_fluctuations(problem, found, latent, np.eye(1))
    memory = response[1]
    # Columns: start, noise of the first step, noise of the second.
    zero, one = np.zeros((m, m)), np.eye(m)
    start = np.hstack([norm * one, zero, zero])
    first = (1 - eta * decay) * start - eta * memory[0, 0] @ start + eta * np.hstack([zero, one, zero])
    first /= lengths[0][:, None]
    second = (1 - eta * decay) * first - eta * (memory[1, 0] @ start + memory[1, 1] @ first)
    second = (second + eta * np.hstack([zero, zero, one])) / lengths[1][:, None]
    flat = (force * latent[:, 0]).reshape(2 * m, paths)
    covariance = np.eye(3 * m)
    covariance[m:, m:] = flat @ flat.T / (paths * ratio)
    for t, rows in enumerate((start, first, second)):
        np.testing.assert_allclose(variance[t, :, :, 0, 0], rows @ covariance @ rows.T, rtol=1e-10)
        np.testing.assert_allclose(growth[t, :, :, 0, 0], rows[:, :m] / norm, atol=1e-12)


def test_fluctuations_along_two_hard_directions_on_two_variances():
    """The memory in every eigenspace, neuron and direction, index by index; each neuron has a length of its own."""
    m, r, paths, eta, ratio, norm = 2, 2, 30, 0.3, 2.0, 1.2
    inputs = limen.Inputs(variances=(0.25, 2.5), fractions=(2 / 3, 1 / 3))
    (s, w), size = inputs.spectrum, 2 * m * r
    problem = limen.TwoLayer(
        "z1*z2", limen.network(m, "tanh", initial_norm=norm), limen.GradientDescent(eta), ratio, inputs=inputs
    )
    force, latent = GENERATOR.normal(size=(2, m, paths)), GENERATOR.normal(size=(paths, r))
    response, lengths = GENERATOR.normal(size=(1 + r * r, 2, 2, m, m)), np.array([[1.1, 0.9], [1.2, 0.8]])
    found: Any = SimpleNamespace(force=force, loss_response=response, lengths=lengths)
    variance, growth = hard_fluctuations(problem, found, latent, np.eye(r))

    places, amplitude = list(np.ndindex(2, m, r)), np.sqrt(w * s)
    memory, noise = np.zeros((2, 2, size, size)), np.zeros((2, 2, size, size))
    for (p, (a, i, h)), (q, (b, j, g)) in product(enumerate(places), repeat=2):
        both = amplitude[a] * amplitude[b]
        plain, turned = response[0, :, :, i, j] * (h == g), response[1 + h * r + g, :, :, i, j]
        memory[:, :, p, q] = s[a] * (((a == b) - both) * plain + both * turned)
        pair = force[:, None, i] * force[None, :, j]
        across = ((a == b) - both) * (h == g) * pair.mean(axis=2)
        noise[:, :, p, q] = s[a] * s[b] * (across + both * (pair * latent[:, h] * latent[:, g]).mean(axis=2)) / ratio
    own = np.array([i for _, i, _ in places])
    zero, one = np.zeros((size, size)), np.eye(size)
    start = np.hstack([norm * np.diag(np.sqrt([s[a] for a, _, _ in places])), zero, zero])
    first = (start - eta * memory[0, 0] @ start + eta * np.hstack([zero, one, zero])) / lengths[0, own][:, None]
    second = first - eta * (memory[1, 0] @ start + memory[1, 1] @ first) + eta * np.hstack([zero, zero, one])
    second /= lengths[1, own][:, None]
    covariance = np.eye(3 * size)
    covariance[size:, size:] = noise.transpose(0, 2, 1, 3).reshape(2 * size, 2 * size)
    summed = np.hstack([np.sqrt(w[a] / s[a]) * np.eye(m * r) for a in range(2)])
    spread = np.vstack([np.sqrt(w[a]) * np.eye(m * r) for a in range(2)])
    for t, rows in enumerate((start, first, second)):
        blocks = (summed @ rows @ covariance @ rows.T @ summed.T).reshape(m, r, m, r).transpose(0, 2, 1, 3)
        np.testing.assert_allclose(variance[t], blocks, rtol=1e-9, atol=1e-12)
        even = (summed @ rows[:, :size] @ spread / norm).reshape(m, r, m, r).transpose(0, 2, 1, 3)
        np.testing.assert_allclose(growth[t], even, atol=1e-11)
