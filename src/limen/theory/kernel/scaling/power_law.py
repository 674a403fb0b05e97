r"""Mean risk of one-pass SGD on least squares with random features, exactly and without a draw.

With $K=D^{1/2}WW^\top D^{1/2}=U\,\mathrm{diag}(\lambda)\,U^\top$ and $\rho$ the squared components of the error in $U$,
the mean over samples obeys exactly
$$\rho_j\leftarrow\big(1-2\gamma B\lambda_j+\gamma^2B(B+1)\lambda_j^2\big)\rho_j+\gamma^2B\lambda_j^2(P+\Delta),\qquad
P=\sum_j\rho_j.$$
Averages over $W$ replace eigenvalues by the deterministic equivalent
$(K-z)^{-1}\simeq-\frac1z(1+mD)^{-1}$, $\frac1m=-z+\frac1d\sum_j\frac{D_j}{1+mD_j}$. A contour around the spectrum, an
ellipse in $\log z$, turns it into complex nodes with weights that obey the same recursion; the trapezoid rule on it
converges exponentially. Zero eigenvalues carry what $d$ features cannot hold: $\sum_j\frac{D_jb_j^2}{1+m_0D_j}$ with
$\sum_j\frac{m_0D_j}{1+m_0D_j}=d$. (Paquette, Paquette, Xiao & Pennington 2024.)
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from limen.problem.rates import RateSchedule, is_schedule, rate_values

HEAD = 2000  # leading eigenvalues kept one by one
BINS = 3000  # of the rest
ANGLE = 0.6  # half opening of the contour in the argument of z
# Nodes per unit of the logarithm of the spectrum's range: errors fall exponentially in it, to about 1e-8 here.
NODES = 10
# Steps are taken one by one at first, then in strides of this part of their number, risk linear inside a stride.
STRIDE = 0.03
# Points of a stride at which a schedule is looked at.
PROBES = 65
# A risk this many times that of the start is taken as divergence.
LARGEST_GROWTH = 1e6


class Nodes(NamedTuple):
    r"""Eigenvalues or contour nodes $z$ (n,), their shares of the start's risk and of the number of eigenvalues, and
    the part of the risk that is never learnt."""

    z: np.ndarray
    energies: np.ndarray
    counts: np.ndarray
    floor: float


class Population(NamedTuple):
    """Eigenvalues $D$ with multiplicities, and the target's energies; long tails binned."""

    values: np.ndarray
    counts: np.ndarray
    energies: np.ndarray


def population(alpha: float, beta: float, ambient: int) -> Population:
    r"""$D_j=j^{-2\alpha}$ and $D_jb_j^2$; beyond rank 2000 in at most 3000 bins even in $\log j$."""
    head = np.arange(1.0, min(ambient, HEAD) + 1.0)
    values, energies = head ** (-2 * alpha), head ** (-2 * alpha - 2 * beta)
    if ambient <= HEAD:
        return Population(values, np.ones_like(head), energies)
    edges = np.unique(np.round(np.geomspace(HEAD + 1, ambient + 1, BINS))) - 0.5

    def integral(exponent: float) -> np.ndarray:
        if abs(exponent - 1.0) < 1e-9:
            return np.diff(np.log(edges))
        return np.diff(edges ** (1.0 - exponent)) / (1.0 - exponent)

    counts = np.diff(edges)
    return Population(
        np.append(values, integral(2 * alpha) / counts),
        np.append(np.ones_like(head), counts),
        np.append(energies, integral(2 * alpha + 2 * beta)),
    )


