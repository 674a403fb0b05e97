r"""Moments for update rules with a memory, momentum for one: what acts is the equilibrated, summed direction.

In time $t=\ell\delta$ a memory of $O(1)$ steps is forgotten at once, and what moves the statistics are sums of
directions over many steps: with $x$ held fixed and the memory in equilibrium, the mean direction and the long-run
covariance $C=\sum_{j}\mathrm{Cov}(h_0,h_j)$ take the places of $\nabla\Phi$ and $V$; for momentum they are
$\nabla\Phi/(1-\beta)$ and $V/(1-\beta)^2$. Two chains with independent samples run side by side; for the difference
$\Delta$ of their sums over consecutive blocks of $T$ steps,
$$\tfrac1{2T}E[\Delta_b\otimes(\Delta_b+2\Delta_{b+1})]=C$$
up to what the memory keeps after $T$ steps.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from limen.problem.families.user_model import UserModel
from limen.problem.spec import InputError
from limen.theory.effective.moments import Moments, bilinear

LARGEST_TRACE = 0.02


@partial(jax.jit, static_argnums=(0, 3, 4))
def remembered_moments(model: UserModel, points: jax.Array, key: jax.Array, groups: int, block: int) -> Moments:
    """Moments at `points` (lift, N) from `groups` blocks of `block` steps of two chains; two more blocks are run first
    and last."""
    size = points.shape[0]

    def sums(memory: jax.Array, block_key: jax.Array) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(block_key, (size, 2, block))
        return jax.vmap(lambda x, own, keys: jax.vmap(partial(_block_sum, model, x))(own, keys))(points, memory, keys)

    def advance(carry, block_key):
        memory, previous = carry
        memory, total = sums(memory, block_key)
        return (memory, total), jax.vmap(partial(_pair_moments, model, block))(points, previous, total)

    first, second, rest = jax.random.split(key, 3)
    memory = jnp.zeros((size, 2, model.dimension))
    memory, _ = sums(memory, first)
    memory, total = sums(memory, second)
    _, found = jax.lax.scan(advance, (memory, total), jax.random.split(rest, groups))
    return jax.tree.map(lambda part: jnp.swapaxes(part, 0, 1), found)


def _block_sum(model: UserModel, x: jax.Array, memory: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    gradients = jax.vmap(lambda key: model.gradient(x, key))(keys)

    def follow(carry, gradient):
        memory, total = carry
        direction, memory = model.remembered_direction(gradient, memory)
        return (memory, total + direction), None

    (memory, total), _ = jax.lax.scan(follow, (memory, jnp.zeros_like(x)), gradients)
    return memory, total


def _pair_moments(model: UserModel, block: int, x: jax.Array, previous: jax.Array, following: jax.Array) -> Moments:
    now, later = previous[0] - previous[1], following[0] - following[1]
    window = now + 2.0 * later
    slopes, curvatures = bilinear(model, x, now, window)
    outer = jnp.outer(slopes, jax.jvp(model.measure, (x,), (window,))[1])
    (own_slopes, own), (_, next_own) = (bilinear(model, x, part, part) for part in (now, later))
    return Moments(
        population_drift=jax.jvp(model.measure, (x,), (previous.sum(axis=0) / (2.0 * block),))[1],
        corrector=curvatures / (4.0 * block),
        volatility=(outer + outer.T) / (4.0 * block),
        noise_norm=(jnp.sum(now**2) / (2.0 * block)) ** 4,
        projected_noise=(own_slopes**2 / (2.0 * block)) ** 2,
        curvature_noise=0.5 * ((own - next_own) / (2.0 * block)) ** 2,
    )


def check_forgotten(model: UserModel, block: int, key: jax.Array) -> None:
    """Refuses a memory that still shows in the direction after `block` steps."""
    start, first, second = jax.random.split(key, 3)
    kept, size = (float(part) for part in _trace(model, model.random_point(start), first, second, block))
    if not (np.isfinite(size) and kept <= LARGEST_TRACE * size):
        part = kept / size if size > 0.0 else np.inf
        raise InputError(
            f"memory must be the steps after which the update rule has forgotten: after {block}, {part:.0%} of the "
            f"direction is still memory."
        )


@partial(jax.jit, static_argnums=(0, 4))
def _trace(model: UserModel, x: jax.Array, first: jax.Array, second: jax.Array, block: int):
    empty = jnp.zeros_like(x)
    warm, _ = _block_sum(model, x, empty, jax.random.split(first, block))
    keys = jax.random.split(second, block)
    ends = [_block_sum(model, x, memory, keys)[0] for memory in (empty, warm)]
    last = model.gradient(x, jax.random.fold_in(second, 1))
    cold, hot = (model.remembered_direction(last, memory)[0] for memory in ends)
    return jnp.linalg.norm(hot - cold), jnp.linalg.norm(hot)
