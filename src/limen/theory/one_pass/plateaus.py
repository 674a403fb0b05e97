r"""Where one-pass SGD ends, how large its rate may be, and which limit a scaling of width and rate belongs to."""

from typing import Any, Literal

import numpy as np

from limen.gaussian.functions import as_function
from limen.gaussian.quadrature import gaussian_rule
from limen.problem.spec import InputError
from limen.theory.one_pass.committee import checked_activation
from limen.theory.one_pass.overlap_equations.right_hand_side import check_rate_and_noise

Regime = Literal["gradient flow", "saad-solla", "noise dominated", "no ode"]


def noise_plateau(activation: Any, rate: float, noise: float, a: Any = 1.0, variances: Any = 1.0) -> float:
    r"""Excess risk at which SGD with label noise stays near a perfect solution, to first order in $\gamma/p$.

    $\frac{\gamma\Delta}{4p^2}\sum_ia_i^2E[\sigma'(\lambda_i)^2]$, $\lambda_i\sim N(0,Q_{ii})$: a quarter of rate,
    noise and trace of the Hessian. `a` is the students' second layer and `variances` their $Q_{ii}$ at the solution,
    numbers or one per student (together they say $p$). All students are on the solution manifold, $p\ge k$.
    """
    check_rate_and_noise(rate, noise)
    weights, sizes = np.broadcast_arrays(
        np.atleast_1d(np.asarray(a, float)), np.atleast_1d(np.asarray(variances, float))
    )
    if sizes.ndim != 1 or (sizes < 0).any():
        raise InputError(f"variances must not be negative, one per student, got {variances!r}.")
    moments = np.array([slope_moments(activation, float(size))[0] for size in sizes])
    return float(rate * noise / (4.0 * weights.size**2) * np.sum(weights**2 * moments))


def single_neuron_plateau(activation: Any, rate: float, noise: float, variance: float = 1.0) -> float:
    r"""The plateau of one student and one teacher ($a=a^*=1$) for every stable rate, to first order in the noise.

    $\frac{\gamma\Delta h_2^2}{2(2h_2-\gamma h_4)}$ with $h_s=E[\sigma'(\lambda)^s]$, $\lambda\sim N(0,P)$, $P=$
    `variance`; infinite at and above `largest_stable_rate`.
    """
    check_rate_and_noise(rate, noise)
    second, fourth = slope_moments(activation, variance)
    gap = 2.0 * second - rate * fourth
    return float(rate * noise * second**2 / (2.0 * gap)) if gap > 0 else np.inf


def largest_stable_rate(activation: Any, variance: float = 1.0) -> float:
    r"""$\gamma_c=2h_2/h_4$, $h_s=E[\sigma'(\lambda)^s]$: above it the solution of one student and one teacher is
    unstable.

    $a=a^*=1$, $\lambda\sim N(0,P)$ with $P=$ `variance`. $\pi\sqrt{5/3}$ for saad-solla, $\frac16$ for square, 2 for
    linear.
    """
    second, fourth = slope_moments(activation, variance)
    if fourth == 0.0:
        raise InputError("activation must not be constant.")
    return 2.0 * second / fourth


def slope_moments(activation: Any, variance: float) -> tuple[float, float]:
    r"""$E[\sigma'(\lambda)^2]$ and $E[\sigma'(\lambda)^4]$ for $\lambda\sim N(0,\text{variance})$, by adapted
    quadrature."""
    if not (np.isfinite(variance) and variance >= 0):
        raise InputError(f"variance must be finite and not negative, got {variance!r}.")
    slope = as_function(checked_activation(activation)).derivative()
    assert slope is not None
    scaled = slope.scaled(float(np.sqrt(variance)))
    rule = gaussian_rule(scaled)
    return float(rule.weights @ rule.values**2), float(rule.weights @ rule.values**4)


def regime(kappa: float, delta: float) -> Regime:
    r"""The limit of SGD with width $p\sim d^\kappa$ and rate $\gamma\sim d^{-\rho}$, $\rho$ = `delta`.

    $\kappa+\rho>0$: `gradient flow`, $n\sim d^{1+\kappa+\rho}$ samples per unit of time; $=0$: `saad-solla`;
    $-\frac12<\kappa+\rho<0$: `noise dominated`, nothing is learnt; below: one step moves the norms by $O(1)$, `no
    ode`. Source: Veiga et al. 2022.
    """
    total = kappa + delta
    if not np.isfinite(total):
        raise InputError(f"kappa and delta must be finite, got {kappa!r} and {delta!r}.")
    if abs(total) < 1e-12:
        return "saad-solla"
    if total > 0:
        return "gradient flow"
    return "noise dominated" if total > -0.5 + 1e-12 else "no ode"


def phase_retrieval_growth(width: int, rate: float, noise: float) -> float:
    r"""$c_p=1-\frac\gamma pB$, $B=1+\frac1p+\frac4{p^2}+\frac\Delta2$: on the sphere small overlaps grow like
    $e^{4c_pt}$, and not at all if $c_p\le0$ (Arnaboldi et al. 2023)."""
    check_rate_and_noise(rate, noise)
    return 1.0 - rate / width * _friction(width, noise)


def best_rate(width: int, noise: float) -> float:
    r"""The rate $\gamma=\frac p{2B}$ with which phase retrieval escapes from fewest samples."""
    check_rate_and_noise(0.0, noise)
    return width / (2.0 * _friction(width, noise))


def sample_budget(width: int, d: int, noise: float, fraction: float = 0.01) -> float:
    r"""Samples that phase retrieval needs at its best rate to lower the risk by `fraction`, leading order in $\log d$.

    $n=\frac{dB}2\log\frac{T(p+1)d+(p+1)(1-T)}{2p}$, the annealed exit time at `best_rate`: from $3d\log$ at $p=1$ to
    $\frac d2\log$ at $p=\infty$ without noise, a factor 6 and never more (Arnaboldi et al. 2023).
    """
    if not 0.0 < fraction < 1.0:
        raise InputError(f"fraction must be between 0 and 1, got {fraction!r}.")
    argument = (fraction * (width + 1) * d + (width + 1) * (1.0 - fraction)) / (2.0 * width)
    if argument <= 1.0:
        raise InputError(f"d must be larger for an exit at fraction {fraction:g}, got {d}.")
    return 0.5 * d * _friction(width, noise) * float(np.log(argument))


def unconstrained_plateau(width: int, rate: float, noise: float) -> float:
    r"""Squared norm $q$ at which unconstrained SGD on phase retrieval waits before it learns, $Q=qI$, $M=0$.

    The smaller root of $(1-q)-\frac{2q}p+\frac\gamma p[3+\Delta-2q(1+\frac2p)+q^2(1+\frac6p+\frac8{p^2})]=0$;
    infinite when there is none and the norm diverges.
    """
    check_rate_and_noise(rate, noise)
    scale = rate / width
    quadratic = scale * (1.0 + 6.0 / width + 8.0 / width**2)
    linear = -1.0 - 2.0 / width - 2.0 * scale * (1.0 + 2.0 / width)
    constant = 1.0 + scale * (3.0 + noise)
    discriminant = linear**2 - 4.0 * quadratic * constant
    # The form that stays accurate as the rate goes to zero.
    return float(2.0 * constant / (-linear + np.sqrt(discriminant))) if discriminant >= 0 else np.inf


def _friction(width: int, noise: float) -> float:
    if width < 1 or width != int(width):
        raise InputError(f"width must be a positive whole number, got {width!r}.")
    return 1.0 + 1.0 / width + 4.0 / width**2 + 0.5 * noise
