"""Random features ridge regression: double descent in closed form."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen import checks
from limen.problem.spec import InputError
from limen.theory.kernel.activation_moments import ActivationMoments, activation_moments
from limen.theory.kernel.equivalent import KernelSpectrum, effective_ridge, kernel_spectrum
from limen.theory.kernel.equivalent_risk import ridge_risk
from limen.theory.kernel.risk import RandomFeaturesRisk
from limen.theory.kernel.target_moments import target_moments


def random_features(
    psi1: ArrayLike,
    psi2: ArrayLike,
    ridge: ArrayLike,
    activation: Any,
    linear: float = 1.0,
    nonlinear: float = 0.0,
    noise: ArrayLike = 0.0,
    target: Any = None,
) -> RandomFeaturesRisk:
    r"""Ridge regression on $N$ random features as $N,n,d\to\infty$ with $N/d\to\psi_1$, $n/d\to\psi_2$.

    $f(x)=\sum_{j\le N}a_j\sigma(\langle\theta_j,x\rangle/\sqrt d)$ with $\theta_j$ and $x$ uniform on the sphere of
    radius $\sqrt d$ (Gaussian inputs: the same limit); $a$ minimises
    $\frac1n\sum_i(y_i-f(x_i))^2+\frac{N\lambda}d\|a\|^2$. The target is a linear function of norm $F_1$, plus a
    centred non-linear part of variance $F_*^2$, plus noise of variance $\tau^2$. With
    $D_1(\kappa)=\frac{\mu_1^2}{\mu_1^2+\kappa}+\frac{\mu_*^2}\kappa$ the effective ridge solves
    $$\lambda=\kappa\Big(1-\frac{D_1}{\psi_1}\Big)\Big(1-\frac{D_1}{\psi_2}\Big),\qquad D_1\le\min(\psi_1,\psi_2).$$
    With $D_2=\big(\frac{\mu_1^2}{\mu_1^2+\kappa}\big)^2$, $T=-D_1'(\kappa)$, $x=D_1/\psi_1$ and
    $\Upsilon=\frac{\psi_1}{\psi_2}\big[x^2+(1-x)^2\frac{D_2}{\psi_1-D_2}\big]$,
    $$\mathcal B=\frac{\kappa^2}{(1-\Upsilon)(\mu_1^2+\kappa)^2}\Big[1+\frac{\mu_1^2T}{\psi_1-D_2}\Big],\qquad
      \mathcal V=\frac{\Upsilon}{1-\Upsilon},$$
    `bias` $=\mathcal B$ and `variance` $=\mathcal V$, the excess risk per unit of linear signal and of noise;
    `test` $=F_1^2\mathcal B+(\tau^2+F_*^2)\mathcal V+F_*^2$, and `train` $=(1-D_1/\psi_2)^2(\text{test}+\tau^2)$.
    This is the limit of Mei & Montanari 2019, whose $\nu_1,\nu_2$ and polynomials reduce to the scalar equation.

    `psi1`, `psi2`, `ridge` ($\lambda\ge0$) and `noise` ($\tau^2$) broadcast; one of `psi1`, `psi2` may be infinite
    (the kernel, or endless data). `linear` is $F_1$, `nonlinear` is $F_*^2$; or `target`, a `Target`, a name or a
    formula, has them, and its noise. For a penalty
    $\sum_i(y_i-f_i)^2+\lambda_s\|a\|^2$ use $\lambda=\lambda_sd/(nN)$. A constant in the target is learnt freely only
    if $\mu_0\ne0$. Ridgeless at $\psi_1=\psi_2$ the risk is infinite: `inf`, and a sentence in `status`. A map of
    $10^4$ points takes about 0.1 s.
    """
    if target is not None:
        if (linear, nonlinear) != (1.0, 0.0) or np.any(noise):
            raise InputError("linear, nonlinear and noise must be left out with a target, which has its own.")
        linear, nonlinear, noise = target_moments(target)
    return random_features_from_moments(psi1, psi2, ridge, activation_moments(activation), linear, nonlinear, noise)


def random_features_from_moments(
    psi1: ArrayLike,
    psi2: ArrayLike,
    ridge: ArrayLike,
    moments: ActivationMoments,
    linear: float = 1.0,
    nonlinear: float = 0.0,
    noise: ArrayLike = 0.0,
) -> RandomFeaturesRisk:
    """`random_features` for given moments of the activation."""
    features, samples, penalty, variance = checks.broadcast(
        psi1=checks.positives_or_infinite("psi1", psi1),
        psi2=checks.positives_or_infinite("psi2", psi2),
        ridge=checks.non_negatives("ridge", ridge),
        noise=checks.non_negatives("noise", noise),
    )
    check_capacities(features, samples)
    spectrum = linear_regime(moments, linear, nonlinear)
    sizes = features, samples, penalty
    # It does not depend on the target.
    solution = effective_ridge(spectrum, *sizes)
    risk = ridge_risk(spectrum, *sizes, variance, "psi1 = psi2", solution)
    unit = ridge_risk(linear_regime(moments, 1.0, 0.0), *sizes, np.ones_like(variance), "psi1 = psi2", solution)
    return RandomFeaturesRisk(risk.kappa, unit.bias, unit.variance, risk.test, risk.train, risk.status)


def random_features_optimal_ridge(
    psi2: float, activation: Any, linear: float = 1.0, nonlinear: float = 0.0, noise: float = 0.0
) -> float:
    r"""The penalty of least risk with endlessly many features, $\psi_1=\infty$.

    There the features act as isotropic linear regression with penalty $\frac{\mu_*^2+\psi_2\lambda}{\psi_2\mu_1^2}$, so
    $$\lambda^*=\frac{1}{\psi_2}\Big(\mu_1^2\frac{\tau^2+F_*^2}{F_1^2}-\mu_*^2\Big)_+:$$
    interpolation is optimal iff $F_1^2/(\tau^2+F_*^2)\ge\mu_1^2/\mu_*^2$. Infinite if there is nothing linear to learn.
    Source: Mei & Montanari 2019.
    """
    samples = checks.positive("psi2", psi2)
    signal = checks.non_negative("linear", linear) ** 2
    disturbance = sum(checks.non_negative(name, value) for name, value in (("nonlinear", nonlinear), ("noise", noise)))
    moments = activation_moments(activation)
    if signal == 0.0 or moments.linear == 0.0:
        return float("inf") if disturbance > 0 else 0.0
    return max(0.0, moments.linear**2 * disturbance / signal - moments.nonlinear_squared) / samples


def linear_regime(moments: ActivationMoments, linear: float, nonlinear: float) -> KernelSpectrum:
    r"""The kernel spectrum of random features with $n\asymp d$, per dimension: $\mu_1^2$, and the tail $\mu_*^2$."""
    signal = checks.non_negative("linear", linear) ** 2
    rest = checks.non_negative("nonlinear", nonlinear)
    one = np.ones(1)
    return kernel_spectrum(moments.linear**2 * one, one, signal * one, moments.nonlinear_squared, rest)


def check_capacities(features: NDArray[np.float64], samples: NDArray[np.float64]) -> None:
    """Refuses infinitely many features and infinitely many samples at once."""
    if (np.isinf(features) & np.isinf(samples)).any():
        raise InputError("psi1 and psi2 must not both be infinite: then nothing is left to learn from data.")
