r"""Discrete layers on equiangular tokens: the exact map of the cosine, and how many layers until tokens collapse.

A post-norm layer is $x_i\leftarrow N(x_i+\eta\sum_jA_{ij}x_j)$, $N(y)=y/|y|$; a projected layer adds
$\eta P^\perp_{x_i}\sum_jA_{ij}x_j$ instead. With $Z=1+(n-1)e^{-\beta(1-\gamma)}$ the attention to oneself is $1/Z$, to
each other token $a=e^{-\beta(1-\gamma)}/Z$, and both layers map $X\mapsto pX+q\sum_{j\ne i}x_j$ before normalisation,
with $q=\eta a$ and $p=1+\eta/Z$ (post-norm) or $p=1-\eta a(n-1)\gamma$ (projected). Equal cosines stay equal, and in
$y=\ln\frac{1+(n-1)\gamma}{1-\gamma}$, the log ratio of the two eigenvalues of the Gram matrix, the layer is a shift,
$$y'=y+2\ln\Big|1+\frac{nq}{p-q}\Big|.$$
As $\eta\to0$ with $t=\eta\cdot$layer this is the flow of `equiangular`; near consensus a post-norm layer contracts
angles by $1/(1+\eta)$, so layers lag behind the flow by $\eta/\ln(1+\eta)$.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad

from limen.checks import fraction, integer, number, plain, positive, reals
from limen.problem.spec import InputError

Shift = Callable[[int, float, float, float], float]
SLOW = 1e-3
COUNTED_ONE_BY_ONE = 100_000
MOST_LAYERS = 1e15


def layer_map(gamma: ArrayLike, n: int, beta: float, eta: float) -> float | NDArray[np.float64]:
    r"""The common cosine after one post-norm layer of step $\eta$ on $n$ equiangular tokens of cosine `gamma`."""
    return _mapped(gamma, n, beta, eta, _post_norm_shift)


def projected_layer_map(gamma: ArrayLike, n: int, beta: float, eta: float) -> float | NDArray[np.float64]:
    r"""The common cosine after one layer whose update is projected on the tangent space before normalisation."""
    return _mapped(gamma, n, beta, eta, _projected_shift)


def layers_to_collapse(n: int, beta: float, eta: float, delta: float = 1e-3, gamma0: float = 0.0) -> int:
    r"""Post-norm layers of step `eta` until the common cosine of $n$ equiangular tokens is at least $1-\delta$.

    Up to $10^5$ layers the map is iterated. On a longer plateau, where $y$ moves by less than $10^{-3}$ per layer,
    layers are counted by $\int dy/g$ with $g$ the flow that interpolates the map,
    $g=f-\frac12ff'+\frac13ff'^2+\frac1{12}f^2f''$ for $y\mapsto y+f(y)$, to about nine digits. $\eta=1$ is the usual
    residual connection. More than $10^{15}$ layers are refused.

    Args:
        n: number of tokens, at least 2.
        beta: inverse temperature.
        eta: step of a layer, positive (at most 1 if `beta` is negative).
        delta: distance of the cosine from one, in (0, 1).
        gamma0: cosine before the first layer, in $(-1/(n-1),1-\delta)$.
    """
    return _count(n, beta, eta, delta, gamma0, _post_norm_shift)


def projected_layers_to_collapse(n: int, beta: float, eta: float, delta: float = 1e-3, gamma0: float = 0.0) -> int:
    r"""As `layers_to_collapse`, for layers with a projected update and $\eta\le1$."""
    if number("eta", eta) > 1.0:
        raise InputError(f"eta must be at most 1 for a projected update, got {eta}.")
    return _count(n, beta, eta, delta, gamma0, _projected_shift)


def _post_norm_shift(n: int, beta: float, eta: float, y: float) -> float:
    own, other = _attention(n, beta, y)
    return 2.0 * math.log1p(n * eta * other / (1.0 + eta * (own - other)))


def _projected_shift(n: int, beta: float, eta: float, y: float) -> float:
    _, other = _attention(n, beta, y)
    remaining = 1.0 - eta * other * _gram_eigenvalue(n, y)
    if remaining > 0.0:
        return 2.0 * math.log1p(n * eta * other / remaining)
    return math.inf if remaining == 0.0 else 2.0 * math.log(abs(1.0 + n * eta * other / remaining))


def _attention(n: int, beta: float, y: float) -> tuple[float, float]:
    """Attention to oneself and to each other token; the smaller exponential is computed first."""
    exponent = beta * _distance(n, y)
    if exponent > 0.0:
        weight = math.exp(-exponent)
        return 1.0 / (1.0 + (n - 1) * weight), weight / (1.0 + (n - 1) * weight)
    weight = math.exp(exponent)
    return weight / (weight + n - 1), 1.0 / (weight + n - 1)


def _distance(n: int, y: float) -> float:
    return n * math.exp(-y) / (1.0 + (n - 1) * math.exp(-y)) if y > 0.0 else n / (math.exp(y) + n - 1)


def _gram_eigenvalue(n: int, y: float) -> float:
    return n / (1.0 + (n - 1) * math.exp(-y)) if y > 0.0 else n * math.exp(y) / (math.exp(y) + n - 1)


def _mapped(gamma: ArrayLike, n: int, beta: float, eta: float, shift: Shift) -> float | NDArray[np.float64]:
    n, beta = integer("n", n, 2), number("beta", beta)
    eta = _step(eta, beta)
    cosines = reals("gamma", gamma)
    allowed = (cosines > -1.0 / (n - 1)) & (cosines < 1.0)
    if not allowed.all():
        raise InputError(f"gamma must be in (-1/(n-1), 1), got {float(cosines[~allowed].flat[0])}.")

    def one(cosine: float) -> float:
        y = math.log((1.0 + (n - 1) * cosine) / (1.0 - cosine))
        moved = y + shift(n, beta, eta, y)
        return 1.0 - _distance(n, moved)

    return plain(np.vectorize(one, otypes=[float])(cosines))


def _count(n: int, beta: float, eta: float, delta: float, gamma0: float, shift: Shift) -> int:
    n, beta, delta = integer("n", n, 2), number("beta", beta), fraction("delta", delta)
    eta, gamma0 = _step(eta, beta), number("gamma0", gamma0)
    if not -1.0 / (n - 1) < gamma0 < 1.0 - delta:
        raise InputError(f"gamma0 must be in (-1/(n-1), 1 - delta), got {gamma0}.")
    y = math.log((1.0 + (n - 1) * gamma0) / (1.0 - gamma0))
    end = math.log((n - (n - 1) * delta) / delta)
    layers = 0
    while y < end:
        if layers >= COUNTED_ONE_BY_ONE:
            plateau, y = _slow_layers(n, beta, eta, y, end, shift)
            layers += plateau
            if y >= end:
                break
        y += shift(n, beta, eta, y)
        layers += 1
    return layers


def _slow_layers(n: int, beta: float, eta: float, y: float, end: float, shift: Shift) -> tuple[int, float]:
    """Layers passed while the map moves slowly, and where that phase ends."""

    def move(at: float) -> float:
        return shift(n, beta, eta, at)

    if move(y) >= SLOW:
        return 0, y
    fast = end
    if move(end) > SLOW:
        low, fast = y, end
        while fast - low > 1e-12:
            middle = 0.5 * (low + fast)
            low, fast = (middle, fast) if move(middle) < SLOW else (low, middle)
    reach = 1e-3 / (1.0 + abs(beta))

    def pace(at: float) -> float:
        before, here, after = move(at - reach), move(at), move(at + reach)
        if here < 1e-3 / MOST_LAYERS:
            raise InputError(
                f"beta must be smaller or eta larger than {beta:g} and {eta:g}: more than {MOST_LAYERS:g} layers "
                "are needed (log_hitting_time less log(eta) counts them at any size)."
            )
        slope, bend = (after - before) / (2.0 * reach), (after - 2.0 * here + before) / reach**2
        return 1.0 / (here * (1.0 - slope / 2.0 + slope**2 / 3.0 + here * bend / 12.0))

    edges = np.linspace(y, fast, 9)
    passed = sum(quad(pace, low, high, epsrel=1e-11, epsabs=0.0, limit=400)[0] for low, high in pairwise(edges))
    if passed > MOST_LAYERS:
        raise InputError(f"more than {MOST_LAYERS:g} layers ({passed:.3g}) at beta = {beta:g}: no stack is that deep.")
    return round(passed), fast


def _step(eta: float, beta: float) -> float:
    eta = positive("eta", eta)
    if beta < 0.0 and eta > 1.0:
        raise InputError(f"eta must be at most 1 when beta is negative, got {eta}.")
    return eta
