r"""The law of a label given one latent coordinate, on a grid of $z$ and cells of $y$.

Cells are uniform in the normal score $\Phi^{-1}(P(y'<y))$ of the label, so that tails are resolved like the middle. A
label told only by its cell is itself a channel: every quantity computed from it belongs to a true link, which has
lost a little information, of second order in the width of the cells.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri

from limen.link.label_points import link_values
from limen.problem.targets import Target

REACH = 8.5
SCORE_REACH = 5.0
MOST_POINTS = 1 << 19
MOST_SMOOTH = 1 << 14
FIRST_PIECES = 1 << 15
MOST_HALVINGS = 16
LinkValues = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class LabelChannel:
    r"""$P(\text{cell }b\mid z)$ with $z\sim N(0,1)$ on a grid.

    `latents` and `probabilities` (M,), `likelihood` (M, B) sparse; per cell, shape (B,): `labels` the mean label,
    ascending, `masses` the probability, and `second_moments` $E[z^2\mid b]$, finer than the grid knows.
    """

    latents: np.ndarray
    probabilities: np.ndarray
    likelihood: csr_array
    labels: np.ndarray
    masses: np.ndarray
    second_moments: np.ndarray

    @cached_property
    def by_cell(self) -> csr_array:
        """The likelihood with cells as rows, (B, M)."""
        return csr_array(self.likelihood.T)

    def fisher_square(self) -> float:
        r"""$E_y[(E[z^2-1\mid y])^2]$."""
        return float(self.masses @ (self.second_moments - 1.0) ** 2)


@lru_cache(maxsize=16)
def target_channel(target: Target, grid: int, cells: int) -> LabelChannel:
    """The channel of a single-index target, additive noise and `e` included."""

    def values(z: np.ndarray, e: np.ndarray) -> np.ndarray:
        return link_values(target, z[..., None], e)

    return label_channel(values, target.uses_inner_noise, target.noise, grid, cells)


def label_channel(
    values: LinkValues, inner: bool, noise: float, grid: int, cells: int, pieces: int = FIRST_PIECES
) -> LabelChannel:
    r"""The channel of $y=h(z,e)+\sqrt{\text{noise}}\,\varepsilon$ with about `cells` cells and `grid` values of $z$.

    `values` is $h$ on arrays of $z$ and $e$ of equal shape, `inner` whether $e$ matters (the grid then has at most
    1024 values). Three routes. Additive noise that the grid resolves enters through the normal distribution function
    (the grid is refined for that, up to 2^14). Without any noise the axis is cut into `pieces` or more, until each
    meets one or two cells, and divided between them; jumps and folds of $h$ take as many cuts as they need. Else
    labels are put into cells point by point, about 2^19 of them; this is the least accurate, since every branch of a
    level set needs its share of points in every cell.
    """
    if noise == 0 and not inner:
        return _piecewise(values, grid, cells, pieces)
    grid = min(grid, 1024) if inner else _resolving(values, np.sqrt(noise), grid)
    z = _midpoints(grid)
    weights = _normal_weights(z)
    if noise > 0 and _steps(values, grid) < 0.5 * np.sqrt(noise):
        matrix, labels = _smooth_cells(values, inner, noise, z, cells)
    else:
        matrix, labels = _cells_of_points(values, inner, noise, grid, cells)
    masses = weights @ matrix
    kept = np.flatnonzero(masses > 0)
    second = ((weights * z**2) @ matrix)[kept] / masses[kept]
    return LabelChannel(z, weights, csr_array(matrix[:, kept]), labels[kept], masses[kept], second)


def continuous_share(values: LinkValues, grid: int = 1 << 13) -> float:
    r"""Probability that a noiseless label tells where on its level set $z$ is: one minus that of flat parts of $h$.

    It is the information dimension of the label: $I(q)\simeq-\frac c2\log(1-q)$ as $q\to1$.
    """
    z = _midpoints(grid)
    h = values(z, np.zeros(grid))
    scale = max(float(np.abs(h).max()), 1e-300)
    flat = np.append(np.abs(np.diff(h)) <= 1e-14 * scale, True)
    flat &= np.roll(flat, 1) | np.append(flat[1:], True)
    share = float(_normal_weights(z) @ ~flat)
    # The grid cells at the ends of a flat part, or a jump, are no continuous label.
    return share if share > 0.01 else 0.0


def _midpoints(count: int, reach: float = REACH) -> np.ndarray:
    return reach * ((2.0 * np.arange(count) + 1.0) / count - 1.0)


def _normal_weights(points: np.ndarray) -> np.ndarray:
    weights = np.exp(-0.5 * points**2)
    return weights / weights.sum()


def _steps(values: LinkValues, grid: int) -> float:
    """Typical change of $h$ from one grid point to the next."""
    z = _midpoints(grid)
    inside = np.abs(z) < 2.0
    return float(np.median(np.abs(np.diff(values(z[inside], np.zeros(int(inside.sum())))))))


def _resolving(values: LinkValues, scale: float, grid: int) -> int:
    while grid < MOST_SMOOTH and _steps(values, grid) >= 0.5 * scale:
        grid *= 2
    return grid


class _Pieces(NamedTuple):
    """Pieces of the axis of $z$: where they are, what they weigh, and the span of their labels in units of cells."""

    middles: np.ndarray
    widths: np.ndarray
    masses: np.ndarray
    labels: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray


def _cut(values: LinkValues, cells: int, ends: np.ndarray) -> _Pieces:
    middles, widths = 0.5 * (ends[1:] + ends[:-1]), np.diff(ends)
    masses = widths * np.exp(-0.5 * middles**2)
    masses /= masses.sum()
    count = len(middles)
    labels = values(np.concatenate([middles, ends]), np.zeros(2 * count + 1))
    places = _places(weighted_scores(labels, np.append(masses, np.zeros(count + 1))), cells)
    low, middle, high = np.sort([places[count:-1], places[:count], places[count + 1 :]], axis=0)
    return _Pieces(middles, widths, masses, labels[:count], low, middle, high)


def _piecewise(values: LinkValues, grid: int, cells: int, pieces: int) -> LabelChannel:
    ends = np.linspace(-REACH, REACH, pieces + 1)
    cut = _cut(values, cells, ends)
    for _ in range(MOST_HALVINGS):
        wide = (cut.high - cut.low > 0.5) & (cut.masses > 1e-10)
        if not wide.any() or len(ends) > MOST_POINTS // 4:
            break
        ends = np.sort(np.concatenate([ends, cut.middles[wide]]))
        cut = _cut(values, cells, ends)
    low, high, masses = cut.low, cut.high, cut.masses
    # What still crosses more than one boundary holds a jump, and next to no mass: it goes where its middle is.
    crosses = np.floor(high) == np.floor(low) + 1
    lower = np.where(crosses, np.floor(low), np.floor(cut.middle)).astype(int)
    upper = np.where(crosses, lower + 1, lower)
    share = np.where(crosses, (upper - low) / np.where(crosses, high - low, 1.0), 1.0)
    used, cell = np.unique(np.concatenate([lower, upper]), return_inverse=True)
    parts = np.concatenate([masses * share, masses * (1.0 - share)])
    squares = np.tile(cut.middles**2 + cut.widths**2 / 12.0, 2)
    z = _midpoints(grid)
    rows = np.tile(np.minimum(np.floor((cut.middles + REACH) * (0.5 * grid / REACH)), grid - 1).astype(int), 2)
    joint = csr_array((parts, (rows, cell)), shape=(grid, len(used)))
    total = np.bincount(cell, parts)
    kept = np.flatnonzero(total > 0)
    return LabelChannel(
        z, _normal_weights(z), csr_array(_rows_normalised(joint)[:, kept]),
        _cell_means(cell, parts, np.tile(cut.labels, 2), len(used))[kept], total[kept],
        _cell_means(cell, parts, squares, len(used))[kept],
    )  # fmt: skip


def _places(scores: np.ndarray, cells: int) -> np.ndarray:
    return (np.clip(scores, -SCORE_REACH, SCORE_REACH) + SCORE_REACH) * (cells / (2.0 * SCORE_REACH))


def _rows_normalised(joint: csr_array) -> csr_array:
    total = np.asarray(joint.sum(axis=1))
    return csr_array(joint.multiply(1.0 / np.where(total > 0, total, 1.0)[:, None]))


def _cell_means(cell: np.ndarray, masses: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    total = np.bincount(cell, masses, count)
    return np.bincount(cell, masses * labels, count) / np.where(total > 0, total, 1.0)


def _smooth_cells(
    values: LinkValues, inner: bool, noise: float, z: np.ndarray, cells: int
) -> tuple[csr_array, np.ndarray]:
    e, e_weights = _nodes(64) if inner else (np.zeros(1), np.ones(1))
    h = _on_product(values, z, e)
    edges = noisy_edges(h, _normal_weights(z)[:, None] * e_weights, np.sqrt(noise), cells)
    likelihood = np.zeros((len(z), len(edges) + 1))
    for column, weight in zip(h.T, e_weights, strict=True):
        below = ndtr((edges - column[:, None]) / np.sqrt(noise))
        likelihood += weight * np.diff(below, axis=1, prepend=0.0, append=1.0)
    likelihood[likelihood < 1e-14] = 0.0
    return csr_array(likelihood), np.concatenate([edges[:1], 0.5 * (edges[1:] + edges[:-1]), edges[-1:]])


def noisy_edges(h: np.ndarray, weights: np.ndarray, scale: float, cells: int) -> np.ndarray:
    """Label values between cells of equal width in the score of the noisy label."""
    stride = max(1, h.size // 2048)
    centres, chances = h.ravel()[::stride], weights.ravel()[::stride]
    shifts, shift_weights = _nodes(100)
    labels = (centres[:, None] + scale * shifts).ravel()
    scores = weighted_scores(labels, (chances[:, None] * shift_weights).ravel())
    order = np.argsort(labels, kind="stable")
    places = np.searchsorted(scores[order], np.linspace(-SCORE_REACH, SCORE_REACH, cells + 1))
    return np.unique(labels[order][np.minimum(places, len(order) - 1)])


def _cells_of_points(
    values: LinkValues, inner: bool, noise: float, grid: int, cells: int
) -> tuple[csr_array, np.ndarray]:
    e, shifts = _midpoints(64 if noise > 0 else 512, 6.5) if inner else np.zeros(1), np.zeros(1)
    if noise > 0:
        shifts = _midpoints(32, 6.5)
    each = max(1, MOST_POINTS // (grid * len(e) * len(shifts)))
    z = _midpoints(grid * each)
    # Every z has its own offset in e and in the noise, or a product grid would fill cells unevenly.
    e_points, e_weights = _shifted(e, len(z), 0.6180339887498949)
    shift_points, shift_weights = _shifted(shifts, len(z), 0.41421356237309515)
    h = values(np.repeat(z, len(e)), e_points.ravel()).reshape(len(z), len(e), 1)
    labels = (h + np.sqrt(noise) * shift_points[:, None, :]).ravel()
    masses = (_normal_weights(z)[:, None, None] * e_weights[:, :, None] * shift_weights[:, None, :]).ravel()
    _, cell = np.unique(_places(weighted_scores(labels, masses), cells).astype(int), return_inverse=True)
    count = int(cell.max()) + 1
    rows = np.repeat(np.arange(grid), each * len(e) * len(shifts))
    joint = csr_array((masses, (rows, cell)), shape=(grid, count))
    return _rows_normalised(joint), _cell_means(cell, masses, labels, count)


def _shifted(points: np.ndarray, rows: int, step: float) -> tuple[np.ndarray, np.ndarray]:
    if len(points) == 1:
        return np.tile(points, (rows, 1)), np.ones((rows, 1))
    offsets = np.mod(np.arange(rows) * step, 1.0) - 0.5
    moved = points + offsets[:, None] * (points[1] - points[0])
    weights = np.exp(-0.5 * moved**2)
    return moved, weights / weights.sum(1, keepdims=True)


def _on_product(values: LinkValues, z: np.ndarray, e: np.ndarray) -> np.ndarray:
    first, second = np.meshgrid(z, e, indexing="ij")
    return values(first.ravel(), second.ravel()).reshape(first.shape)


def _nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    points = _midpoints(count, 6.5)
    return points, _normal_weights(points)


def weighted_scores(labels: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Normal scores of weighted mid-ranks; equal labels, to rounding, have equal scores."""
    order = np.argsort(labels, kind="stable")
    ordered, ordered_masses = labels[order], masses[order]
    scale = max(float(np.abs(ordered[[0, -1]]).max()), 1e-300)
    group = np.concatenate([[0], np.cumsum(np.diff(ordered) > 1e-14 * scale)])
    total = np.bincount(group, ordered_masses)
    total = total / total.sum()
    lower = np.cumsum(total) - 0.5 * total
    upper = np.cumsum(total[::-1])[::-1] - 0.5 * total
    group_scores = np.where(lower < 0.5, ndtri(lower), -ndtri(np.minimum(upper, 1.0)))
    scores = np.empty(len(labels))
    scores[order] = group_scores[group]
    return scores
