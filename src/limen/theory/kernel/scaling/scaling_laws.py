r"""Compute-optimal scaling of `PowerLawFeatures`: exponents, phases, and the frontier of the theory itself.

After $r$ steps the risk is a sum of powers of $d$ and $r$ (Paquette, Paquette, Xiao & Pennington 2024):
what is being learnt, $(\gamma Br)^{-(1+\beta/\alpha)+1/(2\alpha)}$; what $d$ features cannot hold,
$d^{-2\alpha+\max(0,1-2\beta)}$; the distortion of the embedding, $d^{-1}(\gamma Br)^{-1+1/(2\alpha)}$ (for
$2\alpha,2\beta>1$); the noise of SGD, $\gamma(\gamma Br)^{-2+1/(2\alpha)}$ (for $\alpha>\frac14$). The rate is
fixed for $2\alpha>1$ and falls as $d^{2\alpha-1}$ below, where the trace grows. At compute $f=dBr$ the best $d=f^\xi$
balances the two largest; which two is the phase. In phase IV the limit is slow: noise and capacity meet where their
exponents differ little, and learning counts long. At $\alpha=0.4$, $\beta=0.8$ the frontier falls 9% faster than its
exponent at $d=10^6$, 3% at $10^8$ and 0.3% at $3\cdot10^{10}$; at $\beta=1.5$ it is exact to $10^{-4}$ from $10^8$ on.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import zeta

from limen.problem.spec import InputError
from limen.theory.kernel.scaling.power_law import equivalent_nodes, mean_risk, population, stable_edge

# Steps beyond this cannot be counted by whole numbers.
MOST_STEPS = 8e18
LONG_TAIL = 300.0
PRECISE = {"xatol": 1e-10}
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
    least $300d$ where $2\alpha>1$, where the tail hardly counts), $\gamma$ = `rate` over $B$ times the trace of the
    covariance. Steps are $f/(dB)$, rounded down; a size without a step there does not compete.
    """
    sizes = np.atleast_1d(np.asarray(features, dtype=np.int64))
    risks = _mean_risks(alpha, beta, sizes, compute, ambient_per_feature, rate, batch)
    best = np.argmin(risks, axis=0)
    return risks[best, np.arange(risks.shape[1])], sizes[best]


def frontier_exponents(
    alpha: float, beta: float, features: ArrayLike, ambient_per_feature: float = 4.0, rate: float = 0.3
) -> tuple[float, float]:
    r"""Exponents of risk and size of the frontier itself at sizes around `features`, $B=1$.

    At each compute the least risk over a continuous $d$ is read off a parabola in $\log d$ through the best of the
    given sizes and its neighbours; a straight line through all computes whose best size is not the first or the last
    gives the slopes. `features` should span a decade or two, four sizes a decade.
    """
    sizes = np.unique(np.asarray(features, dtype=np.int64))
    middle = scaling_exponents(alpha, beta).size
    compute = np.geomspace(sizes[0] ** (1.0 / middle) / 100.0, 100.0 * sizes[-1] ** (1.0 / middle), 60)
    with np.errstate(divide="ignore"):
        risks = np.log(_mean_risks(alpha, beta, sizes, compute, ambient_per_feature, rate, 1))
    logs, found = np.log(sizes), []
    for place, column in enumerate(risks.T):
        best = int(np.argmin(column))
        near = slice(best - 1, best + 2)
        if 0 < best < len(sizes) - 1 and np.isfinite(column[near]).all():
            bend, tilt, height = np.polyfit(logs[near] - logs[best], column[near], 2)
            at = -0.5 * tilt / bend
            found.append((np.log(compute[place]), height - 0.25 * tilt**2 / bend, logs[best] + at))
    if len(found) < 4:
        raise InputError(f"features must span more sizes: the best one lay among them at {len(found)} computes.")
    log_compute, log_risk, log_size = np.array(found).T
    return -float(np.polyfit(log_compute, log_risk, 1)[0]), float(np.polyfit(log_compute, log_size, 1)[0])


def limit_error(
    alpha: float, beta: float, features: float, ambient_per_feature: float = 4.0, rate: float = 0.3
) -> float:
    r"""How far from its limit the exponent of the risk is at the size `features`, by the terms the limit leaves out.

    The local slope of the sum of all terms, with no coefficients but the powers of $\gamma$ they come with, at the
    compute where this size is best, against the limit. An order of magnitude.
    """
    terms, exponents = _terms(alpha, beta), scaling_exponents(alpha, beta)
    # gamma = rate / trace, without its power of d, which the exponents hold.
    trace = zeta(2.0 * alpha) if alpha > 0.5 else ambient_per_feature ** (1.0 - 2.0 * alpha) / (1.0 - 2.0 * alpha)
    log_rate = float(np.log(rate / trace)) if np.isfinite(trace) else 0.0
    lines = np.array(list(terms.values()))
    heads = np.array([log_rate * (line[1] + (name == "noise")) for name, line in terms.items()])
    total = np.log(features) / exponents.size

    def heights(size: float) -> np.ndarray:
        return heads + lines[:, 0] * size + lines[:, 1] * (total - size)

    found: Any = minimize_scalar(
        lambda size: float(np.logaddexp.reduce(heights(size))), bounds=(0.0, total), method="bounded", options=PRECISE
    )
    shares = heights(float(found.x)) - float(found.fun)
    # At the best size the slope of the envelope is that at fixed size.
    return abs(-float(np.exp(shares) @ lines[:, 1]) - exponents.risk)


def _mean_risks(
    alpha: float,
    beta: float,
    sizes: np.ndarray,
    compute: ArrayLike,
    ambient_per_feature: float,
    rate: float,
    batch: int,
) -> np.ndarray:
    """Mean risks (sizes, computes); infinite where a size has no step, or more than can be counted."""
    budget = np.atleast_1d(np.asarray(compute, dtype=float))
    risks = np.full((sizes.size, budget.size), np.inf)
    for place, d in enumerate(sizes.tolist()):
        ambient = int((max(ambient_per_feature, LONG_TAIL) if 2.0 * alpha > 1.0 else ambient_per_feature) * d)
        spectrum = population(alpha, beta, ambient)
        steps = np.floor(budget / (d * batch))
        own = (steps >= 1) & (steps < MOST_STEPS)
        if own.any():
            gamma = rate / float(spectrum.values @ spectrum.counts) / batch
            nodes = equivalent_nodes(spectrum, d, stable_edge(gamma, batch))
            different, back = np.unique(steps[own].astype(np.int64), return_inverse=True)
            risks[place, own] = mean_risk(nodes, gamma, batch, 0.0, different)[back]
    return risks


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
