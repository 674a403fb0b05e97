r"""Densities on the circle: Fourier modes, and quiet starts, tokens laid on the quantiles without sampling noise.

A density is a function of angles $\theta\in[-\pi,\pi)$, evaluated on NumPy arrays; it need not be normalised.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limen.checks import integer
from limen.theory.attention.field_limits import density_values

QUIET_POINTS = 8192
QUIET_MODES = 512


def circle_grid(points: int) -> NDArray[np.float64]:
    r"""Equispaced angles from $-\pi$."""
    return -np.pi + 2.0 * np.pi * np.arange(points) / points


def fourier_modes(density: Callable[[Any], Any], points: int) -> NDArray[np.complex128]:
    r"""$\mathbb E\,e^{-ik\theta}$ for $k=0,\dots,\text{points}/2$, of the density normalised to mass one."""
    values = density_values(density, circle_grid(points))
    # The grid starts at -pi, which turns mode k by (-1)^k.
    modes = np.fft.rfft(values) * (-1.0) ** np.arange(points // 2 + 1)
    return modes / modes[0].real


def quiet_angles(density: Callable[[Any], Any], n: int) -> NDArray[np.float64]:
    r"""`n` angles at the quantiles $(i-\frac12)/n$ of a smooth positive density, increasing from $-\pi$.

    The distribution function is summed from 512 Fourier modes and inverted by Newton steps kept inside a bracket.
    Equal weights reproduce Fourier modes of a smooth density far better than $n^{-1/2}$.
    """
    n = integer("n", n, 1)
    modes = fourier_modes(density, QUIET_POINTS)[: QUIET_MODES + 1]
    k = np.flatnonzero(np.abs(modes[1:]) > 1e-17) + 1
    cosine, sine = 2.0 * modes[k].real, -2.0 * modes[k].imag
    start = ((cosine * np.sin(-np.pi * k) - sine * np.cos(np.pi * k)) / k).sum()

    def distribution(angles: NDArray[np.float64]) -> NDArray[np.float64]:
        phase = angles[:, None] * k
        waves = (np.sin(phase) * (cosine / k) - np.cos(phase) * (sine / k)).sum(axis=1) - start
        return (angles + np.pi + waves) / (2.0 * np.pi)

    quantiles = (np.arange(n) + 0.5) / n
    low, high = np.full(n, -np.pi), np.full(n, np.pi)
    angles = -np.pi + 2.0 * np.pi * quantiles
    for _ in range(60):
        excess = distribution(angles) - quantiles
        low, high = np.where(excess < 0.0, angles, low), np.where(excess < 0.0, high, angles)
        phase = angles[:, None] * k
        slope = (1.0 + (np.cos(phase) * cosine + np.sin(phase) * sine).sum(axis=1)) / (2.0 * np.pi)
        newton = angles - excess / np.maximum(slope, 1e-12)
        inside = (newton > low) & (newton < high)
        moved = np.where(inside, newton, 0.5 * (low + high))
        if np.abs(moved - angles).max() < 1e-14:
            break
        angles = moved
    return angles


def quiet_start(density: Callable[[Any], Any], n: int) -> NDArray[np.float64]:
    r"""`n` unit tokens (n, 2) on the quantiles of a density on the circle: particles without sampling noise.

    The uniform law is unstable and amplifies the noise of independent tokens; a quiet start follows the mean-field law
    far longer. See `quiet_angles`.
    """
    angles = quiet_angles(density, n)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)
