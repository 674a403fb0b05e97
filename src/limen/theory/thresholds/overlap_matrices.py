r"""What a label tells about several coordinates already known in part: Bayes-optimal overlaps as matrices.

Prior: independent standard normal entries of $k$ directions; $Q$, $0\preceq Q\preceq I$, is the overlap of posterior
mean and truth. With $z=Q^{1/2}\xi+(I-Q)^{1/2}w$, standard normal $\xi$ known and $w$ not,

$$I(Q)=E\log\frac{p(y\mid\xi)}{p(y)},\qquad G(Q)=2\nabla I(Q)=E[gg^\top],\quad
g=(I-Q)^{-1}\big(E[z\mid y,\xi]-Q^{1/2}\xi\big).$$

Overlaps are stationary points of $\delta I(Q)+\frac12(\mathrm{tr}\,Q+\log\det(I-Q))$, that is, fixed points of the
state evolution $Q\leftarrow\hat Q(I+\hat Q)^{-1}$, $\hat Q=\delta G(Q)$, of Bayes-optimal message passing. One
direction is `overlap_curve`.

**Quadrature.** In the basis that diagonalises $Q$ the known part separates: a product grid of $z$, the probabilities of
cells of $y$ on it (a label told by its cell is itself a channel, which has lost a little), and one kernel per axis.

Source: Aubin, Maillard, Barbier, Krzakala, Macris & Zdeborová 2018 (committees); Troiani et al. 2024 (multi-index).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from limen.link.label_points import link_values
from limen.problem.spec import InputError
from limen.problem.targets import Target
from limen.theory.thresholds.label_channel import noisy_edges


class Grid(NamedTuple):
    """Values of z an axis up to `reach`, cells of the label, and known values an axis up to `known_reach`."""

    values: int
    reach: float
    cells: int
    known: int
    known_reach: float


# For two and for three directions.
GRIDS = {2: Grid(128, 6.0, 96, 25, 5.4), 3: Grid(36, 5.2, 72, 25, 4.6)}
# Overlaps nearer to 1 are not resolved by the grid.
MOST_KNOWN = {2: 0.99, 3: 0.9}
FIRST = 1e-3
CONVERGED = 1e-5
MOST_ROUNDS = 2000
SMALLEST = 1e-300


class FixedPoint(NamedTuple):
    """An overlap (k, k), and whether the state evolution settled there, inside what the grid resolves."""

    overlap: np.ndarray
    settled: bool


def several_directions(target: Target) -> Target:
    """The target itself if its labels have additive noise and two or three latent directions; refused otherwise."""
    k = target.latents
    if k not in GRIDS:
        raise InputError(f"target must have at most {max(GRIDS)} latent directions here, and {target.label!r} has {k}.")
    if target.noise <= 0 or target.uses_inner_noise:
        raise InputError(
            f"target must have additive noise (noise above 0) and no e inside for {k} latent directions, and "
            f"{target.label!r} has noise {target.noise:g}."
        )
    return target


def information_and_slope(target: Target, overlap: np.ndarray) -> tuple[float, np.ndarray]:
    """$I(Q)$ and $G(Q)$ (k, k)."""
    k = target.latents
    grid = GRIDS[k]
    parts, basis = np.linalg.eigh(overlap)
    parts = np.clip(parts, 0.0, MOST_KNOWN[k])
    axis, known = _midpoints(grid.values, grid.reach), np.linspace(-grid.known_reach, grid.known_reach, grid.known)
    chances = np.exp(-0.5 * known**2)
    chances /= chances.sum()
    likelihood = _likelihood(target, axis, basis)
    kernels, moments = [], []
    for part in parts:
        unknown = axis[:, None] - np.sqrt(part) * known
        kernel = np.exp(unknown**2 * (-0.5 / (1.0 - part)))
        kernel /= kernel.sum(axis=0)
        kernels.append(kernel)
        moments.append(kernel * unknown / (1.0 - part))

    # The first axis of z is contracted, that of the known part appended; of a pull one axis is a first moment.
    chance, pulls = likelihood, list[np.ndarray]()
    for kernel, moment in zip(kernels, moments, strict=True):
        pulls = [np.tensordot(pull, kernel, axes=([1], [0])) for pull in pulls]
        pulls.append(np.tensordot(chance, moment, axes=([1], [0])))
        chance = np.tensordot(chance, kernel, axes=([1], [0]))
    weights = chances
    for _ in range(k - 1):
        weights = np.multiply.outer(weights, chances)
    weights = weights.ravel()
    chance = np.maximum(chance.reshape(len(likelihood), -1), SMALLEST)
    scores = np.stack(pulls).reshape(k, len(likelihood), -1)
    slope = np.einsum("ibn,jbn,n->ij", scores, scores / chance, weights, optimize=True)
    average = np.maximum(chance @ weights, SMALLEST)
    information = float(np.sum((chance * np.log(chance / average[:, None])) @ weights))
    return information, basis @ slope @ basis.T


def evolved(target: Target, samples_per_dim: float, overlap: np.ndarray) -> np.ndarray:
    """One round of the state evolution."""
    precision = samples_per_dim * information_and_slope(target, overlap)[1]
    precision = 0.5 * (precision + precision.T)
    return precision @ np.linalg.inv(np.eye(len(precision)) + precision)


def fixed_point(target: Target, samples_per_dim: float, start: np.ndarray, least: float = 0.0) -> FixedPoint:
    """Where the state evolution from `start` settles, or falls below the trace `least`: near a threshold it vanishes
    like one over the number of rounds."""
    now = start
    for _ in range(MOST_ROUNDS):
        new = evolved(target, samples_per_dim, now)
        moved, now = np.abs(new - now).max(), new
        if moved < CONVERGED or np.trace(now) < least:
            return FixedPoint(now, bool(np.linalg.eigvalsh(now)[-1] < MOST_KNOWN[target.latents]))
    return FixedPoint(now, False)


def entropy(overlap: np.ndarray) -> float:
    r"""$-\frac12(\mathrm{tr}\,Q+\log\det(I-Q))$: what knowing this much costs."""
    values = np.linalg.eigvalsh(overlap)
    return float(-0.5 * np.sum(values + np.log1p(-values)))


def faint_start(target: Target) -> np.ndarray:
    """A small overlap without any symmetry, the same for every call: what a random start has at large dimension."""
    k = target.latents
    basis = np.linalg.qr(np.random.default_rng(k).standard_normal((k, k)))[0]
    return FIRST * (basis * np.linspace(1.0, 0.5, k)) @ basis.T


def full_start(target: Target) -> np.ndarray:
    """Nearly all known."""
    return (MOST_KNOWN[target.latents] - 0.01) * np.eye(target.latents)


def _midpoints(count: int, reach: float) -> np.ndarray:
    return reach * ((2.0 * np.arange(count) + 1.0) / count - 1.0)


def _likelihood(target: Target, axis: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Probabilities of the cells, (cells, grid, ..., grid), on the product grid turned by `basis`."""
    points = np.stack(np.meshgrid(*[axis] * target.latents, indexing="ij"), axis=-1).reshape(-1, target.latents)
    values = link_values(target, points @ basis.T, np.zeros(len(points)))
    below = ndtr((_edges(target)[:, None] - values) / np.sqrt(target.noise))
    cells = np.diff(below, axis=0, prepend=0.0, append=1.0)
    return cells.reshape(-1, *[axis.size] * target.latents)


@lru_cache(maxsize=32)
def _edges(target: Target) -> np.ndarray:
    grid = GRIDS[target.latents]
    axis = _midpoints(min(grid.values, 48), grid.reach)
    points = np.stack(np.meshgrid(*[axis] * target.latents, indexing="ij"), axis=-1).reshape(-1, target.latents)
    weights = np.exp(-0.5 * np.sum(points**2, axis=1))
    kept = weights > 1e-9 * weights.max()
    values = link_values(target, points[kept], np.zeros(int(kept.sum())))
    order = np.random.default_rng(0).permutation(values.size)
    return noisy_edges(values[order], weights[kept][order] / weights[kept].sum(), np.sqrt(target.noise), grid.cells)
