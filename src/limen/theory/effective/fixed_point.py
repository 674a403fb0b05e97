"""Where training ends: the stable overlap of every model of the chapter with one."""

from typing import Any

from limen.problem import GaussianMixture, InputError, OnlinePCA, SpikedTensor
from limen.theory.effective.mixtures.mixture_fixed_point import mixture_fixed_point
from limen.theory.effective.sphere.sphere_drift import SphereDrift
from limen.theory.effective.sphere.sphere_population import checked_sphere
from limen.theory.effective.tensor_flow import tensor_fixed_point


def fixed_point(problem: Any) -> Any:
    r"""The stable overlap $m_*$ at which training ends as $N\to\infty$.

    * Losses on the sphere: the zero of $b(m)=-\phi'(m)(1-m^2)-\frac\delta2m\sigma^2(m)$ that the flow reaches from zero
      overlap (information exponents 1 and 2) or from beyond the barrier (3 and above). `OnlinePCA`:
      $m_*^2=\frac{\lambda-\delta}{\lambda(1+\delta)}$, $\delta<\lambda$.
    * `SpikedTensor`: $\sqrt{\lambda-c}$ for order 2; the largest root of $\lambda m^{k-2}=(m^2+c)^{k-1}$ above.
    * `GaussianMixture` at infinite sharpness: $(A,B)=(x^c\cdot\mu_c,\ x^c\cdot\mu_a)$.

    Refused where nothing is learnt: a step too large, a signal too weak.
    """
    if isinstance(problem, GaussianMixture):
        return mixture_fixed_point(problem)
    if isinstance(problem, SpikedTensor):
        return tensor_fixed_point(problem)
    if isinstance(problem, OnlinePCA):
        SphereDrift(problem).check_escape()
        return ((problem.signal - problem.step) / (problem.signal * (1.0 + problem.step))) ** 0.5
    drift = SphereDrift(checked_sphere(problem, "fixed_point"))
    drift.check_escape()
    overlap = drift.stable_overlap()
    if overlap == 0.0:
        raise InputError(f"step must be smaller for an overlap other than zero to be stable, got {problem.step:g}.")
    return overlap
