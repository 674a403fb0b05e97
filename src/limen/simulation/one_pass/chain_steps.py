"""The compiled loop of the overlap chain: random numbers in blocks, seeds along the last axis of every array."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.chi_square import chi_square_block, spares_of
from limen.simulation.record import record_blocks

BLOCK = 128
# A pivot this small against its diagonal entry is rounding: the direction is absent.
PIVOT = 1e-14


class ChainState(NamedTuple):
    r"""$T$ (p, k, seeds), $Q^\perp$ (p, p, seeds), $a$ (p, seeds)."""

    aligned: jax.Array
    rest: jax.Array
    second_layer: jax.Array


class ChainFunctions(NamedTuple):
    """What the loop is compiled for."""

    activation: Callable[[Any], Any]
    slope: Callable[[Any, Any], Any]
    label: Callable[[Any, Any, Any], Any]
    inner_noise: bool
    label_noise: bool
    spherical: bool
    train_second_layer: bool
    batch: int
    schedule: Callable[[Any], Any] | None = None


class ChainRates(NamedTuple):
    r"""Traced numbers: $\gamma/(dpB)$, the same for the second layer, $\sqrt\Delta$, biases (p,), the teacher's own.

    With a schedule the first two are without $\gamma$, which follows the time.
    """

    first: Any
    second: Any
    noise_scale: Any
    bias: Any
    teacher: Any


class Draws(NamedTuple):
    """Random numbers of a block of steps; trailing axes (batch, seeds)."""

    latent: jax.Array
    own: jax.Array
    gram: jax.Array
    inner: jax.Array | None
    noise: jax.Array | None


@lru_cache(maxsize=256)
def target_label(link: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Label of a `Target` from its latent coordinates (k, ...)."""
    return lambda teacher, z, e: link(jnp.moveaxis(z, 0, -1), e)


@lru_cache(maxsize=256)
def committee_label(activation: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    r"""$\frac1k\sum_ra^*_r\sigma((Lz)_r)$ with `teacher` = ($L$, $a^*/k$)."""

    def label(teacher: tuple[jax.Array, jax.Array], z: jax.Array, e: jax.Array) -> jax.Array:
        factor, read_out = teacher
        k = read_out.shape[0]
        fields = sum(factor[:, c, None, None] * z[c] for c in range(k))
        return (read_out[:, None, None] * activation(fields)).sum(axis=0)

    return label


@partial(jax.jit, static_argnums=0)
def run(
    functions: ChainFunctions,
    rates: ChainRates,
    state: ChainState,
    square_norms: jax.Array,
    freedoms: jax.Array,
    intervals: jax.Array,
    keys: jax.Array,
) -> ChainState:
    """States after each interval of steps; a seed's path depends neither on other seeds nor on the intervals."""
    p, k = state.aligned.shape[:2]
    draw = jax.vmap(partial(_draw_block, functions, p, k, freedoms), out_axes=(0, -1))

    def refill(carry: Any) -> Any:
        state, keys, _, _ = carry
        keys, draws = draw(keys)
        return state, keys, draws, jnp.zeros((), jnp.int64)

    def advance(carry: Any, left: jax.Array) -> Any:
        state, keys, draws, used = jax.lax.cond(carry[3] == BLOCK, refill, lambda same: same, carry)
        count = jnp.minimum(left, BLOCK - used)

        def step(i: jax.Array, timed: tuple[ChainState, jax.Array | None]) -> tuple[ChainState, jax.Array | None]:
            now, t = timed
            own = jax.tree.map(lambda part: part[i], draws)
            if functions.schedule is None:
                return _step(functions, rates, square_norms, now, own), t
            gamma = functions.schedule(t)
            scaled = rates._replace(first=rates.first * gamma, second=rates.second * gamma)
            return _step(functions, scaled, square_norms, now, own), t + rates.first * functions.batch * gamma

        state = jax.lax.fori_loop(used, used + count, step, state)
        return (state, keys, draws, used + count), count

    # An empty block that counts as used: the draws are then compiled once.
    empty = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), jax.eval_shape(draw, keys)[1])
    timed = (state, None if functions.schedule is None else jnp.zeros(()))
    begin = (timed, keys, empty, jnp.full((), BLOCK, jnp.int64))
    return record_blocks(advance, lambda carry: carry[0][0], begin, intervals)


