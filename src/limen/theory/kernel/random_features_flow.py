"""Gradient flow on random features and kernels: the risk at every time of training."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from limen import checks
from limen.problem.spec import InputError
from limen.theory.kernel.activation_moments import ActivationMoments, activation_moments
from limen.theory.kernel.filters import combine, flow_risk
from limen.theory.kernel.random_features import check_capacities, linear_regime
from limen.theory.kernel.random_features_spectrum import spectrum_of
from limen.theory.kernel.risk import FilterRisk


def random_features_flow(
    psi1: float,
    psi2: float,
    time: ArrayLike,
    activation: Any,
    linear: float = 1.0,
    nonlinear: float = 0.0,
    noise: float = 0.0,
) -> FilterRisk:
    r"""Gradient flow from 0 on the second layer of random features, as $N,n,d\to\infty$ with $N/d\to\psi_1$,
    $n/d\to\psi_2$.

    Setting and names of `random_features`. With the feature matrix $\Phi$ ($n\times N$) and $A=\frac
    dn\frac1N\Phi\Phi^\top$ the outputs on the training set follow $\dot f=-A(f-y)$; flow on $a$ with loss
    $\frac1{2n}\sum_i(y_i-f(x_i))^2$ and features without the factor $N^{-1/2}$ runs in the time $\psi_1t$. The risk
    is the contour sum of `limen.theory.kernel.contour` with the filter $e^{-tz}$ and
    $$\lambda=\kappa\Big(1-\frac{D_1}{\psi_1}\Big)\Big(1-\frac{D_1}{\psi_2}\Big),\quad
      \kappa_1=\kappa\Big(1-\frac{D_1}{\psi_1}\Big),\quad g=\frac{F_1^2\kappa}{\mu_1^2+\kappa}+F_*^2 .$$

    `psi1`, `psi2`, `noise` are numbers, `psi1` or `psi2` may be infinite; `time` is a number or an array of $t\ge0$.
    `test` is the excess risk, `train` the mean squared residual; `bias` includes what the non-linear part of the
    target costs. As $t\to\infty$ the ridgeless values of `random_features` are reached. Cost: 5 to 50 ms for each
    factor of 4 in time, more near $\psi_1=\psi_2$.
    """
    features = checks.positive_or_infinite("psi1", psi1)
    samples = checks.positive_or_infinite("psi2", psi2)
    check_capacities(np.asarray(features), np.asarray(samples))
    times, variance = checks.non_negatives("time", time), _one("noise", noise)
    spectrum = linear_regime(activation_moments(activation), linear, nonlinear)
    return combine(flow_risk(spectrum, features, samples, times), times.shape, variance)


def random_features_spectrum_flow(
    eigenvalues: ArrayLike,
    coefficients: ArrayLike,
    samples: float,
    features: float,
    time: ArrayLike,
    noise: float = 0.0,
    tail: float = 0.0,
    tail_coefficient: float = 0.0,
) -> FilterRisk:
    r"""Gradient flow $\dot f=-\frac1n\hat K(f-y)$ for any kernel spectrum; arguments as in `random_features_spectrum`.

    $\hat K=\frac1p\sum_j\varphi_j\varphi_j^\top$ is the kernel of $p$ features on the $n$ samples, or the kernel
    itself for `features=inf`; `time` is a number or an array. Cost: contour nodes times eigenvalues, some seconds for
    $10^3$ eigenvalues that span many decades.
    """
    width = checks.positive_or_infinite("features", features)
    count = checks.positive("samples", samples)
    times, variance = checks.non_negatives("time", time), _one("noise", noise)
    spectrum = spectrum_of(eigenvalues, coefficients, tail, tail_coefficient)
    return combine(flow_risk(spectrum, width, count, times), times.shape, variance)


def kernel_flow(
    samples_per_dim: float,
    time: ArrayLike,
    slope: float,
    tail: float,
    linear: float = 1.0,
    nonlinear: float = 0.0,
    noise: float = 0.0,
) -> FilterRisk:
    r"""Gradient flow $\dot f=-K(f-y)$ with the kernel $K=h(\langle x,x'\rangle/d)$ on the sphere, as $n/d\to$
    `samples_per_dim`.

    To leading order $K=h(0)\mathbf1\mathbf1^\top+h'(0)\frac{XX^\top}d+\big(h(1)-h(0)-h'(0)\big)I$ (El Karoui 2010):
    `slope` is $h'(0)$ and `tail` is $h(1)-h(0)-h'(0)$. A kernel is the case $\psi_1=\infty$ of random features with
    $\mu_1^2=h'(0)$, $\mu_*^2=$ `tail`, run for the time $t\,n/d$. For the flow $-\frac1nK(f-y)$ of a network in its
    tangent kernel, `time` is $t/n$. Target and noise as in `random_features`; a constant in the target is learnt at
    once if $h(0)>0$.
    """
    ratio = _positive("samples_per_dim", samples_per_dim)
    times, variance = checks.non_negatives("time", time), _one("noise", noise)
    rise, rest = _one("slope", slope), _one("tail", tail)
    if rise == 0.0 and rest == 0.0:
        raise InputError("slope or tail must be positive, got a constant kernel.")
    spectrum = linear_regime(ActivationMoments(0.0, float(np.sqrt(rise)), rest), linear, nonlinear)
    return combine(flow_risk(spectrum, np.inf, ratio, ratio * times), times.shape, variance)


def _one(name: str, value: ArrayLike) -> float:
    return checks.non_negative(name, value)


def _positive(name: str, value: ArrayLike) -> float:
    return checks.positive(name, value)
