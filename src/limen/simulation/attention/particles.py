r"""One set of tokens to any time: projected Dormand–Prince 5(4) on the sphere, with exact merging.

Tokens that have met stay together, so that tokens within $1-\langle x_i,x_j\rangle<10^{-7}$ become one token with the
sum of their weights. That removes the fast internal modes of clusters (rate one): steps then grow with the metastable
times, and $t=10^7$ takes some thousand evaluations instead of some ten million.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.sparse.csgraph import connected_components

from limen.method import answers
from limen.precision import in_double
from limen.problem import InputError
from limen.problem.activations import as_activation
from limen.problem.times import time_grid
from limen.result import Findings
from limen.simulation.attention.field import (
    FeedForward,
    attention_velocity,
    feed_forward_velocity,
    tangent,
)
from limen.simulation.attention.matrices import Head, at_depth, checked_head
from limen.simulation.attention.observables import CLUSTERED, cluster_count, cosine_gaps, energy

CITATIONS = ("geshkovski2023",)
# What an infinite energy means; see `limen.result.Findings`.
ENERGY = {"undefined": "it grows as exp(beta), beyond the largest number"}
MERGED = 1e-7
TOLERANCE = 1e-8
MOST_EVALUATIONS = 2_000_000
# Dormand–Prince 5(4).
NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


class Model(NamedTuple):
    """What moves the tokens until the time `horizon`."""

    beta: float
    heads: Sequence[Head]
    normalized: bool
    feed_forward: FeedForward | None
    horizon: float

    def velocity(self, tokens: np.ndarray, weights: np.ndarray, clock: float) -> np.ndarray:
        """Tangent velocity at time `clock`."""
        heads = at_depth(self.heads, clock / self.horizon if self.horizon > 0.0 else 0.0)
        total = attention_velocity(tokens, self.beta, heads, self.normalized, weights)
        if self.feed_forward is not None:
            total = total + feed_forward_velocity(tokens, self.feed_forward)
        return tangent(tokens, total)


@answers("simulation", CITATIONS, "attention")
@in_double
def simulate(
    X0: Any,
    beta: float,
    times: Any,
    query_key: Any = None,
    value: Any = None,
    normalized: bool = True,
    heads: Sequence[tuple[Any, Any]] | None = None,
    feed_forward: tuple[Any, Any, Any, Any] | None = None,
    weights: Any = None,
    delta: float = CLUSTERED,
    tolerance: float = TOLERANCE,
    merge: float = MERGED,
) -> Findings:
    r"""Tokens `X0` (n, d), rows of unit length, along the attention flow at `times`.

    Returns `tokens` (time, token, coordinate), `gram` (time, token, token2), `energy` (time), `clusters` (time).
    `query_key` is $B=Q^\top K$, `value` $V$, identity by default; `heads` is a list of (query_key, value), summed, in
    their place; a matrix with a leading axis varies with depth, constant in equal parts of the time. `feed_forward`
    is $(w,a,b,\sigma)$. `weights` (n,) are positive.

    `tolerance` bounds the error of a step; tokens within `merge` of cosine one are joined (0 joins none). Cost
    $O(n^2d)$ an evaluation, $n$ falling as clusters form.
    """
    grid = time_grid(times, counts_steps=False)
    tokens = checked_tokens(X0)
    n, d = tokens.shape
    model = _model(beta, query_key, value, normalized, heads, feed_forward, d, float(grid[-1]))
    mass = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    if mass.shape != (n,) or not (np.isfinite(mass).all() and (mass > 0.0).all()):
        raise InputError(f"weights must be positive, one for each of the {n} tokens.")
    if not tolerance > 0.0:
        raise InputError(f"tolerance must be positive, got {tolerance}.")
    if not 0.0 <= merge < 1.0:
        raise InputError(f"merge must lie in [0, 1), got {merge}.")
    path, evaluations, finished = _integrate(model, tokens, mass, grid, tolerance, merge)
    first = model.heads[0][0]
    symmetric = first if first is None or first.ndim == 2 else first[0]
    dataset = xr.Dataset(
        {
            "tokens": (("time", "token", "coordinate"), path),
            "gram": (("time", "token", "token2"), 1.0 - np.stack([cosine_gaps(state) for state in path])),
            "energy": (("time",), np.array([energy(state, model.beta, symmetric, mass) for state in path]), ENERGY),
            "clusters": (("time",), np.array([cluster_count(state, delta) for state in path])),
        },
        coords={"time": grid},
    )
    status = (
        f"{evaluations} evaluations of the field."
        if finished
        else (f"stopped after {evaluations} evaluations: times must end earlier, or tolerance be larger.")
    )
    if np.abs(model.velocity(tokens, mass, 0.0)).max() < 1e-12:
        status = "the start is stationary: exactly symmetric tokens stay where they are."
    statistics = {"evaluations": float(evaluations)}
    return Findings(dataset, finished, status, statistics)


def checked_tokens(X0: Any) -> np.ndarray:
    """Tokens (n, d) of unit length; others are refused."""
    try:
        tokens = np.array(X0, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"X0 must be numbers of shape (tokens, d), got {type(X0).__name__}.") from None
    if tokens.ndim != 2 or tokens.shape[0] < 1 or not np.isfinite(tokens).all():
        raise InputError(f"X0 must be finite with shape (tokens, d), got shape {tokens.shape}.")
    if tokens.shape[1] < 2:
        raise InputError("X0 must have at least two coordinates: on the sphere of one dimension nothing moves.")
    lengths = np.linalg.norm(tokens, axis=1)
    if np.abs(lengths - 1.0).max() > 1e-6:
        raise InputError(
            f"X0 must have rows of length one, got a row of length {lengths[np.abs(lengths - 1).argmax()]:.6g}."
        )
    return tokens / lengths[:, None]


def _model(
    beta: float, query_key: Any, value: Any, normalized: bool, heads: Any, feed_forward: Any, d: int, last: float
) -> Model:
    if not isinstance(beta, (int, float, np.number)) or not np.isfinite(beta):
        raise InputError(f"beta must be a finite number, got {beta!r}.")
    if heads is not None and (query_key is not None or value is not None):
        raise InputError("heads must be left out when query_key or value is given.")
    pairs = [(query_key, value)] if heads is None else list(heads)
    if not pairs:
        raise InputError("heads must hold at least one pair (query_key, value), got none.")
    checked = [checked_head(first, second, d) for first, second in pairs]
    part = None
    if feed_forward is not None:
        outer, inner, bias = (np.asarray(array, dtype=float) for array in feed_forward[:3])
        if outer.ndim != 2 or inner.shape != outer.T.shape or bias.shape != inner.shape[:1] or outer.shape[0] != d:
            raise InputError(f"feed_forward must be w ({d}, h), a (h, {d}), b (h,) and an activation.")
        part = (outer, inner, bias, as_activation(feed_forward[3]).function)
    return Model(float(beta), checked, normalized, part, last)


def _integrate(
    model: Model, tokens: np.ndarray, mass: np.ndarray, grid: np.ndarray, tolerance: float, merge: float
) -> tuple[np.ndarray, int, bool]:
    """States at the times of the grid, shape (time, n, d); evaluations; whether all times were reached."""
    label = np.arange(len(tokens))
    state, weights, clock = tokens, mass, 0.0
    path = np.zeros((grid.size, *tokens.shape))
    evaluations, slope = 0, model.velocity(state, weights, clock)
    step = 1e-3 / max(1.0, float(np.abs(slope).max()))
    for i, moment in enumerate(grid):
        while clock < moment:
            if evaluations > MOST_EVALUATIONS:
                path[i:] = np.nan
                return path, evaluations, False
            length = min(step, moment - clock)
            new, new_slope, error = _trial(model, state, weights, clock, length, slope)
            evaluations += 6
            error /= tolerance
            if error <= 1.0:
                clock, state, slope = (moment if length == moment - clock else clock + length), new, new_slope
                joined = _merge(state, weights, merge)
                if joined is not None:
                    parts, state, weights = joined
                    label, slope = parts[label], model.velocity(state, weights, clock)
                if len(state) == 1 and not slope.any():
                    clock = moment
            change = float(np.clip(0.9 * max(error, 1e-10) ** -0.2, 0.2, 5.0))
            # A step cut short by a requested time says nothing against the longer one.
            step = max(step, length * change) if error <= 1.0 and length < step else length * change
        path[i] = state[label]
    return path, evaluations, True


def _trial(
    model: Model, state: np.ndarray, weights: np.ndarray, clock: float, length: float, slope: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """A step of given length: tokens, their velocity there (the next step's first), and the error estimate."""
    slopes = [slope]
    point = state
    # Without softmax a step far too long may overflow: its error is then infinite, and it is tried again shorter.
    with np.errstate(over="ignore", invalid="ignore"):
        for node, row in zip(NODES, STAGES, strict=True):
            moved = state + length * sum((c * k for c, k in zip(row, slopes, strict=True) if c), np.zeros_like(state))
            point = moved / np.linalg.norm(moved, axis=1, keepdims=True)
            slopes.append(model.velocity(point, weights, clock + node * length))
        error = length * sum((c * k for c, k in zip(ERROR, slopes, strict=True) if c), np.zeros_like(state))
    largest = float(np.abs(error).max())
    return point, slopes[-1], largest if np.isfinite(largest) else np.inf


def _merge(state: np.ndarray, weights: np.ndarray, gap: float) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """New label of each token, merged tokens and weights; None if no two have met."""
    close = cosine_gaps(state) <= gap
    if gap == 0.0 or close.sum() == len(state):
        return None
    count, parts = connected_components(close, directed=False)
    mass = np.bincount(parts, weights, count)
    centres = np.stack([np.bincount(parts, weights * column, count) for column in state.T], axis=1)
    return parts, centres / np.linalg.norm(centres, axis=1, keepdims=True), mass
