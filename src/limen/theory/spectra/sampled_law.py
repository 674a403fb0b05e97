"""A continuous law known by samples, gathered into few nodes that keep its low moments bin by bin."""

import numpy as np

from limen.problem.spec import InputError
from limen.theory.spectra.discrete_law import Numbers, finite_array

SMALLEST_MASS = 1e-10


def compress_samples(samples: Numbers, bins: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Nodes, their probabilities, and the resolution (the width of an equal-width bin).

    Half of the bin edges are equally spaced, so that sparse tails are resolved; half are quantiles, so that
    the middle is. Each bin becomes the two-point Gauss rule of its samples, exact for cubics. Samples that are
    exactly zero stay so, because their mass decides the atom of a spectrum.
    """
    values = np.sort(finite_array(np.ravel(np.asarray(samples, dtype=float)), "samples"))
    if bins < 4:
        raise InputError(f"bins must be at least 4, got {bins}.")
    resolution = float(values[-1] - values[0]) / (bins // 2)
    zeros = float(np.mean(values == 0.0))
    moving = values[values != 0.0]
    if moving.size <= 2 * bins:
        nodes, counts = np.unique(values, return_counts=True)
        return nodes, counts / values.size, resolution
    even = np.linspace(moving[0], moving[-1], bins // 2 + 1)
    quantiles = moving[np.linspace(0, moving.size - 1, bins - bins // 2 + 1).astype(int)]
    # Zero is an edge too: no node may mix weights of both signs.
    edges = np.unique(np.concatenate([even, quantiles, [0.0]]))
    label = np.searchsorted(edges, moving, side="right")
    nodes, masses = _two_point_rules(moving, np.unique(label, return_inverse=True)[1])
    masses = masses / values.size
    kept = masses > SMALLEST_MASS
    nodes, masses = nodes[kept], masses[kept]
    if zeros > 0.0:
        nodes, masses = np.append(nodes, 0.0), np.append(masses, zeros)
    return nodes, masses / masses.sum(), resolution


def _two_point_rules(values: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    count = np.bincount(label).astype(float)
    mean = np.bincount(label, weights=values) / count
    centred = values - mean[label]
    variance = np.bincount(label, weights=centred**2) / count
    third = np.bincount(label, weights=centred**3) / count
    single = variance <= 1e-20 * (mean**2 + variance)
    safe = np.where(single, 1.0, variance)
    skew = np.where(single, 0.0, 0.5 * third / safe)
    reach = np.where(single, 0.0, np.sqrt(safe + skew**2))
    upper, lower = mean + skew + reach, mean + skew - reach
    share = np.where(single, 0.5, 0.5 - 0.5 * skew / np.where(single, 1.0, reach))
    return np.concatenate([upper, lower]), np.concatenate([count * share, count * (1.0 - share)])
