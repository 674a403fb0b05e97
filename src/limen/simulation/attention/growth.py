r"""Measured growth rates of small ripples on the uniform law, on the circle and on the sphere.

Tokens stand on a quadrature rule of the sphere, so that nothing but the ripple is uneven, and the ripple is put into
their weights: $w_i\propto q_i\big(1+\varepsilon\sum_\ell P_\ell(\langle x_i,e_\ell\rangle)\big)$, one zonal harmonic of
each degree about a random axis of its own.
"""

import math
from collections.abc import Sequence

import numpy as np

from limen.problem import InputError
from limen.simulation.attention.particles import simulate
from limen.simulation.generators import numpy_generator

CIRCLE_TOKENS = 96
TOLERANCE = 1e-9


def even_tokens(d: int, heights: int = 14) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and weights that integrate harmonics exactly: a regular polygon of 96, or twice as many azimuths as
    `heights` on the sphere, exact for degrees below `2 * heights`."""
    if d == 2:
        angles = 2.0 * np.pi * np.arange(CIRCLE_TOKENS) / CIRCLE_TOKENS
        return np.stack([np.cos(angles), np.sin(angles)], axis=1), np.ones(CIRCLE_TOKENS)
    if d != 3:
        raise InputError(f"d must be 2 or 3, got {d}.")
    nodes, weights = np.polynomial.legendre.leggauss(heights)
    angles = np.pi * np.arange(2 * heights) / heights
    height, angle = (part.ravel() for part in np.meshgrid(nodes, angles, indexing="ij"))
    radius = np.sqrt(1.0 - height**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1), np.repeat(weights, 2 * heights)


def measured_growth(
    d: int, beta: float, degrees: Sequence[int], perturbation: float, duration: float, seed: int
) -> np.ndarray:
    r"""$\frac1T\ln\big(c_\ell(T)/c_\ell(0)\big)$ of $c_\ell=\sum_iw_iP_\ell(\langle x_i,e_\ell\rangle)$, shape
    (degrees,), $d=2$ or 3.

    Products of ripples feed each other: an error of relative order $\varepsilon$ whose mean over axes vanishes.
    """
    # Coefficients of the kernel fall like exp(-l^2 / 2 beta): beyond the first degree that is not exact they are 1e-6.
    tokens, share = even_tokens(d, 3 + math.ceil(0.5 * math.sqrt(26.0 * beta)))
    axes = numpy_generator(seed, d, f"ripple axes {beta:g}").standard_normal((len(degrees), d))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    weights = share * (1.0 + perturbation * _ripples(tokens, axes, degrees).sum(axis=0))
    if not (weights > 0.0).all():
        raise InputError(
            f"perturbation must leave all weights positive, got {perturbation} for {len(degrees)} degrees."
        )
    run = simulate(tokens, beta, [0.0, duration], weights=weights, tolerance=TOLERANCE, merge=0.0)
    first, last = (_ripples(state, axes, degrees) @ weights for state in run.dataset.tokens.values)
    return np.log(last / first) / duration


def _ripples(tokens: np.ndarray, axes: np.ndarray, degrees: Sequence[int]) -> np.ndarray:
    """Zonal harmonic of each degree about its own axis, (degrees, n): Chebyshev on the circle, Legendre on the
    sphere."""
    polynomial = np.polynomial.chebyshev.chebval if tokens.shape[1] == 2 else np.polynomial.legendre.legval
    return np.stack(
        [
            polynomial(np.clip(tokens @ axis, -1.0, 1.0), np.eye(degree + 1)[degree])
            for axis, degree in zip(axes, degrees, strict=True)
        ]
    )
