r"""Linear stability of the uniform law: growth rates of every spherical degree, thresholds, predicted cluster count.

The mean-field law follows $\partial_t\mu+\mathrm{div}(\mu\,\mathcal X[\mu])=0$ with $\mathcal X=\frac1\beta\nabla\ln h$
(softmax) or $\frac1\beta\nabla h$ (without), $h(x)=\int e^{\beta\langle x,y\rangle}d\mu(y)$. Around the uniform law a
harmonic of degree $\ell$ grows at
$$\lambda_\ell=\frac{\ell(\ell+d-2)}\beta\,\frac{I_{\ell+d/2-1}(\beta)}{I_{d/2-1}(\beta)}\ \text{(softmax)},\qquad
\lambda_\ell=\frac{\ell(\ell+d-2)}\beta\,c_\ell\ \text{(without)},$$
$c_\ell$ of `bessel`; tangential noise $\sqrt{2D}\,dW$ subtracts $D\ell(\ell+d-2)$ (Bruno, Pasqualotto & Agazzi 2024).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from limen.checks import integer, integers, non_negative, non_negatives, number, plain, positive, reals
from limen.problem.spec import InputError
from limen.theory.attention.bessel import bessel_ratios, log_uniform_transform, relative_coefficients

CITATIONS = ("geshkovski2023", "bruno2024")


def growth_rates(d: int, beta: ArrayLike, degrees: ArrayLike, normalized: bool = True, noise: float = 0.0) -> Any:
    r"""Growth rates $\lambda_\ell$ of the uniform law on the sphere of $\mathbb R^d$, in the shape `beta.shape +
    degrees.shape`.

    As $\beta\to0$, $\lambda_1\to\frac{d-1}d$ and the others vanish; as $\beta\to\infty$ the largest softmax rate tends
    to $2/e$ in every dimension. Without noise some rate is always positive. Rates without softmax grow like $e^\beta$
    and are `inf` beyond the largest double.

    Args:
        d: dimension, at least 2.
        beta: inverse temperature, any sign, a number or an array.
        degrees: degree $\ell\ge0$ (wave number on the circle), a number or an array.
        normalized: softmax attention, or without its denominator.
        noise: $D\ge0$.
    """
    d, noise = integer("d", d, 2), non_negative("noise", noise)
    inverse_temperatures, wanted = reals("beta", beta), integers("degrees", degrees, 0)
    most = max(int(wanted.max(initial=1)), 1)
    values = inverse_temperatures.ravel()
    factors = np.concatenate([np.zeros((1, values.size)), relative_coefficients(d, values, most)])[wanted.ravel()].T
    if not normalized:
        with np.errstate(over="ignore", invalid="ignore"):
            scale = np.exp(log_uniform_transform(d, values))[:, None]
            factors = np.where(factors == 0.0, 0.0, factors * scale)
    rates = (wanted * (wanted + d - 2.0)).ravel() * (factors - noise)
    return plain(rates.reshape(inverse_temperatures.shape + wanted.shape))


def mode_thresholds(d: int, degrees: ArrayLike) -> Any:
    r"""$\beta$ at which degree $\ell+1$ overtakes degree $\ell\ge1$ as the fastest, in the shape of `degrees`.

    The root of $I_{\ell+d/2}(\beta)/I_{\ell+d/2-1}(\beta)=\frac{\ell(\ell+d-2)}{(\ell+1)(\ell+d-1)}$, with or without
    softmax. On the circle about $\frac{\ell(\ell+1)}2+\frac14$; in high dimension degree 1 leads up to
    $\beta\approx\frac23d$.
    """
    d, wanted = integer("d", d, 2), integers("degrees", degrees, 1)
    return plain(np.vectorize(lambda degree: _threshold(d, int(degree)), otypes=[float])(wanted))


def fastest_degree(d: int, beta: ArrayLike) -> Any:
    r"""The degree that grows fastest around the uniform law, $\ell(\ell+d-2)\approx2\beta$ for large $\beta$; `beta`
    $\ge0$, a number or an array.
    """
    d, inverse_temperatures = integer("d", d, 2), non_negatives("beta", beta)
    most = 8 + math.ceil(3.0 * math.sqrt(inverse_temperatures.max(initial=0.0)))
    return plain(1.0 + np.argmax(growth_rates(d, inverse_temperatures, np.arange(1, most + 1)), axis=-1))


def cluster_count(beta: ArrayLike, time: float) -> Any:
    r"""Expected number of attracting points on the circle after the linear phase of duration `time`, from independent
    tokens; in the shape of `beta`.

    Rice's count of the maxima of the random field $h$, $N(t)=\sqrt{\sum k^4S_k/\sum k^2S_k}$ with
    $S_k=(I_k/I_0)^2e^{2\lambda_kt}$. $N(0)\to\sqrt{3\beta/2}$ for large $\beta$, and $N(\infty)$ is the fastest wave
    number, which is reached only when the linear phase is long (many tokens). $t\approx2$ describes some 200 tokens.
    `time` may be `inf`.
    """
    inverse_temperatures = non_negatives("beta", beta)
    if time == math.inf:
        return fastest_degree(2, inverse_temperatures)
    time = non_negative("time", time)
    k = np.arange(1, 60 + math.ceil(12.0 * math.sqrt(inverse_temperatures.max(initial=0.0))), dtype=float)
    factors = np.moveaxis(relative_coefficients(2, inverse_temperatures, len(k)), 0, -1)
    with np.errstate(divide="ignore"):
        logarithms = 2.0 * np.log(factors) + 2.0 * time * k**2 * factors
    spectrum = np.exp(logarithms - logarithms.max(axis=-1, keepdims=True))
    return plain(np.sqrt((spectrum @ k**4) / (spectrum @ k**2)))


def forming_time(beta: float, tokens: int) -> float:
    r"""When $n$ = `tokens` independent tokens form clusters on the circle, $\frac{\ln n}{2\max_k\lambda_k}$.

    Ripples of the density start at $n^{-1/2}$; this is when the fastest of them, by linear theory, is as large as the
    density itself. The logarithm is exact as $n\to\infty$, what is added to it is not known: an estimate.
    """
    beta, tokens = positive("beta", beta), integer("tokens", tokens, 2)
    most = 8 + math.ceil(3.0 * math.sqrt(beta))
    return math.log(tokens) / (2.0 * float(np.max(growth_rates(2, beta, np.arange(1, most + 1)))))


def critical_noise(d: int, beta: ArrayLike, normalized: bool = True) -> Any:
    r"""$D_c=I_{d/2}(\beta)/(\beta I_{d/2-1}(\beta))$, times $c_0$ without softmax: the uniform law is linearly stable
    iff $D>D_c$.

    $1/d$ at $\beta=0$. Without softmax the transition is continuous only up to `discontinuous_transition_beta(d)`:
    above, an ordered law also exists at larger noise. `inf` beyond the largest double.
    """
    d = integer("d", d, 2)
    inverse_temperatures = reals("beta", beta)
    critical = 1.0 / (d + inverse_temperatures * bessel_ratios(d / 2.0, 1, inverse_temperatures)[0])
    if not normalized:
        with np.errstate(over="ignore"):
            critical = critical * np.exp(log_uniform_transform(d, inverse_temperatures))
    return plain(critical)


def discontinuous_transition_beta(d: int) -> float:
    r"""$\beta_*$ above which the noise transition without softmax is discontinuous,
    $I_{d/2+1}(\beta_*)/I_{d/2}(\beta_*)=1/d$.

    2.446918 on the circle (Mun & Rosenzweig 2026).
    """
    d = integer("d", d, 2)
    return _ratio_root(d / 2.0, 1.0 / d)


def _threshold(d: int, degree: int) -> float:
    level = degree * (degree + d - 2.0) / ((degree + 1.0) * (degree + d - 1.0))
    return _ratio_root(degree + d / 2.0 - 1.0, level)


def _ratio_root(order: float, level: float) -> float:
    """The argument at which the ratio of neighbouring Bessel functions, increasing from 0 to 1, takes a value."""

    def excess(x: float) -> float:
        return float(bessel_ratios(order, 1, x)[0]) - level

    high = 1.0
    while excess(high) < 0.0:
        high *= 2.0
        if high > 1e7:
            raise InputError(f"degrees must have a threshold below beta = 1e7, got order {order:g}.")
    return float(brentq(excess, 0.0, high, xtol=1e-12))  # pyright: ignore[reportArgumentType]


def uniform_is_stable(d: int, beta: float, noise: float, normalized: bool = True) -> bool:
    """Whether the uniform law is linearly stable at this noise."""
    return non_negative("noise", noise) > critical_noise(d, number("beta", beta), normalized)
