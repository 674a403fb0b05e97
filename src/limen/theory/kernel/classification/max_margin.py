r"""The max-margin separator, and the constants with which logistic regression approaches it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog, nnls

from limen import checks
from limen.problem.spec import InputError

Floats = NDArray[np.float64]

SMALLEST_MARGIN = 1e-7
SUPPORT_TOLERANCE = 1e-7


class MaxMargin(NamedTuple):
    r"""$\hat w=\arg\min\{\|w\|:\langle w,\bar x_i\rangle\ge1\}$ (`weights`) and the $a\ge0$ (`multipliers`) with
    $\hat w=\sum_ia_i\bar x_i$."""

    weights: Floats
    multipliers: Floats

    @property
    def margin(self) -> float:
        r"""Largest margin $\gamma_{\max}=1/\|\hat w\|$ of a unit vector."""
        return 1.0 / float(np.linalg.norm(self.weights))


@dataclass(frozen=True)
class MarginAsymptotics:
    r"""How gradient flow on a loss with an exponential tail approaches the max-margin direction.

    `weights` $\hat w$; `multipliers` (n,) the $a_i$ that the flow selects, 0 off the support; `support` (n,) which rows
    have margin 1; `offset` $\tilde w$ on the span of the support; `loss_constant` $\lim tL$; `margin_constant`
    $\lim(\gamma_{\max}-\gamma(t))\log t$; `direction_constant` $\lim\|w/\|w\|-\hat w/\|\hat w\|\|\log t$, which is
    None when the support does not span the data, for then it depends on the whole trajectory; `approach_exponent` the
    power of $1/t$ with which the offset is reached. When `degenerate`, the corrections grow like $\log\log t$ and all
    constants but the first are None. `status` says which case it is.
    """

    weights: Floats
    multipliers: Floats
    support: NDArray[np.bool_]
    offset: Floats | None
    loss_constant: float
    margin_constant: float | None
    direction_constant: float | None
    approach_exponent: float | None
    degenerate: bool
    status: str


def max_margin(rows: ArrayLike) -> MaxMargin:
    r"""Hard-margin separator through the origin of labelled points, `rows` (n, d) being $\bar x_i=y_ix_i$.

    A least-squares problem with $a\ge0$ finds the support: the residual $r$ of $\min_{a\ge0}\|[\bar X^\top;1^\top]a-
    e_{d+1}\|$ is proportional to $(-\hat w,1)$ and vanishes if and only if the points are not separable (Lawson &
    Hanson 1974, chapter 23). The answer is then recomputed from $\langle\hat w,\bar x_i\rangle=1$ on the support,
    which loses no digits. Rows are refused as not separable when their best margin is below $10^{-7}$ of the longest
    row, where double precision cannot tell. At the optimum $\sum_ia_i=\|\hat w\|^2=1/\gamma_{\max}^2$.
    """
    points = labelled_rows(rows)
    scale = float(np.linalg.norm(points, axis=1).max())
    if scale == 0.0:
        raise InputError("rows must be linearly separable through the origin, got rows that are all zero.")
    scaled = points / scale
    system = np.vstack([scaled.T, np.ones(len(points))])
    target = np.zeros(len(system))
    target[-1] = 1.0
    coefficients, _ = nnls(system, target, maxiter=30 * len(points) + 300)
    residual = system @ coefficients - target
    separable = residual[-1] < 0 and np.linalg.norm(residual[:-1]) > SMALLEST_MARGIN * -residual[-1]
    weights = -residual[:-1] / residual[-1] if separable else np.zeros(scaled.shape[1])
    if not separable or (scaled @ weights).min() < 0.5 or np.linalg.norm(weights) > 1 / SMALLEST_MARGIN:
        raise InputError("rows must be linearly separable through the origin, got rows no weight vector separates.")
    weights, multipliers = _polished(scaled, weights, -coefficients / residual[-1])
    return MaxMargin(weights / scale, multipliers / scale**2)


def margin_asymptotics(rows: ArrayLike) -> MarginAsymptotics:
    r"""Constants of $w(t)=\hat w\log t+\tilde w+o(1)$ for $\dot w=-\nabla L$,
    $L=\frac1n\sum_i\ell(\langle w,\bar x_i\rangle)$.

    $\ell$ is any loss with the tail $-\ell'(m)=e^{-m}(1+O(e^{-m}))$, logistic and exponential among them: what it
    does to missed labels leaves no trace in the constants. (The flow of a tail $ae^{-bm}$ is $w(abt)/b$.)
    $S=\{i:\langle\hat w,\bar x_i\rangle=1\}$. On the span of $S$ the offset solves
    $\hat w=\frac1n\sum_Se^{-\langle\tilde w,\bar x_i\rangle}\bar x_i$, so that
    $\langle\tilde w,\bar x_i\rangle=-\log(na_i)$ for the multipliers $a_i>0$ this selects (the only ones if $S$ is
    linearly independent). Then
    $$tL\to\|\hat w\|^2,\qquad (\gamma_{\max}-\gamma(t))\log t\to\frac1{\|\hat w\|}\Big[\max_S\log a_i-
    \frac{\sum_Sa_i\log a_i}{\sum_Sa_i}\Big],\qquad
    \Big\|\frac{w}{\|w\|}-\frac{\hat w}{\|\hat w\|}\Big\|\log t\to\frac{\|P_{\hat w}^\perp\tilde w\|}{\|\hat w\|},$$
    the last two with corrections $O(1/\log t)$. The offset is reached like $t^{-\min(\lambda,\theta-1)}$, $\lambda$ the
    smallest eigenvalue of $\sum_Sa_i\bar x_i\bar x_i^\top$ on its span and $\theta$ the next margin
    $\langle\hat w,\bar x_i\rangle$ after 1: this can be slow, since $\lambda\le1$. If no strictly positive multipliers
    represent $\hat w$ (a set of measure zero) the support is degenerate. Start in the span of the rows, as from 0.

    Sources: Soudry, Hoffer, Nacson, Gunasekar & Srebro 2018, theorems 3–5 (their condition on $\tilde w$ is for the
    sum of the losses; here the loss is their mean).
    """
    points = labelled_rows(rows)
    weights, multipliers = max_margin(points)
    support = points @ weights <= 1 + SUPPORT_TOLERANCE
    vectors = points[support]
    norm = float(np.linalg.norm(weights))
    positive = _interior_multipliers(vectors, weights, multipliers[support])
    if positive is None:
        status = "A support vector has multiplier zero: corrections grow like log log t and have no constants."
        return MarginAsymptotics(weights, multipliers, support, None, norm**2, None, None, None, True, status)
    offset = _offset(vectors, weights, positive, len(points))
    selected = np.exp(-(vectors @ offset)) / len(points)
    selected_all = np.zeros(len(points))
    selected_all[support] = selected
    logs = np.log(selected)
    margin_constant = float(logs.max() - selected @ logs / selected.sum()) / norm
    curvatures = np.linalg.svd(np.sqrt(selected)[:, None] * vectors, compute_uv=False) ** 2
    slowest = float(curvatures[np.linalg.matrix_rank(vectors) - 1])
    approach = min(slowest, float((points[~support] @ weights).min(initial=np.inf)) - 1)
    if np.linalg.matrix_rank(vectors) < np.linalg.matrix_rank(points):
        direction, status = None, "The support does not span the data: the offset beyond its span is not universal."
    else:
        across = offset - weights * (weights @ offset) / norm**2
        direction, status = float(np.linalg.norm(across)) / norm, "The support spans the data."
    return MarginAsymptotics(
        weights, selected_all, support, offset, norm**2, margin_constant, direction, approach, False, status
    )


def labelled_rows(rows: ArrayLike) -> Floats:
    r"""The checked matrix of labelled points $y_ix_i$, one per row."""
    return checks.sample_matrix("rows", rows)


def _polished(points: Floats, weights: Floats, multipliers: Floats) -> tuple[Floats, Floats]:
    """The same solution from the equations of its support alone, kept if it satisfies the optimality conditions."""
    active = multipliers > 0
    solved = _least_squares(points[active], np.ones(active.sum()))
    dual = _least_squares(points[active].T, solved)
    if (points @ solved).min() < 1 - 1e-9 or dual.min() < 0:
        return weights, multipliers
    refined = np.zeros(len(points))
    refined[active] = dual
    return solved, refined


def _interior_multipliers(vectors: Floats, weights: Floats, multipliers: Floats) -> Floats | None:
    """Strictly positive multipliers of the support vectors, or None if there are none."""
    threshold = 1e-7 * float(multipliers.sum())
    if multipliers.min() > threshold:
        return multipliers
    if len(vectors) == np.linalg.matrix_rank(vectors):
        return None
    # Variables are the excesses b = a - tau >= 0 and the common floor tau, which is maximised.
    count = len(vectors)
    equations = np.hstack([vectors.T, vectors.sum(axis=0)[:, None]])
    objective = np.zeros(count + 1)
    objective[-1] = -1.0
    answer = linprog(objective, A_eq=equations, b_eq=weights, bounds=(0, None), method="highs")
    if not answer.success or answer.x[-1] <= threshold:
        return None
    return answer.x[:-1] + answer.x[-1]


def _offset(vectors: Floats, weights: Floats, multipliers: Floats, samples: int) -> Floats:
    r"""Minimiser over the span of the support of the convex $\frac1n\sum_Se^{-\langle u,\bar x_i\rangle}+
    \langle u,\hat w\rangle$, by Newton's method with step halving."""

    def value(u: Floats) -> float:
        return float(np.exp(np.minimum(-(vectors @ u), 700.0)).sum() / samples + u @ weights)

    offset = _least_squares(vectors, -np.log(samples * multipliers))
    for _ in range(100):
        terms = np.exp(-(vectors @ offset)) / samples
        gradient = weights - vectors.T @ terms
        step = _least_squares((vectors.T * terms) @ vectors, gradient)
        # Steps at round-off level are taken whole: the value can no longer tell them apart.
        size = 1.0
        while size > 1e-6 and gradient @ step > 1e-12 and value(offset - size * step) > value(offset):
            size /= 2
        offset = offset - size * step
        if gradient @ step < 1e-28 * (weights @ weights):
            break
    return offset


def _least_squares(matrix: Floats, target: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(matrix, target, rcond=1e-13)[0], dtype=float)
