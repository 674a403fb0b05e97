"""NumPy generators for simulators on NumPy, seeded by limen's named streams."""

import jax
import numpy as np

from limen.gaussian.keys import stream_key


def numpy_generator(seed: int, size: int, stream: str) -> np.random.Generator:
    """The generator of a named stream; like the key it depends on nothing but its three arguments."""
    return np.random.default_rng(np.asarray(jax.random.key_data(stream_key(seed, size, stream))).tolist())
