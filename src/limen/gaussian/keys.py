"""Random keys: one per seed, size and stream, so that adding a stream moves no other."""

import zlib

import jax


def stream_key(seed: int, size: int, stream: str) -> jax.Array:
    """The key of a named stream: `fold_in(seed, size, stream)`.

    Nothing else enters it, so a draw does not depend on other streams or on the number of workers.
    """
    key = jax.random.fold_in(jax.random.key(seed), size)
    return jax.random.fold_in(key, zlib.crc32(stream.encode()))
