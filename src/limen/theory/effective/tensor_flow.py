r"""Spiked matrices and tensors as $N\to\infty$ with step $c/N$: flow, fixed points, critical signal.

$m=\langle x,v\rangle$ and $r=\|x\|^2-m^2$ follow, with $R^2=m^2+r$,
$$\dot m=2k\,m(\lambda m^{k-2}-R^{2(k-1)}),\qquad\dot r=-4kR^{2(k-1)}(r-c)$$
(Ben Arous, Gheissari & Jagannath 2022, where $k=2$ and $c=1$). Gradients have covariance
$V=4kR^{2(k-1)}I+4k(k-1)R^{2(k-2)}xx^\top$ around their mean.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from limen.problem import InputError, OnlinePCA, SpikedTensor
from limen.theory.lsoda import lsoda

TOLERANCE = 1e-10


def checked_tensor(problem: Any, what: str) -> SpikedTensor:
    """The problem, or a sentence that `what` is for spiked tensors."""
    if not isinstance(problem, SpikedTensor):
        raise InputError(f"problem must be a SpikedTensor for {what}, got {type(problem).__name__}.")
    return problem


def tensor_drift(problem: SpikedTensor, m: Any, r: Any) -> tuple[np.ndarray, np.ndarray]:
    r"""$(\dot m,\dot r)$ at arrays of $m$ and $r\ge0$ that broadcast."""
    k, signal = problem.order, problem.signal
    m, r = np.asarray(m, dtype=float), np.asarray(r, dtype=float)
    shrink = (m**2 + r) ** (k - 1)
    return 2.0 * k * (signal * m ** (k - 1) - shrink * m), -4.0 * k * shrink * (r - problem.step)


def gradient_covariance_trace(problem: SpikedTensor, dimension: int, square_norm: float) -> float:
    r"""$\mathrm{tr}\,V=4kR^{2(k-1)}(N+k-1)$ at $\|x\|^2=R^2=$ `square_norm`, exact at finite $N=$ `dimension`."""
    k = checked_tensor(problem, "gradient_covariance_trace").order
    return 4.0 * k * square_norm ** (k - 1) * (dimension + k - 1)


def tensor_flow(problem: SpikedTensor, m0: Any, r0: Any, times: Any) -> tuple[np.ndarray, np.ndarray]:
    r"""$m(t)$ and $r(t)$ at `times` from $m_0$, $r_0=\|x_0\|^2-m_0^2$, as $N\to\infty$.

    Integrated to a relative $10^{-10}$. `times` is an increasing array from 0 on, or one number; `m0` and `r0` are
    numbers or arrays that broadcast. Shapes are those of the starts followed by that of `times`.
    """
    checked_tensor(problem, "tensor_flow")
    starts = np.stack(np.broadcast_arrays(np.asarray(m0, dtype=float), np.asarray(r0, dtype=float)))
    if not (np.isfinite(starts).all() and (starts[1] >= 0.0).all()):
        raise InputError(f"r0 must be at least 0 and m0 finite, got {r0!r} and {m0!r}.")
    grid = np.atleast_1d(np.asarray(times, dtype=float))
    if grid.ndim != 1 or not np.isfinite(grid).all() or grid[0] < 0.0 or (np.diff(grid) <= 0.0).any():
        raise InputError("times must be an increasing list of non-negative numbers.")
    shape, count = starts.shape, starts[0].size
    if grid[-1] == 0.0:
        path = starts[..., None]
    else:
        solution = lsoda(
            lambda t, y: np.concatenate(tensor_drift(problem, y[:count], np.maximum(y[count:], 0.0))),
            starts.ravel(),
            grid,
            rtol=TOLERANCE,
            atol=1e-14,
        )
        if not solution.success:
            raise InputError(f"the flow cannot be followed to t = {grid[-1]:g} from m0 = {m0}, r0 = {r0}.")
        path = solution.y.reshape(*shape, grid.size)
    return (path[0], path[1]) if np.ndim(times) else (path[0][..., -1], path[1][..., -1])


def critical_signal(problem: Any) -> float:
    r"""The signal above which an overlap other than zero is stable, at the problem's step.

    `SpikedTensor`: $\lambda_c=c^{k/2}\big(\frac{2(k-1)}k\big)^{k-1}\big(\frac{k-2}k\big)^{-(k-2)/2}$, which is $c$ for
    matrices, where $(0,c)$ loses its stability; for $k\ge3$ it stays stable and a pair of fixed points is born.
    `OnlinePCA`: $\lambda_c=\delta$.
    """
    if isinstance(problem, OnlinePCA):
        return problem.step
    tensor = checked_tensor(problem, "critical_signal (or OnlinePCA)")
    k = tensor.order
    # 0^0 = 1 for matrices
    shape = (2.0 * (k - 1) / k) ** (k - 1) * ((k - 2) / k) ** (-(k - 2) / 2.0) if k > 2 else 1.0
    return tensor.step ** (k / 2.0) * shape


def tensor_fixed_points(problem: SpikedTensor) -> tuple[float, ...]:
    r"""Positive overlaps of the fixed points on $r=c$, ascending: $\lambda m^{k-2}=(m^2+c)^{k-1}$.

    None below the critical signal; one, stable, for matrices; the unstable $m_-$ and the stable $m_+$ for $k\ge3$.
    Even orders have the mirrored ones as well. $(0,c)$ is always a fixed point.
    """
    k, signal, c = checked_tensor(problem, "tensor_fixed_points").order, problem.signal, problem.step
    if signal <= critical_signal(problem):
        return ()
    if k == 2:
        return ((signal - c) ** 0.5,)

    def excess(m: float) -> float:
        return np.log(signal) + (k - 2) * np.log(m) - (k - 1) * np.log(m * m + c)

    # The excess is largest at m^2 = c (k-2)/k and falls on both sides.
    top = (c * (k - 2) / k) ** 0.5
    low, high = 0.5 * top, 2.0 * top
    while excess(low) > 0.0:
        low *= 0.5
    while excess(high) > 0.0:
        high *= 2.0
    roots = (brentq(excess, low, top, xtol=1e-15), brentq(excess, top, high, xtol=1e-15))
    return tuple(float(root) for root in roots)  # pyright: ignore[reportArgumentType]


def tensor_fixed_point(problem: SpikedTensor) -> float:
    """The stable positive overlap; refused below the critical signal."""
    points = tensor_fixed_points(problem)
    if not points:
        raise InputError(
            f"signal must be greater than the critical {critical_signal(problem):.6g} for an overlap other than zero "
            f"to be stable, got {problem.signal:g}."
        )
    return points[-1]


def square_at_rest(c: float, order: int, r0: float) -> Callable[[Any], np.ndarray]:
    r"""$r(t)$ while the overlap is negligible, $\dot r=-4kr^{k-1}(r-c)$ from $r_0>0$; closed form for matrices."""
    if r0 == c:
        return lambda t: np.full(np.shape(t), c)
    if order == 2:
        return lambda t: c * r0 / (r0 + (c - r0) * np.exp(-8.0 * c * np.asarray(t, dtype=float)))
    # By then 40 relaxation times have passed, even at the slowest rate on the way.
    settled = 10.0 / (order * min(c, r0) ** (order - 1))
    solution = solve_ivp(
        lambda t, r: -4.0 * order * r ** (order - 1) * (r - c),
        (0.0, settled),
        (r0,),
        method="LSODA",
        dense_output=True,
        rtol=TOLERANCE,
        atol=1e-14,
    )

    def square(t: Any) -> np.ndarray:
        t = np.asarray(t, dtype=float)
        return np.where(t < settled, solution.sol(np.minimum(t, settled).ravel())[0].reshape(t.shape), c)

    return square
