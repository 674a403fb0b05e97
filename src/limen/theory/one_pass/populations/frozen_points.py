r"""Points and weights for averages under the standard normal law, and the factor that gives them the covariance of
the fields."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian import sobol_normals
from limen.problem.spec import InputError

POINTS = 1 << 14
# Trapezoid rules for two smooth fields: for functions analytic in a strip their error is exponentially small. The finer
# one has 12,300 points, the coarser one 1900; beyond, the normal weight is left out.
REACH, STEP, LEFT_OUT = 9.0, 0.15, 1e-22
COARSE_STEP, COARSE_LEFT_OUT = 0.3, 1e-12
# Where fewer points than these are asked for the coarse rule is taken.
FINE = 1 << 13
SINGULAR = 1e-13


@lru_cache(maxsize=64)
def frozen_points(dimension: int, count: int = POINTS, scramble: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r"""Scrambled Sobol points for the standard normal law, shape (dimension, count), and their weights: exact second
    moments.

    The same at every time, which makes averages over them smooth functions of the overlaps. They are drawn from a
    wider law, variance $1+u$ with $u=\sqrt{0.8/\text{dimension}}$, and weighted: polynomials of the fields live in the
    tails, and their averages are 2 to 20 times better, while the weights cost a third of the points at any dimension.
    """
    if count < 4 * dimension or count & (count - 1):
        raise InputError(f"points must be a power of two of at least {4 * dimension}, got {count}.")
    wider = 1.0 + np.sqrt(0.8 / dimension)
    points = np.sqrt(wider) * sobol_normals(count, dimension, scramble).T
    weights = np.exp(-0.5 * (1.0 - 1.0 / wider) * (points**2).sum(axis=0))
    weights /= weights.sum()
    return np.linalg.solve(np.linalg.cholesky((points * weights) @ points.T), points), weights


def enough_points(dimension: int, least: int) -> int:
    """The smallest power of two, at least `least`, that `frozen_points` takes in so many dimensions."""
    return max(least, 2 ** int(np.ceil(np.log2(4 * dimension))))


@lru_cache(maxsize=16)
def product_rule(counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Product Gauss–Hermite rule of the standard normal law: nodes (dimension, points) and weights (points,)."""
    rules = [np.polynomial.hermite_e.hermegauss(count) for count in counts]
    nodes = np.stack([axis.ravel() for axis in np.meshgrid(*(rule[0] for rule in rules), indexing="ij")])
    weights = np.ones(1)
    for _, weight in rules:
        weights = np.outer(weights, weight / weight.sum()).ravel()
    return nodes, weights


@lru_cache(maxsize=2)
def product_points(coarse: bool = False) -> tuple[np.ndarray, np.ndarray]:
    r"""A product rule for two fields, shape (2, points), and its weights: near rounding for smooth functions; the
    coarse one errs by $e^{-21a}$ for functions analytic up to $\pm ia$, 1e-7 for tanh(2z), and by 1e-6 for degree 8."""
    step, left_out = (COARSE_STEP, COARSE_LEFT_OUT) if coarse else (STEP, LEFT_OUT)
    nodes = np.arange(-REACH, REACH + step / 2, step)
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    grid = np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes, indexing="ij")])
    product = np.outer(weights, weights).ravel()
    kept = product > left_out
    return grid[:, kept], product[kept] / product[kept].sum()


def covariance_factor(covariance: jax.Array) -> jax.Array:
    r"""Lower triangular $L$ with $LL^\top=C$; a pivot that is zero to rounding gives a zero column.

    Units that are aligned thus have exactly equal fields, and a perfect solution has residual zero.
    """
    rows = jnp.arange(len(covariance))
    smallest = SINGULAR * jnp.diagonal(covariance)

    def eliminate(rest: jax.Array, j: jax.Array) -> tuple[jax.Array, jax.Array]:
        pivot = rest[j, j]
        regular = pivot > smallest[j]
        column = jnp.where(regular & (rows >= j), rest[:, j] * jax.lax.rsqrt(jnp.where(regular, pivot, 1.0)), 0.0)
        return rest - column[:, None] * column, column

    return jax.lax.scan(eliminate, covariance, rows)[1].T
