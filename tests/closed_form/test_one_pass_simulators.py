"""Simulators of one-pass SGD: single steps against vectors written out, and runs whose second layer is known."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limen
from limen.gaussian.keys import stream_keys
from limen.precision import in_double
from limen.problem.rates import steps_at
from limen.simulation.data import shuffled_rows
from limen.simulation.one_pass import block_chain, chain_steps
from limen.simulation.one_pass.overlap_chain import advance_chain, square_slope

TWO = limen.Inputs(variances=(0.25, 2.5), fractions=(2 / 3, 1 / 3))


def vector_step(students, second, bias, inputs, labels, first, last, norms=None):
    """One step of tanh neurons u (p, d) on a batch of inputs (B, d), square loss."""
    fields = inputs @ students.T + bias
    error = labels - np.tanh(fields) @ second / len(second)
    students = students + first * (error[:, None] * second / np.cosh(fields) ** 2).T @ inputs
    if norms is not None:
        students = students * (norms / np.linalg.norm(students, axis=1))[:, None]
    return students, second + last * error @ np.tanh(fields)


@pytest.mark.parametrize("spherical", [False, True])
@in_double
def test_a_step_of_the_chain_is_that_of_its_vectors(spherical):
    """Two neurons, two latent directions, three inputs of nine coordinates, noise inside the labels and beside them."""
    p, k, batch, d, seeds = 2, 2, 3, 9, 2
    rng = np.random.default_rng(3)
    students = np.zeros((seeds, p, d))
    students[:, :, : k + p] = rng.normal(size=(seeds, p, k + p))
    students[:, :, k:] = np.tril(students[:, :, k:])
    # The chain takes the factor of positive diagonal.
    for i in range(p):
        students[:, i, k + i] = np.abs(students[:, i, k + i])
    second, bias, scale = rng.normal(size=(seeds, p)), np.array([0.3, -0.4]), math.sqrt(0.6)
    inputs = rng.normal(size=(seeds, batch, d))
    inner, noise = rng.normal(size=(2, seeds, batch))
    first, last = 0.2, 0.5
    beyond = np.einsum("sbd,scd->sbc", inputs[:, :, k:], inputs[:, :, k:])
    moved = [
        np.moveaxis(part, 0, -1) for part in (inputs[..., :k].swapaxes(1, 2), inputs[..., k : k + p].swapaxes(1, 2))
    ]
    draws = chain_steps.Draws(*map(jnp.asarray, (*moved, np.moveaxis(beyond, 0, -1), inner.T, noise.T)))
    rest = np.einsum("sid,sjd->sij", students[:, :, k:], students[:, :, k:])
    state = chain_steps.ChainState(
        *(jnp.asarray(np.moveaxis(part, 0, -1)) for part in (students[:, :, :k], rest, second))
    )
    label = chain_steps.target_label(lambda z, e: z[..., 0] * z[..., 1] + 0.3 * e)
    functions = chain_steps.ChainFunctions(jnp.tanh, square_slope, label, True, True, spherical, True, batch)
    rates = chain_steps.ChainRates(first, last, scale, jnp.asarray(bias), ())
    norms = np.einsum("sid,sid->is", students, students)
    found = chain_steps._step(functions, rates, jnp.asarray(norms), state, draws)
    for s in range(seeds):
        z = inputs[s, :, :k]
        labels = z[:, 0] * z[:, 1] + 0.3 * inner[s] + scale * noise[s]
        kept = np.sqrt(norms[:, s]) if spherical else None
        u, a = vector_step(students[s], second[s], bias, inputs[s], labels, first, last, kept)
        np.testing.assert_allclose(found.aligned[..., s], u[:, :k], rtol=1e-10)
        np.testing.assert_allclose(found.rest[..., s], u[:, k:] @ u[:, k:].T, rtol=1e-10)
        np.testing.assert_allclose(found.second_layer[:, s], a, rtol=1e-10)


@pytest.mark.parametrize("spherical", [False, True])
@in_double
def test_a_step_inside_eigenspaces_is_that_of_its_vectors(spherical):
    """Eigenspaces of six and eight dimensions, targets that live in both."""
    p, k, batch, sizes, s = 2, 2, 3, (6, 8), np.array([0.5, 2.0])
    lengths = np.array([[0.9, 0.3], [0.5, 0.7]])
    rng = np.random.default_rng(5)
    second, bias, scale, first, last = rng.normal(size=p), np.array([0.3, -0.4]), math.sqrt(0.6), 0.2, 0.5
    inner, noise = rng.normal(size=(2, batch))
    parts, normals = [], []
    for size in sizes:
        part = np.zeros((p, size))
        part[:, :k] = rng.normal(size=(p, k))
        part[:, k : k + p] = np.tril(rng.normal(size=(p, p)))
        part[np.arange(p), k + np.arange(p)] = rng.uniform(0.5, 1.0, p)
        parts.append(part)
        normals.append(rng.normal(size=(batch, size)))
    outside = np.stack([np.linalg.cholesky(x[:, k + p :] @ x[:, k + p :].T + 1e-14 * np.eye(batch)) for x in normals])
    draws = block_chain.Draws(
        *map(jnp.asarray, (np.stack([x[:, :k] for x in normals]), np.stack([x[:, k : k + p] for x in normals]))),
        *map(jnp.asarray, (outside, inner, noise)),
    )
    state = block_chain.BlockChainState(
        jnp.asarray(np.stack([part[:, :k] for part in parts])),
        jnp.asarray(np.stack([part[:, k:] @ part[:, k:].T for part in parts])),
        jnp.asarray(second),
        jnp.zeros(()),
    )
    functions = block_chain.BlockChainFunctions(
        jnp.tanh, square_slope, lambda z, e: z[..., 0] * z[..., 1] + 0.3 * e, spherical, True, batch, None
    )
    shares = lengths * np.sqrt(s)[:, None]
    numbers = block_chain.BlockChainNumbers(first, last, scale, bias, np.sqrt(s), shares, np.array(sizes) - p - k)
    students = np.concatenate(parts, axis=1)
    norms = np.linalg.norm(students, axis=1)
    found = block_chain._step(functions, jax.tree.map(jnp.asarray, numbers), jnp.asarray(norms**2), state, draws)
    inputs = np.concatenate([np.sqrt(v) * x for v, x in zip(s, normals, strict=True)], axis=1)
    directions = np.concatenate(
        [np.eye(k, size) * length[:, None] for size, length in zip(sizes, lengths, strict=True)], 1
    )
    z = inputs @ directions.T
    labels = z[:, 0] * z[:, 1] + 0.3 * inner + scale * noise
    u, a = vector_step(students, second, bias, inputs, labels, first, last, norms if spherical else None)
    for b, part in enumerate(np.split(u, sizes[:1], axis=1)):
        np.testing.assert_allclose(found.aligned[b], part[:, :k], rtol=1e-9)
        np.testing.assert_allclose(found.rest[b], part[:, k:] @ part[:, k:].T, rtol=1e-9)
    np.testing.assert_allclose(found.second_layer, a, rtol=1e-10)


@in_double
def test_what_a_batch_has_outside_eigenspaces_is_wishart():
    """Mean and variance of the Gram matrix of three inputs, five and nine dimensions."""
    batch, freedoms = 3, np.array([5.0, 9.0])
    functions = block_chain.BlockChainFunctions(jnp.tanh, square_slope, None, False, False, batch, None)
    state = block_chain.BlockChainState(jnp.zeros((2, 1, 1)), jnp.zeros((2, 1, 1)), jnp.ones(1), jnp.zeros(()))
    numbers = block_chain.BlockChainNumbers(*[None] * 6, jnp.asarray(freedoms))
    keys = jax.random.split(jax.random.key(1), 12)
    factor = jax.vmap(lambda key: block_chain._draw(functions, numbers, state, key).outside)(keys)
    gram = np.asarray(jnp.einsum("...bl,...cl->...bc", factor, factor)).reshape(-1, 2, batch, batch)
    for b, v in enumerate(freedoms):
        error = 5 * math.sqrt(2 * v / len(gram))
        np.testing.assert_allclose(gram[:, b].mean(axis=0), v * np.eye(batch), atol=error)
        np.testing.assert_allclose(gram[:, b].var(axis=0), v * (1 + np.eye(batch)), rtol=0.25)


@in_double
def test_batches_of_a_linear_neuron_have_their_exact_mean():
    """E|u - u*|^2 at dimension four, three samples a step: E W^2 = B(B + d + 1) of a Wishart matrix."""
    d, batch, rate, noise, steps, seeds = 4, 3, 3.0, 0.3, 1, 3000
    label = chain_steps.committee_label(lambda z: z)
    functions = chain_steps.ChainFunctions(lambda z: z, square_slope, label, False, True, False, False, batch)
    unit = rate / (d * batch)
    rates = chain_steps.ChainRates(unit, 0.0, math.sqrt(noise), np.zeros(1), (np.ones((1, 1)), np.ones(1)))
    start = (np.full((seeds, 1, 1), x) for x in (0.2, 0.5))
    aligned, gram, _ = advance_chain(
        functions, rates, *start, np.ones((seeds, 1)), d, np.array([steps]), tuple(range(seeds))
    )
    distance, mean = (gram - 2 * aligned + 1)[:, -1, 0, 0], 0.5 - 0.4 + 1
    for _ in range(steps):
        mean = mean * (1 - 2 * unit * batch + unit**2 * batch * (batch + d + 1)) + unit**2 * batch * d * noise
    assert abs(distance.mean() - mean) < 4.5 * distance.std() / math.sqrt(seeds)
    # One degree of freedom too many for the second input, two for the third.
    assert 4.5 * distance.std() / math.sqrt(seeds) < unit**2 * 3 * (1.1 + noise)


@in_double
def test_the_first_step_below_a_level_is_counted_from_one():
    """Constant neurons and a residual of one: after n steps the second layer is n times the rate, over two blocks."""
    functions = chain_steps.ChainFunctions(
        lambda z: 1.0 + 0.0 * z, lambda y, f: -1.0 + 0.0 * f, lambda *_: 0.0, False, False, False, True, 1
    )
    rates = chain_steps.ChainRates(0.1, 0.25, 0.0, jnp.zeros(1), ())
    state = chain_steps.ChainState(jnp.zeros((1, 1, 3)), jnp.ones((1, 1, 3)), jnp.zeros((1, 3)))
    wanted = jnp.asarray([1.0, 2.0, 150.0])
    keys = stream_keys((0, 1, 2), 9, "overlap chain")
    *_, first, done = chain_steps.run_until(
        functions, below, rates, state, jnp.ones((1, 3)), jnp.asarray([7.0]), keys, -0.25 * wanted, 0, 1000
    )
    np.testing.assert_array_equal(first, [1, 2, 150])
    assert int(done) == 2 * chain_steps.BLOCK


def below(state):
    return -state.second_layer[0]


def test_rows_of_data_are_used_once_and_in_their_order():
    """A linear neuron on batches of two rows, several blocks: a plain loop over the shuffled rows."""
    d, rate, batch, seed = 6, 0.3, 2, 4
    X = np.random.default_rng(0).normal(size=(200, d)) * np.linspace(0.6, 1.4, d)
    inputs = limen.Inputs.from_data(X, "cloud", blocks=2)
    posed = limen.TwoLayer(
        "z",
        limen.network(1, "linear"),
        limen.OnePassSGD(rate, batch=batch),
        start=limen.OverlapStart(0.3),
        inputs=inputs,
    )
    steps = np.array([0, 5, 10, 25])
    run = limen.simulate(posed, steps * rate / d, seeds=[seed], keep="weights", simulator="one-pass-sgd").dataset
    rows = shuffled_rows(inputs.rows, seed, batch * 25, "times").reshape(25, batch, d)
    weights, direction = run.first_layer.values[0, 0, 0], run.direction.values[0, 0]
    for step, x in enumerate(rows):
        weights = weights + rate / (d * batch) * (x @ direction - x @ weights) @ x
        if step + 1 in steps:
            at = list(steps).index(step + 1)
            np.testing.assert_allclose(run.first_layer.values[0, at, 0], weights, atol=1e-5)


# Constant neurons: the first layer stands still, and every sample gives the second layer its residual


def constant_neurons(rate, momentum=0.0, target="100+0*z", loss="huber:1", second=0.0, **changes):
    """The residual of Huber's loss is 1 as long as the output is far below the label."""
    return limen.TwoLayer(
        limen.target(target),
        limen.network(2, "1+0*z", second_layer=second, train_second_layer=True),
        limen.OnePassSGD(rate, batch=3, second_layer_ratio=1.7, momentum=momentum),
        loss=loss,
        start=limen.OverlapStart(0.3),
        **changes,
    )


