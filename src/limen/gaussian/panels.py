"""Composite Gauss-Legendre panels, bisected where two halves disagree with the whole."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

REACH = 38.0  # the normal density underflows beyond
_HALF = (0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 30.0, REACH)
# Shifted off the round numbers, where users put kinks: a kink on an edge does no harm here but would go unnoticed.
_SHIFT = 0.1378 * (np.sqrt(5) - 1)
_INNER = np.array(sorted({*_HALF[:-1], *(-edge for edge in _HALF[:-1])})) + _SHIFT
STANDARD_EDGES = np.concatenate([[-REACH], _INNER, [REACH]])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
# A jump between the end of a panel and its outermost node is invisible to the rule, so the ends are looked at too:
# just inside, because an end may be an announced jump.
_ENDS = np.array([-1.0, 1.0]) * (1 - 2e-12)
_GAP = 1 - NODES[-1]
_TO_ENDS = np.polynomial.legendre.legvander(_ENDS, 15) @ np.linalg.inv(np.polynomial.legendre.legvander(NODES, 15))
DEEPEST = 54
CROWD = 32  # generations this many times larger than the first mean noise, not structure
TOLERANCE = 2e-15


def normal_density(z: np.ndarray) -> np.ndarray:
    r"""$e^{-z^2/2}/\sqrt{2\pi}$."""
    return np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


def panel_nodes(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights of every panel, each of shape (panels, 16)."""
    half = 0.5 * (high - low)[:, None]
    return 0.5 * (low + high)[:, None] + half * NODES, half * WEIGHTS


@dataclass(frozen=True)
class Refined:
    """Panels that resolve an integrand: edges, the owner of each, the integrals per owner and their error.

    `integral` has shape (integrands, owners). `error` is the sum of the disagreements left at the smallest
    panels, relative to the integral of the absolute value: zero when everything was resolved. `crowded`: given up
    because panels multiplied everywhere, not at a few places.
    """

    low: np.ndarray
    high: np.ndarray
    owner: np.ndarray
    integral: np.ndarray
    error: float
    crowded: bool = False


# What is not finite is found out by its size: no warnings on the way.
@np.errstate(over="ignore", invalid="ignore")
def refine(
    integrand: Callable[[np.ndarray, np.ndarray], np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    owner: np.ndarray,
    tolerance: float = TOLERANCE,
) -> Refined:
    r"""Bisects panels until the rule on every panel equals the sum over its halves.

    `integrand(z, owner)` takes points of shape (panels, 18), the nodes and the two ends, and the panels' owners, and
    returns values of shape (integrands, panels, 18). To the difference of whole and halves is added how far the
    values at the ends are from the polynomial through the nodes, times the length between end and node. A panel
    is accepted when this is at most `tolerance` of the integral of the absolute value over all panels of its owner;
    the tolerance must lie above the integrand's own noise. A jump costs about 50 bisections, a kink about
    25; all panels of a generation are evaluated together.
    """
    owners = int(owner.max()) + 1
    most = CROWD * len(low)

    def integrate(low: np.ndarray, high: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z, weights = panel_nodes(low, high)
        half = 0.5 * (high - low)
        ends = 0.5 * (low + high)[:, None] + half[:, None] * _ENDS
        values = integrand(np.concatenate([z, ends], axis=1), owner)
        inner = values[..., :16]
        surprise = np.abs(values[..., 16:] - inner @ _TO_ENDS.T).sum(-1) * half * _GAP
        return (inner * weights).sum(-1), np.abs(inner * weights).sum(-1), surprise

    def per_owner(values: np.ndarray, owner: np.ndarray) -> np.ndarray:
        return np.array([np.bincount(owner, row, owners) for row in values])

    whole, size, _ = integrate(low, high, owner)
    settled_size = np.zeros((len(whole), owners))
    integral = np.zeros((len(whole), owners))
    accepted: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    error, crowded = 0.0, False
    for depth in range(DEEPEST):
        middle = 0.5 * (low + high)
        children = np.concatenate([low, middle]), np.concatenate([middle, high]), np.concatenate([owner, owner])
        parts, part_sizes, surprises = integrate(*children)
        count = len(low)
        surprise = surprises[:, :count] + surprises[:, count:]
        both = parts[:, :count] + parts[:, count:]
        sizes = part_sizes[:, :count] + part_sizes[:, count:]
        scale = settled_size + np.maximum(per_owner(size, owner), per_owner(sizes, owner))
        scale = np.where(scale > 0, scale, 1.0)
        disagreement = np.max((np.abs(both - whole) + surprise) / scale[:, owner], axis=0)
        done = disagreement <= tolerance
        if depth == DEEPEST - 1 or np.count_nonzero(~done) > most:
            crowded = depth < DEEPEST - 1
            error, done = float(disagreement[~done].sum()), np.ones_like(done)
        integral += per_owner(both[:, done], owner[done])
        settled_size += per_owner(sizes[:, done], owner[done])
        twice = np.concatenate([done, done])
        accepted.append(tuple(array[twice] for array in children))  # pyright: ignore[reportArgumentType]
        if done.all():
            break
        low, high, owner = (array[~twice] for array in children)
        whole, size = parts[:, ~twice], part_sizes[:, ~twice]
    low, high, owner = (np.concatenate(arrays) for arrays in zip(*accepted, strict=True))
    order = np.lexsort((low, owner))
    return Refined(low[order], high[order], owner[order], integral, error, crowded)


def average_over_noise(joint: Callable[[np.ndarray, np.ndarray], np.ndarray], z: np.ndarray) -> np.ndarray:
    r"""$E[f(z,e)]$ over a standard normal $e$, for every entry of `z`, jumps in $e$ located by bisection."""
    points = np.asarray(z, dtype=np.float64).ravel()
    count, panels = len(points), len(STANDARD_EDGES) - 1
    if count == 0:
        return np.zeros(np.shape(z))

    def integrand(e: np.ndarray, owner: np.ndarray) -> np.ndarray:
        at = np.broadcast_to(points[owner][:, None], e.shape)
        return (joint(at, e) * normal_density(e))[None]

    low, high = np.tile(STANDARD_EDGES[:-1], count), np.tile(STANDARD_EDGES[1:], count)
    refined = refine(integrand, low, high, np.repeat(np.arange(count), panels))
    return refined.integral[0].reshape(np.shape(z))
