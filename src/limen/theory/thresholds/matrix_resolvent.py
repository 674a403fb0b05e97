r"""The $m\times m$ resolvent trace of $\frac1n\sum_iG_i\otimes x_ix_i^\top$, left of the bulk and off the axis."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from limen.problem.spec import InputError

NEWTON_STEPS = 30
TOLERANCE = 1e-12
ROUNDING = 1e-7
SINGULAR = 1e-7
STRIDE = 1.6
SHORTEST_STRIDE = 1.0 + 1e-6
VANISHING = 1e-6


@dataclass(frozen=True, eq=False)
class BranchPoint:
    r"""The solution at $x=m/\mathrm{tr}\,\alpha$: $z$ and $\alpha=LL^\top$.

    `factor` is $L$; `shrunk` are $B_i=L^\top K_iL$, $K_i=G_i(I+\alpha G_i/\delta)^{-1}$, shape `(m*m, N)`; `transfer`
    is the matrix of $X\mapsto\frac1\delta E[BXB]$, shape `(m*m, m*m)`.
    """

    x: float
    z: float
    factor: np.ndarray
    shrunk: np.ndarray
    transfer: np.ndarray

    @property
    def alpha(self) -> np.ndarray:
        r"""$\alpha$, shape `(m, m)`."""
        return self.factor @ self.factor.T

    @cached_property
    def growth(self) -> float:
        r"""Largest eigenvalue of the transfer map, which is positive: one exactly at the edge of the bulk."""
        return float(np.abs(np.linalg.eigvals(self.transfer)).max())

    @property
    def kernels(self) -> np.ndarray:
        r"""$K_i=G_i(I+\alpha G_i/\delta)^{-1}$, shape `(m, m, N)`."""
        inverse = np.linalg.inv(self.factor)
        return (np.kron(inverse, inverse).T @ self.shrunk).reshape(*inverse.shape, -1)

    @cached_property
    def alpha_slope(self) -> np.ndarray:
        r"""$\frac{d\alpha}{dz}=LXL^\top$ with $X-\frac1\delta E[BXB]=L^\top L$."""
        size = len(self.factor)
        source = (self.factor.T @ self.factor).ravel()
        change = np.linalg.solve(np.eye(size * size) - self.transfer, source).reshape(size, size)
        return self.factor @ change @ self.factor.T


@dataclass(frozen=True, eq=False)
class LeftBranch:
    r"""Solutions of $\alpha^{-1}=-zI+E\big[G(I+\alpha G/\delta)^{-1}\big]$ left of the bulk, as $n/d\to\delta$.

    They form a curve on which $\mathrm{tr}\,\alpha$ increases with $z$; past the edge $z$ turns back. The curve is
    therefore followed in $x=m/\mathrm{tr}\,\alpha$ from $z\to-\infty$, with Newton steps on $(\alpha,z)$ that keep
    $\alpha$ and every $I+\alpha^{1/2}G_i\alpha^{1/2}/\delta$ positive definite, and the edge is where the transfer map
    reaches one. For $m=1$, $x=1/\alpha$. `weights` has shape `(N, m, m)`, symmetric. One Newton step costs
    $O(N(m^3+m^4))$.
    """

    weights: np.ndarray
    delta: float
    _known: dict[float, BranchPoint] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def start(self) -> BranchPoint:
        r"""A point far left of everything: $\alpha\simeq I/x$."""
        largest = float(np.abs(np.linalg.eigvalsh(self.weights)).max())
        x = 4.0 * largest * max(1.0, 1.0 / self.delta)
        point = self._newton(x, np.eye(self.weights.shape[1]) / x**0.5, -x)
        assert point is not None
        return point

    @cached_property
    def edge(self) -> BranchPoint | None:
        r"""The left edge of the bulk; `None` if the curve rises to $z=0$ with unbounded $\alpha$ instead.

        That happens if no $G_i$ has a negative direction and the matrix has a null space.
        """
        outside, stride = self.start, STRIDE
        while True:
            inside = self._newton(outside.x / stride, outside.factor, outside.z)
            if inside is None:
                # The curve ends, but only beyond the edge.
                stride = stride**0.5
                if stride < SHORTEST_STRIDE:
                    raise InputError("weights give a bulk whose left edge cannot be found: give more samples.")
                continue
            if inside.growth >= 1.0:
                break
            outside = self._keep(inside)
            # Otherwise z is positive by now, or tends to a negative number.
            if outside.x < VANISHING * self.start.x and -10.0 * VANISHING * self.start.x < outside.z <= 0.0:
                return None
        self._keep(inside)
        # growth^(-1/2) is concave and nearly straight in x.
        return self.at(find_root(lambda x: self.at(x).growth ** -0.5 - 1.0, inside.x, outside.x))

    def at(self, x: float) -> BranchPoint:
        """The point at `x`, which must not lie past the end of the curve."""
        known = {self.start.x: self.start, **self._known}
        point = known[min(known, key=lambda other: abs(np.log(other / x)))]
        ratio = x / point.x
        while point.x != x:
            target = x if abs(np.log(x / point.x)) <= abs(np.log(ratio)) * 1.000001 else point.x * ratio
            found = self._newton(target, point.factor, point.z)
            if found is not None:
                point = self._keep(found)
            elif max(ratio, 1.0 / ratio) > SHORTEST_STRIDE:
                ratio = ratio**0.5
            else:
                raise InputError(f"weights give no solution left of the bulk at x = {x:g}.")
        return point

    def at_level(self, level: float) -> BranchPoint:
        r"""The point with $z=$ `level`, left of the edge."""
        low = self.edge.x if self.edge is not None else VANISHING * self.start.x
        high = self.start.x
        while self.at(high).z >= level:
            high *= 2.0
        return self.at(find_root(lambda x: level - self.at(x).z, low, high))

    def _keep(self, point: BranchPoint) -> BranchPoint:
        self._known[point.x] = point
        return point

    def _newton(self, x: float, factor: np.ndarray, z: float) -> BranchPoint | None:
        """From the factor and the z of another point, so that the first step is along the tangent of the curve."""
        size = len(factor)
        identity = np.eye(size)
        bordered = np.zeros((size * size + 1, size * size + 1))
        previous = np.inf
        for _ in range(NEWTON_STEPS):
            state = self._whitened(factor)
            if state is None:
                return None
            shrunk, mean, transfer = state
            metric = factor.T @ factor
            scale = float(np.abs(metric).max())
            bordered[:-1, :-1] = transfer - np.eye(size * size)
            bordered[:-1, -1] = bordered[-1, :-1] = metric.ravel() / scale
            miss = identity + z * metric - mean
            wanted = np.append(-miss.ravel(), (size / x - np.trace(metric)) / scale)
            # The shortest solution: equal neurons make the edge a multiple point, where only one change is meant.
            solved = np.linalg.lstsq(bordered, wanted, rcond=SINGULAR)[0]
            change = 0.5 * (solved[:-1].reshape(size, size) + solved[:-1].reshape(size, size).T)
            largest = max(float(np.abs(change).max()), abs(float(solved[-1])) / (1.0 + abs(z) * scale))
            # Steps that are small and shrink no more are rounding.
            if largest <= TOLERANCE or (largest <= ROUNDING and largest > 0.5 * previous):
                return BranchPoint(x, z, factor, shrunk, transfer)
            previous = largest
            # A full step may leave the cone of positive matrices.
            damping = min(1.0, 0.5 / max(0.5, -float(np.linalg.eigvalsh(change)[0])))
            factor = factor @ np.linalg.cholesky(identity + damping * change)
            z += damping * float(solved[-1]) / scale
        return None

    def _whitened(self, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        size = len(factor)
        turned = np.kron(factor, factor).T @ self._flat
        kept = turned / self.delta
        kept[:: size + 1] += 1.0
        inverses, lowest = _inverses(kept.reshape(size, size, -1))
        if not lowest > 0.0:
            return None
        shrunk = np.einsum("ijn,jkn->ikn", turned.reshape(size, size, -1), inverses).reshape(size * size, -1)
        return shrunk, shrunk.mean(axis=1).reshape(size, size), _transfer(shrunk, self.delta)

    @cached_property
    def _flat(self) -> np.ndarray:
        return np.ascontiguousarray(self.weights.reshape(len(self.weights), -1).T)


def _transfer(kernels: np.ndarray, delta: float) -> np.ndarray:
    r"""Matrix of $X\mapsto\frac1\delta E[KXK]$ for kernels `(m*m, N)`."""
    square, count = kernels.shape
    size = round(square**0.5)
    gram = (kernels @ kernels.T / (delta * count)).reshape(size, size, size, size)
    # (T X)_ik = E[K_ij X_jl K_lk] / delta.
    return gram.transpose(0, 3, 1, 2).reshape(square, square)


def _inverses(matrices: np.ndarray) -> tuple[np.ndarray, float]:
    """Inverses of symmetric matrices `(m, m, N)`, all at once, and the smallest real part of a pivot.

    Elimination without exchange: real matrices are positive definite iff every pivot is positive, and pivots of
    complex ones with a definite imaginary part never vanish.
    """
    inverses, lowest = matrices.copy(), np.inf
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for k in range(len(matrices)):
            pivot = inverses[k, k].copy()
            lowest = min(lowest, float(np.real(pivot).min()))
            column, row = inverses[:, k].copy(), inverses[k] / pivot
            inverses -= column[:, None] * row
            inverses[k], inverses[:, k] = row, -column / pivot
            inverses[k, k] = 1.0 / pivot
    return inverses, lowest


def upper_resolvent(
    weights: np.ndarray, delta: float, z: complex, start: np.ndarray | None = None, reach: float = 1.0
) -> np.ndarray:
    r"""$\alpha(z)$ for $\mathrm{Im}\,z>0$, shape `(m, m)`: complex symmetric with positive definite imaginary part.

    Newton from `start`, a solution at a nearby point; where that fails, from $z+i\eta$ with $\eta$ of order `reach`,
    the size of the spectrum, halved down to zero.
    """
    if start is not None:
        found = _upper_newton(weights, delta, z, start)
        if found is not None:
            return found
    lift, shrink = 8.0 * reach, 0.5
    alpha = _upper_newton(weights, delta, z + 1j * lift, -np.eye(weights.shape[1]) / (z + 1j * lift))
    while alpha is not None:
        lower = shrink * lift if lift > 0.05 * z.imag else 0.0
        found = _upper_newton(weights, delta, z + 1j * lower, alpha)
        if found is not None and lower == 0.0:
            return found
        if found is not None:
            alpha, lift = found, lower
        elif shrink < 0.98:
            shrink = shrink**0.5
        else:
            break
    raise InputError(f"weights give no resolvent that Newton's method finds at z = {z:g}.")


def upper_kernels(weights: np.ndarray, delta: float, alpha: np.ndarray) -> np.ndarray:
    r"""$K_i=G_i(I+\alpha G_i/\delta)^{-1}$ for a complex $\alpha$ of the upper half plane, shape `(m, m, N)`.

    Written as $G(A+G/\delta)^{-1}A$, $A=\alpha^{-1}$, where the imaginary part of $A$ is negative definite.
    """
    inverse = np.linalg.inv(alpha)
    inverse = 0.5 * (inverse + inverse.T)
    moved = np.moveaxis(weights, 0, -1)
    inverses, _ = _inverses(inverse[:, :, None] + moved / delta)
    return np.einsum("ijn,jkn->ikn", moved, np.einsum("ijn,jk->ikn", inverses, inverse))


def _upper_newton(weights: np.ndarray, delta: float, z: complex, alpha: np.ndarray) -> np.ndarray | None:
    size = len(alpha)
    for _ in range(NEWTON_STEPS):
        kernels = upper_kernels(weights, delta, alpha).reshape(size * size, -1)
        mean = kernels.mean(axis=1).reshape(size, size)
        miss = alpha + alpha @ (z * np.eye(size) - mean) @ alpha
        jacobian = np.eye(size * size) - np.kron(alpha, alpha) @ _transfer(kernels, delta)
        change = np.linalg.solve(jacobian, miss.ravel()).reshape(size, size)
        moved, size_of_step = alpha + change, np.abs(change).max()
        for _ in range(NEWTON_STEPS):
            # What every resolvent obeys: a positive imaginary part, and a norm of at most 1 / Im z.
            if np.linalg.eigvalsh(np.imag(moved + moved.T))[0] > 0.0 and np.linalg.norm(moved, 2) <= 1.0 / z.imag:
                break
            change = 0.5 * change
            moved = alpha + change
        else:
            return None
        alpha = 0.5 * (moved + moved.T)
        if size_of_step <= TOLERANCE * np.abs(alpha).max():
            return alpha
    return None


def find_root(function: Callable[[float], float], low: float, high: float) -> float:
    """A bracketed root, to rounding."""
    root = brentq(function, low, high, xtol=1e-12 * high)
    return float(root)  # pyright: ignore[reportArgumentType]
