"""Random keys: one per seed, size and stream, so that adding a stream moves no other."""

import zlib
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from limen.machine.compilation import RUNS_ONCE

# Seeds and sizes below are the same as a word of 32 bits and as a number of Python.
COMPILED = 2**31


def stream_key(seed: int, size: int, stream: str) -> jax.Array:
    """The key of a named stream: `fold_in(seed, size, stream)`.

    Nothing else enters it, so a draw does not depend on other streams or on the number of workers.
    """
    name = zlib.crc32(stream.encode())
    if max(seed, size) < COMPILED and min(seed, size) >= 0:
        # One dispatch instead of five.
        return _stream_key(np.uint32(seed), np.uint32(size), np.uint32(name))
    # In single precision JAX would keep the lower 32 bits of a seed only.
    with jax.enable_x64(True):
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), size), name)


def stream_keys(seeds: Sequence[int], size: int, stream: str) -> jax.Array:
    """`stream_key` of many seeds at once, an array of keys; the same keys, without a dispatch per seed."""
    if max(size, *seeds) >= COMPILED:
        return jnp.stack([stream_key(int(seed), int(size), stream) for seed in seeds])
    return _stream_keys(np.asarray(seeds, dtype=np.uint32), np.uint32(size), np.uint32(zlib.crc32(stream.encode())))


def numpy_generators(seeds: Sequence[int], size: int, stream: str) -> list[np.random.Generator]:
    """A NumPy generator of a named stream for every seed; like the keys they depend on nothing but the arguments.

    SFC64, the fastest of NumPy's generators for normals and gammas.
    """
    data = np.asarray(jax.random.key_data(stream_keys(seeds, size, stream)))
    return [np.random.Generator(np.random.SFC64(row.tolist())) for row in data]


def start_normals(seed: int, d: int, width: int) -> np.ndarray:
    """Standard normals (width, d) in double precision, from the stream `start`."""
    with jax.enable_x64(True):
        return np.array(_normals(stream_key(seed, d, "start"), width, d))


def _folded(seed: jax.Array, size: jax.Array, stream: jax.Array) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), size), stream)


_stream_key = jax.jit(_folded, compiler_options=RUNS_ONCE)
_stream_keys = jax.jit(jax.vmap(_folded, in_axes=(0, None, None)), compiler_options=RUNS_ONCE)


@partial(jax.jit, static_argnums=(1, 2), compiler_options=RUNS_ONCE)
def _normals(key: jax.Array, width: int, d: int) -> jax.Array:
    return jax.random.normal(key, (width, d), jnp.float64)
