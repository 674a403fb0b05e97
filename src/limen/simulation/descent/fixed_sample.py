"""A sample that training sees again and again: inputs and labels drawn once."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from limen.gaussian.keys import stream_key
from limen.machine.memory import check_memory
from limen.problem import InputError, Target, TwoLayer
from limen.simulation.data import draw_inputs, draw_labels

DTYPES = ("float32", "float64")
BLOCK_ENTRIES = 1_000_000


class Sample(NamedTuple):
    """Inputs (n, d) and labels (n,)."""

    x: jax.Array
    y: jax.Array


def sample_size(problem: TwoLayer, d: int, dtype: str, devices: int = 1) -> int:
    r"""$n$, the nearest whole number to $\delta d$; refused when there is no sample, or when the inputs would not fit
    in the memory of the devices they are spread over."""
    if dtype not in DTYPES:
        raise InputError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}.")
    assert problem.samples_per_dim is not None
    n = round(problem.samples_per_dim * d)
    if n < 1:
        raise InputError(f"samples_per_dim times d must be at least 1, got {problem.samples_per_dim * d:g}.")
    size = float(n) * d * jnp.dtype(dtype).itemsize / devices
    where, remedy = " per device" * (devices > 1), " or dtype float32" * (dtype == "float64")
    check_memory(f"samples_per_dim * d**2, the inputs{where},", size, f"take a smaller d{remedy}")
    return n


def block_rows(n: int, d: int) -> int:
    """How many rows are drawn at once."""
    return min(n, max(1, BLOCK_ENTRIES // d))


def draw_sample(
    target: Target,
    n: int,
    frame: jax.Array,
    seed: int,
    inputs: str,
    deviations: jax.Array | None = None,
    along_axes: bool = True,
) -> Sample:
    r"""$n$ inputs of the law `inputs` and their labels; `frame` (k, d) holds the latent directions.

    `deviations` (d,) are the standard deviations of the coordinates, 1 by default; `along_axes`: whether the directions
    are the first axes where the inputs are standard normal. Drawn in single precision, then given the dtype
    of `frame`, so that both precisions train on the same sample.
    """
    return _draw(target, inputs, n, along_axes, frame, deviations, stream_key(seed, frame.shape[1], "samples"))


def labelled_sample(target: Target, x: jax.Array, frame: jax.Array, seed: int) -> Sample:
    """Given inputs (n, d) and their labels."""
    label_key = jax.random.split(stream_key(seed, frame.shape[1], "samples"))[1]
    return Sample(x, draw_labels(label_key, target, (x @ frame.T).astype(jnp.float32)).astype(frame.dtype))


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _draw(
    target: Target,
    inputs: str,
    n: int,
    along_axes: bool,
    frame: jax.Array,
    deviations: jax.Array | None,
    key: jax.Array,
) -> Sample:
    k, d = frame.shape
    input_key, label_key = jax.random.split(key)
    # A draw needs several times its own memory on the way: rows are drawn in blocks, in place (the last block is
    # moved back until it fits, over rows already drawn).
    rows = block_rows(n, d)

    def draw_rows(i: jax.Array, x: jax.Array) -> jax.Array:
        block = draw_inputs(jax.random.fold_in(input_key, i), (rows, d), inputs)
        if deviations is not None:
            block = block * deviations.astype(block.dtype)
        return jax.lax.dynamic_update_slice_in_dim(x, block.astype(x.dtype), i * rows, axis=0)

    x = jax.lax.fori_loop(0, -(-n // rows), draw_rows, jnp.zeros((n, d), frame.dtype))
    along_axes = along_axes and inputs == "gaussian" and deviations is None
    z = (x[:, :k] if along_axes else x @ frame.T).astype(jnp.float32)
    return Sample(x, draw_labels(label_key, target, z).astype(frame.dtype))
