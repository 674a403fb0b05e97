r"""Expectations over Gaussian vectors: an adapted rule in one dimension, tensor rules up to three, Sobol above.

Gauss-Hermite rules are not used: their nodes spread with the order, so that kinks, jumps and functions that
vary faster than the Gaussian are resolved slowly (ReLU with 200 nodes is wrong in the fourth digit).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limen.gaussian.functions import ScalarFunction, as_function
from limen.gaussian.panels import REACH, STANDARD_EDGES, normal_density, panel_nodes, refine
from limen.gaussian.sobol import sobol_normals
from limen.problem.spec import InputError

SCRAMBLES = 8
_CHUNK = 1 << 18
MOST_KINKS = 500


@dataclass(frozen=True, eq=False)
class GaussianRule:
    r"""Nodes and weights with $E[f(\xi)g(\xi)]\approx\sum_kw_kf(z_k)g(z_k)$, $\xi\sim N(0,1)$.

    Adapted to one function $f$; $g$ may be any function smooth on the scale of a panel. `kinks` are the
    announced breakpoints and those that the refinement ran into. `extent` is where the mass of $f^2$ ends.
    `error` is the relative integration error left at a singularity (zero when all was resolved).
    """

    nodes: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    edges: np.ndarray
    kinks: tuple[float, ...]
    extent: float
    error: float

    def mean(self, function: Callable[[np.ndarray], np.ndarray]) -> float:
        """The expectation of a function of the Gaussian variable."""
        return float(self.weights @ np.asarray(function(self.nodes)))


@dataclass(frozen=True)
class Expectation:
    """An expectation and the estimate of its absolute error (of the largest entry)."""

    value: np.ndarray
    error: float


def gaussian_rule(activation: Any, degree: int = 0) -> GaussianRule:
    r"""A rule for $N(0,1)$ adapted to one function, exact to rounding for its products with $he_m$, $m\le$ degree.

    Composite Gauss-Legendre on $[-38,38]$, split at the announced kinks and bisected where the integrals of
    $f^2$, $f\,he_{\text{degree}}$ and $f\,he_{\text{degree}+1}$ against the Gaussian change by more than
    $2\cdot10^{-15}$ of their size, so that kinks nobody announced are found too. A function that is not
    finite, or not square integrable against the Gaussian, is refused. Costs 10^3 to 10^4 evaluations.
    """
    function = as_function(activation)

    def integrand(z: np.ndarray, owner: np.ndarray) -> np.ndarray:
        # sqrt(density) on f first: f itself may be as large as the Gaussian allows
        damped = _checked_values(function, z) * np.sqrt(normal_density(z))
        with np.errstate(over="ignore"):
            return damped * np.stack([damped, *weighted_hermite(z, degree + 1)[-2:]])

    inside = [point for point in function.breakpoints if abs(point) < REACH]
    if len(inside) > MOST_KINKS:
        raise InputError(
            f"{function.label} must not bend or jump at more than {MOST_KINKS} places, and does at {len(inside)}."
        )
    edges = np.unique(np.concatenate([STANDARD_EDGES, inside]))
    refined = refine(integrand, edges[:-1], edges[1:], np.zeros(len(edges) - 1, dtype=np.int64), function.accuracy)
    norm = refined.integral[0, 0]
    if refined.crowded and np.isfinite(norm) and refined.error > 1e-6:
        raise InputError(f"{function.label} must not vary on scales much below 1e-3, and does: it cannot be resolved.")
    if not np.isfinite(norm) or refined.error > 1e-6:
        raise InputError(f"{function.label} must be square integrable against the standard normal, and is not.")
    nodes, weights = panel_nodes(refined.low, refined.high)
    values = function.values(nodes)
    square = weights * (values * np.sqrt(normal_density(nodes))) ** 2
    if np.sum(square[np.abs(nodes) > REACH - 2]) > 1e-10 * norm:
        raise InputError(f"{function.label} must be square integrable against the standard normal, and is not.")
    carrying = np.abs(nodes)[square > 1e-17 * norm]
    return GaussianRule(
        nodes.ravel(),
        (weights * normal_density(nodes)).ravel(),
        values.ravel(),
        np.append(refined.low, refined.high[-1]),
        _all_kinks(function, tuple(inside), refined.low, refined.high),
        float(carrying.max(initial=0.0)),
        refined.error,
    )


def weighted_hermite(z: np.ndarray, degree: int) -> np.ndarray:
    r"""$he_m(z)\sqrt{\varphi(z)}$ for $m=0..$degree on a new first axis; bounded, hence free of overflow."""
    rows = np.empty((degree + 1, *np.shape(z)))
    rows[0] = np.sqrt(normal_density(z))
    if degree > 0:
        rows[1] = z * rows[0]
    for m in range(1, degree):
        rows[m + 1] = (z * rows[m] - m**0.5 * rows[m - 1]) / (m + 1) ** 0.5
    return rows


def expectation(
    function: Callable[[np.ndarray], Any],
    dimension: int,
    breakpoints: Sequence[float] = (),
    count: int = 1 << 16,
    seed: int = 0,
) -> Expectation:
    r"""$E[f(z)]$ for $z\sim N(0,I_k)$, $k=$ `dimension`, with an estimate of the error.

    `function` takes an array of shape (points, k) and returns (points,) or (points, ...). For $k\le3$: a
    tensor product of Gauss-Legendre panels of width about 1 on $[-10,10]$, split on every axis at the integers
    and at `breakpoints`; near rounding for functions smooth inside these boxes (hence also for products of
    signs), of first or second order in the panel width where a jump or a kink runs across them. The error is
    the change from a rule with fewer nodes. For $k>3$: `count` scrambled Sobol points in 8 independent
    scrambles; the error is the standard error over these. Cost: 200, 4e4, 5e6 evaluations for $k=1,2,3$.
    """
    if dimension < 1:
        raise InputError(f"dimension must be at least 1, got {dimension}.")
    if dimension <= 3:
        order = 10 if dimension < 3 else 8
        coarse = _tensor_mean(function, dimension, breakpoints, order - 2)
        fine = _tensor_mean(function, dimension, breakpoints, order)
        return Expectation(fine, float(np.max(np.abs(fine - coarse))))
    if count < 2 * SCRAMBLES:
        raise InputError(f"count must be at least {2 * SCRAMBLES}, got {count}.")
    seeds = np.random.SeedSequence(seed).generate_state(SCRAMBLES)
    samples = (sobol_normals(count // SCRAMBLES, dimension, int(number)) for number in seeds)
    means = np.array([np.mean(np.asarray(function(z)), axis=0) for z in samples])
    return Expectation(means.mean(0), float(np.max(means.std(0, ddof=1)) / SCRAMBLES**0.5))


def _tensor_mean(
    function: Callable[[np.ndarray], Any], dimension: int, breakpoints: Sequence[float], order: int
) -> Any:
    reach = 10.0 if dimension < 3 else 9.0
    edges = np.unique(np.concatenate([np.arange(-reach, reach + 1), [b for b in breakpoints if abs(b) < reach]]))
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half, centre = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    axis = (centre + half * nodes).ravel()
    axis_weights = (half * weights).ravel() * normal_density(axis)
    total: Any = 0.0
    points = len(axis) ** dimension
    for start in range(0, points, _CHUNK):
        index = np.unravel_index(np.arange(start, min(start + _CHUNK, points)), (len(axis),) * dimension)
        product = np.prod([axis_weights[i] for i in index], axis=0)
        total = total + np.tensordot(product, np.asarray(function(axis[np.stack(index, -1)])), 1)
    return np.asarray(total)


def _checked_values(function: ScalarFunction, z: np.ndarray) -> np.ndarray:
    values = function.values(z)
    if not np.all(np.isfinite(values)):
        bad = z[~np.isfinite(values)]
        nearest = float(bad[np.argmin(np.abs(bad))])
        if abs(nearest) > 8:
            raise InputError(
                f"{function.label} must be square integrable against the standard normal, "
                f"and overflows at {nearest:.3g}."
            )
        raise InputError(f"{function.label} must be finite on the whole line, and is not at z = {nearest:.6g}.")
    return values


def _all_kinks(
    function: ScalarFunction, announced: tuple[float, ...], low: np.ndarray, high: np.ndarray
) -> tuple[float, ...]:
    """The announced kinks and the centres of clusters of tiny panels that are not explained by one of them."""
    found: list[float] = []
    narrow = np.flatnonzero(high - low < 1e-5)
    for cluster in np.split(narrow, np.flatnonzero(np.diff(narrow) > 1) + 1):
        if len(cluster):
            least = cluster[np.argmin((high - low)[cluster])]
            centre = float(0.5 * (low[least] + high[least]))
            if all(abs(centre - point) > 1e-4 for point in announced):
                found.append(_sharpened(function, centre))
    return tuple(sorted((*announced, *found)))


def _sharpened(function: ScalarFunction, kink: float) -> float:
    """A change of slope, which bisection locates to about 1e-6 only, where the two smooth branches meet.

    Branches are quartics through points on either side; a jump, which bisection locates to rounding, has none.
    """
    offsets = 1e-5 + 4e-3 * np.arange(5)
    sides = [
        np.polynomial.Polynomial.fit(sign * offsets, function.values(kink + sign * offsets), 4) for sign in (-1, 1)
    ]
    gap, slope = sides[1](0.0) - sides[0](0.0), sides[1].deriv()(0.0) - sides[0].deriv()(0.0)
    return kink - gap / slope if abs(gap) < 1e-5 * abs(slope) else kink
