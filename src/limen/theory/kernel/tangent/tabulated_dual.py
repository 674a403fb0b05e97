r"""$E[\sigma(u)\sigma(v)]$ and $E[\sigma'(u)\sigma'(v)]$ without closed form, tabulated once per layer."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from limen.gaussian import covariance_dual, covariance_dual_prime, dual, gaussian_rule
from limen.gaussian.angles import chebyshev_coefficients
from limen.gaussian.functions import ScalarFunction
from limen.problem.spec import InputError

Floats = NDArray[np.float64]
# (covariances, rows, columns) -> the two expectations; the covariances may be overwritten.
BlockMoments = Callable[[Floats, slice, slice], tuple[Floats, Floats]]

_SPHERE = 1e-12  # relative spread of variances that is rounding of one common value
_ACCURACY = 1e-11  # of tables, relative to the second moment at the largest variance
_REACH = 9.0  # the trapezoid rule ends here, where the normal density is 1e-18


@dataclass(frozen=True, eq=False)
class TabulatedDual:
    r"""A continuous activation by quadrature.

    Equal variances (inputs on a sphere): both expectations as series in the angle. Unequal variances, smooth $\sigma$:
    series in the angle and in both standard deviations. Unequal variances and kinks: one integral per entry,
    about 5 ms each.
    """

    function: ScalarFunction
    derivative: ScalarFunction

    def own(self, variances: Floats) -> tuple[Floats, Floats]:
        r"""$E\sigma(u)^2$ and $E\sigma'(u)^2$ for each variance."""
        value, slope = (_own(part, variances) for part in (self.function, self.derivative))
        return value, slope

    def pairs(self, first: Floats, second: Floats) -> BlockMoments:
        """Prepares the variances of all rows and columns."""
        together = np.concatenate([first, second])
        if _spread(together) <= _SPHERE:
            return self._on_sphere(float(together.mean()))
        tables = [_tensor_table(part, np.sqrt(together)) for part in (self.function, self.derivative)]
        if any(table is None for table in tables):
            return self._entry_by_entry(first, second)
        prepared = [table.at(np.sqrt(first), np.sqrt(second)) for table in tables if table is not None]
        left, right = _inverse_root(first)[:, None], _inverse_root(second)

        def moments(covariance: Floats, rows: slice, columns: slice) -> tuple[Floats, Floats]:
            position = 2 / np.pi * np.arccos(np.clip(covariance * left[rows] * right[columns], -1.0, 1.0)) - 1
            value, slope = (evaluate(position, rows, columns) for evaluate in prepared)
            return value, slope

        return moments

    def curvature(self, variance: float, covariance: Floats) -> Floats:
        r"""$E[\sigma''(u)\sigma''(v)]$ for equal variances."""
        if variance == 0.0:
            raise InputError("weight_variance and bias must give every hidden layer a positive variance, got 0.0.")
        table = dual(self.derivative.scaled(float(np.sqrt(variance))))
        return table.prime(covariance / variance) / variance

    def _on_sphere(self, variance: float) -> BlockMoments:
        tables = [dual(part.scaled(float(np.sqrt(variance)))) for part in (self.function, self.derivative)]

        def moments(covariance: Floats, rows: slice, columns: slice) -> tuple[Floats, Floats]:
            rho = np.clip(covariance / variance if variance > 0 else covariance, -1.0, 1.0)
            return tables[0](rho), tables[1](rho)

        return moments

    def _entry_by_entry(self, first: Floats, second: Floats) -> BlockMoments:
        def moments(covariance: Floats, rows: slice, columns: slice) -> tuple[Floats, Floats]:
            q, p = first[rows][:, None], second[columns]
            most = np.sqrt(q * p)
            inside = np.clip(covariance, -most, most)
            return covariance_dual(self.function, q, p, inside), covariance_dual_prime(self.function, q, p, inside)

        return moments


def tabulated_layer_dual(function: ScalarFunction) -> TabulatedDual:
    """Tables for an activation; one that jumps or cannot be differentiated is refused."""
    slope = function.derivative()
    if slope is None or function.jumps_at(gaussian_rule(function).kinks):
        raise InputError(f"activation must be continuous and differentiable by JAX, got {function.label}.")
    return TabulatedDual(function.without_closed_form(), slope)


