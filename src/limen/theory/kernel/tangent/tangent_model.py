"""Regression on first-layer tangent features with infinitely many neurons: the kernel line of the tangent model."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from limen import checks
from limen.problem.spec import InputError
from limen.theory.kernel.random_features_spectrum import random_features_spectrum
from limen.theory.kernel.risk import RidgeRisk
from limen.theory.kernel.tangent.sphere_kernel import SphereKernel, sphere_kernel


def tangent_kernel(activation: Any) -> SphereKernel:
    r"""$h(u)=u\,E[\sigma'(G)\sigma'(G')]$, $\mathrm{cov}(G,G')=u$: the kernel of the features $x\,\sigma'(\langle
    w,x\rangle/\sqrt d)/\sqrt d$ averaged over $w$, for $|x|^2=|w|^2=d$ and large $d$.

    $h(0)=0$, $h'(0)=\mu_1^2$, $h(1)=E\sigma'^2$: first-layer training of a two-layer network.
    """
    return sphere_kernel(activation, 2, layers="first")


def tangent_model(
    activation: Any,
    dimension: int,
    samples: ArrayLike,
    ridge: ArrayLike = 0.0,
    linear: float = 1.0,
    nonlinear: float = 0.0,
    noise: ArrayLike = 0.0,
) -> RidgeRisk:
    r"""Kernel (ridge) regression with `tangent_kernel`, the limit $N\to\infty$ of the tangent model, for $n\asymp d$.

    $N$ neurons give $Nd$ features $x\,\sigma'(\langle w_j,x\rangle/\sqrt d)/\sqrt{Nd}$; the least-norm fit interpolates
    once $Nd\ge n$, its error diverges at $Nd=n$ and approaches this line for $Nd\gg n$. The kernel has the eigenvalue
    $\mu_1^2/d$, $d$ times, and the remainder $E\sigma'^2-\mu_1^2$, a ridge that the fit cannot avoid. (With
    ReLU and few neurons an input on which no neuron is active has no features: interpolation then begins later.)

    `dimension` $d$, `samples` $n$, `ridge` $\delta\ge0$ in $\sum_i(y_i-f(x_i))^2+\delta\|a\|^2$; the target has a
    linear part of norm `linear`, a centred non-linear part of variance `nonlinear` (not learnt for $n\asymp d$) and
    label noise `noise`. `test` is the excess risk. Source: Montanari & Zhong 2022.
    """
    if dimension != int(dimension) or dimension < 1:
        raise InputError(f"dimension must be a whole number of at least 1, got {dimension}.")
    kernel = tangent_kernel(activation)
    energy = checks.number("linear", linear) ** 2
    spectrum = np.full(int(dimension), kernel.slope / dimension)
    energies = np.full(int(dimension), energy / dimension)
    # an affine activation has no remainder; rounding must not make it negative
    tail = kernel.tail if kernel.tail > 1e-12 * kernel.at_one else 0.0
    return random_features_spectrum(spectrum, energies, samples, np.inf, ridge, noise, tail, nonlinear)
