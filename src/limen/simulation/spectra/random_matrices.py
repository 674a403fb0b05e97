"""Draws of the random matrices whose spectra the theory predicts: spiked covariances, weighted Gram matrices."""

from collections.abc import Callable, Sequence

import jax
import numpy as np

from limen.gaussian.keys import stream_key
from limen.problem import InputError

Numbers = float | Sequence[float] | np.ndarray


def stream_generator(seed: int, size: int, stream: str) -> np.random.Generator:
    """NumPy's generator started from the key of a named stream."""
    return np.random.default_rng(np.asarray(jax.random.key_data(stream_key(seed, size, stream))).tolist())


def population_spectrum(dimension: int, values: Numbers, weights: Numbers, spikes: Sequence[float] = ()) -> np.ndarray:
    """`dimension` eigenvalues: the spikes first, then `values` in the proportions `weights`, rounded to whole counts.

    Counts are rounded cumulatively, so that none is off by more than one.
    """
    values, weights = np.atleast_1d(values).astype(float), np.atleast_1d(weights).astype(float)
    rest = dimension - len(spikes)
    if rest < 1:
        raise InputError(f"dimension must exceed the number of spikes ({len(spikes)}), got {dimension}.")
    if values.shape != weights.shape or abs(weights.sum() - 1.0) > 1e-8 or weights.min() < 0.0:
        raise InputError(f"weights must be one per value, not negative, and sum to 1, got {weights.tolist()}.")
    ends = np.rint(np.cumsum(weights) * rest).astype(int)
    return np.concatenate([np.asarray(spikes, dtype=float), np.repeat(values, np.diff(ends, prepend=0))])


def draw_covariance(population: np.ndarray, samples: int, seed: int) -> np.ndarray:
    r"""Rows $x_i\sim N(0,\mathrm{diag}(\text{population}))$, shape `(samples, dimension)`.

    A diagonal covariance loses nothing: Gaussian spectra and overlaps do not depend on the eigenbasis.
    """
    population = np.asarray(population, dtype=float)
    if population.ndim != 1 or population.size == 0 or population.min() < 0.0:
        raise InputError("population must be a non-empty vector of eigenvalues that are not negative.")
    rows = _normals(samples, population.size, seed, "covariance")
    return rows * np.sqrt(population)


def draw_weighted(
    weights: Numbers, probabilities: Numbers, dimension: int, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal rows and independent weights of a discrete law: shapes `(samples, dimension)`, `(samples,)`."""
    rows = _normals(samples, dimension, seed, "weighted")
    generator = stream_generator(seed, dimension, "weights")
    return rows, generator.choice(np.atleast_1d(weights).astype(float), size=samples, p=np.atleast_1d(probabilities))


def draw_directional(
    weight: Callable[[np.ndarray], np.ndarray], dimension: int, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    r"""Normal rows and weights $g_i=g(\langle x_i,e_1\rangle)$: shapes `(samples, dimension)`, `(samples,)`."""
    rows = _normals(samples, dimension, seed, "directional")
    return rows, np.asarray(weight(rows[:, 0]), dtype=float)


def _normals(samples: int, dimension: int, seed: int, stream: str) -> np.ndarray:
    if samples < 1 or dimension < 1:
        raise InputError(f"samples and dimension must be at least 1, got {samples} and {dimension}.")
    return stream_generator(seed, dimension, stream).standard_normal((samples, dimension))
