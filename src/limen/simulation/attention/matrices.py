r"""Random and given matrices $B=Q^\top K$ and $V$."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import stream_key
from limen.precision import in_double
from limen.problem import InputError

Head = tuple[np.ndarray | None, np.ndarray | None]
ENSEMBLES = ("ginibre", "wigner", "goe", "wishart")


@in_double
def random_matrix(ensemble: str, d: int, seed: int, stream: str = "matrix") -> np.ndarray:
    r"""A $d\times d$ matrix with entries of variance one, so that $x^\top By\sim N(0,1)$ for random unit vectors.

    `ginibre`: $G_1G_2/\sqrt d$, a product of query and key matrices. `wigner`: symmetric, variance one everywhere.
    `goe`: $(G+G^\top)/\sqrt2$, variance two on the diagonal. `wishart`: $GG^\top/\sqrt d$. As a value matrix each is
    divided by $\sqrt d$, so that its norm is of order one (`value_matrix`).
    """
    if ensemble not in ENSEMBLES:
        raise InputError(f"ensemble must be one of {', '.join(ENSEMBLES)}, got {ensemble!r}.")
    key = stream_key(seed, d, stream)
    first, second = (np.asarray(part) for part in jax.random.normal(key, (2, d, d), jnp.float64))
    if ensemble == "ginibre":
        return first @ second / np.sqrt(d)
    if ensemble == "wishart":
        return first @ first.T / np.sqrt(d)
    if ensemble == "goe":
        return (first + first.T) / np.sqrt(2.0)
    return np.triu(first) + np.triu(first, 1).T


def value_matrix(ensemble: str, d: int, seed: int, stream: str = "value") -> np.ndarray:
    r"""A random value matrix of norm of order one: `random_matrix` divided by $\sqrt d$; for `ginibre` $G/\sqrt d$."""
    if ensemble == "ginibre":
        with jax.enable_x64(True):
            return np.asarray(jax.random.normal(stream_key(seed, d, stream), (d, d), jnp.float64)) / np.sqrt(d)
    return random_matrix(ensemble, d, seed, stream) / np.sqrt(d)


def load_heads(path: str | Path) -> list[Head]:
    r"""Heads of a trained model from an `.npz` file.

    Either arrays `query_key` and `value` of shape (heads, d, d), or `query`, `key` (heads, d_head, d) and `value`
    (heads, d, d), from which $B=Q^\top K$. One head may leave out the leading axis. Nothing in the file is executed.
    """
    try:
        with np.load(Path(path), allow_pickle=False) as archive:
            arrays = {name: np.asarray(archive[name], dtype=float) for name in archive.files}
    except (OSError, ValueError, TypeError, BadZipFile) as error:
        raise InputError(f"{str(path)!r} is not a readable .npz file of numbers ({type(error).__name__}).") from None
    arrays = {name: array[None] if array.ndim == 2 else array for name, array in arrays.items()}
    if "value" not in arrays or not ("query_key" in arrays or {"query", "key"} <= set(arrays)):
        raise InputError(f"{str(path)!r} must hold value and query_key, or value, query and key; got {sorted(arrays)}.")
    used = ("query_key", "value") if "query_key" in arrays else ("query", "key", "value")
    if any(arrays[name].ndim != 3 or not np.isfinite(arrays[name]).all() for name in used):
        raise InputError(f"{str(path)!r} must hold finite arrays with two or three axes in {', '.join(used)}.")
    if "query_key" not in arrays and arrays["query"].shape != arrays["key"].shape:
        raise InputError(f"query and key must have one shape, got {arrays['query'].shape}, {arrays['key'].shape}.")
    products = arrays["query_key"] if "query_key" in arrays else np.swapaxes(arrays["query"], 1, 2) @ arrays["key"]
    d = arrays["value"].shape[-1]
    if products.shape != arrays["value"].shape or products.shape[1:] != (d, d):
        raise InputError(
            f"query_key and value must have shape (heads, d, d), got {products.shape}, {arrays['value'].shape}."
        )
    return list(zip(products, arrays["value"], strict=True))


def checked_head(query_key: Any, value: Any, d: int) -> Head:
    """Matrices of one head as (d, d) arrays, or None for the identity; a leading axis is depth."""
    checked = []
    for name, matrix in (("query_key", query_key), ("value", value)):
        array = None if matrix is None else np.asarray(matrix, dtype=float)
        if array is not None and (
            array.ndim not in (2, 3) or array.shape[-2:] != (d, d) or not np.isfinite(array).all()
        ):
            raise InputError(f"{name} must be finite of shape ({d}, {d}) or (depth, {d}, {d}), got {array.shape}.")
        checked.append(array)
    return checked[0], checked[1]


def at_depth(heads: Sequence[Head], fraction: float) -> list[Head]:
    """The heads at a fraction of the whole depth; matrices with a depth axis are constant in equal parts of it."""

    def pick(matrix: np.ndarray | None) -> np.ndarray | None:
        if matrix is None or matrix.ndim == 2:
            return matrix
        return matrix[min(int(fraction * len(matrix)), len(matrix) - 1)]

    return [(pick(query_key), pick(value)) for query_key, value in heads]
