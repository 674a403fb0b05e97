"""Random features and kernel ridge regression for any kernel spectrum."""

import numpy as np
from numpy.typing import ArrayLike

from limen import checks
from limen.problem.spec import InputError
from limen.theory.kernel.equivalent import KernelSpectrum, kernel_spectrum
from limen.theory.kernel.equivalent_risk import ridge_risk
from limen.theory.kernel.risk import RidgeRisk


def random_features_spectrum(
    eigenvalues: ArrayLike,
    coefficients: ArrayLike,
    samples: ArrayLike,
    features: ArrayLike,
    ridge: ArrayLike,
    noise: ArrayLike = 0.0,
    tail: float = 0.0,
    tail_coefficient: float = 0.0,
) -> RidgeRisk:
    r"""Ridge regression on $p$ random features of a kernel with eigenvalues $\eta_k$, from $n$ samples.

    Features are $\frac1{\sqrt p}\varphi_j$ with $E[\varphi_j(x)\varphi_j(x')]=\sum_k\eta_ke_k(x)e_k(x')$; the loss is
    $\sum_i(y_i-f(x_i))^2+\delta\|a\|^2$; the target has energies $c_k^2$ in the orthonormal $e_k$. With
    $T_1=\sum_k\frac{\eta_k}{\eta_k+\kappa}+\frac{\eta_{tail}}\kappa$ the effective ridge solves
    $\delta=\kappa(1-T_1/p)(n-T_1)$. With $T_2=\sum_k\frac{\eta_k^2}{(\eta_k+\kappa)^2}$, $T_s=-\partial_\kappa T_1$,
    $x=T_1/p$ and $\Upsilon=\frac pn\big[x^2+(1-x)^2\frac{T_2}{p-T_2}\big]$,
    $$\text{bias}=\frac{1}{1-\Upsilon}\Big[\kappa^2\sum_kc_k^2\frac{1+\eta_kT_s/(p-T_2)}{(\eta_k+\kappa)^2}+c_{tail}^2\Big],\quad
      \text{variance}=\sigma^2\frac{\Upsilon}{1-\Upsilon},\quad
      \text{train}=\Big(1-\frac{T_1}n\Big)^2(\text{bias}+\text{variance}+\sigma^2).$$

    `eigenvalues` and `coefficients` ($c_k^2$) are lists of one length; `tail` is the trace $\eta_{tail}$ of
    eigenvalues far below all others, which act as a ridge, `tail_coefficient` the target's energy there. `samples`,
    `features`, `ridge` ($\delta\ge0$), `noise` ($\sigma^2$) broadcast; `features=inf` is kernel ridge regression.
    Valid for $n,p\gg1$ and eigenfunctions that behave like independent variables; an inner-product kernel $h(\langle
    x,x'\rangle/d)$ on the sphere with $n\asymp d$ has $\eta=h'(0)/d$, $d$ times, and the tail $h(1)-h(0)-h'(0)$.
    Cost: points times eigenvalues, about 20 times. Sources: Simon et al. 2023; Defilippis, Loureiro & Misiakiewicz
    2024.
    """
    count, width, penalty, variance = checks.broadcast(
        samples=checks.positives("samples", samples),
        features=checks.positives_or_infinite("features", features),
        ridge=checks.non_negatives("ridge", ridge),
        noise=checks.non_negatives("noise", noise),
    )
    spectrum = spectrum_of(eigenvalues, coefficients, tail, tail_coefficient)
    return ridge_risk(spectrum, width, count, penalty / count, variance, "as many samples as features or eigenvalues")


def spectrum_of(
    eigenvalues: ArrayLike, coefficients: ArrayLike, tail: float, tail_coefficient: float
) -> KernelSpectrum:
    """The checked kernel spectrum, every eigenvalue counted once."""
    values = checks.vector("eigenvalues", eigenvalues)
    energies = checks.vector("coefficients", coefficients)
    checks.same_length("eigenvalues", values, "coefficients", energies)
    trace = checks.non_negative("tail", tail)
    rest = checks.non_negative("tail_coefficient", tail_coefficient)
    if not values.any() and trace == 0.0:
        raise InputError("eigenvalues must contain a positive number, or tail must be positive.")
    return kernel_spectrum(values, np.ones_like(values), energies, trace, rest)
