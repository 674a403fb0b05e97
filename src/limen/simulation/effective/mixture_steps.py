r"""One step of SGD on the mixtures: on the weights in $d$ dimensions, and on the summary statistics alone.

The chain of the statistics has exactly the law of training in $d$ dimensions and costs $O(K^3)$ a step whatever $d$
(Ben Arous, Gheissari & Jagannath 2022): a fresh input has coordinates on the means, $z\sim N(0,I_K)$ on the span of
the orthogonal parts of the weights, and $\chi^2_{d-q-K}$ is the square of what remains, so that with $R=LL^\top$,
$p=Lz/\sqrt\lambda$, $s=1-\delta\alpha$ and $a$ the step's multiples of the input,
$$M\leftarrow sM+aX_\parallel^\top,\qquad R\leftarrow s^2R+s(ap^\top+pa^\top)+aa^\top\|X^\perp\|^2.$$
Chains hold seeds along the last axis of every array.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from limen.simulation.one_pass.chain_steps import factor_columns


class Rates(NamedTuple):
    r"""$\delta$, $1-\delta\alpha$, $\lambda^{-1/2}$ and the coordinates of the means (q, q), one per row."""

    step: Any
    shrink: Any
    scale: Any
    means: Any


class Weights(NamedTuple):
    """Rows of weights (rows, d), second layer (rows,) (of the XOR network only)."""

    rows: Any
    second_layer: Any


class Statistics(NamedTuple):
    """Coordinates on the means (rows, q, seeds), orthogonal Gram (rows, rows, seeds), second layer (rows, seeds)."""

    aligned: Any
    rest: Any
    second_layer: Any


class Sample(NamedTuple):
    """Noise of an input (d,) or (q + rows, seeds); the square of the rest; cloud 0..; all per step."""

    noise: Any
    remainder: Any
    cloud: Any


@partial(jax.jit, static_argnums=0)
def advance(step: Callable[..., Any], rates: Rates, state: Any, samples: Sample, first: Any, last: Any) -> Any:
    """The state after the samples first..last-1 of a block."""

    def one(i: Any, state: Any) -> Any:
        return step(rates, state, jax.tree.map(lambda part: part[i], samples))

    return jax.lax.fori_loop(first, last, one, state)


@partial(jax.jit, static_argnums=0)
def advance_chain(step: Callable[..., Any], rates: Rates, state: Statistics, block: Any, first: Any, last: Any) -> Any:
    """The statistics after the steps first..last-1 of a block (steps, channels, seeds): noise, remainder, cloud."""

    def one(i: Any, state: Statistics) -> Statistics:
        now = block[i]
        return step(rates, state, Sample(now[:-2], now[-2], now[-1].astype(jnp.int32)))

    return jax.lax.fori_loop(first, last, one, state)


def xor_step(rates: Rates, state: Weights, sample: Sample) -> Weights:
    r"""Clouds 0..3 are $+\mu,-\mu,+\nu,-\nu$; the means are the first two axes."""
    rows, second = state
    x = rates.scale * sample.noise
    mean, label = _xor_cloud(sample.cloud)
    x = x.at[:2].add(mean)
    fields = rows @ x
    active = jnp.maximum(fields, 0.0)
    move = -rates.step * (jax.nn.sigmoid(second @ active) - label)
    moves = jnp.where(fields > 0.0, move * second, 0.0)
    return Weights(rates.shrink * rows + moves[:, None] * x, rates.shrink * second + move * active)


def xor_chain_step(rates: Rates, state: Statistics, sample: Sample) -> Statistics:
    """The same on the statistics."""
    aligned, rest, second = state
    mean, label = _xor_cloud(sample.cloud)
    x = rates.scale * sample.noise[:2] + mean
    own, square = _own_fields(rates, rest, sample.noise[2:], sample.remainder)
    fields = aligned[:, 0] * x[0] + aligned[:, 1] * x[1] + own
    active = jnp.maximum(fields, 0.0)
    move = -rates.step * (jax.nn.sigmoid((second * active).sum(axis=0)) - label)
    moves = jnp.where(fields > 0.0, move * second, 0.0)
    aligned, rest = _moved(rates, aligned, rest, moves, x, own, square)
    return Statistics(aligned, rest, rates.shrink * second + move * active)


def mixture_step(rates: Rates, state: Weights, sample: Sample) -> Weights:
    """Logistic regression; the means lie in the span of the first axes."""
    rows, second = state
    classes = rates.means.shape[0]
    x = (rates.scale * sample.noise).at[:classes].add(rates.means[sample.cloud])
    moves = rates.step * (jax.nn.one_hot(sample.cloud, classes, dtype=rows.dtype) - jax.nn.softmax(rows @ x))
    return Weights(rates.shrink * rows + moves[:, None] * x, second)


def mixture_chain_step(rates: Rates, state: Statistics, sample: Sample) -> Statistics:
    """The same on the statistics."""
    aligned, rest, second = state
    classes = rates.means.shape[0]
    x = rates.scale * sample.noise[:classes] + rates.means[sample.cloud].T
    own, square = _own_fields(rates, rest, sample.noise[classes:], sample.remainder)
    fields = (aligned * x).sum(axis=1) + own
    target = jax.nn.one_hot(sample.cloud, classes, axis=0, dtype=fields.dtype)
    moves = rates.step * (target - jax.nn.softmax(fields, axis=0))
    aligned, rest = _moved(rates, aligned, rest, moves, x, own, square)
    return Statistics(aligned, rest, second)


def _xor_cloud(cloud: Any) -> tuple[Any, Any]:
    """Coordinates of the mean (2, ...) and label."""
    sign = jnp.where(cloud % 2 == 0, 1.0, -1.0)
    label = jnp.where(cloud < 2, 1.0, 0.0)
    return jnp.stack([sign * label, sign * (1.0 - label)]), label


def _own_fields(rates: Rates, rest: Any, normals: Any, remainder: Any) -> tuple[Any, Any]:
    """Fields of the orthogonal parts and the square of the input's orthogonal part."""
    columns = factor_columns(rest)
    own = sum((column * normal for column, normal in zip(columns, normals, strict=True)), jnp.zeros_like(rest[0]))
    return rates.scale * own, rates.scale**2 * ((normals**2).sum(axis=0) + remainder)


def _moved(rates: Rates, aligned: Any, rest: Any, moves: Any, x: Any, own: Any, square: Any) -> tuple[Any, Any]:
    aligned = rates.shrink * aligned + moves[:, None] * x
    half = rates.shrink * own + 0.5 * square * moves
    return aligned, rates.shrink**2 * rest + moves[:, None] * half + half[:, None] * moves
