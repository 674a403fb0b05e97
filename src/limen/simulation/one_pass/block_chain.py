r"""The exact law of SGD's overlaps at finite d on inputs of several variances: one Wishart piece per eigenspace.

Inside eigenspace $b$ of $d_b$ dimensions and variance $s_b$ a fresh input has coordinates $\sqrt{s_b}z^b$ on the axes
of the $k$ target directions, $\sqrt{s_b}\zeta^b$ on a basis of the $p$ students' rest, and
$s_b\chi^2_{d_b-k-p}$ is the square of what remains. With $A^bA^{b\top}$ the Gram matrix of the rests the fields are
$\lambda=\sum_b\sqrt{s_b}(T^bz^b+A^b\zeta^b)$, and a step of $g$ moves every block as it does for isotropic inputs
(`overlap_chain`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.eigenspaces import block_sizes
from limen.gaussian.keys import stream_keys
from limen.gaussian.starts.block_starts import block_start
from limen.problem import InputError, OnePassSGD, SphericalSGD, TwoLayer
from limen.problem.rates import is_schedule, rate_function, steps_at
from limen.result import Findings
from limen.simulation.block_record import block_dataset
from limen.simulation.record import diverged, record_blocks
from limen.simulation.training_record import Observables, stayed_finite
from limen.simulation.work import check_chain_work

CITATIONS = ("arnaboldi2023escaping", "saad1995", "goldt2019")
BLOCK = 64
# A pivot this small against its diagonal entry is rounding: the direction is absent.
PIVOT = 1e-14


class BlockChainState(NamedTuple):
    r"""$T$ (S, p, k), Gram matrix of the rest (S, p, p), second layer (p,), time."""

    aligned: jax.Array
    rest: jax.Array
    second_layer: jax.Array
    time: jax.Array


class BlockChainFunctions(NamedTuple):
    """What the loop is compiled for."""

    activation: Callable[[Any], Any]
    slope: Callable[[Any, Any], Any]
    link: Callable[[Any, Any], Any]
    spherical: bool
    train_second_layer: bool
    batch: int
    schedule: Callable[[Any], Any] | None


class BlockChainNumbers(NamedTuple):
    r"""Traced: $\gamma/(dpB)$ (without $\gamma$ if there is a schedule), the same for the second layer, $\sqrt\Delta$,
    biases (p,), $\sqrt{s_b}$ (S,), roots of the shares of the latent coordinates (S, k), freedoms $d_b-k-p$ (S,)."""

    first: Any
    second: Any
    noise_scale: Any
    bias: Any
    deviations: Any
    shares: Any
    freedoms: Any


def solve_in_blocks(problem: TwoLayer, times: np.ndarray, d: int, seeds: Sequence[int]) -> list[Findings]:
    """The chain from the starts of `block_start`, seeds side by side; $O(S(p+k)^3)$ a step."""
    algorithm, network, k = problem.algorithm, problem.network, problem.target.latents
    assert isinstance(algorithm, (OnePassSGD, SphericalSGD))
    batch = algorithm.batch if isinstance(algorithm, OnePassSGD) else 1
    ratio = algorithm.second_layer_ratio if isinstance(algorithm, OnePassSGD) else 1.0
    spectrum, units = problem.inputs.spectrum, network.width + k
    sizes = block_sizes(spectrum, d)
    if sizes.min() < units + batch:
        raise InputError(
            f"d must give every variance at least width + latents + batch = {units + batch} dimensions, got d = {d}."
        )
    steps = steps_at(algorithm.rate, times, d * network.width)
    check_chain_work(d, int(steps[-1]), len(seeds), units * sizes.size)
    unit = (1.0 if is_schedule(algorithm.rate) else algorithm.rate) / (d * network.width * batch)
    functions = BlockChainFunctions(
        network.activation.function,
        problem.loss.slope,
        problem.target.function,
        isinstance(algorithm, SphericalSGD),
        network.train_second_layer,
        batch,
        rate_function(algorithm.rate) if is_schedule(algorithm.rate) else None,
    )
    numbers = BlockChainNumbers(
        unit,
        ratio * unit,
        problem.target.noise**0.5,
        np.asarray(network.per_neuron("bias"), dtype=float),
        np.sqrt(spectrum.values),
        np.sqrt(problem.inputs.latent_blocks(k) * spectrum.values[:, None]),
        (sizes - units).astype(float),
    )
    starts = [block_start(problem, d, seed) for seed in seeds]
    aligned = np.stack([start.aligned for start in starts])
    gram = np.stack([start.gram for start in starts])
    second = np.tile(np.asarray(network.per_neuron("second_layer"), dtype=float), (len(seeds), 1))
    rest = gram - aligned @ np.swapaxes(aligned, -1, -2)
    state = BlockChainState(*map(jnp.asarray, (aligned, rest, second, np.zeros(len(seeds)))))
    path = _run(
        functions,
        jax.tree.map(jnp.asarray, numbers),
        state,
        jnp.asarray(np.diff(steps, prepend=0)),
        stream_keys(seeds, d, "overlap chain"),
    )
    lengths = np.sqrt(problem.inputs.latent_blocks(k))[:, None, :]
    results = []
    for index, seed in enumerate(seeds):
        own = [np.asarray(part[index]) for part in path[:3]]
        grams = own[1] + own[0] @ np.swapaxes(own[0], -1, -2)
        found = Observables(*map(jnp.asarray, (own[0] * lengths, grams, own[2])))
        dataset = block_dataset(problem, found, times, seed, d)
        dataset = dataset.assign_coords(step=("time", steps), samples=("time", steps * batch))
        finite = stayed_finite(dataset)
        status = f"exact overlap chain of SGD in d = {d}, {sizes.size} eigenspaces."
        if not finite:
            status = diverged(d, "rate")
        results.append(Findings(dataset, finite, status))
    return results


@partial(jax.jit, static_argnums=0)
def _run(
    functions: BlockChainFunctions,
    numbers: BlockChainNumbers,
    state: BlockChainState,
    intervals: jax.Array,
    keys: jax.Array,
) -> BlockChainState:
    """States (seed, time, ...) after each interval of steps."""

    def one(state: BlockChainState, key: jax.Array) -> BlockChainState:
        norms = jnp.einsum("bii->i", state.rest) + (state.aligned**2).sum(axis=(0, 2))

        def block(carry: tuple[BlockChainState, jax.Array], left: jax.Array) -> Any:
            state, done = carry
            draws = _draw(functions, numbers, state, jax.random.fold_in(key, done))
            count = jnp.minimum(left, BLOCK)

            def step(i: jax.Array, state: BlockChainState) -> BlockChainState:
                return _step(functions, numbers, norms, state, jax.tree.map(lambda part: part[i], draws))

            return (jax.lax.fori_loop(0, count, step, state), done + 1), count

        return record_blocks(block, itemgetter(0), (state, jnp.zeros((), jnp.uint32)), intervals)

    return jax.vmap(one)(state, keys)


class Draws(NamedTuple):
    r"""Of a block of steps: $z^b$ (S, B, k), $\zeta^b$ (S, B, p), Bartlett's factor (S, B, B) of what is outside all
    tracked directions, the link's own noise and the label noise (B,)."""

    latent: jax.Array
    own: jax.Array
    outside: jax.Array
    inner: jax.Array
    noise: jax.Array


