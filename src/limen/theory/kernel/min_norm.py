r"""Where gradient descent on under-determined least squares ends, and what it costs to start elsewhere than at 0."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen import checks
from limen.problem.spec import InputError
from limen.theory.kernel.risk import FINITE, FilterRisk, filter_risk

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DescentLimit:
    r"""Limit of gradient descent on least squares, with what may be said about it.

    `coefficients` (p,) is $\theta_0+X^+(y-X\theta_0)$; `interpolates` says whether it fits every label; `minimum_norm`
    whether it is the least-norm solution $X^+y$, that is, whether $\theta_0$ lies in the row space of $X$;
    `outside_row_space` is the norm of the part of $\theta_0$ that training can never change.
    """

    coefficients: Floats
    interpolates: bool
    minimum_norm: bool
    outside_row_space: float


def descent_limit(inputs: ArrayLike, labels: ArrayLike, start: ArrayLike | None = None) -> DescentLimit:
    r"""Limit of gradient flow, or of gradient descent with a stable step, on $\frac1n\|y-X\theta\|^2$ from $\theta_0$:
    $$\theta_\infty=\theta_0+X^+(y-X\theta_0)=P^\perp\theta_0+X^+y,$$
    $P$ the projector on the row space of $X$: the solution nearest to $\theta_0$. It has least norm if and only if
    $P^\perp\theta_0=0$, and `minimum_norm` of the result says so.

    `inputs` (n, p), `labels` (n,), `start` $\theta_0$ (p,), 0 if not given. Directions of singular value below
    $\max(n,p)\,\epsilon\,\sigma_{\max}$ count as absent. Descent is stable for steps below `largest_stable_step`.
    Cost: one SVD.
    """
    design = checks.sample_matrix("inputs", inputs)
    targets = checks.reals("labels", labels)
    if targets.shape != design.shape[:1]:
        raise InputError(f"labels must have one entry per row of inputs ({len(design)}), got shape {targets.shape}.")
    origin = np.zeros(design.shape[1]) if start is None else checks.reals("start", start)
    if origin.shape != design.shape[1:]:
        raise InputError(
            f"start must have one entry per column of inputs ({design.shape[1]}), got shape {origin.shape}."
        )
    left, singular, right = np.linalg.svd(design, full_matrices=False)
    kept = singular > max(design.shape) * np.finfo(float).eps * singular.max(initial=0.0)
    left, singular, right = left[:, kept], singular[kept], right[kept]
    frozen = origin - right.T @ (right @ origin)
    # A second projection removes what round-off of the first left inside the row space.
    frozen -= right.T @ (right @ frozen)
    outside = float(np.linalg.norm(frozen))
    minimum_norm = outside <= 1e-10 * float(np.linalg.norm(origin))
    least = right.T @ ((left.T @ targets) / singular)
    coefficients = least if minimum_norm else frozen + least
    misfit = np.linalg.norm(targets - left @ (left.T @ targets))
    return DescentLimit(coefficients, bool(misfit <= 1e-9 * np.linalg.norm(targets)), minimum_norm, outside)


def largest_stable_step(inputs: ArrayLike) -> float:
    r"""Gradient descent on $\frac1n\|y-X\theta\|^2$ converges for steps below $1/\lambda_{\max}(\frac1nX^\top X)$."""
    design = checks.sample_matrix("inputs", inputs)
    largest = float(np.linalg.norm(design, 2)) ** 2 / len(design)
    return 1.0 / largest if largest > 0 else float("inf")


def interpolator_risk(ratio: ArrayLike, noise: ArrayLike, squared_distance: ArrayLike = 1.0) -> FilterRisk:
    r"""Risk of the end of gradient descent from $\theta_0$ as $n,p\to\infty$, $p/n\to\gamma$, isotropic inputs.

    With noise variance $\sigma^2$ and `squared_distance` $\|\beta-\theta_0\|^2$ ($\theta_0$ independent of the data),
    $$\text{bias}=\|\beta-\theta_0\|^2\Big(1-\frac1\gamma\Big)_+,\qquad
      \text{variance}=\sigma^2\begin{cases}\gamma/(1-\gamma)&\gamma<1\\1/(\gamma-1)&\gamma>1\end{cases},\qquad
      \text{train}=\sigma^2(1-\gamma)_+.$$
    A good start is worth exactly the distance it saves; the part of $\theta_0-\beta$ in the $p-n$ directions without
    data is never corrected. At $\gamma=1$ the variance is infinite (0 without noise). Arguments broadcast.

    Source: Hastie, Montanari, Rosset & Tibshirani 2022, theorem 1, for the residual $y-X\theta_0$.
    """
    gamma, variance, distance = checks.broadcast(
        ratio=checks.positives("ratio", ratio),
        noise=checks.non_negatives("noise", noise),
        squared_distance=checks.non_negatives("squared_distance", squared_distance),
    )
    bias = distance * np.maximum(0.0, 1 - 1 / gamma)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.minimum(gamma, 1.0) / np.abs(1 - gamma)
        added = np.where(variance > 0, variance * gain, 0.0)
    status = FINITE if np.isfinite(added).all() else "The variance is infinite where ratio is 1: add a ridge penalty."
    return filter_risk(bias, added, variance * np.maximum(0.0, 1 - gamma), status)


def covariance_error(ratio: ArrayLike) -> float | Floats:
    r"""$\|\hat\Sigma-I\|_{op}\to2\sqrt\gamma+\gamma$ for isotropic inputs as $n,p\to\infty$, $p/n\to\gamma$.

    The right edge $(1+\sqrt\gamma)^2$ of the Marchenko–Pastur law is always farther from 1 than the left one
    (Bai & Yin 1993).
    """
    gamma = checks.positives("ratio", ratio)
    return checks.plain(2 * np.sqrt(gamma) + gamma)
