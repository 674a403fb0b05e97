"""NumPy arrays handed to jax without a compiled program."""

from typing import Any

import jax
import numpy as np


def on_device(value: Any) -> jax.Array:
    """`jax.numpy.asarray(value)` of numbers, at the precision in force, outside of compiled functions.

    jax compiles a small program for every new shape that `asarray` meets, 13 ms of processor time each; the first
    answer of a theory meets about ten. Moving an array takes .3 ms and compiles nothing.
    """
    return jax.device_put(np.asarray(value))
