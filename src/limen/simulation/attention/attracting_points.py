r"""Where tokens on the circle are drawn to: maxima of $h(\theta)=\frac1n\sum_je^{\beta\cos(\theta-\theta_j)}$."""

import math

import numpy as np
from scipy.special import ive

POINTS = 1024
FLAT = 1e-12


def attracting_points(angles: np.ndarray, betas: np.ndarray) -> np.ndarray:
    r"""Number of maxima of $h$ for angles (..., n) and each $\beta>0$: integers of shape (betas, ...).

    A token moves up the slope of $\ln h$, so that these are the points tokens gather at. $h=\sum_kI_k(\beta)\hat\mu_k
    e^{ik\theta}$ is summed over all modes that matter and looked at on 1024 points.
    """
    most = min(20 + math.ceil(8.0 * math.sqrt(np.max(betas))), POINTS // 2 - 1)
    k = np.arange(1, most + 1)
    turn = np.exp(-1j * angles)
    power, modes = np.ones_like(turn), np.zeros((*angles.shape[:-1], POINTS // 2 + 1), dtype=complex)
    for j in k:
        power = power * turn
        modes[..., j] = power.mean(axis=-1)
    counts = []
    for beta in np.atleast_1d(betas):
        factors = np.zeros(POINTS // 2 + 1)
        factors[1 : most + 1] = ive(k, beta) / ive(0, beta)
        field = np.fft.irfft(factors * modes, POINTS, axis=-1)
        counts.append(_maxima(field))
    return np.array(counts)


def _maxima(field: np.ndarray) -> np.ndarray:
    """Changes from rising to falling around the circle; where rounding leaves no slope, the slope before goes on."""
    slope = np.roll(field, -1, axis=-1) - field
    slope[np.abs(slope) < FLAT * np.abs(field).max(axis=-1, keepdims=True)] = 0.0
    sign = np.sign(np.concatenate([slope, slope], axis=-1))
    last = np.maximum.accumulate(np.where(sign != 0.0, np.arange(2 * POINTS), 0), axis=-1)
    filled = np.take_along_axis(sign, last, axis=-1)[..., POINTS:]
    return ((filled > 0.0) & (np.roll(filled, -1, axis=-1) < 0.0)).sum(axis=-1)
