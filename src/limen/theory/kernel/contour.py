r"""Risk of any spectral estimator by one integral around the limiting spectrum.

A spectral estimator leaves the residual $\varphi(A)y$ on the training set, $A$ being the normalised Gram matrix of
the features: $\varphi=e^{-tz}$ for gradient flow, $(1-\eta z)^k$ for gradient descent, $\frac{\lambda}{z+\lambda}$
for ridge. Cauchy's formula writes $\varphi(A)$ with resolvents, and these have the deterministic equivalents of
`equivalent`: at $\lambda=-z$ take the complex effective ridge $\kappa$, $\kappa_1=\kappa(1-T/P)$ and
$g=\sum_kc_k^2\frac\kappa{\eta_k+\kappa}+c_{tail}^2$. With nodes $z_j$, weights $\delta_j=dz_j/2\pi i$ and
$f_j=-\delta_j\varphi_j/\lambda_j$,
$$\text{bias}=\sum_{jl}f_jf_l\frac{\kappa_{1j}g_l-\kappa_{1l}g_j}{\lambda_j-\lambda_l},\qquad
  \text{variance}=-\sigma^2\sum_j\delta_j\frac{(1-\varphi_j)^2}{z_j}\Big(\frac{\kappa_{1j}}{\lambda_j}-1\Big),\qquad
  \text{train}=-\sum_j\delta_j\varphi_j^2\frac{g_j+\sigma^2}{\kappa_{1j}}.$$
The divided difference comes from the two-resolvent equivalent, in which
$1-\gamma E\frac{s^2}{(s+\kappa)(s+\kappa')}=\frac{\lambda-\lambda'}{\kappa-\kappa'}$ for linear regression.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len

from limen.problem.spec import InputError
from limen.theory.kernel.equivalent import KernelSpectrum, effective_ridge
from limen.theory.kernel.spectral_edges import SpectralEdges

Nodes = NDArray[Any]  # complex
# The rule's error is e^(-M xi) times the largest integrand within reach of the filter, its square of up to e^16.
ACCURACY_EXPONENT = 16.0 + 35.0
WIDEST = 3.0
FARTHEST = 8.0
MOST_NODES = 200_000
BLOCK = 1 << 19


@dataclass(frozen=True)
class SpectralFilter:
    r"""One or more filters that share a contour.

    `fitted` maps nodes of shape (M,) to $1-\varphi$ of shape (filters, M), accurate where it is small;
    $\varphi(0)=1$. To the left of 0 the filter stays analytic and of moderate size up to the distance `left_reach`,
    and to the right of an edge $x$ up to the distance `right_reach(x)`.
    """

    fitted: Callable[[Nodes], Nodes]
    left_reach: float
    right_reach: Callable[[float], float]


class Contour(NamedTuple):
    r"""Upper half of the ellipse $z=l+h+h\cosh(\xi+i\theta)$; the lower half is its mirror image."""

    left: float
    half: float
    radius: float
    angle: NDArray[np.float64]
    around_zero: bool

    @property
    def nodes(self) -> Nodes:
        """$z_j$."""
        return self.at(self.radius)

    @property
    def weights(self) -> Nodes:
        r"""$\delta_j=dz_j/2\pi i$."""
        return self.half * np.sinh(self._coordinate(self.radius)) / (2 * len(self.angle))

    def at(self, radius: float) -> Nodes:
        """The same angles on the confocal ellipse of another elliptic radius."""
        # from the left end, where nodes come close to 0 and the centre would cost their digits
        return self.left + 2 * self.half * np.cosh(0.5 * self._coordinate(radius)) ** 2

    def _coordinate(self, radius: float) -> Nodes:
        return np.asarray(radius + 1j * self.angle, dtype=np.complex128)


class ContourRisk(NamedTuple):
    """Bias, variance at unit noise, and the two parts of the training error, one entry per filter."""

    bias: NDArray[np.float64]
    variance: NDArray[np.float64]
    train_signal: NDArray[np.float64]
    train_noise: NDArray[np.float64]


def filtered_risk(
    spectrum: KernelSpectrum,
    features: float,
    samples: float,
    edges: SpectralEdges,
    spectral_filter: SpectralFilter,
) -> ContourRisk:
    r"""The three sums above for every filter, noise and signal apart; `edges` from `spectral_edges`.

    The contour goes around $[0,\lambda_+]$, or around the bulk $[\lambda_-,\lambda_+]$ alone with the residues at 0
    added (a node $\lambda=0$ with $f=1$; $(1-T/N)(g+\sigma^2)$ to the training error), whichever leaves more room to
    the filter. The trapezoidal rule converges geometrically: $M\approx51/\xi$ nodes for an ellipse of
    elliptic radius $\xi$. The cost is $M\log M$ per filter, and $M$ Newton solutions.
    """
    contour = _best_contour(edges, spectral_filter)
    kappa = _effective_ridge_on(contour, spectrum, features, samples)
    nodes, weights = contour.nodes, contour.weights
    fitted = spectral_filter.fitted(nodes)
    residual = 1 - fitted
    local = _local(spectrum, features, samples, kappa)
    first, unlearnt = local.first, local.unlearnt

    amplitude = residual * weights / nodes
    bias = 4 * np.real(np.sum(amplitude * first * _cauchy_sums(contour, amplitude * unlearnt), axis=1))
    bias += 2 * np.real(amplitude**2 @ local.diagonal)
    variance = 2 * np.real(fitted**2 @ (weights / nodes * (first / nodes + 1)))
    train_signal = -2 * np.real(residual**2 @ (weights * unlearnt / first))
    train_noise = -2 * np.real(residual**2 @ (weights / first))
    if not contour.around_zero:
        zero = effective_ridge(spectrum, np.asarray(features), np.asarray(samples), np.asarray(0.0))
        origin = _local(spectrum, features, samples, zero.kappa)
        first_at_zero, slack = float(zero.kappa * zero.feature_slack), float(zero.sample_slack)
        cross = (first_at_zero * unlearnt - first * origin.unlearnt) / nodes
        bias += 4 * np.real(amplitude @ cross) + float(origin.diagonal)
        train_signal += slack * float(origin.unlearnt)
        train_noise += slack
    return ContourRisk(bias, variance, train_signal, train_noise)


class _Local(NamedTuple):
    first: Any
    unlearnt: Any
    diagonal: Any


def _local(spectrum: KernelSpectrum, features: float, samples: float, kappa: Any) -> _Local:
    degrees, slope = spectrum.degrees(kappa), spectrum.slope(kappa)
    a, b = 1 - degrees / features, 1 - degrees / samples
    first, unlearnt = kappa * a, spectrum.unlearnt(kappa)
    first_rise = a + slope / features
    ridge_rise = a * b + slope * (a / samples + b / features)
    diagonal = (unlearnt * first_rise - first * spectrum.unlearnt_slope(kappa)) / ridge_rise
    return _Local(first, unlearnt, diagonal)


def _cauchy_sums(contour: Contour, values: Nodes) -> Nodes:
    r"""$\sum_{l\ne j}\frac{v_l}{z_l-z_j}$ over the whole ellipse, for each row of $v$ and each upper node $j$.

    With $z=c+h\cosh u$, $\frac{\sinh u_j}{\cosh u_l-\cosh
    u_j}=\frac12\big[\coth\frac{u_l-u_j}2-\coth\frac{u_l+u_j}2\big]$: on equidistant angles two circular convolutions,
    done by FFT.
    """
    upper = len(contour.angle)
    count = 2 * upper
    index = np.arange(count)
    full = np.concatenate([values, values[:, ::-1].conj()], axis=1)
    difference = np.zeros(count, dtype=complex)
    difference[1:] = 1j / np.tan(np.pi * index[1:] / count)
    total = 1 / np.tanh(contour.radius + 1j * np.pi * index / count)
    mirrored = full[:, (-index) % count]
    near = np.fft.ifft(np.fft.fft(full) * np.fft.fft(difference))[:, :upper]
    far = np.fft.ifft(np.fft.fft(mirrored) * np.fft.fft(total))[:, 1 : upper + 1]
    own = total[(2 * index[:upper] + 1) % count] * values
    return (near - far + own) / (2 * contour.half * np.sinh(contour.radius + 1j * contour.angle))


def _best_contour(edges: SpectralEdges, spectral_filter: SpectralFilter) -> Contour:
    left, right = edges
    to_the_right = spectral_filter.right_reach(right)
    outer = _elliptic_radius(0.0, right, min(spectral_filter.left_reach, right, to_the_right))
    inner = _elliptic_radius(left, right, min(left, to_the_right))
    around_zero = outer >= inner
    radius = 0.5 * max(outer, inner)
    wanted = int(np.ceil(0.5 * ACCURACY_EXPONENT / radius))
    upper = next_fast_len(wanted) or wanted
    if 2 * upper > MOST_NODES:
        raise InputError(
            f"time or steps too large, or ridge too small, for a spectrum that reaches 0: the integral would need "
            f"{2 * upper} nodes (at most {MOST_NODES}); use the ridgeless limit instead."
        )
    begin = 0.0 if around_zero else left
    angle = (np.arange(upper) + 0.5) * np.pi / upper
    return Contour(begin, _half(begin, right), radius, angle, around_zero)


def _half(left: float, right: float) -> float:
    # a spectrum that is one point still needs an ellipse
    return max(0.5 * (right - left), 1e-3 * right)


def _elliptic_radius(left: float, right: float, gap: float) -> float:
    return min(float(np.arccosh(1 + gap / _half(left, right))), WIDEST)


def _effective_ridge_on(contour: Contour, spectrum: KernelSpectrum, features: float, samples: float) -> Nodes:
    r"""$\kappa(-z)$ on the ellipse, followed inwards from far away, where $\kappa\simeq-z$.

    Each confocal ellipse has half the elliptic radius of the one before; $\kappa$ is analytic outside the spectrum, so
    a step stays within half its radius of convergence and Newton's method follows the branch.
    """
    result = np.empty(len(contour.angle), dtype=complex)
    rows = max(1, BLOCK // max(1, len(spectrum.eigenvalues)))
    levels = max(1, int(np.ceil(np.log2(FARTHEST / contour.radius))))
    shift = spectrum.trace * (1 / features + 1 / samples)
    for begin in range(0, len(result), rows):
        part = contour._replace(angle=contour.angle[begin : begin + rows])
        kappa = shift - part.at(contour.radius * 2.0**levels)
        for level in range(levels, -1, -1):
            kappa = _newton(spectrum, features, samples, part.at(contour.radius * 2.0**level), kappa)
        result[begin : begin + rows] = kappa
    return result


def _newton(spectrum: KernelSpectrum, features: float, samples: float, z: Nodes, kappa: Nodes) -> Nodes:
    for _ in range(60):
        degrees, slope = spectrum.degrees(kappa), spectrum.slope(kappa)
        a, b = 1 - degrees / features, 1 - degrees / samples
        step = (kappa * a * b + z) / (a * b + slope * (a / samples + b / features))
        kappa = kappa - step
        if np.max(np.abs(step) / np.abs(kappa)) < 1e-9:
            break
    if not (np.imag(kappa) < 0).all():
        raise ArithmeticError("the effective ridge left its branch on the contour.")
    return kappa
