"""Many trainings at once, each step written out in NumPy: targets on the same inputs, starts on the same sample, Adam
on a table of sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limen
from limen.gaussian.keys import stream_key
from limen.simulation.descent import gradient_descent
from limen.simulation.descent import restarts as restarting
from limen.simulation.descent.fixed_sample_training import prepare
from limen.simulation.descent.many_targets import many_targets
from limen.simulation.descent.modular_training import train_modular
from limen.simulation.generators import numpy_generator


def descend(x, y, weights, second, bias, rule, steps):
    """Square loss, tanh neurons; weights after every step, (steps + 1, m, d)."""
    path, lengths = [weights], np.linalg.norm(weights, axis=1, keepdims=True)
    for _ in range(steps):
        values = np.tanh(x @ weights.T + bias)
        pull = (values @ second / second.size - y)[:, None] / second.size * second * (1 - values**2)
        weights = (1 - rule.step * rule.weight_decay) * weights - rule.step * pull.T @ x / len(x)
        if rule.spherical:
            weights = weights * lengths / np.linalg.norm(weights, axis=1, keepdims=True)
        path.append(weights)
    return np.array(path)


@pytest.mark.parametrize("spherical", [False, True])
def test_every_target_is_trained_alone(spherical):
    rule, d, count = limen.GradientDescent(0.7, weight_decay=0.2, spherical=spherical), 12, 3
    second, bias = (1.5, -0.8), (0.3, -0.2)
    network = limen.network(2, "tanh", second, bias=bias, initial_norm=1.3)
    problem = limen.TwoLayer("z1*z2 + z1", network, rule, 4.0)
    found = many_targets(problem, [0, 1, 3], d, 5, count)
    input_key, _, start_key = jax.random.split(stream_key(5, d, "many targets"), 3)
    x = np.asarray(jax.random.normal(input_key, (4 * d, d), jnp.float32), dtype=float)
    starts = np.asarray(jax.random.normal(start_key, (2 * count, d), jnp.float32), dtype=float)
    starts *= 1.3 / np.linalg.norm(starts, axis=1, keepdims=True)
    for c in range(count):
        latent = x[:, 2 * c : 2 * c + 2]
        labels, own = latent[:, 0] * latent[:, 1] + latent[:, 0], starts[2 * c : 2 * c + 2]
        path = descend(x, labels, own, np.array(second), np.array(bias), rule, 3)[[0, 1, 3]]
        np.testing.assert_allclose(found.overlap[c], path[:, :, 2 * c : 2 * c + 2], atol=2e-6)
        np.testing.assert_allclose(found.square_length[c], (path**2).sum(axis=2), rtol=1e-5)


def test_every_start_is_trained_alone_in_blocks_of_rows(monkeypatch):
    """Blocks of 16 rows, of which 40 are no multiple, and a smaller sample that ends inside one."""
    d, starts = 10, 3
    monkeypatch.setattr(restarting, "BLOCK_BYTES", 16 * 4 * d)
    rule, network = limen.GradientDescent(0.7, weight_decay=0.2), limen.network(1, "tanh", 1.5, bias=0.4)
    problem = limen.TwoLayer(limen.target("z**2", noise=0.1), network, rule, 4.0)
    found = restarting.nested_restarts(problem, (4.0, 2.3), np.array([0.0, 1.0, 4.0]), d, 7, starts)
    many = problem.model_copy(update={"network": network.model_copy(update={"width": starts})})
    setting = prepare(many, d, 7, "float32")
    x, y, first = (np.asarray(part, dtype=float) for part in (*setting.sample, setting.start.first))
    for one, n in zip(found, (40, 23), strict=True):
        for i in range(starts):
            path = descend(x[:n], y[:n], first[i : i + 1], np.array([1.5]), 0.4, rule, 4)[[0, 1, 4], 0]
            losses = 0.5 * ((1.5 * np.tanh(path @ x[:n].T + 0.4) - y[:n]) ** 2).mean(axis=1)
            np.testing.assert_allclose(one.train_loss[i], losses, rtol=1e-5)
            np.testing.assert_allclose(one.overlap[i, :, 0], path[:, 0], atol=2e-6)
            np.testing.assert_allclose(one.square[i], (path**2).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("replacement", [False, True])
def test_batches_train_both_layers_and_biases(replacement):
    """Batches of 3 of 10 samples, three to an epoch; weight decay of the first layer alone, a step of its own for the
    second; steps are counted, and passes over the sample."""
    d, seed, steps, second, bias = 10, 3, 7, np.array([1.5, -0.8]), np.array([0.3, -0.2])
    rule = limen.GradientDescent(
        0.5, weight_decay=0.2, second_layer_ratio=3.0, batch_fraction=0.3, replacement=replacement
    )
    network = limen.network(2, "tanh", tuple(second), bias=tuple(bias), train_second_layer=True, train_bias=True)
    problem = limen.TwoLayer(limen.target("z**2", noise=0.1), network, rule, 1.0)
    found = gradient_descent.solve(problem, np.arange(steps + 1.0), d, seed).dataset
    setting, key = prepare(problem, d, seed, "float32"), stream_key(seed, d, "batches")
    x, y, first = (np.asarray(part, dtype=float) for part in (*setting.sample, setting.start.first))
    for step in range(steps + 1):
        np.testing.assert_allclose(found.overlap[0, step, :, 0], first[:, 0], atol=3e-6)
        np.testing.assert_allclose(found.second_layer[0, step], second, atol=3e-6)
        np.testing.assert_allclose(found.bias[0, step], bias, atol=3e-6)
        number, place = (step, 0) if replacement else divmod(step, 3)
        order = np.asarray(jax.random.permutation(jax.random.fold_in(key, number), 10))
        chosen = order[3 * place : 3 * place + 3]
        values = np.tanh(x[chosen] @ first.T + bias)
        pull = (values @ second / 2 - y[chosen])[:, None] / 2 / 3
        inner = pull * second * (1 - values**2)
        first, bias = 0.9 * first - 0.5 * inner.T @ x[chosen], bias - 0.5 * inner.sum(axis=0)
        second = second - 1.5 * (pull * values).sum(axis=0)
    np.testing.assert_allclose(found.epoch, np.arange(8) / (10 / 3 if replacement else 3), rtol=1e-12)


def test_modular_addition_is_trained_by_adam_with_decoupled_decay():
    """Gradients by differences, averages divided by one minus their decay to the number of steps."""
    p, width, rate, decay, seed = 3, 2, 0.03, 0.4, 2
    found = train_modular(p, width, 0.6, np.arange(4), rate, decay, seed)
    random = numpy_generator(seed, p, "modular addition")
    weights = np.concatenate([0.7 * random.standard_normal(p * width) for _ in range(3)])
    order, count = random.permutation(p * p), round(0.6 * p * p)
    n, m = np.divmod(np.arange(p * p), p)

    def losses(flat):
        first, second, readout = flat.reshape(3, -1)
        fields = first.reshape(p, width)[n] + second.reshape(p, width)[m]
        return 0.5 * ((fields**2 @ readout.reshape(width, p) / width - np.eye(p)[(n + m) % p]) ** 2).sum(axis=1)

    def risk(flat):
        return losses(flat)[order[:count]].mean()

    mean = square = np.zeros(weights.size)
    for step in range(4):
        assert found.train_loss[step] == pytest.approx(risk(weights), rel=2e-5)
        assert found.test_loss[step] == pytest.approx(losses(weights)[order[count:]].mean(), rel=2e-5)
        gradient = np.array([risk(weights + e) - risk(weights - e) for e in 1e-5 * np.eye(weights.size)]) / 2e-5
        mean, square = 0.9 * mean + 0.1 * gradient, 0.98 * square + 0.02 * gradient**2
        mean_now, square_now = mean / (1 - 0.9 ** (step + 1)), square / (1 - 0.98 ** (step + 1))
        weights = weights - rate * decay * weights - rate * mean_now / (np.sqrt(square_now) + 1e-8)
