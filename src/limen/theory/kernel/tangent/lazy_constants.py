r"""The constants of lazy training for two layers on Gaussian inputs, exact as sizes grow.

$f=\frac\alpha{\sqrt m}\sum_jb_j\sigma(\langle w_j,x\rangle)$, $x_i\sim N(0,I_d)$, $|w_j|=1$, the first layer trained.
The bound of `lazy_bounds` takes four numbers of the start, which the source orders in size only ($\lesssim$). As
$n,d\to\infty$, $n/d\to\nu$, their constants follow from the tangent kernel
$K=\frac{\alpha^2}m\sum_j(XX^\top)\circ\sigma'(Xw_j)\sigma'(Xw_j)^\top$. With $\sigma'=\mu_1+\text{rest}$,
$\mu_1=E\sigma'$, $v=\mathrm{Var}\,\sigma'$, the mean slope sees the $d$ inputs, and the rest sees $m'd$ directions that
are as good as independent, $m'$ being the number of different neurons:
$$\frac K{\alpha^2d}\simeq\mu_1^2\,\frac{XX^\top}d+v\,\frac{YY^\top}{m'd}
+\frac{(E\sigma'')^2}d\,\mathbf 1\mathbf 1^\top,\qquad Y\in R^{n\times m'd}\ \text{Gaussian}.$$
Of $YY^\top$ the diagonal counts, $\rho_i$, which fluctuates from row to row by $\frac2d+\frac\kappa{m'}$ in variance
($\kappa$ that of $(\sigma'-\mu_1)^2/v$), and what is beside it has the variance $\frac n{m'd}$: together a law of rows
of unequal weight (`row_law`), whose extreme eigenvalues are taken in the mean. The last term, absent when $\sigma$ is
odd, may push one eigenvalue out of it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.stats import chi2

from limen import checks
from limen.gaussian.functions import as_function
from limen.gaussian.quadrature import gaussian_rule
from limen.precision import in_double
from limen.problem.spec import InputError
from limen.theory.kernel.activation_moments import activation_moments
from limen.theory.kernel.tangent.lazy import LazyBounds, largest_second_derivative, lazy_bounds
from limen.theory.kernel.tangent.row_law import RowLaw


@dataclass(frozen=True)
class LazyConstants:
    r"""The numbers of the start at scale $\alpha$, and what the bound makes of them.

    `residual` $r_0=\|y-f_0\|$ (root mean square), `sigma_min`, `sigma_max` of the Jacobian, `lipschitz` $\Lambda$ of
    the Jacobian, `lipschitz_bound` what `two_layer_lipschitz` gives for it. `distance` is not a bound: it is
    $\|\bar\theta_\infty-\theta_0\|=\sqrt{y^\top K^{-1}y}$ of linear training from $f_0=0$ on labels that do not depend
    on the inputs. `bounds` are those of `lazy_bounds` with `lipschitz`.
    """

    residual: float
    sigma_min: float
    sigma_max: float
    lipschitz: float
    lipschitz_bound: float
    distance: float
    bounds: LazyBounds


@in_double
def lazy_constants(
    activation: Any, samples: int, dimension: int, width: int, alpha: float = 1.0, *, mirrored: bool = True,
    label_square: float = 1.0,
) -> LazyConstants:  # fmt: skip
    r"""Constants of lazy training on $n$ Gaussian inputs in dimension $d$, with $m$ neurons and output scale $\alpha$.

    `mirrored`: every neuron has a twin with the opposite $b_j$, so that $f_0=0$ and $m'=\frac m2$; otherwise
    $b_j=\pm1$ at random, $m'=m$. `label_square` is $E y^2$. With $s_\pm$ the edges of the law above,
    $$\sigma_{\min}=\alpha\sqrt{d\,s_-},\quad\sigma_{\max}=\alpha\sqrt{d\,s_+},\quad
      \Lambda=\frac{\alpha}{\sqrt m}\|\sigma''\|_\infty E\max_i\|x_i\|^2,\quad
      r_0^2=n\,(E y^2+[\text{not mirrored}]\,\alpha^2E\sigma^2),$$
    the source's $\alpha\sqrt d$, $\alpha(\sqrt n+\sqrt d)$, $\alpha\sqrt{d/m}(\sqrt n+\sqrt d)$ and
    $(1+\alpha)\sqrt n$. $\Lambda$ is the largest $\sqrt{\sum_i\sigma''(\langle w,x_i\rangle)^2\langle u,x_i\rangle^4}$
    over $w$ and unit $u$; while $n\ll d^2$ it is reached along the longest input, so that the computable bound is too
    large by $1+\sqrt{n/d}$. Exact as $n,d,m\to\infty$ with $n/d$ fixed; of the finite sizes the largest effects are
    kept, and $\sigma_{\min}$ near $n=d$ is still 1.5% too large at $d=m=400$. Needs a twice differentiable activation
    and $n<m'd$. Sources: Bartlett, Montanari & Rakhlin 2021, Lemma 5.3; the lecture notes' Theorem 9.2.
    """
    for name, value in (("samples", samples), ("dimension", dimension), ("width", width)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}.")
    if mirrored and width % 2:
        raise InputError(f"width must be even for a mirrored start, got {width}.")
    scale, square = checks.positive("alpha", alpha), checks.positive("label_square", label_square)
    neurons = width // 2 if mirrored else width
    if samples >= neurons * dimension:
        raise InputError(
            f"samples must be below different neurons times dimension = {neurons * dimension}, got {samples}."
        )
    curvature = largest_second_derivative(activation)
    moments = slope_moments(activation)
    if moments.variance == 0.0 and samples >= dimension:
        raise InputError(f"samples must be below dimension = {dimension} for a linear activation, got {samples}.")
    spread = samples / (neurons * dimension) + 2.0 / dimension + moments.spread / neurons
    law = RowLaw.with_spread(moments.mean**2, moments.variance, spread, samples, dimension)
    low, high = law.typical_edges()
    high = law.outlier(moments.bend**2 * samples / dimension) or high
    start = 0.0 if mirrored else scale**2 * output_square(activation)
    residual = float(np.sqrt(samples * (square + start)))
    sigma_min, sigma_max = scale * np.sqrt(dimension * low), scale * np.sqrt(dimension * high)
    lipschitz = scale / np.sqrt(width) * curvature * longest_input(samples, dimension)
    return LazyConstants(
        residual=residual,
        sigma_min=float(sigma_min),
        sigma_max=float(sigma_max),
        lipschitz=float(lipschitz),
        lipschitz_bound=float(
            scale / np.sqrt(width) * curvature * np.sqrt(longest_input(samples, dimension))
            * (np.sqrt(samples) + np.sqrt(dimension))
        ),
        distance=float(np.sqrt(samples * square * law.mean_inverse() / dimension) / scale),
        bounds=lazy_bounds(residual, float(sigma_min), float(sigma_max), float(lipschitz), samples),
    )  # fmt: skip


class SlopeMoments(NamedTuple):
    r"""$E\sigma'$, $\mathrm{Var}\,\sigma'$, $E\sigma''$ and the relative variance of $(\sigma'-E\sigma')^2$."""

    mean: float
    variance: float
    bend: float
    spread: float


def slope_moments(activation: Any) -> SlopeMoments:
    r"""Moments of the slope of an activation under a standard normal."""
    slope = as_function(activation).derivative()
    if slope is None:
        raise InputError("activation must have a derivative that JAX can take.")
    rule = gaussian_rule(slope, 1)
    mean = float(rule.weights @ rule.values)
    squares = (rule.values - mean) ** 2
    variance = float(rule.weights @ squares)
    if variance <= 1e-24 * float(rule.weights @ rule.values**2):
        return SlopeMoments(mean, 0.0, 0.0, 0.0)
    spread = float(rule.weights @ squares**2) / variance**2 - 1.0
    return SlopeMoments(mean, variance, float(rule.weights @ (rule.nodes * rule.values)), spread)


def output_square(activation: Any) -> float:
    r"""$E\sigma^2$ under a standard normal."""
    moments = activation_moments(activation)
    return moments.mean**2 + moments.linear**2 + moments.nonlinear_squared


def longest_input(samples: int, dimension: int) -> float:
    r"""$E\max_{i\le n}\|x_i\|^2$, $x_i\sim N(0,I_d)$: $\int_0^\infty(1-F_{\chi^2_d}(u)^n)\,du$."""
    middle = float(chi2.ppf(0.5 ** (1.0 / samples), dimension))

    def longer(square: float) -> float:
        return -float(np.expm1(samples * chi2.logcdf(square, dimension)))

    return quad(longer, 0.0, middle, limit=200)[0] + quad(longer, middle, np.inf, limit=200)[0]