def equivalent_nodes(alpha: float, beta: float, ambient: int, features: int, density: int = NODES) -> Nodes:
    """Nodes of the deterministic equivalent, `density` of them per unit of the logarithm of the spectrum's range: no
    draw, cost independent of `ambient` beyond 5000."""
    D, multiplicity, energies = spectrum = population(alpha, beta, ambient)
    low, high = _edges(spectrum, features)
    centre, reach = 0.5 * (np.log(high) + np.log(low)), 0.5 * (np.log(high) - np.log(low))
    count = int(np.ceil(2.0 * density * reach))
    phase = (np.arange(count) + 0.5) * np.pi / count
    z = np.exp(centre + reach * np.cos(phase) + 1j * ANGLE * np.sin(phase))
    slope = z * (-reach * np.sin(phase) + 1j * ANGLE * np.cos(phase)) * (np.pi / count)
    companion = _companion(z, spectrum, features)
    resolvent = 1.0 / (1.0 + companion[:, None] * D)
    # Twice the upper half of the contour; real parts are taken at the end.
    weight = slope / (z * 1j * np.pi)
    log_scale = brentq(
        lambda log: float((multiplicity * D * np.exp(log) / (1.0 + D * np.exp(log))).sum()) - features,
        -np.log(D[0]) - 10.0,
        -np.log(D[-1]) + np.log(features) + 40.0,
    )
    floor = float((energies / (1.0 + np.exp(float(log_scale)) * D)).sum())  # pyright: ignore[reportArgumentType]
    return Nodes(z, weight * (resolvent @ energies), weight * (resolvent @ multiplicity), floor)


def drawn_nodes(weighted: np.ndarray, target: np.ndarray) -> Nodes:
    r"""Eigenvalues and energies of one draw, $D^{1/2}W$ (v, d) and $D^{1/2}b$ (v,)."""
    left, singular, _ = np.linalg.svd(weighted, full_matrices=False)
    energies = (left.T @ target) ** 2
    return Nodes(singular**2, energies, np.ones_like(singular), float(target @ target - energies.sum()))


def mean_risk(nodes: Nodes, rate: float | RateSchedule, batch: int, noise: float, steps: np.ndarray) -> np.ndarray:
    r"""$P$ (population risk without label noise, without ½) after each of the increasing whole numbers `steps`.

    `rate` may be a formula in `t`, the steps done before. The first steps are exact; beyond some thirty, strides of 3%
    with $\gamma^2P$ linear inside, an error of about $10^{-5}$ ($10^{-4}$ where the rate falls as a power).
    """
    z = nodes.z

    def logarithm(gamma: float) -> np.ndarray:
        return np.log1p(-(2 * gamma * batch * z - gamma**2 * batch * (batch + 1) * z**2))

    def rest(gamma: float) -> np.ndarray:
        return gamma * z * nodes.counts / (2 - gamma * (batch + 1) * z)

    return _advance(nodes, rate, noise, steps, logarithm, rest)


def volterra_risk(nodes: Nodes, rate: float | RateSchedule, batch: int, noise: float, steps: np.ndarray) -> np.ndarray:
    r"""The limit of small rates: a Volterra equation for $P$ in a time that counts steps,
    $\dot\rho_j=-2\gamma B\lambda_j\rho_j+\gamma^2B\lambda_j^2(P+\Delta)$."""
    z = nodes.z
    return _advance(
        nodes, rate, noise, steps, lambda gamma: -2 * gamma * batch * z, lambda gamma: 0.5 * gamma * z * nodes.counts
    )


