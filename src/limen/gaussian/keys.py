"""Random keys: one per seed, size and stream, so that adding a stream moves no other."""

import zlib
from collections.abc import Sequence
from functools import partial

import jax
import numpy as np


def stream_key(seed: int, size: int, stream: str) -> jax.Array:
    """The key of a named stream: `fold_in(seed, size, stream)`.

    Nothing else enters it, so a draw does not depend on other streams or on the number of workers.
    """
    key = jax.random.fold_in(jax.random.key(seed), size)
    return jax.random.fold_in(key, zlib.crc32(stream.encode()))


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
@partial(jax.vmap, in_axes=(0, None, None))
def _stream_keys(seed: jax.Array, size: jax.Array, stream: jax.Array) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), size), stream)
