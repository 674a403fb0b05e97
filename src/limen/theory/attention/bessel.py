r"""Ratios of modified Bessel functions in every order, and the transform of the uniform law on the sphere.

Ratios $r_\nu=I_{\nu+1}(x)/I_\nu(x)$ by the backward continued fraction $r_\nu=x/(2(\nu+1)+x\,r_{\nu+1})$, which never
overflows or underflows, holds at $x=0$, and is odd in $x$; $60+1.5|x|+10\sqrt{|x|}$ terms reach rounding.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln


def bessel_ratios(order: float, count: int, x: Any) -> NDArray[np.float64]:
    r"""$I_{\nu+k+1}(x)/I_{\nu+k}(x)$ for $k=0,\dots,\text{count}-1$ and $\nu=$ `order` $\ge-\frac12$, (count,
    *x.shape).
    """
    argument = np.asarray(x, dtype=float)
    largest = float(np.abs(argument).max(initial=0.0))
    beyond = 60 + math.ceil(1.5 * largest + 10.0 * math.sqrt(largest))
    ratios = np.empty((count, *argument.shape))
    ratio = np.zeros(argument.shape)
    for k in range(count + beyond, -1, -1):
        ratio = argument / (2.0 * (order + k + 1.0) + argument * ratio)
        if k < count:
            ratios[k] = ratio
    return ratios


def relative_coefficients(d: int, beta: Any, degrees: int) -> NDArray[np.float64]:
    r"""$c_\ell/(\beta c_0)$ for $\ell=1,\dots$, `degrees`, where $\int e^{\beta\langle
    x,y\rangle}Y_\ell(y)\,d\sigma(y)=c_\ell Y_\ell(x)$, (degrees, *beta.shape).

    By Funk–Hecke $c_\ell/c_0=I_{\ell+d/2-1}(\beta)/I_{d/2-1}(\beta)$; divided by $\beta$ it is finite at $\beta=0$,
    namely $1/d$ for $\ell=1$ and 0 for larger degrees.
    """
    ratios = bessel_ratios(d / 2.0 - 1.0, degrees + 1, beta)
    first = 1.0 / (d + beta * ratios[1])
    return first * np.concatenate([np.ones((1, *np.shape(beta))), np.cumprod(ratios[1:degrees], axis=0)])


def log_uniform_transform(d: int, beta: Any) -> NDArray[np.float64]:
    r"""$\ln c_0$, $c_0=\int e^{\beta\langle x,y\rangle}d\sigma(y)=\Gamma(\frac d2)(2/\beta)^{d/2-1}I_{d/2-1}(\beta)$,
    any $d\ge2$.

    The series $\sum_k(\beta^2/4)^k/(k!\,(\frac d2)_k)$ has positive terms and is summed by logarithms.
    """
    argument = np.asarray(beta, dtype=float)
    largest = float(np.abs(argument).max(initial=0.0))
    k = np.arange(60 + math.ceil(largest + 10.0 * math.sqrt(largest)))
    with np.errstate(divide="ignore"):
        power = 2.0 * np.log(np.abs(argument)[..., None] / 2.0)
    terms = np.where(k > 0, k * np.where(np.isfinite(power), power, -1e300), 0.0)
    terms = terms - gammaln(k + 1.0) - gammaln(k + d / 2.0) + gammaln(d / 2.0)
    top = terms.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(terms - top).sum(axis=-1, keepdims=True)))[..., 0]
