"""Training of a network linearised at its start, in closed form: gradient flow, gradient descent and their limit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen import checks
from limen.problem.spec import InputError

Floats = NDArray[np.float64]
_ROUNDING = 1e-10  # eigenvalues this far below zero, relative to the largest, are rounding of a Gram matrix


@dataclass(frozen=True)
class LinearizedTraining:
    r"""Outputs of the linearised network at T recorded moments, for labels of shape (n,) or (n, k).

    `train` is (T, n[, k]), `test` (T, m[, k]), or None without a cross kernel. `coefficients` $c_t$ (T, n[, k]) give
    everything else: a new output is $f_0(x)+K_xc_t$ and the parameters are $\bar\theta_t=\theta_0+J^\top c_t$, with $J$
    the Jacobian at the start, so that $\|\bar\theta_t-\theta_0\|^2=c_t^\top Kc_t$.
    """

    train: Floats
    test: Floats | None
    coefficients: Floats


def linearized_training(
    kernel: ArrayLike,
    labels: ArrayLike,
    times: ArrayLike,
    outputs: ArrayLike | None = None,
    cross_kernel: ArrayLike | None = None,
    cross_outputs: ArrayLike | None = None,
) -> LinearizedTraining:
    r"""Gradient flow of $\frac1{2n}\|y-f\|^2$ with the tangent kernel frozen at its start.

    $$f_t=y+e^{-tK/n}(f_0-y),\qquad f_t(x)=f_0(x)+K_x\,c_t,\qquad c_t=\frac{1-e^{-tK/n}}{K}\,(y-f_0),$$
    where $(1-e^{-t\lambda/n})/\lambda$ takes its limit $t/n$ at $\lambda=0$.

    `kernel` $K$ is (n, n), symmetric and positive semi-definite; `labels` $y$ is (n,) or (n, k); `times` $t\ge0$;
    `outputs` $f_0$ on the training inputs and `cross_outputs` on m others, both 0 by default; `cross_kernel` $K_x$ is
    (m, n). Exact for a linear model; for a network of width $m$ in the tangent parametrisation the outputs differ
    by $O(1/m)$. Cost: one `eigh`, then $O(n(n+m))$ per time. Source: Lee et al. 2019.
    """
    problem = _checked(kernel, labels, outputs, cross_kernel, cross_outputs)
    moments = np.atleast_1d(checks.non_negatives("times", times))
    samples = len(problem.eigenvalues)
    return problem.fitted([-np.expm1(-t / samples * problem.eigenvalues) for t in moments], moments / samples)


def linearized_descent(
    kernel: ArrayLike,
    labels: ArrayLike,
    step: float,
    steps: ArrayLike,
    outputs: ArrayLike | None = None,
    cross_kernel: ArrayLike | None = None,
    cross_outputs: ArrayLike | None = None,
) -> LinearizedTraining:
    r"""Gradient descent of $\frac1{2n}\|y-f\|^2$ with step $\eta$: residuals $(1-\eta K/n)^k(y-f_0)$ after $k$ steps.

    Stable if and only if $\eta<2n/\lambda_{\max}(K)$; a larger `step` is refused. `steps` are the numbers $k$ of steps
    to report; the rest as in `linearized_training`.
    """
    problem = _checked(kernel, labels, outputs, cross_kernel, cross_outputs)
    eta = checks.positive("step", step)
    counts = np.atleast_1d(checks.non_negatives("steps", steps))
    if (counts != np.round(counts)).any():
        raise InputError(f"steps must be whole numbers, got {float(counts[counts != np.round(counts)][0])}.")
    samples = len(problem.eigenvalues)
    largest = float(problem.eigenvalues.max())
    if eta * largest >= 2 * samples:
        raise InputError(
            f"step must be below 2n/lambda_max = {2 * samples / largest:.6g}, where gradient descent is stable, "
            f"got {eta}."
        )
    contraction = eta / samples * problem.eigenvalues
    slow = contraction < 0.5  # there 1 - (1 - x)^k cancels

    def share(count: float) -> Floats:
        return np.where(
            slow, -np.expm1(count * np.log1p(-np.where(slow, contraction, 0.0))), 1 - (1 - contraction) ** count
        )

    return problem.fitted([share(count) for count in counts], counts * eta / samples)


def nearest_interpolator(
    kernel: ArrayLike,
    labels: ArrayLike,
    outputs: ArrayLike | None = None,
    cross_kernel: ArrayLike | None = None,
    cross_outputs: ArrayLike | None = None,
) -> LinearizedTraining:
    r"""The limit of both algorithms: $\theta_0+J^+(y-f_0)$, the interpolator nearest to the start; one moment in time.

    New outputs are $f_0(x)+K_xK^+(y-f_0)$. Refused when the kernel has a null direction (such as one input with two
    different labels) in which the labels differ from the start, since then nothing interpolates.
    """
    problem = _checked(kernel, labels, outputs, cross_kernel, cross_outputs)
    share = (problem.eigenvalues > 1e-12 * problem.eigenvalues.max()).astype(float)
    unreachable = float(np.linalg.norm(problem.projected[share == 0.0]))
    if unreachable > 1e-6 * float(np.linalg.norm(problem.projected)):
        raise InputError(
            f"labels must be reachable by the kernel, got a part of norm {unreachable:.3g} in its null space "
            "(equal inputs with different labels?)."
        )
    return problem.fitted([share], np.zeros(1))


@dataclass(frozen=True)
class _Eigenproblem:
    eigenvalues: Floats
    vectors: Floats
    projected: Floats  # labels minus start outputs in the eigenbasis, (n, k)
    outputs: Floats
    cross_kernel: Floats | None
    cross_outputs: Floats | None
    shape: tuple[int, ...]

    def fitted(self, shares: list[Floats], at_zero: Floats) -> LinearizedTraining:
        """The training in which mode i has learnt the fraction `share[i]`, `at_zero` being share/eigenvalue at 0."""
        train, test, coefficients = [], [], []
        positive = self.eigenvalues > 0
        for share, limit in zip(shares, at_zero, strict=True):
            ratio = np.where(positive, share / np.where(positive, self.eigenvalues, 1.0), limit)
            weights = self.vectors @ (ratio[:, None] * self.projected)
            coefficients.append(weights.reshape(self.shape))
            train.append((self.outputs + self.vectors @ (share[:, None] * self.projected)).reshape(self.shape))
            if self.cross_kernel is not None and self.cross_outputs is not None:
                new = self.cross_outputs + self.cross_kernel @ weights
                test.append(new.reshape(-1, *self.shape[1:]))
        stacked = np.array(test) if self.cross_kernel is not None else None
        return LinearizedTraining(np.array(train), stacked, np.array(coefficients))


def _checked(
    kernel: ArrayLike,
    labels: ArrayLike,
    outputs: ArrayLike | None,
    cross_kernel: ArrayLike | None,
    cross_outputs: ArrayLike | None,
) -> _Eigenproblem:
    matrix, target = checks.reals("kernel", kernel), checks.reals("labels", labels)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise InputError(f"kernel must be a square matrix, got shape {matrix.shape}.")
    size = float(np.max(np.abs(matrix)))
    asymmetry = float(np.max(np.abs(matrix - matrix.T)))
    if asymmetry > _ROUNDING * size:
        raise InputError(f"kernel must be symmetric, got entries that differ by {asymmetry:.3g}.")
    if target.ndim not in (1, 2) or len(target) != len(matrix):
        raise InputError(f"labels must have one row per row of the kernel ({len(matrix)}), got shape {target.shape}.")
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    if values[0] < -_ROUNDING * len(values) * max(values[-1], 0.0) or values[-1] <= 0:
        raise InputError(f"kernel must be positive semi-definite and not 0, got the eigenvalue {values[0]:.6g}.")
    start = _like("outputs", outputs, target.shape)
    cross = new = None
    if cross_kernel is not None:
        cross = checks.reals("cross_kernel", cross_kernel)
        if cross.ndim != 2 or cross.shape[1] != len(matrix):
            raise InputError(f"cross_kernel must have {len(matrix)} columns, got shape {cross.shape}.")
        new = _like("cross_outputs", cross_outputs, (len(cross), *target.shape[1:])).reshape(len(cross), -1)
    elif cross_outputs is not None:
        raise InputError("cross_outputs must come with a cross_kernel, got none.")
    projected = vectors.T @ (target - start).reshape(len(matrix), -1)
    flat = start.reshape(len(matrix), -1)
    return _Eigenproblem(np.maximum(values, 0.0), vectors, projected, flat, cross, new, target.shape)


def _like(name: str, value: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    if value is None:
        return np.zeros(shape)
    array = checks.reals(name, value)
    if array.shape != shape:
        raise InputError(f"{name} must have shape {shape}, got {array.shape}.")
    return array
