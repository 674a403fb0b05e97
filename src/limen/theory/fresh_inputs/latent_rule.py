r"""Points and weights for $E[h\,g]$, $h$ a fixed link of several latent coordinates and $g$ any smooth function.

Two coordinates: nested panels. For every value of the second coordinate the first is cut by bisection wherever $h$
bends or jumps, and the second wherever the inner integrals do; a jump along an oblique line is met exactly. Three to
five: products of Gauss rules where all bends lie across the axes. Else sets of scrambled Sobol points with exact second
moments. The noise inside a link counts as a coordinate. Where $g$ is a smooth function on the scale of the coordinates
themselves, a product of Gauss rules does for two coordinates too (`coarse_rule`).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from limen.gaussian.panels import Refined, normal_density, panel_nodes, refine
from limen.gaussian.sobol import sobol_normals
from limen.link.label_points import link_values
from limen.problem.targets import Target
from limen.theory.fresh_inputs.axis_rules import axis_rule

REACH, SHIFT = 9.0, 0.0517
EDGES = np.concatenate([[-REACH], np.arange(-6.0, 7.0, 3.0) + SHIFT, [REACH]])
TOLERANCE = 1e-9
# Where h jumps, panels shrink to nothing: below this width two points do for a smooth g.
NARROW = 0.03
LOG2_POINTS, SETS = 14, 4
# Of a product of rules along the axes: at most this many points, those of less than this part of the largest left out.
MOST_POINTS, NEGLIGIBLE = 6e5, 1e-13
# Two coordinates, g with Hermite coefficients that fall geometrically: points on a piece, and the accuracy asked of h.
COARSE_ORDER, COARSE_ACCURACY = 48, 1e-7


class LatentRule(NamedTuple):
    r"""Sets of points: `points` (sets, N, coordinates), `weights` (sets, N), the values `labels` (sets, N) of $h$.

    An average is the mean over the sets; its error is that between sets, and `error` (relative) where there is one.
    """

    points: np.ndarray
    weights: np.ndarray
    labels: np.ndarray
    error: float


@lru_cache(maxsize=32)
def latent_rule(target: Target) -> LatentRule:
    """The rule of a target with two or more coordinates."""
    size = target.latents + int(target.uses_inner_noise)
    if size == 2:
        return _nested(target)
    axes = target.axis_breakpoints
    if axes is not None:
        pieces = [1 + len(points) for points in axes]
        orders = [_order(size, count) for count in pieces]
        if np.prod(np.multiply(orders, pieces, dtype=float)) <= MOST_POINTS:
            return _product(target, axes, orders)
    return _sobol(target, size)


@lru_cache(maxsize=32)
def coarse_rule(target: Target) -> LatentRule | None:
    r"""A product of two Gauss rules of 48 points on each piece of an axis, or None where $h$ is not one for it.

    For $g$ of Hermite coefficients below $\rho^n$: the product is exact up to the degree 95, the error is some
    $\rho^{96}$. That $h$ itself is integrated is asked of its square.
    """
    axes = target.axis_breakpoints
    if target.latents + int(target.uses_inner_noise) != 2 or axes is None:
        return None
    rule = _product(target, axes, [COARSE_ORDER] * 2)
    return rule if rule.error < COARSE_ACCURACY else None


def _order(size: int, pieces: int) -> int:
    """Points on each piece of an axis: fewer in more dimensions."""
    return max((36, 22, 14)[min(size, 5) - 3] // (1 if pieces == 1 else 2), 6)


def _product(target: Target, axes: tuple[tuple[float, ...], ...], orders: list[int]) -> LatentRule:
    def build(fewer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rules = [axis_rule(points, order - fewer) for points, order in zip(axes, orders, strict=True)]
        weights = np.ones(())
        for _, part in rules:
            weights = np.multiply.outer(weights, part)
        kept = weights > NEGLIGIBLE * weights.max()
        index = np.nonzero(kept)
        points = np.stack([rule[0][i] for rule, i in zip(rules, index, strict=True)], axis=-1)
        return points, weights[kept], _values(target, points)

    points, weights, labels = build(0)
    _, coarse_weights, coarse_labels = build(2)
    power = weights @ labels**2
    error = abs(coarse_weights @ coarse_labels**2 - power) / power if power > 0.0 else 0.0
    return LatentRule(points[None], weights[None], labels[None], float(error))


def _values(target: Target, points: np.ndarray) -> np.ndarray:
    k = target.latents
    flat = points.reshape(-1, points.shape[-1])
    inner = flat[:, k] if flat.shape[1] > k else np.zeros(len(flat))
    return link_values(target, flat[:, :k], inner).reshape(points.shape[:-1])


def _inner(target: Target, second: np.ndarray, size: float) -> Refined:
    """Panels of the first coordinate at each value of the second, and integrals that are never near zero."""

    def integrand(z: np.ndarray, owner: np.ndarray) -> np.ndarray:
        at = np.broadcast_to(second[owner][:, None], z.shape)
        values = _values(target, np.stack([z, at], axis=-1))
        return np.stack([values**2, (values + size) ** 2, (values + size * z) ** 2]) * normal_density(z)

    count = len(second)
    low, high = np.tile(EDGES[:-1], count), np.tile(EDGES[1:], count)
    return refine(integrand, low, high, np.repeat(np.arange(count), len(EDGES) - 1), TOLERANCE)


def _nested(target: Target) -> LatentRule:
    size = float(np.sqrt(np.mean(_values(target, sobol_normals(1024, 2)) ** 2))) or 1.0

    def outer(z: np.ndarray, owner: np.ndarray) -> np.ndarray:
        return _inner(target, z.ravel(), size).integral.reshape(3, *z.shape) * normal_density(z)

    panels = refine(outer, EDGES[:-1], EDGES[1:], np.zeros(len(EDGES) - 1, dtype=np.int64), 10 * TOLERANCE)
    second, second_weights, _ = _nodes(panels)
    inner = _inner(target, second, size)
    first, weights, owner = _nodes(inner)
    points = np.stack([first, second[owner]], axis=-1)
    product = weights * second_weights[owner]
    kept = product > 1e-16
    points, product = points[kept], product[kept]
    error = panels.error + inner.error
    return LatentRule(points[None], product[None], _values(target, points)[None], float(error))


def _nodes(panels: Refined) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes, Gaussian weights and owners of refined panels; narrow panels get two nodes instead of 16."""
    found = []
    for narrow in (False, True):
        here = (panels.high - panels.low < NARROW) == narrow
        low, high = panels.low[here], panels.high[here]
        half = 0.5 * (high - low)[:, None]
        if narrow:
            nodes, weights = 0.5 * (low + high)[:, None] + half * np.array([-1.0, 1.0]) / 3**0.5, half * np.ones(2)
        else:
            nodes, weights = panel_nodes(low, high)
        found.append((nodes, weights * normal_density(nodes), np.repeat(panels.owner[here], nodes.shape[1])))
    nodes, weights, owners = (np.concatenate([np.ravel(one[part]) for one in found]) for part in range(3))
    return nodes, weights, owners


def _sobol(target: Target, size: int) -> LatentRule:
    count = 1 << LOG2_POINTS
    points = np.stack([whitened(sobol_normals(count, size, 7 + seed)) for seed in range(SETS)])
    return LatentRule(points, np.full((SETS, count), 1.0 / count), _values(target, points), 0.0)


def whitened(normals: np.ndarray) -> np.ndarray:
    """Points with mean zero and covariance exactly the identity."""
    centred = normals - normals.mean(axis=0)
    return np.linalg.solve(np.linalg.cholesky(centred.T @ centred / len(centred)), centred.T).T
