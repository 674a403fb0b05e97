"""Draws of the random matrices whose spectra the theory predicts: spiked covariances, weighted Gram matrices."""

from collections.abc import Callable, Sequence

import jax
import numpy as np

from limen.gaussian.keys import stream_key
from limen.problem import InputError
from limen.simulation.spectra.entry_laws import draw_entries

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


def draw_covariance(population: np.ndarray, samples: int, seed: int, law: str = "gaussian") -> np.ndarray:
    r"""Rows $\mathrm{diag}(\text{population})^{1/2}z_i$, shape `(samples, dimension)`; the entries of $z_i$ are
    independent, of mean 0, variance 1 and the given `law` (see `draw_entries`).

    A diagonal covariance loses nothing for Gaussian entries, whose spectra and overlaps do not depend on the
    eigenbasis. For other laws bulk spectra do not either, in the limit; overlaps of eigenvectors with the axes may.
    """
    population = np.asarray(population, dtype=float)
    if population.ndim != 1 or population.size == 0 or population.min() < 0.0:
        raise InputError("population must be a non-empty vector of eigenvalues that are not negative.")
    _check_sizes(samples, population.size)
    rows = draw_entries(law, stream_generator(seed, population.size, "covariance"), (samples, population.size))
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
    _check_sizes(samples, dimension)
    return stream_generator(seed, dimension, stream).standard_normal((samples, dimension))


def _check_sizes(samples: int, dimension: int) -> None:
    if samples < 1 or dimension < 1:
        raise InputError(f"samples and dimension must be at least 1, got {samples} and {dimension}.")
