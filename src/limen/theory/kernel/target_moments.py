"""What kernels in the linear regime see of a target: its linear part, the variance of the rest, its noise."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from limen.gaussian.hermite import hermite_coefficients
from limen.gaussian.quadrature import gaussian_rule
from limen.precision import in_double
from limen.problem.spec import InputError
from limen.problem.targets import Target, as_target
from limen.theory.fresh_inputs.latent_rule import latent_rule


class TargetMoments(NamedTuple):
    r"""$F_1=\|E[h(z)z]\|$, $F_*^2=\mathrm{Var}\,h-F_1^2$ and the variance of the label noise."""

    linear: float
    nonlinear: float
    noise: float


def target_moments(target: Any) -> TargetMoments:
    r"""The moments of a `Target`, a name, or a formula in `z1`..`zk` (and `e`, whose variance is part of $F_*^2$).

    By the quadrature of the target: relative error below $10^{-8}$ for one or two coordinates and smooth links,
    otherwise $10^{-4}$ or better.
    """
    checked = as_target(target)
    if not isinstance(checked, Target):
        raise InputError(f"target must be a target, a name or a formula, got {target!r}.")
    return _moments(checked)


@lru_cache(maxsize=64)
@in_double
def _moments(target: Target) -> TargetMoments:
    if target.latents == 1 and not target.uses_inner_noise:
        mean, linear = (float(c) for c in hermite_coefficients(target, 1))
        rule = gaussian_rule(target, 1)
        rest = float(rule.weights @ (rule.values - mean - linear * rule.nodes) ** 2)
        size = float(rule.weights @ rule.values**2)
        return TargetMoments(abs(linear), rest if rest > 1e-24 * size else 0.0, target.noise)
    rule = latent_rule(target)
    weights = rule.weights / rule.weights.sum(axis=1, keepdims=True)
    mean = np.einsum("sn,sn->s", weights, rule.labels)
    slopes = np.einsum("sn,sn,snk->sk", weights, rule.labels - mean[:, None], rule.points[..., : target.latents])
    variance = np.einsum("sn,sn->s", weights, (rule.labels - mean[:, None]) ** 2)
    linear = np.sqrt((slopes**2).sum(axis=1))
    rest = float(np.maximum(variance - linear**2, 0.0).mean())
    return TargetMoments(float(linear.mean()), rest if rest > 1e-12 * variance.mean() else 0.0, target.noise)
