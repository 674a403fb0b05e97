r"""Which noise can be fitted: interpolation by gradient flow with a fixed second layer $a_j=\gamma\sqrt m$.

Limit: $n,d\to\infty$ with $n/d$ fixed, then $m\to\infty$ at $\alpha=n/(md)$, in the Gaussian model; labels are pure
noise of variance `noise`. Above $\gamma_{GF}(\alpha)$ the training error goes to zero, below it ages towards
$e_\infty>0$ (Montanari & Urbani 2025). Everything depends on $h(q)=E[\sigma(G_1)\sigma(G_2)]$ at correlation $q$
without its terms of degree 0 and 1, which the network uses up for linear functions of the input in a time $O(1/m)$.

Two states are known: one step (`one_step`), taken where it is stable at $q=0$, and continuous (`continuous`) where it
is not. Stability at $q=0$ is necessary, not sufficient: the step can also be unstable at its other end, $q=1$, at the
threshold of $c\,q^p$ when $\alpha>\frac{p-2}{2p-3}$. `consistent_threshold` asks everywhere; for $q^3$ it is larger by
0.02% at $\alpha=0.4$, 0.2% at 0.5, 1.3% at 0.7 and 5% at 0.9, and from 0.7 on it is the better of the two.

Scaling: $\gamma_{GF}\propto\sqrt{\text{noise}}$, $e_\infty(\gamma;\tau)=\tau^2e_\infty(\gamma/\tau;1)$, and
$h\to c\,h$ is $\gamma\to\gamma\sqrt c$.
"""

from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from limen.problem.spec import InputError
from limen.theory.flow.continuous import closing, continuous_state
from limen.theory.flow.long_times.ageing_state import AgeingState, NoiseCovariance
from limen.theory.flow.one_step import one_step, one_step_ratio, one_step_state, one_step_threshold, stable_at_zero

LARGEST_RATIO = 1.0 - 1e-9


def interpolation_threshold(h: Any, samples_per_parameter: float, noise: float = 1.0) -> float:
    r"""$\gamma_{GF}(\alpha)$: gradient flow with second layer $\gamma\sqrt m$ fits pure noise iff $\gamma>\gamma_{GF}$.

    One step, in closed form, where it is stable at $q=0$: for $h=c\,q^p$, $p\ge3$,
    $\gamma_{GF}=\sqrt{\text{noise}\,\frac{p\,\alpha}{2(p-1)(2-\alpha)c}}$. Otherwise ($q^2$) continuous, to $10^{-9}$.

    Args:
        h: the activation (a name, a formula, an `Activation`), or the coefficients $[h_0,h_1,h_2,\dots]$ of
            $h(q)=\sum_kh_kq^k$, $h_k=s_k^2$ for $\sigma=\sum_ks_khe_k$; the first two do not matter.
        samples_per_parameter: $\alpha=n/(md)$ below 1: more samples than parameters are never interpolated.
        noise: variance $\tau^2$ of the labels.

    Returns:
        $\gamma_{GF}$. Microseconds, or about 0.1 s where it is continuous.
    """
    covariance, alpha, variance = NoiseCovariance(h), checked_ratio(samples_per_parameter), checked_variance(noise)
    return variance**0.5 * _threshold(covariance, alpha)


def interpolation_ratio(h: Any, gamma: float, noise: float = 1.0) -> float:
    r"""$\alpha_{GF}(\gamma)$: noise is fitted iff $n/(md)<\alpha_{GF}$; the inverse of `interpolation_threshold`.

    It is 1 for all $\gamma\ge\gamma_{GF}(1)$: there every $n<md$ is interpolated.
    """
    covariance, variance = NoiseCovariance(h), checked_variance(noise)
    _check_gamma(gamma)
    wanted = gamma / variance**0.5
    guess = one_step_ratio(covariance, wanted)
    if guess < 1.0 and one_step_threshold(covariance, guess)[1]:
        return guess

    def excess(ratio: float) -> float:
        state = continuous_state(covariance, ratio, wanted / ratio**0.5)
        return -1.0 if state is None else state.gap

    low = high = min(guess, LARGEST_RATIO)
    while excess(low) > 0.0:
        high, low = low, 0.95 * low
    while excess(high) <= 0.0:
        if high == LARGEST_RATIO:
            return 1.0
        low, high = high, min(1.05 * high, LARGEST_RATIO)
    found = float(brentq(excess, low, high, xtol=1e-12, rtol=1e-10))  # pyright: ignore[reportArgumentType]
    # Where the step is stable again the threshold jumps from one state to the other, and gamma lies in the jump.
    while one_step_threshold(covariance, found)[1] and guess - found > 1e-12:
        middle = 0.5 * (found + guess)
        if one_step_threshold(covariance, middle)[1]:
            found = middle
        else:
            guess = middle
    return found


