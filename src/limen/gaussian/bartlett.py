r"""Gram matrices of random Gaussian vectors without forming the vectors (Bartlett 1933).

For $n$ independent $w_i\sim N(0,I_d/d)$, $d\ge n$, the Gram matrix $G_{ij}=\langle w_i,w_j\rangle$ equals in law
$AA^\top/d$ with $A$ lower triangular, independent entries, $A_{ij}\sim N(0,1)$ below the diagonal and
$A_{ii}^2\sim\chi^2_{d-i}$, $i=0,\dots,n-1$. Cost $O(n^2)$ for a factor, whatever $d$.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from limen.precision import in_double
from limen.problem.spec import InputError


@in_double
def bartlett_factor(key: Any, count: int, d: float) -> np.ndarray:
    r"""Lower triangular $L=A/\sqrt d$ with $LL^\top$ the Gram matrix of `count` vectors of law $N(0,I_d/d)$.

    `key` is a JAX key or an array of keys; the result has shape (*key.shape, count, count). Row $i$ are the
    coordinates of $w_i$ in the basis that Gram-Schmidt makes of $w_0,\dots,w_{n-1}$. Exact at any $d\ge$ count.
    """
    from scipy.special import gammaincinv

    _check(key, count, d)
    below, uniforms = (np.array(part) for part in _draw(count)(key.reshape(-1)))
    # By the inverse distribution function: jax's own gamma sampler takes seconds to compile.
    square = 2.0 * gammaincinv(0.5 * (d - np.arange(count)), uniforms)
    below[:, np.arange(count), np.arange(count)] = np.sqrt(square)
    return below.reshape(*key.shape, count, count) / np.sqrt(d)


@in_double
def bartlett_gram(key: Any, count: int, d: float) -> np.ndarray:
    r"""Gram matrix $\langle w_i,w_j\rangle$ of `count` vectors $w_i\sim N(0,I_d/d)$.

    Shape (*key.shape, count, count).
    """
    factor = bartlett_factor(key, count, d)
    return factor @ np.swapaxes(factor, -1, -2)


@in_double
def sphere_gram(key: Any, count: int, d: float) -> np.ndarray:
    r"""Gram matrix of `count` uniform vectors of the unit sphere of $\mathbb R^d$; shape (*key.shape, count, count).

    From the same draw as `bartlett_gram`, each vector divided by its norm; the diagonal is exactly one.
    """
    factor = bartlett_factor(key, count, d)
    factor = factor / np.linalg.norm(factor, axis=-1, keepdims=True)
    gram = factor @ np.swapaxes(factor, -1, -2)
    gram[..., np.arange(count), np.arange(count)] = 1.0
    return gram


def _check(key: Any, count: int, d: float) -> None:
    import jax

    if not isinstance(key, jax.Array) or not jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key):
        raise InputError(f"key must be a key of jax.random.key or an array of such keys, got {type(key).__name__}.")
    if count < 1:
        raise InputError(f"count must be at least 1, got {count}.")
    if not (np.isfinite(d) and d == int(d) and d >= count):
        raise InputError(f"d must be a whole number of at least count = {count}, got {d}.")


@lru_cache(maxsize=64)
def _draw(count: int) -> Any:
    import jax
    import jax.numpy as jnp

    def normals_and_uniforms(key: Any) -> Any:
        below_key, diagonal_key = jax.random.split(key)
        below = jax.random.normal(below_key, (count, count), jnp.float64)
        return jnp.tril(below, -1), jax.random.uniform(diagonal_key, (count,), jnp.float64)

    return jax.jit(jax.vmap(normals_and_uniforms))
