"""Random keys: one per seed, size and stream, so that adding a stream moves no other."""

import zlib
from collections.abc import Sequence

import jax
import numpy as np

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
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), size), name)


def stream_keys(seeds: Sequence[int], size: int, stream: str) -> jax.Array:
    """`stream_key` of many seeds at once, an array of keys; the same keys, without a dispatch per seed."""
    return _stream_keys(np.asarray(seeds, dtype=np.uint32), np.uint32(size), np.uint32(zlib.crc32(stream.encode())))


def numpy_generators(seeds: Sequence[int], size: int, stream: str) -> list[np.random.Generator]:
    """A NumPy generator of a named stream for every seed; like the keys they depend on nothing but the arguments.

    SFC64, the fastest of NumPy's generators for normals and gammas.
    """
    data = np.asarray(jax.random.key_data(stream_keys(seeds, size, stream)))
    return [np.random.Generator(np.random.SFC64(row.tolist())) for row in data]


@jax.jit
def _stream_key(seed: jax.Array, size: jax.Array, stream: jax.Array) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), size), stream)


_stream_keys = jax.jit(jax.vmap(_stream_key, in_axes=(0, None, None)))
