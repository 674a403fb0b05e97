r"""Compute-optimal scaling of `PowerLawFeatures`: exponents, phases, and the frontier of the theory itself.

After $r$ steps the risk is a sum of powers of $d$ and $r$ (Paquette, Paquette, Xiao & Pennington 2024):
what is being learned, $(\gamma Br)^{-(1+\beta/\alpha)+1/(2\alpha)}$; what $d$ features cannot hold,
$d^{-2\alpha+\max(0,1-2\beta)}$; the distortion of the embedding, $d^{-1}(\gamma Br)^{-1+1/(2\alpha)}$ (for
$2\alpha,2\beta>1$); the noise of SGD, $\gamma(\gamma Br)^{-2+1/(2\alpha)}$ (for $\alpha>\frac14$). The rate is
fixed for $2\alpha>1$ and falls as $d^{2\alpha-1}$ below, where the trace grows. At compute $f=dBr$ the best $d=f^\xi$
balances the two largest; which two is the phase. In phase IV the limit is far: at $d=10^6$ the frontier still falls 10%
(IVa) or 4% (IVb) faster than its exponent.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from limen.problem.spec import InputError
from limen.theory.kernel.power_law import equivalent_nodes, mean_risk, population

TERMS = ("learning", "capacity", "distortion", "noise")


@dataclass(frozen=True)
class ScalingExponents:
    r"""At compute $f$ the risk falls as $f$ to the power $-$`risk`, the best $d$ grows as $f$ to the power `size`; the
    `phase`, and the two terms that meet there."""

    risk: float
    size: float
    phase: str
    balance: tuple[str, str]


def scaling_exponents(alpha: float, beta: float) -> ScalingExponents:
    r"""Exponents of compute-optimal training of `PowerLawFeatures` as the compute goes to infinity.

    $2(\alpha+\beta)>1$ (a target of finite norm). Phases: Ia, $2\alpha>1>2\beta$, learning meets capacity; II,
    $\frac12<\beta<\alpha$, learning meets distortion; III, $\frac12<\alpha<\beta$, distortion meets noise; IV,
    $\frac14<\alpha<\frac12<\beta$, noise meets capacity (IVa) or learning (IVb); below, Ib and Ic, learning meets
    capacity. The exponents are the least maximum of the terms' exponents over $d=f^\xi$, found exactly.
    """
    if not (alpha > 0.0 and beta >= 0.0 and 2.0 * (alpha + beta) > 1.0):
        raise InputError(f"alpha and beta must be positive with 2 (alpha + beta) > 1, got {alpha} and {beta}.")
    terms = _terms(alpha, beta)
    names = list(terms)
    lines = np.array([terms[name] for name in names])
    crossings = [0.0, 1.0]
    for first in range(len(lines)):
        for second in range(first):
            (p, q), (s, t) = lines[first], lines[second]
            if abs(p - q - s + t) > 1e-14:
                crossings.append((t - q) / (p - q - s + t))
    sizes = np.array([x for x in crossings if 0.0 <= x <= 1.0])
    heights = np.max(lines[:, :1] * sizes + lines[:, 1:] * (1.0 - sizes), axis=0)
    best = int(np.argmin(heights))
    size = float(sizes[best])
    order = np.argsort(-(lines[:, 0] * size + lines[:, 1] * (1.0 - size)), kind="stable")
    pair = tuple(sorted((names[order[0]], names[order[1]]), key=TERMS.index))
    return ScalingExponents(float(-heights[best]), size, _phase(alpha, beta, pair), pair)  # pyright: ignore


def scaling_frontier(
    alpha: float,
    beta: float,
    features: ArrayLike,
    compute: ArrayLike,
    ambient_per_feature: float = 30.0,
    rate: float = 0.3,
    batch: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    r"""The least mean risk at each compute over the given sizes, and the size that has it.

    No draw: the deterministic equivalent for every $d$ in `features`, with $v=$ `ambient_per_feature`$\cdot d$ (at
    least $10^6$ where $2\alpha>1$, where the tail hardly counts), $\gamma$ = `rate` over $B$ times the trace of the
    covariance. Steps are $f/(dB)$, rounded down; a size without a step there does not compete.
    """
    sizes = np.atleast_1d(np.asarray(features, dtype=int))
    budget = np.atleast_1d(np.asarray(compute, dtype=float))
    risks = np.full((sizes.size, budget.size), np.inf)
    for place, d in enumerate(sizes):
        ambient = int(ambient_per_feature * d)
        if 2.0 * alpha > 1.0:
            ambient = max(ambient, 10**6)
        spectrum = population(alpha, beta, ambient)
        steps = np.floor(budget / (d * batch)).astype(np.int64)
        own = steps >= 1
        if own.any():
            nodes = equivalent_nodes(alpha, beta, ambient, int(d))
            gamma = rate / float(spectrum.values @ spectrum.counts) / batch
            different, back = np.unique(steps[own], return_inverse=True)
            risks[place, own] = mean_risk(nodes, gamma, batch, 0.0, different)[back]
    best = np.argmin(risks, axis=0)
    return risks[best, np.arange(budget.size)], sizes[best]


def _terms(alpha: float, beta: float) -> dict[str, tuple[float, float]]:
    """Exponents (of d, of r) of the four terms."""
    fall = min(0.0, 2.0 * alpha - 1.0)
    learning = -(1.0 + beta / alpha) + 0.5 / alpha
    terms = {
        "learning": (fall * learning, learning),
        "capacity": (-2.0 * alpha + max(0.0, 1.0 - 2.0 * beta), 0.0),
    }
    if alpha > 0.5 and beta > 0.5:
        distortion = -1.0 + 0.5 / alpha
        terms["distortion"] = (-1.0, distortion)
    if alpha > 0.25:
        noise = -2.0 + 0.5 / alpha
        terms["noise"] = (fall * (1.0 + noise), noise)
    return terms


def _phase(alpha: float, beta: float, balance: tuple[str, ...]) -> str:
    if alpha > 0.5:
        if beta < 0.5:
            return "Ia"
        return "II" if beta < alpha else "III"
    if beta < 0.5:
        return "Ib"
    if alpha < 0.25:
        return "Ic"
    return "IVa" if balance == ("capacity", "noise") else "IVb"
