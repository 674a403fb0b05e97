"""Where tokens start: independent and uniform on the sphere, in no more coordinates than there are tokens."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.bartlett import bartlett_factor
from limen.gaussian.keys import stream_keys
from limen.precision import in_double


@in_double
def uniform_tokens(n: int, d: int, seeds: Sequence[int]) -> np.ndarray:
    """Uniform tokens of the unit sphere of $\\mathbb R^d$, shape (seeds, n, d)."""
    keys = stream_keys(seeds, d, "tokens")
    normals = np.asarray(jax.vmap(lambda key: jax.random.normal(key, (n, d), jnp.float64))(keys))
    return normals / np.linalg.norm(normals, axis=-1, keepdims=True)


@in_double
def reduced_tokens(n: int, d: int, seeds: Sequence[int]) -> np.ndarray:
    r"""Tokens with the same law of all cosines in $\min(n,d)$ coordinates, shape (seeds, n, min(n, d)).

    For $d\ge n$ by Bartlett's factor, at a cost that does not depend on $d$. Only for flows that leave the span of the
    tokens invariant (identity matrices), which know nothing but cosines.
    """
    if d < n:
        return uniform_tokens(n, d, seeds)
    factor = bartlett_factor(stream_keys(seeds, d, "tokens"), n, d)
    return factor / np.linalg.norm(factor, axis=-1, keepdims=True)
