r"""Chi-square numbers in blocks, exact in law, by Marsaglia and Tsang's rejection with a pool of spares."""

import jax
import jax.numpy as jnp


def spares_of(block: int) -> int:
    """How many proposals beyond the block `chi_square_block` wants in every row."""
    return max(8, block // 8)


def chi_square_block(normals: jax.Array, uniforms: jax.Array, freedoms: jax.Array) -> tuple[jax.Array, jax.Array]:
    r"""Independent $\chi^2_{\nu_r}$, shape (rows, block), for degrees of freedom `freedoms` $\nu_r$ (rows,); and
    whether there were enough spares.

    `normals` and `uniforms` have shape (rows, block + spares_of(block)). $\chi^2_\nu=2g$, $g\sim\Gamma(\nu/2)$: with
    $\delta=\frac\nu2-\frac13$, $v=(1+\xi/\sqrt{9\delta})^3$, the proposal $\delta v$ is accepted if
    $\log u<\frac{\xi^2}2+\delta(1-v+\log v)$ (Marsaglia & Tsang 2000); at least 95% are. A rejected place takes the
    next accepted spare. If the second answer is False (about once in $10^4$ blocks at $\nu=2$, never at large $\nu$)
    the caller draws everything again: accepted values are independent of which proposals were accepted, so that leaves
    the law untouched. $\nu=1$ is a squared normal; $\nu\le0$ gives 0 (no direction is left).
    """
    width = normals.shape[1]
    block = next(size for size in range(width, 0, -1) if size + spares_of(size) == width)
    few, one = freedoms[:, None] <= 1.0, freedoms[:, None] == 1.0
    shift = jnp.maximum(freedoms, 2.0)[:, None] / 2.0 - 1.0 / 3.0
    cube = (1.0 + normals / jnp.sqrt(9.0 * shift)) ** 3
    positive = jnp.where(cube > 0.0, cube, 1.0)
    bound = 0.5 * normals**2 + shift * (1.0 - positive + jnp.log(positive))
    accepted = (cube > 0.0) & (jnp.log(uniforms) < bound) | few
    values = jnp.where(few, jnp.where(one, normals**2, 0.0), 2.0 * shift * positive)
    order = jnp.argsort(~accepted[:, block:], axis=1, stable=True)
    pool = jnp.take_along_axis(values[:, block:], order, axis=1)
    rejected = ~accepted[:, :block]
    rank = jnp.cumsum(rejected, axis=1) - 1
    chosen = jnp.take_along_axis(pool, jnp.clip(rank, 0, width - block - 1), axis=1)
    enough = jnp.all(rejected.sum(axis=1) <= accepted[:, block:].sum(axis=1))
    return jnp.where(rejected, chosen, values[:, :block]), enough