@dataclass(frozen=True, eq=False)
class _TensorTable:
    """Chebyshev coefficients (angle, deviation, deviation) of the dual for deviations in [low, high]."""

    coefficients: Floats
    low: float
    high: float

    def at(self, first: Floats, second: Floats) -> Callable[[Floats, slice, slice], Floats]:
        """The dual of all pairs of deviations, as a function of 2t/pi - 1, by Clenshaw's recurrence."""
        left, right = self._basis(first), self._basis(second).T

        def evaluate(position: Floats, rows: slice, columns: slice) -> Floats:
            one, two = left[rows], right[:, columns]
            current, previous = np.zeros_like(position), np.zeros_like(position)
            for level in self.coefficients[:0:-1]:
                current, previous = (one @ level) @ two + 2 * position * current - previous, current
            return (one @ self.coefficients[0]) @ two + position * current - previous

        return evaluate

    def _basis(self, deviations: Floats) -> Floats:
        position = (2 * deviations - self.low - self.high) / (self.high - self.low)
        basis = chebyshev.chebvander(np.clip(position, -1.0, 1.0), self.coefficients.shape[1] - 1)
        return np.asarray(basis, dtype=np.float64)


def _tensor_table(function: ScalarFunction, deviations: Floats) -> _TensorTable | None:
    """The table, refined until its last coefficients are negligible; None when kinks make that hopeless."""
    low, high = float(deviations.min()), float(deviations.max())
    nodes = _trapezoid(function, high)
    if nodes is None:
        return None
    scale = float(_squares(function, np.array([high**2]))[0])
    angles, count = 16, 8
    while angles <= 256 and count <= 64:
        points = np.cos(np.pi * np.arange(count + 1) / count)
        grid = 0.5 * (low + high) + 0.5 * (high - low) * points
        samples = _duals_on_grid(function, nodes, grid, angles)
        coefficients = samples
        for axis in range(3):
            coefficients = np.moveaxis(_columnwise(np.moveaxis(coefficients, axis, 0)), 0, axis)
        in_angle = float(np.abs(coefficients[-2:]).max())
        in_deviation = float(max(np.abs(coefficients[:, -2:]).max(), np.abs(coefficients[:, :, -2:]).max()))
        if max(in_angle, in_deviation) <= _ACCURACY * scale:
            return _TensorTable(coefficients, low, high)
        angles = angles * 2 if in_angle > _ACCURACY * scale else angles
        count = count * 2 if in_deviation > _ACCURACY * scale else count
    return None


def _duals_on_grid(function: ScalarFunction, nodes: tuple[Floats, Floats], grid: Floats, angles: int) -> Floats:
    r"""$E[\sigma(s_1x)\,\sigma(s_2(x\cos t+y\sin t))]$ for all pairs of the grid, at Chebyshev points of $t$."""
    x, weights = nodes
    left = function.values(grid[:, None] * x) * weights
    result = np.empty((angles + 1, len(grid), len(grid)))
    for index in range(angles + 1):
        t = 0.5 * np.pi * (1 + np.cos(np.pi * index / angles))
        rotated = np.cos(t) * x[:, None] + np.sin(t) * x
        averaged = function.values(grid[:, None, None] * rotated) @ weights
        result[index] = left @ averaged.T
    return result


def _trapezoid(function: ScalarFunction, deviation: float) -> tuple[Floats, Floats] | None:
    """A trapezoid rule, exact to rounding for the square of a smooth function at the largest deviation, or None."""
    exact = float(_squares(function, np.array([deviation**2]))[0])
    for spacing in (0.15, 0.1, 0.05, 0.025):
        x = np.arange(-_REACH, _REACH + spacing / 2, spacing)
        weights = spacing * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
        if abs(float(weights @ function.values(deviation * x) ** 2) - exact) <= 1e-12 * exact:
            return x, weights
    return None


def _own(function: ScalarFunction, variances: Floats) -> Floats:
    if _spread(variances) <= _SPHERE:
        return np.full_like(variances, _squares(function, variances.mean(keepdims=True))[0])
    nodes = _trapezoid(function, float(np.sqrt(variances.max())))
    if nodes is None:
        return _squares(function, variances)
    x, weights = nodes
    return function.values(np.sqrt(variances)[:, None] * x) ** 2 @ weights


def _squares(function: ScalarFunction, variances: Floats) -> Floats:
    rules = [gaussian_rule(function.scaled(float(np.sqrt(variance)))) for variance in variances]
    return np.array([float(rule.weights @ rule.values**2) for rule in rules])


def _columnwise(samples: Floats) -> Floats:
    flat = samples.reshape(len(samples), -1)
    return np.array([chebyshev_coefficients(column) for column in flat.T]).T.reshape(samples.shape)


def _spread(variances: Floats) -> float:
    most = float(variances.max())
    return 0.0 if most == 0.0 else (most - float(variances.min())) / most


def _inverse_root(variances: Floats) -> Floats:
    r"""$1/\sqrt q$, and 0 at $q=0$, where no correlation exists and none is needed."""
    return np.where(variances > 0, 1 / np.sqrt(np.where(variances > 0, variances, 1.0)), 0.0)