def _draw_block(
    functions: ChainFunctions, p: int, k: int, freedoms: jax.Array, key: jax.Array
) -> tuple[jax.Array, Draws]:
    """One seed's numbers for a block of steps, and the Gram matrix of each batch's inputs beyond the latent axes."""
    batch = functions.batch
    count = k + p + functions.inner_noise + functions.label_noise
    sizes = ((BLOCK, count, batch), (batch, BLOCK + spares_of(BLOCK)), (BLOCK, batch, batch) if batch > 1 else (0,))

    def attempt(carry: tuple[jax.Array, Draws, jax.Array]) -> tuple[jax.Array, Draws, jax.Array]:
        # All numbers from one call: each call of the generator costs a second of compilation.
        key = jax.random.fold_in(carry[0], 1)
        ends = np.cumsum([int(np.prod(size)) for size in sizes])
        uniforms = _open_uniforms(jax.random.bits(key, (ends[-1] + int(np.prod(sizes[1])),), jnp.uint64))
        flat = jnp.sqrt(2.0) * jax.lax.erf_inv(2.0 * uniforms[: ends[-1]] - 1.0)
        normals, proposals, below = (
            part.reshape(size) for part, size in zip(jnp.split(flat, ends[:-1]), sizes, strict=True)
        )
        chi_square, enough = chi_square_block(proposals, uniforms[ends[-1] :].reshape(sizes[1]), freedoms)
        own = normals[:, k : k + p]
        gram = jnp.einsum("nib,nic->nbc", own, own) if batch > 1 else (own**2).sum(axis=1)[..., None]
        if batch == 1:
            gram = gram + chi_square.T[..., None]
        else:
            # Bartlett's factor of the part of the inputs outside all tracked directions; freedoms[c] <= 0: no axis c.
            factor = jnp.tril(below, -1) * (freedoms > 0.0) + jnp.sqrt(chi_square.T)[..., None] * jnp.eye(batch)
            gram = gram + jnp.einsum("nbl,ncl->nbc", factor, factor)
        inner = normals[:, k + p] if functions.inner_noise else None
        noise = normals[:, -1] if functions.label_noise else None
        return key, Draws(normals[:, :k], own, gram, inner, noise), enough

    shapes = jax.eval_shape(lambda key: attempt((key, None, None))[1], key)  # pyright: ignore[reportArgumentType]
    empty = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), shapes)
    return jax.lax.while_loop(lambda carry: ~carry[2], attempt, (key, empty, jnp.zeros((), bool)))[:2]


def _open_uniforms(bits: jax.Array) -> jax.Array:
    """Uniforms on the midpoints of a grid of 2^-52, which keeps them off 0 and 1."""
    return ((bits >> 12).astype(jnp.float64) + 0.5) * 2.0**-52


