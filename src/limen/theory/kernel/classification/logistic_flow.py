r"""Gradient flow of logistic, exponential and softer losses on separable data, up to times like $e^{1000}$.

The losses are $\ell_c(m)=\frac1c\log(1+ce^{-m})$ of the margin $m$: logistic at `softness` $c=1$, exponential
($e^{-m}$) at $c=0$. They differ where labels are missed, with slope $-1/c$ there, and share the tail
$-\ell_c'(m)=\frac{e^{-m}}{1+ce^{-m}}\simeq e^{-m}$, which alone decides where the flow goes.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp
from scipy.special import expit, logsumexp

from limen import checks
from limen.problem.spec import InputError
from limen.theory.kernel.classification.max_margin import labelled_rows, max_margin

Floats = NDArray[np.float64]

# Exponents are capped where only a rejected trial step of the solver can reach.
LARGEST_EXPONENT = 500.0
TOLERANCE = 1e-11


def logistic_flow(
    rows: ArrayLike, log_times: ArrayLike, start: ArrayLike | None = None, softness: float = 1.0
) -> Floats:
    r"""Weights $w(t)$ of $\dot w=-\nabla L$, $L=\frac1n\sum_i\frac1c\log(1+ce^{-\langle w,\bar x_i\rangle})$, shape
    (time, coordinate); `softness` $c=1$ is the logistic, $c=0$ the exponential loss.

    `rows` (n, d) are $\bar x_i=y_ix_i$, separable through the origin; `log_times` increasing values of $\log t$
    ($-\infty$ is $t=0$); `start` is $w(0)$, 0 if not given. The weights grow like $\log t$, so the flow is
    integrated in $s=\log(1+t)$,
    $$\frac{dw}{ds}=\frac1n\sum_i\bar x_i\exp\big(s-\log(c+e^{\langle w,\bar x_i\rangle})\big),$$
    where no factor overflows: margins grow as fast as $s$. Solved in the span of the rows by backward
    differentiation (LSODA) with the exact Jacobian; the equation is stiff in the directions of the support vectors and
    $dw/ds$ tends to the max-margin solution. Tolerance $10^{-11}$. At any $t$ it takes hundredths of a second for tens
    of rows.

    Gradient descent with step $\eta$ follows it at $t=\eta k$ for small $\eta$.
    """
    points = labelled_rows(rows)
    max_margin(points)
    instants = _instants(log_times)
    origin = np.zeros(points.shape[1]) if start is None else checks.reals("start", start)
    if origin.shape != points.shape[1:]:
        raise InputError(f"start must have one entry per column of rows ({points.shape[1]}), got {origin.shape}.")
    basis = np.linalg.svd(points, full_matrices=False)[2][: np.linalg.matrix_rank(points)]
    reduced, initial = points @ basis.T, points @ origin
    samples, log_softness = len(points), _log_softness(softness)

    def pull(s: float, margins: Floats) -> Floats:
        return np.exp(np.minimum(s - np.logaddexp(log_softness, margins), LARGEST_EXPONENT)) / samples

    def velocity(s: float, moved: Floats) -> Floats:
        return reduced.T @ pull(s, initial + reduced @ moved)

    def jacobian(s: float, moved: Floats) -> Floats:
        margins = initial + reduced @ moved
        return -(reduced.T * (pull(s, margins) * expit(margins - log_softness))) @ reduced

    places, which = np.unique(np.concatenate([[0.0], instants]), return_inverse=True)
    solution = solve_ivp(
        velocity,
        (0.0, max(float(places[-1]), 1e-300)),
        np.zeros(len(basis)),
        method="LSODA",
        t_eval=places,
        jac=jacobian,
        rtol=TOLERANCE,
        atol=TOLERANCE,
    )
    if not solution.success:
        raise ArithmeticError(f"The logistic flow could not be integrated: {solution.message}")
    return origin + solution.y.T[which[1:]] @ basis


def log_logistic_loss(rows: ArrayLike, weights: ArrayLike, softness: float = 1.0) -> float | Floats:
    r"""$\log L$ of `weights` (..., d), finite even where $L=e^{-1000}$ underflows; `softness` as in `logistic_flow`."""
    margins = checks.reals("weights", weights) @ labelled_rows(rows).T
    log_softness = _log_softness(softness)
    # log(log(1 + c e^-m) / c) is -m + O(c e^-m) for large margins.
    far = margins - log_softness > 36.0
    shifted = np.where(far, 0.0, margins - log_softness)
    logs = np.where(far, -margins, np.log(np.logaddexp(0.0, -shifted)) - np.where(far, 0.0, log_softness))
    return checks.plain(logsumexp(logs, axis=-1) - np.log(margins.shape[-1]))


def normalized_margin(rows: ArrayLike, weights: ArrayLike) -> float | Floats:
    r"""$\min_i\langle w,\bar x_i\rangle/\|w\|$ of `weights` (..., d), none of them zero."""
    vectors = checks.reals("weights", weights)
    norms = np.linalg.norm(vectors, axis=-1)
    if (norms == 0).any():
        raise InputError("weights must not be zero where a margin is asked for.")
    return checks.plain((vectors @ labelled_rows(rows).T).min(axis=-1) / norms)


def direction_error(rows: ArrayLike, weights: ArrayLike) -> float | Floats:
    r"""$\|w/\|w\|-\hat w/\|\hat w\|\|$ of `weights` (..., d), none of them zero, from the max-margin direction."""
    vectors = checks.reals("weights", weights)
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if (norms == 0).any():
        raise InputError("weights must not be zero where a direction is asked for.")
    best = max_margin(rows)
    return checks.plain(np.linalg.norm(vectors / norms - best.weights * best.margin, axis=-1))


def _log_softness(softness: float) -> float:
    value = checks.non_negative("softness", softness)
    return float(np.log(value)) if value > 0 else -np.inf


def _instants(log_times: ArrayLike) -> Floats:
    logs = np.atleast_1d(checks.reals_or_infinite("log_times", log_times))
    if logs.ndim != 1 or logs.size == 0 or (np.diff(logs) <= 0).any() or np.isposinf(logs).any():
        raise InputError("log_times must be an increasing list of values of log t, each below infinity.")
    return np.logaddexp(0.0, logs)
