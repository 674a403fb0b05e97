r"""$E[\sigma(u)\sigma(v)]$ and $E[\sigma'(u)\sigma'(v)]$ of one hidden layer, on blocks of a large matrix."""

from dataclasses import dataclass
from math import factorial
from typing import Any, Protocol

import numpy as np

from limen.gaussian.functions import as_function
from limen.problem.spec import InputError
from limen.theory.kernel.tangent.tabulated_dual import BlockMoments, Floats, tabulated_layer_dual


class LayerDual(Protocol):
    r"""The Gaussian expectations that carry a kernel through one layer with activation $\sigma$."""

    def own(self, variances: Floats) -> tuple[Floats, Floats]:
        r"""$E\sigma(u)^2$ and $E\sigma'(u)^2$, $u\sim N(0,q)$, for each variance $q$."""
        ...

    def pairs(self, first: Floats, second: Floats) -> BlockMoments:
        """Prepares the variances of all rows and columns; what returns is evaluated block by block."""
        ...

    def curvature(self, variance: float, covariance: Floats) -> Floats:
        r"""$E[\sigma''(u)\sigma''(v)]=\partial_c^2E[\sigma(u)\sigma(v)]$ for equal variances."""
        ...


def layer_dual(activation: Any) -> LayerDual:
    """The closed form of ReLU, $|z|$, erf and Hermite series (linear and square among them), else tables."""
    function = as_function(activation)
    if function.kind == "relu":
        return ArcCosine(1 / (2 * np.pi), np.pi / 2, "relu")
    if function.kind == "abs":
        return ArcCosine(2 / np.pi, 0.0, "abs")
    if function.erf_scale is not None:
        return Arcsine(2 * function.erf_scale**2)
    if function.series is not None:
        return HermitePolynomial(function.series)
    return tabulated_layer_dual(function)


@dataclass(frozen=True)
class ArcCosine:
    r"""ReLU and $|z|$: value $s\,[\sqrt{qq'-c^2}+c\,(a+\arcsin\rho)]$, derivative $s\,(a+\arcsin\rho)$,
    $\rho=c/\sqrt{qq'}$, with $(s,a)=(\frac1{2\pi},\frac\pi2)$ and $(\frac2\pi,0)$ (Cho & Saul 2009)."""

    scale: float
    shift: float
    label: str

    def own(self, variances: Floats) -> tuple[Floats, Floats]:
        slope = self.scale * (self.shift + np.pi / 2)
        return slope * variances, np.full_like(variances, slope)

    def pairs(self, first: Floats, second: Floats) -> BlockMoments:
        if not (np.all(first > 0) and np.all(second > 0)):
            raise InputError(
                f"x1 and x2 must not contain the zero vector when the activation is {self.label} without bias, got one."
            )
        left, right = np.sqrt(first)[:, None], np.sqrt(second)
        if np.all(first == first[0]) and np.all(second == first[0]):
            # on a sphere the division is exact, so that equal inputs have the correlation 1
            left, right = first[:, None], np.ones_like(second)

        def moments(covariance: Floats, rows: slice, columns: slice) -> tuple[Floats, Floats]:
            rho = covariance
            rho /= left[rows]
            rho /= right[columns]
            np.clip(rho, -1.0, 1.0, out=rho)
            slope = np.arcsin(rho)
            slope += self.shift
            slope *= self.scale
            value = np.square(rho)
            np.subtract(1.0, value, out=value)
            np.sqrt(value, out=value)
            value *= self.scale
            rho *= slope
            value += rho
            value *= left[rows]
            value *= right[columns]
            return value, slope

        return moments

    def curvature(self, variance: float, covariance: Floats) -> Floats:
        return self.scale / np.sqrt((variance - covariance) * (variance + covariance))


@dataclass(frozen=True)
class Arcsine:
    r"""$\mathrm{erf}(kz)$ with $\tau=2k^2$: value $\frac2\pi\arcsin r$, $r=\tau c/\sqrt{(1+\tau q)(1+\tau q')}$, and
    its derivative in $c$ (Williams 1997)."""

    strength: float

    def own(self, variances: Floats) -> tuple[Floats, Floats]:
        reach = 1 + self.strength * variances
        slope = 2 / np.pi * self.strength / np.sqrt(1 + 2 * self.strength * variances)
        return 2 / np.pi * np.arcsin(1 - 1 / reach), slope

    def pairs(self, first: Floats, second: Floats) -> BlockMoments:
        left = np.sqrt(self.strength / (1 + self.strength * first))[:, None]
        right = np.sqrt(self.strength / (1 + self.strength * second))

        def moments(covariance: Floats, rows: slice, columns: slice) -> tuple[Floats, Floats]:
            sine = covariance
            sine *= left[rows]
            sine *= right[columns]
            slope = np.square(sine)
            np.subtract(1.0, slope, out=slope)
            np.sqrt(slope, out=slope)
            np.divide((2 / np.pi) * left[rows], slope, out=slope)
            slope *= right[columns]
            np.arcsin(sine, out=sine)
            sine *= 2 / np.pi
            return sine, slope

        return moments

    def curvature(self, variance: float, covariance: Floats) -> Floats:
        rest = (1 + self.strength * variance) ** 2 - (self.strength * covariance) ** 2
        return 2 / np.pi * self.strength**3 * covariance / rest**1.5


@dataclass(frozen=True)
class HermitePolynomial:
    r"""$\sigma=\sum_ns_n\,he_n$: value $\sum_mb_m(q)b_m(q')c^m$ with
    $b_m(q)=\sum_is_{m+2i}\sqrt{\frac{(m+2i)!}{m!}}\frac{(q-1)^i}{2^ii!}$, the scaling rule of Hermite polynomials."""

    series: tuple[float, ...]

    def own(self, variances: Floats) -> tuple[Floats, Floats]:
        weights = self._weights(variances) ** 2
        return _power_sum(weights, variances), _power_sum(_differentiate(weights), variances)

    def pairs(self, first: Floats, second: Floats) -> BlockMoments:
        left, right = self._weights(first), self._weights(second)

        def moments(covariance: Floats, rows: slice, columns: slice) -> tuple[Floats, Floats]:
            weights = [a[:, None] * b for a, b in zip(left[:, rows], right[:, columns], strict=True)]
            slopes = [m * weight for m, weight in enumerate(weights)][1:] or [np.zeros_like(covariance)]
            return _power_sum(weights, covariance), _power_sum(slopes, covariance)

        return moments

    def curvature(self, variance: float, covariance: Floats) -> Floats:
        weights = self._weights(np.array([variance])) ** 2
        return _power_sum(_differentiate(_differentiate(weights)), covariance)

    def _weights(self, variances: Floats) -> Floats:
        degree = len(self.series) - 1
        rows = np.zeros((degree + 1, *variances.shape))
        for m in range(degree + 1):
            for i in range((degree - m) // 2 + 1):
                front = np.sqrt(factorial(m + 2 * i) / factorial(m)) / (2**i * factorial(i))
                rows[m] += self.series[m + 2 * i] * front * (variances - 1) ** i
        return rows


def _power_sum(weights: Any, points: Floats) -> Floats:
    total = np.zeros_like(points)
    for weight in reversed(weights):
        total = total * points + weight
    return total


def _differentiate(weights: Floats) -> Floats:
    if len(weights) == 1:
        return np.zeros_like(weights)
    return weights[1:] * np.arange(1, len(weights)).reshape(-1, *[1] * (weights.ndim - 1))
