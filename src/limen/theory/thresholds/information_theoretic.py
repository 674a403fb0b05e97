r"""The least number of samples per dimension from which any method at all can find a direction.

$$\delta_{IT}=\inf_{0<q<1}\frac{-\frac12(q+\log(1-q))}{I(q)},$$
the smallest $\delta$ at which $\delta I(q)+\frac12(q+\log(1-q))$ is positive somewhere: $I(q)$ is what a label tells
about the known part of its coordinate, the rest what knowing that part costs. The limit $q\to0$ is $\delta_{alg}$ for
a hard link, so $\delta_{IT}\le\delta_{alg}$.

Several directions, all of them hard: $q$ becomes the matrix of overlaps $Q$ (`overlap_matrices`),
$$\delta_{IT}=\inf_Q\frac{-\frac12(\mathrm{tr}\,Q+\log\det(I-Q))}{I(Q)},$$
found by Dinkelbach's rounds: at $\delta$ the fixed point $Q$ of the state evolution from nearly full knowledge, then
$\delta$ as this quotient at $Q$. Where $Q$ falls to zero instead, the infimum is the limit there, $\delta_{alg}$.

Source: Barbier, Krzakala, Macris, Miolane & Zdeborová 2019; Aubin et al. 2018 and Troiani et al. 2024 (several).
"""

from typing import Any

import numpy as np

from limen.link import hard_subspace
from limen.link.label_points import checked_target
from limen.problem.inputs import Inputs
from limen.problem.spec import InputError
from limen.problem.targets import Target
from limen.theory.thresholds.algorithmic import algorithmic
from limen.theory.thresholds.overlap_curve import overlap_curve
from limen.theory.thresholds.overlap_matrices import (
    entropy,
    fixed_point,
    full_start,
    information_and_slope,
    several_directions,
)
from limen.theory.thresholds.population_hessian import target_profile

MOST_ROUNDS, CONVERGED = 30, 1e-4
LARGEST = 1e3
# A trace of overlaps below which the quotient is its limit at zero, to the error stated.
FAINT = 0.03


def information_theoretic(target: Any, inputs: Inputs | None = None) -> float:
    r"""$\delta_{IT}=n/d$ for weak recovery of a hard direction by any method, Gaussian prior, $n,d\to\infty$.

    0 when the link has no hard direction. For a noiseless label with a continuous law the limit $q\to1$ counts too; it
    is one over the probability that $h$ is not flat. Relative error about $10^{-3}$, and $10^{-5}$ where the infimum is
    at $q\to0$ ($z^2$: 1/2 = $\delta_{alg}$). 1 to 4 s.

    Two or three latent directions: labels with additive noise, every direction hard; relative error about $3\cdot
    10^{-3}$ and $5\cdot10^{-3}$; ten to a hundred rounds of 0.1 and 0.2 s. With easy and hard ones together the first
    hard one is found with a $Q$ that is not zero, and there is no such quotient: that is refused (`bayes_overlap` at
    your $\delta$ answers).

    On `inputs` of several variances the prior of the whitened direction has variances $\tau$, and knowing $q$ costs
    $\frac12E\big[\log(1+\tau r)-\frac{\tau r}{1+\tau r}\big]$ with $q=E\frac{\tau^2r}{1+\tau r}$; one latent direction.
    """
    checked = checked_target(target)
    if checked.latents > 1:
        if inputs is not None and not inputs.isotropic:
            raise InputError(
                f"target must have one latent direction on inputs of several variances, got {checked.latents}: "
                "directions that are found together carry one overlap matrix per eigenspace."
            )
        return _of_several(checked)
    curve = overlap_curve(checked)
    if curve.algorithmic == 0.0:
        return 0.0
    if inputs is None or inputs.isotropic:
        inside = float(np.min(curve.entropy() / curve.information))
        return min(inside, curve.algorithmic, curve.exact)
    profile, fractions = target_profile(inputs)
    inside = float(np.min(_cost(curve.overlaps, profile, fractions) / curve.information))
    at_start = curve.algorithmic / float(fractions @ profile**2)
    return min(inside, at_start, curve.exact * float(fractions[profile > 0.0].sum()))


def threshold_if_known(target: Target, inputs: Inputs | None = None) -> float | None:
    """`information_theoretic`, None where several directions have no formula (no label noise, easy and hard ones,
    inputs of several variances)."""
    try:
        return information_theoretic(target, inputs)
    except InputError:
        if target.latents == 1:
            raise
        return None


def _of_several(target: Target) -> float:
    hard = hard_subspace(target).dimension
    if hard == 0:
        return 0.0
    if hard < target.latents:
        raise InputError(
            f"target must have only hard or only easy directions here, and {target.label!r} has {hard} hard of "
            f"{target.latents}: take bayes_overlap at a number of samples instead."
        )
    several_directions(target)
    efficient = algorithmic(target)
    level, known = min(efficient, LARGEST), full_start(target)
    for _ in range(MOST_ROUNDS):
        # With fewer samples less is known: the state evolution goes on from what was known with more.
        known = fixed_point(target, level, known, FAINT).overlap
        if np.trace(known) < FAINT:
            return level
        lower = entropy(known) / information_and_slope(target, known)[0]
        if not lower < level * (1.0 - CONVERGED):
            return min(lower, level)
        level = lower
    raise InputError(f"the information-theoretic threshold of {target.label!r} did not settle in {MOST_ROUNDS} rounds.")


def _cost(overlap: np.ndarray, profile: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    r"""What knowing the overlaps $q$ costs when the prior has variances `profile` on `fractions` of the coordinates."""
    low, high = np.full(overlap.shape, -60.0), np.full(overlap.shape, 60.0)
    for _ in range(100):
        middle = 0.5 * (low + high)
        scaled = profile * np.exp(middle)[:, None]
        above = (profile * scaled / (1.0 + scaled)) @ fractions > overlap
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    scaled = profile * np.exp(low)[:, None]
    return 0.5 * (np.log1p(scaled) - scaled / (1.0 + scaled)) @ fractions