def asymptotic_error(h: Any, samples_per_parameter: float, gamma: Any, noise: float = 1.0) -> Any:
    r"""$e_\infty(\gamma)$, what remains of the training error $\frac12E[r^2]$ at a fixed second layer $\gamma\sqrt m$.

    0 at and above `interpolation_threshold`; $\frac12\tau^2-\gamma\tau E_{th}/\sqrt\alpha$ for small $\gamma$
    (`threshold_energy`). Quenches approach it from above and slowly: 0.5% remain at $t=10^5$ for $h=q^2$,
    $\alpha=0.3$, $\gamma=0.3$.

    Args:
        h, samples_per_parameter, noise: as in `interpolation_threshold`.
        gamma: $\gamma=a/\sqrt m$, a number or an array; its sign does not matter.

    Returns:
        $e_\infty$, of the shape of `gamma`.
    """
    covariance, alpha, variance = NoiseCovariance(h), checked_ratio(samples_per_parameter), checked_variance(noise)
    gammas = checked_gammas(gamma) / variance**0.5
    threshold = _threshold(covariance, alpha)
    errors = [_error(covariance, alpha, float(value), threshold) for value in gammas.ravel()]
    shaped = variance * np.array(errors).reshape(gammas.shape)
    return float(shaped) if shaped.ndim == 0 else shaped


def threshold_energy(h: Any) -> float:
    r"""$E_{th}$, where the descent of a spherical spin glass of covariance $h$ stops (energy below zero, per degree).

    One step: $\frac{h'}{\sqrt{h''}}+h\big(\frac{\sqrt{h''}}{h'}-\frac1{\sqrt{h''}}\big)$ at $q=1$, which is
    $2\sqrt{c(p-1)/p}$ for $c\,q^p$ (Cugliandolo & Kurchan 1993), stable when $h''(0)h''(1)<h'(1)^2$; otherwise
    $\int_0^1\sqrt{h''}$. It sets how $\gamma$ begins to grow when the second layer is trained:
    $\gamma_*=\sqrt\alpha\,\tau E_{th}$ per unit of $t/m$.
    """
    covariance = NoiseCovariance(h)
    value, first, second = (covariance(1.0, order) for order in (0, 1, 2))
    # Equality is q^2 alone, where both agree.
    if covariance(0.0, 2) * second <= first**2 * (1.0 + 1e-12):
        return first / second**0.5 + value * (second**0.5 / first - second**-0.5)
    return float(quad(lambda q: covariance(q, 2) ** 0.5, 0.0, 1.0, epsabs=1e-12, epsrel=1e-12)[0])


def ageing_state(covariance: NoiseCovariance, alpha: float, kappa: float) -> AgeingState | None:
    r"""One step where it is stable at $q=0$, else continuous, at $\kappa=\gamma/\sqrt\alpha$ and noise variance 1."""
    step = one_step(covariance, alpha, kappa)
    if not covariance(0.0, 2) > 0.0 or (step is not None and stable_at_zero(covariance, step)):
        return one_step_state(covariance, alpha, kappa)
    return continuous_state(covariance, alpha, kappa)


def _threshold(covariance: NoiseCovariance, alpha: float) -> float:
    gamma, stable = one_step_threshold(covariance, alpha)
    if stable:
        return gamma
    found = closing(lambda kappa: continuous_state(covariance, alpha, kappa), alpha, gamma)
    if found is None:
        raise InputError(f"no continuous state of this h reaches zero error at samples_per_parameter = {alpha:g}.")
    return found


def _error(covariance: NoiseCovariance, alpha: float, gamma: float, threshold: float) -> float:
    if gamma >= threshold:
        return 0.0
    state = ageing_state(covariance, alpha, gamma / alpha**0.5)
    if state is None:
        raise InputError(f"no ageing state of this h is known at gamma = {gamma:g}, samples_per_parameter = {alpha:g}.")
    return state.training_error


def checked_gammas(gamma: Any) -> np.ndarray:
    r"""$|\gamma|$ as an array; refuses what is not finite."""
    gammas = np.abs(np.asarray(gamma, dtype=float))
    if not np.isfinite(gammas).all():
        raise InputError(f"gamma must be finite, got {gamma!r}.")
    return gammas


def checked_ratio(value: float) -> float:
    r"""$\alpha$ between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise InputError(f"samples_per_parameter must be between 0 and 1 (n < m d), got {value!r}.")
    return float(value)


def checked_variance(value: float) -> float:
    """A positive noise variance."""
    if not (np.isfinite(value) and value > 0.0):
        raise InputError(f"noise must be a positive variance, got {value!r}.")
    return float(value)


def _check_gamma(value: float) -> None:
    if not (np.isfinite(value) and value > 0.0):
        raise InputError(f"gamma must be positive and finite, got {value!r}.")