def _advance(
    nodes: Nodes,
    rate: float | RateSchedule,
    noise: float,
    steps: np.ndarray,
    logarithm: Callable[[float], np.ndarray],
    rest: Callable[[float], np.ndarray],
) -> np.ndarray:
    r"""Risk at `steps` of $\rho\leftarrow e^{l(\gamma)}\rho+(1-e^{l(\gamma)})\,r(\gamma)(P+\Delta)$, with $l$ the
    `logarithm` of the factor of one step and $r(P+\Delta)$ where $\rho$ would come to `rest`.

    Inside a stride $l$ is its mean by Simpson's rule, and $r(P+\Delta)$ is linear.
    """
    strides = _strides(steps, rate)
    begins, lengths = strides.T
    gammas = rate_values(rate, np.stack([begins, begins + 0.5 * (lengths - 1), begins + lengths - 1, begins + lengths]))
    state, wanted = nodes.energies.astype(complex), set(steps.tolist())
    risk = start = float(np.real(state).sum()) + nodes.floor
    found = [risk] if 0 in wanted else []
    # What a rate makes of the nodes, kept while it is the same.
    last, factor, early, late = None, *3 * (np.array([]),)
    for (begun, stride), (first, middle, end, after) in zip(strides.tolist(), gammas.T.tolist(), strict=True):
        if (first, after) != last:
            factor = logarithm(middle)
            if first != end:
                factor = (logarithm(first) + 4.0 * factor + logarithm(end)) / 6.0
            early, late, last = rest(first), rest(after), (first, after)
        # Weights of the rest at the end and at the beginning of a stride.
        pull, left = -np.expm1(factor), np.exp(stride * factor)
        gone = -np.expm1(stride * factor)
        small = np.abs(stride * pull) < 1e-5
        toward = np.where(small, 0.5 * (stride - 1) * pull, 1.0 - gone / (stride * np.where(small, 1.0, pull)))
        base = left * state + (gone - toward) * early * (risk + noise) + toward * late * noise
        pushed = toward * late
        risk = (float(np.real(base).sum()) + nodes.floor) / (1.0 - float(np.real(pushed).sum()))
        state = base + pushed * risk
        if not 0.0 <= risk < LARGEST_GROWTH * start:
            return np.append(found, np.full(len(steps) - len(found), np.inf))
        if begun + stride in wanted:
            found.append(risk)
    return np.asarray(found)


def _strides(steps: np.ndarray, rate: float | RateSchedule) -> np.ndarray:
    """First step and length of every stride (n, 2): one step at first, then 3% of those done, broken at `steps`, and
    shorter where a rate goes up and down by more than 3%."""
    strides, done = [], 0
    for wanted in steps.tolist():
        while done < wanted:
            strides.append((done, int(min(max(1, STRIDE * done), wanted - done))))
            done += strides[-1][1]
    found = np.array(strides, dtype=np.int64).reshape(-1, 2)
    if not is_schedule(rate) or not strides:
        return found
    begins, lengths = found.T
    probes = np.rint(begins[:, None] + lengths[:, None] * np.linspace(0.0, 1.0, PROBES))
    change = np.abs(np.diff(np.log(rate_values(rate, probes)), axis=1)).sum(axis=1)
    pieces = np.clip(np.ceil(change / STRIDE), 1, lengths).astype(np.int64)
    edges = [begun + np.arange(count) * length // count for (begun, length), count in zip(found, pieces, strict=True)]
    starts = np.concatenate(edges)
    return np.stack([starts, np.diff(starts, append=done)], axis=1)


def largest_rate(alpha: float, beta: float, ambient: int, batch: int) -> float:
    r"""About the largest rate with a finite risk: $\gamma(\mathrm{tr}\,D+(B+1)D_1)=2$."""
    values, counts, _ = population(alpha, beta, ambient)
    return 2.0 / (float(values @ counts) + (batch + 1) * float(values[0]))


def _edges(spectrum: Population, features: int) -> tuple[float, float]:
    """Points on the real axis between 0 and the spectrum, and above it."""
    D, multiplicity, _ = spectrum
    scales = np.geomspace(1e-3 / D[0], max(1e3 * features / D[0], 1e6 / D[-1]), 400)
    heights = np.array([float((multiplicity * D / (1.0 + s * D)).sum()) / features - 1.0 / s for s in scales])
    left = float(heights.max())
    high = 4.0 * D[0] * (1.0 + float(multiplicity @ D) / features / D[0])
    return 0.3 * left, high


def _companion(z: np.ndarray, spectrum: Population, features: int) -> np.ndarray:
    """$m(z)$ along the contour by Newton's method, each node started from its neighbour."""
    D, multiplicity, _ = spectrum
    found, m = np.empty(z.size, complex), -1.0 / z[0]
    for place, point in enumerate(z):
        for _ in range(200):
            share = D / (1.0 + m * D)
            mean, slope = (multiplicity * share).sum() / features, -(multiplicity * share**2).sum() / features
            step = (m * (mean - point) - 1.0) / (mean - point + m * slope)
            m = m - step
            if abs(step) < 1e-13 * abs(m):
                break
        else:
            raise ArithmeticError("the deterministic equivalent did not converge.")
        found[place] = m
    return found
