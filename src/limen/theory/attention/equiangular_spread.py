r"""How far the pairs of tokens are from equal angles in a high but finite dimension, to first order.

The Gram matrix of the tokens closes on itself: with weights $a_{ik}=e^{\beta G_{ik}}/Z_i$,
$$\dot G_{ij}=\sum_ka_{ik}(G_{kj}-G_{ik}G_{ij})+\sum_ka_{jk}(G_{ki}-G_{jk}G_{ij}).$$
Around equal cosines $\gamma(t)$ a symmetric perturbation $\delta_{ij}$ with row sums $r_i$ moves by
$$\dot\delta_{ij}=a\{2A\,\delta_{ij}+(1+B)(r_i+r_j)\},\qquad A=\beta(1-\gamma)-1-(n-1)\gamma,$$
$$1+B=(1-\gamma)\big(1+\beta[\gamma(1-(n-2)a)-a(1+\gamma)]\big),\qquad a=\frac1{e^{\beta(1-\gamma)}+n-1},$$
without normalization $a=e^{\beta\gamma}/n$ in front, and no $a$ inside $B$. Three kinds of perturbation move on their
own: all pairs alike, sums $u_i+u_j$ with $\sum u=0$, and zero row sums. Our own calculation.
"""

import numpy as np
from scipy.integrate import cumulative_simpson
from scipy.special import ndtr

# Steps of the cosine between 0 and 1: Simpson's rule, whose integrand is smooth.
STEPS = 2000


def relative_spread(n: int, beta: float, cosine: np.ndarray, normalized: bool = True) -> np.ndarray:
    r"""$\sqrt d$ times the standard deviation over pairs of $(1-G_{ij})/(1-\gamma)$ when the common cosine is `cosine`.

    The cosines of independent uniform tokens start independent with variance $1/d$. With $R_s$ the growth of a
    perturbation relative to $1-\gamma$, and $c_s=(n-1,\frac{n-2}2,0)$,
    $$\frac{d\ln R_s}{d\gamma}=\frac{\beta+c_s\big(1+\beta[\gamma(1-(n-2)a)-a(1+\gamma)]\big)}{1+(n-1)\gamma},$$
    and the three kinds hold $1$, $n-1$ and $\binom n2-n$ of the $\binom n2$ dimensions. First order in $d^{-1/2}$.
    """
    grid = np.linspace(0.0, 1.0, STEPS + 1)
    with np.errstate(over="ignore"):
        inside = 1.0 / (np.exp(beta * (1.0 - grid)) + n - 1.0) if normalized else np.zeros_like(grid)
    rows = 1.0 + beta * (grid * (1.0 - (n - 2) * inside) - inside * (1.0 + grid))
    pairs = n * (n - 1) / 2
    dimensions = (1.0, n - 1.0, pairs - n) if n > 2 else (1.0, 0.0, 0.0)
    variance = np.zeros_like(cosine, dtype=float)
    for coupling, dimension in zip((n - 1.0, (n - 2) / 2.0, 0.0), dimensions, strict=True):
        slope = (beta + coupling * rows) / (1.0 + (n - 1) * grid)
        growth = cumulative_simpson(slope, x=grid, initial=0.0)
        with np.errstate(over="ignore"):
            variance += dimension / pairs * np.exp(2.0 * np.interp(cosine, grid, growth))
    return np.sqrt(variance)


def clustered_part(log_distance: np.ndarray, spread: np.ndarray, d: int, delta: float) -> np.ndarray:
    r"""Expected part of the pairs with $1-G_{ij}\le\delta$: $\Phi\big(\frac{\ln\delta-\ln(1-\gamma)}v\big)$.

    `log_distance` is $\ln(1-\gamma)$, `spread` that of `relative_spread`, $v=$ `spread`$/\sqrt d$; distances are
    positive, so their logarithm is taken as normal. A step as $d\to\infty$. First order: $v$ above one says nothing,
    and is taken as one.
    """
    return ndtr((np.log(delta) - log_distance) / np.minimum(spread / np.sqrt(d), 1.0))


def clustered_error(log_distance: np.ndarray, spread: np.ndarray, d: int, delta: float) -> np.ndarray:
    r"""What the next order may change in `clustered_part`: a mean logarithm moved by $v^2/2$, as much as between the
    mean of a log-normal distance and its median, is taken as two standard deviations: $\varphi(z)\,v/4$.
    """
    width = np.minimum(spread / np.sqrt(d), 1.0)
    place = (np.log(delta) - log_distance) / width
    return np.exp(-0.5 * place**2) / np.sqrt(2.0 * np.pi) * width / 4.0
