"""Loss and gradient of a two-layer network on given samples, by hand: two products with the inputs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from limen.problem import TwoLayer

# One neuron: products are bound by memory, so a block of inputs is used twice while it is in the inner cache.
# Several neurons: the matrix product wants longer blocks, and the outer cache holds them.
ONE_NEURON_BLOCK_BYTES = 192 * 1024
BLOCK_BYTES = 2 * 1024 * 1024


class Weights(NamedTuple):
    """What training moves: first layer (m, d), second layer (m,), and biases (m,) where they are trained, else None."""

    first: jax.Array
    second: jax.Array
    bias: jax.Array | None = None


class Functions(NamedTuple):
    r"""Activation $\sigma(z)$, loss $\ell(y,f)$ and its slope $\ell'(y,f)$ in $f$, elementwise."""

    activation: Callable[[Any], Any]
    loss: Callable[[Any, Any], Any]
    slope: Callable[[Any, Any], Any]


def functions_of(problem: TwoLayer) -> Functions:
    """The functions of a problem; equal problems give equal objects, so that jit caches on them."""
    return Functions(problem.network.activation.function, problem.loss.function, problem.loss.slope)


def loss_and_gradient(
    functions: Functions, weights: Weights, bias: jax.Array, x: jax.Array, y: jax.Array, counts: jax.Array | None = None
) -> tuple[jax.Array, Weights]:
    r"""$\sum_i\ell(y_i,f(x_i))$ and its gradient, summed over the samples `x` (n, d), `y` (n,).

    Rows whose `counts` is 0 are left out.

    With fields $v_{ij}=\langle\theta_j,x_i\rangle+b_j$ and $r_i=\ell'(y_i,f(x_i))/m$ the gradients are
    $\nabla_{\theta_j}=\sum_iF_{ij}x_i$, $F_{ij}=r_ia_j\sigma'(v_{ij})$, and $\nabla_{a_j}=\sum_ir_i\sigma(v_{ij})$, and
    of biases that are trained (those of `weights`, in place of `bias`) $\nabla_{b_j}=\sum_iF_{ij}$.
    Two products of $2nmd$ operations each.
    """
    m = weights.first.shape[0]
    # Both products are written as XLA on CPU computes them fast: no transposed copy of the weights (with a sum behind
    # it, x @ W.T costs twice the step for one sample), and F.T @ x, ten times faster than x.T @ F for tall x.
    fields = jnp.einsum("nd,md->nm", x, weights.first) + (bias if weights.bias is None else weights.bias)
    values, slopes = jax.jvp(functions.activation, (fields,), (jnp.ones_like(fields),))
    output = values @ weights.second / m
    residual, losses = functions.slope(y, output) / m, functions.loss(y, output)
    if counts is not None:
        residual, losses = counts * residual, counts * losses
    factors = residual[:, None] * slopes * weights.second
    shift = None if weights.bias is None else factors.sum(axis=0)
    return losses.sum(), Weights(factors.T @ x, residual @ values, shift)


def risk_and_gradient(
    functions: Functions,
    weights: Weights,
    bias: jax.Array,
    x: jax.Array,
    y: jax.Array,
    chosen: jax.Array | None = None,
) -> tuple[jax.Array, Weights]:
    r"""$\hat R=\frac1n\sum_i\ell(y_i,f(x_i))$ and its gradient, over all rows or over those `chosen` (batch,)."""
    total = summed_loss_and_gradient(functions, weights, bias, x, y, chosen=chosen)
    count = x.shape[0] if chosen is None else chosen.size
    return jax.tree.map(lambda part: part / count, total)


def summed_loss_and_gradient(
    functions: Functions,
    weights: Weights,
    bias: jax.Array,
    x: jax.Array,
    y: jax.Array,
    counts: jax.Array | None = None,
    chosen: jax.Array | None = None,
) -> tuple[jax.Array, Weights]:
    r"""$\sum_i\ell(y_i,f(x_i))$ and its gradient over the rows that count, or over the `chosen` ones.

    Samples are taken in blocks of rows short enough to stay in cache between the two products, so that `x` is read
    from memory once. Extra memory: one block.
    """
    n, d = x.shape if chosen is None else (chosen.size, x.shape[1])
    block_bytes = ONE_NEURON_BLOCK_BYTES if weights.first.shape[0] == 1 else BLOCK_BYTES
    rows = min(n, max(1, block_bytes // (d * x.dtype.itemsize)))
    blocks = n // rows
    given = (x, y) if counts is None else (x, y, counts)
    listed = given if chosen is None else (chosen,)

    def add(total: tuple[jax.Array, Weights], *listed: jax.Array) -> tuple[jax.Array, Weights]:
        parts = listed if chosen is None else tuple(part[listed[0]] for part in given)
        return jax.tree.map(jnp.add, total, loss_and_gradient(functions, weights, bias, *parts))

    def add_block(i: jax.Array, total: tuple[jax.Array, Weights]) -> tuple[jax.Array, Weights]:
        return add(total, *(jax.lax.dynamic_slice_in_dim(part, i * rows, rows) for part in listed))

    zero = (jnp.zeros((), x.dtype), jax.tree.map(jnp.zeros_like, weights))
    total = jax.lax.fori_loop(0, blocks, add_block, zero)
    if n % rows:
        total = add(total, *(part[blocks * rows :] for part in listed))
    return total