def _step(
    functions: ChainFunctions, rates: ChainRates, square_norms: jax.Array, state: ChainState, draws: Draws
) -> ChainState:
    """One step of SGD on a batch, all seeds at once."""
    aligned, rest, second = state
    p, k = aligned.shape[:2]
    columns = factor_columns(rest)
    # Column l of the factor vanishes above row l: sums run over whole columns, which XLA vectorises over seeds.
    own_fields = jnp.zeros((p, functions.batch, rest.shape[-1]))
    for c in range(p):
        own_fields = own_fields + columns[c][:, None, :] * draws.own[c]
    fields = own_fields + sum(aligned[:, c, None, :] * draws.latent[c] for c in range(k)) + rates.bias[:, None, None]
    values, slopes = jax.jvp(functions.activation, (fields,), (jnp.ones_like(fields),))
    output = (second[:, None, :] * values).sum(axis=0) / p
    inner = jnp.zeros_like(output) if draws.inner is None else draws.inner
    label = functions.label(rates.teacher, draws.latent, inner)
    if draws.noise is not None:
        label = label + rates.noise_scale * draws.noise
    residual = -functions.slope(label, output)
    moves = rates.first * residual * slopes * second[:, None, :]
    if functions.batch == 1:
        g, field = moves[:, 0], own_fields[:, 0]
        half = field + 0.5 * draws.gram[0, 0] * g
        aligned = aligned + g[:, None] * draws.latent[:, 0]
        rest = rest + g[:, None] * half + half[:, None] * g
    else:
        half = own_fields + 0.5 * jnp.einsum("ibs,bcs->ics", moves, draws.gram)
        cross = jnp.einsum("ibs,jbs->ijs", moves, half)
        aligned = aligned + jnp.einsum("ibs,rbs->irs", moves, draws.latent)
        rest = rest + cross + jnp.swapaxes(cross, 0, 1)
    if functions.train_second_layer:
        second = second + rates.second * (residual * values).sum(axis=1)
    if functions.spherical:
        norm = jnp.stack([rest[i, i] for i in range(p)]) + (aligned**2).sum(axis=1)
        scale = jnp.sqrt(square_norms / norm)
        aligned, rest = aligned * scale[:, None], rest * scale[:, None] * scale
    return ChainState(aligned, rest, second)


def factor_columns(matrix: jax.Array) -> list[jax.Array]:
    """Columns (p, seeds) of the Cholesky factor of (p, p, seeds); a vanishing pivot gives a zero column."""
    p = matrix.shape[0]
    columns: list[jax.Array] = []
    for c in range(p):
        column = matrix[:, c] - sum((column * column[c] for column in columns), jnp.zeros_like(matrix[:, c]))
        pivot = column[c]
        present = pivot > PIVOT * matrix[c, c]
        inverse = jnp.where(present, jax.lax.rsqrt(jnp.where(present, pivot, 1.0)), 0.0)
        below = (jnp.arange(p) >= c)[:, None]
        columns.append(jnp.where(below, column * inverse, 0.0))
    return columns


@partial(jax.jit, static_argnums=(0, 1))
def run_until(
    functions: ChainFunctions,
    observed: Callable[[ChainState], jax.Array],
    rates: ChainRates,
    state: ChainState,
    square_norms: jax.Array,
    freedoms: jax.Array,
    keys: jax.Array,
    level: jax.Array,
    few: jax.Array,
    most: jax.Array,
) -> tuple[ChainState, jax.Array, jax.Array, jax.Array]:
    """First step of each seed after which `observed(state)` is at most `level`, 0 for a seed still above.

    Looks after every step; ends with the block in which no more than `few` seeds are above, or `most` steps are done.
    Returns the states, the keys to go on with, the first steps and the number of steps done.
    """
    p, k = state.aligned.shape[:2]
    draw = jax.vmap(partial(_draw_block, functions, p, k, freedoms), out_axes=(0, -1))

    def block(carry: tuple[ChainState, jax.Array, jax.Array, jax.Array]) -> Any:
        state, keys, first, done = carry
        keys, draws = draw(keys)

        def step(i: jax.Array, found: tuple[ChainState, jax.Array]) -> tuple[ChainState, jax.Array]:
            state, first = found
            state = _step(functions, rates, square_norms, state, jax.tree.map(lambda part: part[i], draws))
            return state, jnp.where((first == 0) & (observed(state) <= level), done + i + 1, first)

        state, first = jax.lax.fori_loop(0, BLOCK, step, (state, first))
        return state, keys, first, done + BLOCK

    def unfinished(carry: tuple[ChainState, jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return (jnp.sum(carry[2] == 0) > few) & (carry[3] < most)

    nobody = jnp.zeros(keys.shape[0], jnp.int64)
    return jax.lax.while_loop(unfinished, block, (state, keys, nobody, jnp.zeros((), jnp.int64)))