def _draw(functions: BlockChainFunctions, numbers: BlockChainNumbers, state: BlockChainState, key: jax.Array) -> Draws:
    (blocks, p, k), batch = state.aligned.shape, functions.batch
    keys = jax.random.split(key, 6)
    shape = (BLOCK, blocks, batch)
    # Row c of Bartlett's factor has a diagonal of freedom reduced by c.
    square = jax.random.chisquare(keys[2], numbers.freedoms[:, None] - jnp.arange(batch), shape)
    below = jnp.tril(jax.random.normal(keys[3], (*shape, batch)), -1)
    return Draws(
        jax.random.normal(keys[0], (*shape, k)),
        jax.random.normal(keys[1], (*shape, p)),
        below + jnp.sqrt(square)[..., None] * jnp.eye(batch),
        jax.random.normal(keys[4], (BLOCK, batch)),
        jax.random.normal(keys[5], (BLOCK, batch)),
    )


def _step(
    functions: BlockChainFunctions,
    numbers: BlockChainNumbers,
    norms: jax.Array,
    state: BlockChainState,
    draws: Draws,
) -> BlockChainState:
    p, gamma = state.second_layer.size, 1.0
    if functions.schedule is not None:
        gamma = functions.schedule(state.time)
    scale = numbers.deviations[:, None, None]
    latent = scale * draws.latent
    own = scale * jnp.einsum("bij,bnj->bni", _factor(state.rest), draws.own)
    fields = jnp.einsum("bir,bnr->ni", state.aligned, latent) + own.sum(axis=0) + numbers.bias
    values, slopes = jax.jvp(functions.activation, (fields,), (jnp.ones_like(fields),))
    output = values @ state.second_layer / p
    z = jnp.einsum("br,bnr->nr", numbers.shares, draws.latent)
    label = functions.link(z, draws.inner) + numbers.noise_scale * draws.noise
    residual = -functions.slope(label, output)
    push = gamma * numbers.first * residual[:, None] * slopes * state.second_layer
    beyond = scale**2 * (draws.own @ jnp.swapaxes(draws.own, 1, 2) + draws.outside @ jnp.swapaxes(draws.outside, 1, 2))
    half = own + 0.5 * jnp.einsum("bnm,mi->bni", beyond, push)
    cross = jnp.einsum("ni,bnj->bij", push, half)
    aligned = state.aligned + jnp.einsum("ni,bnr->bir", push, latent)
    rest = state.rest + cross + jnp.swapaxes(cross, 1, 2)
    second = state.second_layer
    if functions.train_second_layer:
        second = second + gamma * numbers.second * residual @ values
    if functions.spherical:
        size = jnp.einsum("bii->i", rest) + (aligned**2).sum(axis=(0, 2))
        shrink = jnp.sqrt(norms / size)
        aligned, rest = aligned * shrink[:, None], rest * shrink[:, None] * shrink
    return BlockChainState(aligned, rest, second, state.time + gamma * numbers.first * functions.batch)


def _factor(matrices: jax.Array) -> jax.Array:
    """Cholesky factors of (S, p, p); a vanishing pivot gives a zero column."""
    p = matrices.shape[-1]
    factor = jnp.zeros_like(matrices)
    for c in range(p):
        column = matrices[..., c] - jnp.einsum("bij,bj->bi", factor, factor[:, c])
        pivot = column[:, c]
        present = pivot > PIVOT * matrices[:, c, c]
        inverse = jnp.where(present, jax.lax.rsqrt(jnp.where(present, pivot, 1.0)), 0.0)
        below = jnp.arange(p) >= c
        factor = factor.at[:, :, c].set(jnp.where(below, column * inverse[:, None], 0.0))
    return factor
