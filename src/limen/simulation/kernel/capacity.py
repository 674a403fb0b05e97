r"""Capacity measured on drawn data: exact uniform gaps over a ball, and Monte Carlo Rademacher complexities."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from limen.problem.spec import InputError
from limen.simulation.generators import numpy_generator
from limen.simulation.kernel.least_squares import draw_least_squares

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class UniformGaps:
    r"""One data set: `empirical_above` $\sup_{\|\theta\|\le\rho}(\hat R-R)$, `true_above`
    $\sup_{\|\theta\|\le\rho}(R-\hat R)$, and `least_squares` $R-\hat R$ of the least-squares fit."""

    empirical_above: float
    true_above: float
    least_squares: float


class MonteCarlo(NamedTuple):
    """A mean over random draws and its standard error."""

    value: float
    error: float


def uniform_gaps(
    ratio: float, radius: float, noise: float, signal: float = 1.0, *, dimension: int, seed: int
) -> UniformGaps:
    r"""Exact suprema on one data set $y=X\beta+\varepsilon$, $x\sim N(0,I_d)$, $n=d/$`ratio`, $\|\beta\|$ =
    `signal`: $\hat R=\frac1n\|y-X\theta\|^2$, $R=\|\theta-\beta\|^2+\sigma^2$. Cost: one `eigh`."""
    samples = round(dimension / ratio)
    if samples < 1:
        raise InputError(f"ratio must be at most the dimension {dimension}, got {ratio}.")
    data = draw_least_squares(seed, dimension, samples, noise, signal=(signal**2,))
    constant = float(np.mean(data.labels**2) - noise - data.coefficients @ data.coefficients)
    eigenvalues, vectors = np.linalg.eigh(data.inputs.T @ data.inputs / samples)
    moments, truth = vectors.T @ (data.inputs.T @ data.labels / samples), vectors.T @ data.coefficients
    fit = np.where(eigenvalues > 1e-10, moments / np.maximum(eigenvalues, 1e-10), 0.0)
    residual = data.labels - data.inputs @ (vectors @ fit)
    return UniformGaps(
        constant + quadratic_supremum(eigenvalues - 1, truth - moments, radius),
        -constant + quadratic_supremum(1 - eigenvalues, moments - truth, radius),
        float(np.sum((fit - truth) ** 2) + noise - np.mean(residual**2)),
    )


def quadratic_supremum(eigenvalues: Floats, coordinates: Floats, radius: float) -> float:
    r"""$\max_{\|u\|\le\rho}u^\top Lu+2\langle b,u\rangle$, given the `eigenvalues` of $L$ and `coordinates` of $b$.

    The maximiser is $u=(\mu-L)^{-1}b$ with $\mu\ge\max(l,0)$ and $\|u\|=\rho$, a decreasing scalar equation; if $\|u\|$
    stays below $\rho$ up to the end, $\mu$ is the end and, when that is an eigenvalue, the rest of the length goes to
    its eigenvector (the hard case).
    """
    if not radius > 0:
        raise InputError(f"radius must be positive, got {radius}.")
    end = max(0.0, float(eigenvalues.max()))
    distances = end - eigenvalues

    def length(shift: float) -> float:
        return float(np.linalg.norm(coordinates / (distances + shift)))

    high = float(np.linalg.norm(coordinates)) / radius
    low = 1e-14 * max(high, float(np.abs(eigenvalues).max()), 1e-300)
    if high <= low or length(low) <= radius:
        kept = distances > low
        pulled = np.sum(coordinates[kept] ** 2 / distances[kept])
        return float(end * radius**2 + pulled)
    shift = float(brentq(lambda s: 1 / radius - 1 / length(s), low, high, xtol=1e-300, rtol=1e-13))  # pyright: ignore[reportArgumentType]
    return float((end + shift) * radius**2 + np.sum(coordinates**2 / (distances + shift)))


def linear_rademacher(inputs: ArrayLike, radius: float, *, draws: int, seed: int = 0) -> MonteCarlo:
    r"""$\frac\rho nE_\epsilon\|X^\top\epsilon\|$ on `inputs` (n, d): the supremum over the ball $\|w\|\le\rho$ is exact
    for each sign vector."""
    design, signs = _signs(inputs, draws, seed)
    return _average(radius / len(design) * np.linalg.norm(signs @ design, axis=1))


def relu_rademacher_lower(
    inputs: ArrayLike, second_layer: float, *, draws: int, starts: int = 8, iterations: int = 50, seed: int = 0
) -> MonteCarlo:
    r"""Lower bound on $\frac AnE_\epsilon\sup_{\|w\|=1}|\sum_i\epsilon_i(\langle w,x_i\rangle)_+|$, `second_layer` $A$.

    For each sign vector and its negative, $w\leftarrow X^\top(\epsilon\circ1_{Xw>0})$, normalised, from `starts` random
    directions and from $\pm X^\top\epsilon$; the best value met on the way is kept. The problem is not convex, so this
    is a lower bound only. Cost $O(nd)$ per iteration and start.
    """
    design, signs = _signs(inputs, draws, seed)
    generator = numpy_generator(seed, design.shape[1], "directions")
    best = np.zeros(draws)
    for index, epsilon in enumerate(signs):
        guesses = np.vstack([generator.standard_normal((starts, design.shape[1])), epsilon @ design, -epsilon @ design])
        for labels in (epsilon, -epsilon):
            directions, pattern = guesses, None
            for _ in range(iterations):
                norms = np.linalg.norm(directions, axis=1, keepdims=True)
                directions = directions / np.where(norms > 0, norms, 1.0)
                active = directions @ design.T
                best[index] = max(best[index], float((np.maximum(active, 0.0) @ labels).max()))
                if pattern is not None and (pattern == (active > 0)).all():
                    break
                pattern = active > 0
                directions = (labels * pattern) @ design
    return _average(second_layer / len(design) * best)


def _signs(inputs: ArrayLike, draws: int, seed: int) -> tuple[Floats, Floats]:
    design = np.asarray(inputs, dtype=float)
    if design.ndim != 2 or 0 in design.shape:
        raise InputError(f"inputs must be a non-empty matrix with one row per sample, got shape {design.shape}.")
    if draws < 2:
        raise InputError(f"draws must be at least 2, got {draws}.")
    signs = numpy_generator(seed, len(design), "signs").choice([-1.0, 1.0], (draws, len(design)))
    return design, signs


def _average(values: Floats) -> MonteCarlo:
    return MonteCarlo(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))
