r"""Smoothers that fit every label and still learn: singular Nadaraya–Watson weights, and nearest neighbours."""

from dataclasses import dataclass
from math import pi

import numpy as np
from scipy.special import gammaln

from limen import checks
from limen.problem.spec import InputError


@dataclass(frozen=True)
class SmootherRisk:
    """Mean squared error at an interior point, noise of a new label not included: `squared_bias` and `variance`."""

    squared_bias: float
    variance: float

    @property
    def test(self) -> float:
        """Excess risk, the sum of squared bias and variance."""
        return self.squared_bias + self.variance


def singular_smoother_risk(
    samples: float,
    bandwidth: float,
    *,
    dimension: int,
    exponent: float,
    noise: float,
    smoothness: float = 1.0,
    height: float = 1.0,
    density: float = 1.0,
) -> SmootherRisk:
    r"""Nadaraya–Watson with the singular kernel $K(u)=\|u\|^{-a}1(\|u\|\le1)$, which interpolates for every $h$.

    At an interior point $x_0$ where inputs have density $p$, for $f(x)-f(x_0)=L\|x-x_0\|^\beta$ and noise variance
    $\sigma^2$, as $h\to0$ and $nh^d\to\infty$,
    $$\text{squared bias}=L^2h^{2\beta}\Big(\frac{d-a}{d-a+\beta}\Big)^2,\qquad
      \text{variance}=\frac{\sigma^2}{nh^dp}\,\frac{(d-a)^2}{(d-2a)S_{d-1}},\qquad
      S_{d-1}=\frac{2\pi^{d/2}}{\Gamma(d/2)}.$$
    `exponent` is $a$, strictly between 0 and $d/2$: from $d/2$ on the squared weights are not integrable. `smoothness`
    is $\beta$, `height` $L$. Convergence in $nh^d$ slows down as $a\to d/2$. A target that is smoother at $x_0$ than
    $\beta$ says has less bias.

    Source: Belkin, Rakhlin & Tsybakov 2019, theorem 1, with the constants made explicit.
    """
    d, a, beta = _kernel(dimension, exponent, smoothness)
    width, count = checks.positive("bandwidth", bandwidth), checks.positive("samples", samples)
    sphere = 2 * np.exp(d / 2 * np.log(pi) - gammaln(d / 2))
    bias = checks.non_negative("height", height) * width**beta * (d - a) / (d - a + beta)
    spread = (d - a) ** 2 / ((d - 2 * a) * sphere) / (count * width**d * checks.positive("density", density))
    return SmootherRisk(bias**2, float(checks.non_negative("noise", noise) * spread))


def singular_smoother_bandwidth(
    samples: float,
    *,
    dimension: int,
    exponent: float,
    noise: float,
    smoothness: float = 1.0,
    height: float = 1.0,
    density: float = 1.0,
) -> float:
    r"""The bandwidth of least risk in the setting of `singular_smoother_risk`.

    With the risk written $Bh^{2\beta}+V/(nh^d)$ it is $h=\big(\frac{dV}{2\beta Bn}\big)^{1/(2\beta+d)}$, so that the
    risk decays like $n^{-2\beta/(2\beta+d)}$, the minimax rate. Needs noise and height to be positive.
    """
    at_one = singular_smoother_risk(
        1.0,
        1.0,
        dimension=dimension,
        exponent=exponent,
        noise=checks.positive("noise", noise),
        smoothness=smoothness,
        height=checks.positive("height", height),
        density=density,
    )
    ratio = dimension * at_one.variance / (2 * smoothness * at_one.squared_bias * checks.positive("samples", samples))
    return float(ratio ** (1 / (2 * smoothness + dimension)))


def neighbour_squared_distance(samples: float, order: int, dimension: int, density: float = 1.0) -> float:
    r"""Mean squared distance to the $l$-th nearest of $n$ inputs, $l$ = `order`, at a point of density $p$:
    $$E\,r_{(l)}^2=\frac{\Gamma(l+2/d)}{\Gamma(l)}\,(npv_d)^{-2/d},\qquad v_d=\frac{\pi^{d/2}}{\Gamma(1+d/2)},$$
    as $n\to\infty$ with $l$ fixed; a constant density leaves corrections $O(1/n)$.
    """
    d, position = checks.integer("dimension", dimension, 1), checks.integer("order", order, 1)
    log_ball = d / 2 * np.log(pi) - gammaln(1 + d / 2)
    mass = np.log(checks.positive("samples", samples) * checks.positive("density", density)) + log_ball
    return float(np.exp(gammaln(position + 2 / d) - gammaln(position) - 2 / d * mass))


def nearest_neighbour_risk(
    samples: float, neighbours: int, *, dimension: int, noise: float, laplacian: float = 0.0, density: float = 1.0
) -> SmootherRisk:
    r"""Regression by the mean of the $k$ nearest labels, at an interior point where the density is flat.

    The variance is $\sigma^2/k$; the bias of a twice differentiable target is
    $\frac{\Delta f}{2d}\,\frac1k\sum_{l\le k}E\,r_{(l)}^2$, `laplacian` being $\Delta f$ there. The sum is
    $\frac{d}{d+2}\,\frac{\Gamma(k+1+2/d)}{\Gamma(k)}$ in units of $(npv_d)^{-2/d}$. Fluctuations of the targets of the
    neighbours are of lower order and left out. $k=1$ interpolates, with variance $\sigma^2$: unlike the singular
    smoother it never learns the noise away.
    """
    d, k = checks.integer("dimension", dimension, 1), checks.integer("neighbours", neighbours, 1)
    unit = neighbour_squared_distance(samples, 1, d, density) / np.exp(gammaln(1 + 2 / d))
    mean = d / (d + 2) * np.exp(gammaln(k + 1 + 2 / d) - gammaln(k + 1)) * unit
    curvature = checks.number("laplacian", laplacian)
    return SmootherRisk(float((curvature / (2 * d) * mean) ** 2), checks.non_negative("noise", noise) / k)


def _kernel(dimension: int, exponent: float, smoothness: float) -> tuple[int, float, float]:
    d = checks.integer("dimension", dimension, 1)
    a = checks.number("exponent", exponent)
    if not 0 < a < d / 2:
        raise InputError(f"exponent must be between 0 and dimension/2 = {d / 2}, both excluded, got {a}.")
    return d, a, checks.positive("smoothness", smoothness)
