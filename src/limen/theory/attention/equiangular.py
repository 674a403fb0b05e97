r"""Equiangular tokens: one cosine $\gamma(t)$ for all pairs, its hitting time in closed form, the transition curve.

With $\langle x_i,x_j\rangle=\gamma$ for all $i\ne j$ and $Q^\top K=V=I$, attention preserves equality of the cosines
and
$$\dot\gamma=\frac{2(1-\gamma)(1+(n-1)\gamma)}{e^{\beta(1-\gamma)}+n-1}\ \text{(softmax)},\qquad
\dot\gamma=\tfrac2n e^{\beta\gamma}(1-\gamma)(1+(n-1)\gamma)\ \text{(without normalization)}$$
(Geshkovski, Letrouit, Polyanskiy & Rigollet 2023, section 6). Orthogonal tokens are $\gamma_0=0$. For independent
uniform tokens every cosine follows this curve as $d\to\infty$ with $n$ fixed. By partial fractions, with
$a=\gamma_0+\frac1{n-1}$ and $b=1-\delta+\frac1{n-1}$, both times from $\gamma_0$ to $1-\delta$ are made of
$$F=\mathrm{Ei}(\beta(1-\gamma_0))-\mathrm{Ei}(\beta\delta)+e^{\beta n/(n-1)}[E_1(\beta a)-E_1(\beta b)],\qquad
G=\ln\frac{(1-\gamma_0)(1+(n-1)(1-\delta))}{\delta(1+(n-1)\gamma_0)}:$$
$t=\frac1{2n}\{F+(n-1)G\}$ with softmax, $t=\frac12e^{-\beta}F$ without. All exponentials are divided out, so that
$\ln t$ is available at every $\beta$; negative $\beta$ uses $\mathrm{Ei}(-x)=-E_1(x)$.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from limen.checks import fraction, integer, number, plain, reals
from limen.problem.spec import InputError
from limen.theory.attention.exponential_integrals import scaled_ei

CITATIONS = ("geshkovski2023",)
NEGLIGIBLE_BETA = 1e-14
SMALLEST_LOG_DELTA = -640.0


def hitting_time(n: int, beta: ArrayLike, delta: float = 1e-3, gamma0: float = 0.0) -> Any:
    r"""Time at which the common cosine of $n$ equiangular tokens under softmax attention reaches $1-\delta$.

    $t_\delta=\frac1{2n}\{F+(n-1)G\}$ of the module's head; $\frac12G$ at $\beta=0$. Increasing in $\beta$. Beyond
    $\beta(1-\gamma_0)\approx700$ it is larger than any double and `inf` is returned: use `log_hitting_time`.

    Args:
        n: number of tokens, at least 2.
        beta: inverse temperature, any sign, a number or an array.
        delta: distance of the cosine from one, in (0, 1).
        gamma0: cosine at time 0, in $(-1/(n-1),1-\delta)$.
    """
    with np.errstate(over="ignore"):
        return plain(np.exp(np.asarray(log_hitting_time(n, beta, delta, gamma0))))


def log_hitting_time(n: int, beta: ArrayLike, delta: float = 1e-3, gamma0: float = 0.0) -> Any:
    r"""$\ln t_\delta$ of `hitting_time`: finite at every $\beta$, of order $\beta(1-\gamma_0)$ for large $\beta$."""
    n, delta, gamma0 = _check(n, delta, gamma0)
    inverse_temperature = reals("beta", beta)
    return plain(_log_time(n, inverse_temperature, np.log(delta), gamma0))


def unnormalized_hitting_time(n: int, beta: ArrayLike, delta: float = 1e-3, gamma0: float = 0.0) -> Any:
    r"""The hitting time of $1-\delta$ without softmax, $t=\frac12e^{-\beta}F$; $\frac12G$ at $\beta=0$."""
    n, delta, gamma0 = _check(n, delta, gamma0)
    inverse_temperature = reals("beta", beta)
    with np.errstate(over="ignore"):
        return plain(np.exp(_log_unnormalized_time(n, inverse_temperature, np.log(delta), gamma0)))


def finite_dimension_hitting_time(n: int, d: int, beta: ArrayLike, delta: float = 1e-3) -> Any:
    r"""Hitting time for independent uniform tokens in dimension $d$: $\frac1{2n}\{e^{-\beta^2/(2d)}F+(n-1)G\}$.

    The cosines at time 0 are Gaussian of variance $1/d$, and $E\,e^{-\beta g}$ against its value at $g=0$ shortens the
    plateau. Heuristic leading order for large $\beta$: at $n=32$, $\delta=10^{-3}$ simulations are met within 1.2% for
    $d=512$, $\beta\le7$, and for $d=128$ within 1% at $\beta=5$ and 4% at $\beta=7$. It misses a small positive shift
    of order $1/d$ seen at $\beta\le3$. Needs $n\le d+1$, or no equiangular limit exists.
    """
    n, delta, _ = _check(n, delta, 0.0)
    d = integer("d", d, 2)
    if n > d + 1:
        raise InputError(f"n must be at most d + 1 = {d + 1} for equiangular tokens, got {n}.")
    inverse_temperature = reals("beta", beta)
    shrinkage = -(inverse_temperature**2) / (2.0 * d)
    with np.errstate(over="ignore"):
        return plain(np.exp(_log_time(n, inverse_temperature, np.log(delta), 0.0, shrinkage)))


def transition_beta(n: int, time: ArrayLike, delta: float = 1e-3) -> Any:
    r"""The transition curve: $\beta_*(t)\ge0$ at which orthogonal tokens reach cosine $1-\delta$ exactly at `time`.

    Tokens have collapsed by `time` for $\beta<\beta_*$ and not above. `nan` where `time` is shorter than the hitting
    time at $\beta=0$, $\frac12\ln\frac{1+(n-1)(1-\delta)}\delta$: no $\beta\ge0$ collapses that early. The curve
    depends on $n$ and $\delta$: compare it only with simulations of the same. One bracketed root per time.
    """
    n, delta, _ = _check(n, delta, 0.0)
    times = reals("time", time)
    if (times <= 0.0).any():
        raise InputError(f"time must be positive, got {float(times[times <= 0.0].flat[0])}.")
    return plain(np.vectorize(lambda t: _transition(n, t, delta), otypes=[float])(times))


def equiangular_cosine(
    n: int, beta: float, times: ArrayLike, gamma0: float = 0.0, normalized: bool = True
) -> NDArray[np.float64]:
    r"""$\gamma(t)$ of equiangular tokens at the given times $\ge0$, in the shape of `times`.

    The differential equation is solved by inverting its exact time $t(\gamma)$ in $\ln(1-\gamma)$ by 64 bisections:
    absolute error of rounding size at every $\beta$ and through the whole plateau, where a stepping solver tires.
    """
    return 1.0 - equiangular_distance(n, beta, times, gamma0, normalized)


def equiangular_distance(
    n: int, beta: float, times: ArrayLike, gamma0: float = 0.0, normalized: bool = True
) -> NDArray[np.float64]:
    r"""$1-\gamma(t)$ to full relative precision at late times, where it falls like $Ce^{-2t}$ (softmax)."""
    n = integer("n", n, 2)
    beta, gamma0 = number("beta", beta), _start(n, number("gamma0", gamma0))
    wanted = reals("times", times)
    if (wanted < 0.0).any():
        raise InputError(f"times must not be negative, got {float(wanted.min())}.")
    exact = _log_time if normalized else _log_unnormalized_time
    with np.errstate(divide="ignore"):
        target = np.log(wanted)
    low = np.full(wanted.shape, SMALLEST_LOG_DELTA)
    high = np.full(wanted.shape, math.log1p(-gamma0))
    for _ in range(64):
        middle = 0.5 * (low + high)
        later = exact(n, np.float64(beta), middle, gamma0) > target
        low, high = np.where(later, middle, low), np.where(later, high, middle)
    distance = np.exp(0.5 * (low + high))
    distance = np.where(high <= SMALLEST_LOG_DELTA + 1e-9, 0.0, distance)
    return np.where(wanted == 0.0, 1.0 - gamma0, distance)


def log_late_time_constant(n: int, beta: ArrayLike, gamma0: float = 0.0) -> Any:
    r"""$\ln C$ in $1-\gamma(t)\sim Ce^{-2t}$ as $t\to\infty$ (softmax).

    The rate is 2 for every $\beta$ and $n$; the inverse temperature enters through $C$ alone, the length of the
    plateau. $\ln C=\frac1n\{\mathrm{Ei}(\beta(1-\gamma_0))-\gamma_E-\ln|\beta|+e^{\beta n/(n-1)}[E_1(\beta
    a)-E_1(\beta\frac n{n-1})] +(n-1)\ln\frac{n(1-\gamma_0)}{1+(n-1)\gamma_0}\}$; $C=n$ at $\beta=0$, $\gamma_0=0$.
    `inf` beyond the largest double.
    """
    n = integer("n", n, 2)
    gamma0 = _start(n, number("gamma0", gamma0))
    inverse_temperature = reals("beta", beta)
    log_delta = -600.0
    with np.errstate(over="ignore"):
        # At 1 - gamma = exp(-600) the asymptotic form holds to every digit.
        return plain(log_delta + 2.0 * np.exp(_log_time(n, inverse_temperature, np.float64(log_delta), gamma0)))


def _log_time(n: int, beta: Any, log_delta: Any, gamma0: float, shrinkage: Any = 0.0) -> NDArray[np.float64]:
    exponent, scaled, logarithm = _parts(n, beta, log_delta, gamma0)
    rest = (n - 1) * logarithm
    with np.errstate(divide="ignore"):
        return np.logaddexp(exponent + shrinkage + np.log(scaled), np.log(rest)) - math.log(2.0 * n)


def _log_unnormalized_time(n: int, beta: Any, log_delta: Any, gamma0: float) -> NDArray[np.float64]:
    exponent, scaled, _ = _parts(n, beta, log_delta, gamma0)
    with np.errstate(divide="ignore"):
        return exponent - np.asarray(beta) + np.log(scaled) - math.log(2.0)


def _parts(n: int, beta: Any, log_delta: Any, gamma0: float) -> tuple[Any, Any, Any]:
    r"""$(m,e^{-m}F,G)$ with $m$ the largest exponent in $F$, $\beta$ times $1-\gamma_0$ or $\delta$."""
    delta = np.exp(log_delta)
    corner = 1.0 / (n - 1)
    logarithm = math.log1p(-gamma0) - log_delta + np.log((1.0 - delta + corner) / (gamma0 + corner))
    tiny = np.abs(beta) < NEGLIGIBLE_BETA
    rate = np.where(tiny, 1.0, beta)
    early, late = rate * (1.0 - gamma0), rate * delta
    largest = np.maximum(early, late)
    at_start = scaled_ei(early) - scaled_ei(-rate * (gamma0 + corner))
    at_end = scaled_ei(late) - scaled_ei(-rate * (1.0 - delta + corner))
    scaled = np.exp(early - largest) * at_start - np.exp(late - largest) * at_end
    scaled = np.maximum(scaled, 0.0)
    return np.where(tiny, 0.0, largest), np.where(tiny, logarithm, scaled), np.maximum(logarithm, 0.0)


def _transition(n: int, time: float, delta: float) -> float:
    target = math.log(time)

    def excess(beta: float) -> float:
        return float(_log_time(n, np.float64(beta), math.log(delta), 0.0)) - target

    if excess(0.0) > 0.0:
        return math.nan
    high = 1.0
    while excess(high) < 0.0:
        high *= 2.0
    return float(brentq(excess, 0.0, high, xtol=1e-13))  # pyright: ignore[reportArgumentType]


def _check(n: int, delta: float, gamma0: float) -> tuple[int, float, float]:
    n, delta = integer("n", n, 2), fraction("delta", delta)
    gamma0 = _start(n, number("gamma0", gamma0))
    if gamma0 >= 1.0 - delta:
        raise InputError(f"gamma0 must be less than 1 - delta = {1.0 - delta}, got {gamma0}.")
    return n, delta, gamma0


def _start(n: int, gamma0: float) -> float:
    if not -1.0 / (n - 1) < gamma0 < 1.0:
        raise InputError(f"gamma0 must be in (-1/(n-1), 1) = ({-1.0 / (n - 1):g}, 1) for {n} tokens, got {gamma0}.")
    return gamma0