@pytest.mark.parametrize("inputs", [limen.Inputs(), TWO], ids=["one variance", "two"])
@pytest.mark.parametrize("simulator", ["one-pass-sgd", "overlap-chain"])
def test_steps_take_the_rate_of_their_own_time(simulator, inputs):
    """The second layer sums the rates along the clock, dt = rate(t) / (dm)."""
    d, m, rate, times = 30, 2, "2/(1+4*t)", np.array([0.1, 0.4, 1.0])
    run = limen.simulate(constant_neurons(rate, inputs=inputs), times, d=d, seeds=1, simulator=simulator).dataset
    steps, t, layer = steps_at(rate, times, d * m), 0.0, [0.0]
    for _ in range(steps[-1]):
        gamma = 2 / (1 + 4 * t)
        layer.append(layer[-1] + 1.7 * gamma / (d * m))
        t += gamma / (d * m)
    np.testing.assert_allclose(run.second_layer[0, :, 0], np.array(layer)[steps], rtol=1e-4)
    assert t == pytest.approx(1.0, abs=0.02)


def test_the_heavy_ball_keeps_its_velocity_and_the_whole_gradient():
    d, m, rate, beta, times = 30, 2, 0.5, 0.8, np.array([0.1, 0.4])
    run = limen.simulate(constant_neurons(rate, beta), times, d=d, seeds=1, simulator="one-pass-sgd").dataset
    steps = steps_at(rate, times, d * m)
    expected = 1.7 * rate / (d * m) / (1 - beta) * (steps - beta * (1 - beta**steps) / (1 - beta))
    np.testing.assert_allclose(run.second_layer[0, :, 0], expected, rtol=1e-4)


@pytest.mark.parametrize("simulator", ["one-pass-sgd", "overlap-chain"])
def test_labels_on_two_variances_have_unit_variance(simulator):
    """A second layer at zero, hardly moved: each step adds the mean of three labels z."""
    d, m, rate, steps = 24, 2, 1e-5, np.arange(101)
    posed = constant_neurons(rate, target="z", loss="square", inputs=TWO)
    run = limen.simulate(posed, steps * rate / (d * m), d=d, seeds=4, simulator=simulator).dataset
    moves = np.diff(run.second_layer.values[:, :, 0], axis=1) / (1.7 * rate / (d * m))
    assert moves.mean() == pytest.approx(0.0, abs=4.5 * math.sqrt(1 / 3 / moves.size))
    assert moves.var() == pytest.approx(1 / 3, rel=4.5 * math.sqrt(2 / moves.size))
