r"""Tokens drawn from a given density: independent, or stratified so that little noise is left.

A stratified draw takes one token from each of $n$ parts of equal probability. It is unbiased, and averages of smooth
functions fluctuate by $n^{-3/2}$ instead of $n^{-1/2}$: finite numbers of tokens then follow the mean field until the
instability of even clouds has amplified what noise there is.
"""

from collections.abc import Callable

import numpy as np

from limen.problem import InputError

GRID = 40_001
GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))


def circle_tokens(angles: np.ndarray) -> np.ndarray:
    """Tokens (n, 2) at angles (n,)."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def drawn_angles(
    density: Callable[[np.ndarray], np.ndarray], quantiles: np.ndarray, low: float = -np.pi, high: float = np.pi
) -> np.ndarray:
    """Where the distribution function of a positive density on an interval takes the values `quantiles`."""
    grid = np.linspace(low, high, GRID)
    values = np.broadcast_to(density(grid), grid.shape)
    if not (np.isfinite(values).all() and (values >= 0.0).all() and values.any()):
        raise InputError("density must be finite, not negative and not zero everywhere.")
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (values[1:] + values[:-1]))])
    return np.interp(quantiles, mass / mass[-1], grid)


def stratified(n: int, generator: np.random.Generator) -> np.ndarray:
    """One uniform number from each of `n` equal parts of the unit interval."""
    return (np.arange(n) + generator.uniform(size=n)) / n


def axial_tokens(
    density: Callable[[np.ndarray], np.ndarray], n: int, d: int, generator: np.random.Generator
) -> np.ndarray:
    r"""At most `n` tokens (..., d) of a law symmetric about the last axis, $d\ge3$, heights stratified.

    `density` is relative to the uniform law, a function of the height. On the sphere of $\mathbb R^3$ a spiral: one
    token at each height, turned by the golden angle from the one before. In higher dimension rings: at each height the
    points $\pm f_1,\dots,\pm f_{d-1}$ of a random orthonormal frame, which have no mean and an isotropic covariance.
    """
    rings = n if d == 3 else max(n // (2 * (d - 1)), 2)

    def polar(angle: np.ndarray) -> np.ndarray:
        # Heights have the weight $(1-u^2)^{(d-3)/2}$; in the polar angle its ends are smooth.
        return density(np.cos(angle)) * np.sin(angle) ** (d - 2)

    angles = drawn_angles(polar, stratified(rings, generator), 0.0, np.pi)
    if d == 3:
        azimuths = GOLDEN_ANGLE * np.arange(rings) + generator.uniform(0.0, 2.0 * np.pi)
        around = circle_tokens(azimuths)[:, None]
    else:
        frames = np.linalg.qr(generator.standard_normal((rings, d - 1, d - 1)))[0]
        around = np.concatenate([frames, -frames], axis=1)
    heights = np.broadcast_to(np.cos(angles)[:, None, None], (*around.shape[:2], 1))
    tokens = np.concatenate([around * np.sin(angles)[:, None, None], heights], axis=2).reshape(-1, d)
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
