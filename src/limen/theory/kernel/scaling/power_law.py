r"""Mean risk of one-pass SGD on least squares with random features, exactly and without a draw.

With $K=D^{1/2}WW^\top D^{1/2}=U\,\mathrm{diag}(\lambda)\,U^\top$ and $\rho$ the squared components of the error in $U$,
the mean over samples obeys exactly
$$\rho_j\leftarrow\big(1-2\gamma B\lambda_j+\gamma^2B(B+1)\lambda_j^2\big)\rho_j+\gamma^2B\lambda_j^2(P+\Delta),\qquad
P=\sum_j\rho_j.$$
Averages over $W$ replace eigenvalues by the deterministic equivalent
$(K-z)^{-1}\simeq-\frac1z(1+mD)^{-1}$, $\frac1m=-z+\frac1d\sum_j\frac{D_j}{1+mD_j}$. A contour around the spectrum
turns it into complex nodes with weights that obey the same recursion; the trapezoid rule on it converges exponentially.
The factor of a step is $1-\frac{4B}{B+1}p(1-p)$ with $p=z/z_s$, $z_s=\frac2{\gamma(B+1)}$: at most 1 in modulus in the
disc between 0 and $z_s$, which is $|\arg\frac z{z_s-z}|\le\frac\pi2$. So the contour is an ellipse in
$\log\frac z{z_s-z}$ with the edges of the spectrum as foci: no step amplifies a node. Zero eigenvalues carry what $d$
features cannot hold: $\sum_j\frac{D_jb_j^2}{1+m_0D_j}$ with $\sum_j\frac{m_0D_j}{1+m_0D_j}=d$. (Paquette, Paquette,
Xiao & Pennington 2024.)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv

from limen.problem.rates import RateSchedule, is_schedule, rate_values

HEAD = 2000  # leading eigenvalues kept one by one
BINS = 3000  # of the rest
# Half opening of the contour in the argument of z / (z_s - z): midway between the spectrum and the disc of stability.
ANGLE = np.pi / 4
# Nodes per unit of the logarithm of the spectrum's range: errors fall as exp(-pi times it), to about 1e-11 here.
NODES = 8
SETTLED = 1e-8  # last step of Newton's method, whose error is about its square
# A spectrum that reaches beyond the disc of stability is passed at this relative distance.
CLEARANCE = 1e-6
# Steps are taken one by one at first, then in strides of this part of their number, risk linear inside a stride.
STRIDE = 0.03
# Points of a stride at which a schedule is looked at.
PROBES = 65
# A risk this many times that of the start is taken as divergence.
LARGEST_GROWTH = 1e6
# Negative risks to this part of that of the start are rounding.
ROUNDING = 1e-12


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


def stretched(spectrum: Population, features: int, part: float) -> Population:
    r"""A population whose leading eigenvalue stands for draws as large as only a `part` of them.

    Rows have $|W_j|^2=\chi^2_d/d$. What the first exceeds 1 by in a `part` of the draws, times $\sqrt{\sum_jD_j^2}$,
    the scatter of all of $\sum_jD_j|W_j|^2$ in that unit, is put on $D_1$, where it does most harm. The target's
    energies do not change.
    """
    values = spectrum.values.copy()
    longer = gammaincinv(0.5 * features, 1.0 - part) / (0.5 * features) - 1.0
    values[0] += longer * np.sqrt(spectrum.counts @ spectrum.values**2)
    return spectrum._replace(values=values)


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


def equivalent_nodes(spectrum: Population, features: int, stable: float = np.inf, density: int = NODES) -> Nodes:
    r"""Nodes of the deterministic equivalent: no draw, cost of at most 5000 eigenvalues a node.

    `stable` is $z_s=\frac2{\gamma(B+1)}$ of the largest rate, below which the contour has to stay; `density` nodes
    stand on each unit of the range of $\log\frac z{z_s-z}$.
    """
    D, multiplicity, energies = spectrum
    low, high, edge = _edges(spectrum, features)
    bound = max(stable, high * (1.0 + CLEARANCE))
    ends = np.log([low, high]) - np.log1p([-low / bound, -high / bound])
    centre, reach = 0.5 * (ends[0] + ends[1]), np.hypot(0.5 * (ends[1] - ends[0]), ANGLE)
    count = int(np.ceil(2.0 * density * reach))
    phase = (np.arange(count) + 0.5) * np.pi / count
    mapped = np.exp(centre + reach * np.cos(phase) + 1j * ANGLE * np.sin(phase))
    z = mapped / (1.0 + mapped / bound)
    slope = z / (1.0 + mapped / bound) * (-reach * np.sin(phase) + 1j * ANGLE * np.cos(phase)) * (np.pi / count)
    end = float(np.exp(centre + reach) / (1.0 + np.exp(centre + reach) / bound))
    x: Any = brentq(lambda x: _preimage(-1.0 / x, spectrum, features) - end, edge, end)
    companion = _companion(z, spectrum, features, float(x))
    resolvent = 1.0 / (1.0 + companion[:, None] * D)
    # Twice the upper half of the contour; real parts are taken at the end.
    weight = slope / (z * 1j * np.pi)
    log_scale: Any = brentq(
        lambda log: float((multiplicity * D * np.exp(log) / (1.0 + D * np.exp(log))).sum()) - features,
        np.log(0.5 * features / float(multiplicity @ D)),
        -np.log(D[-1]) + np.log(features) + 40.0,
    )
    floor = float((energies / (1.0 + np.exp(log_scale) * D)).sum())
    return Nodes(z, weight * (resolvent @ energies), weight * (resolvent @ multiplicity), floor)


def drawn_nodes(weighted: np.ndarray, target: np.ndarray) -> Nodes:
    r"""Eigenvalues and energies of one draw, $D^{1/2}W$ (v, d) and $D^{1/2}b$ (v,)."""
    left, singular, _ = np.linalg.svd(weighted, full_matrices=False)
    energies = (left.T @ target) ** 2
    floor = float(np.sum((target - left @ (left.T @ target)) ** 2))
    return Nodes(singular**2, energies, np.ones_like(singular), floor)


def mean_risk(nodes: Nodes, rate: float | RateSchedule, batch: int, noise: float, steps: np.ndarray) -> np.ndarray:
    r"""$P$ (population risk without label noise, without ½) after each of the increasing whole numbers `steps`.

    `rate` may be a formula in `t`, the steps done before. The first steps are exact; beyond some thirty, strides of 3%
    with $\gamma^2P$ linear inside, an error of about $10^{-5}$ ($10^{-4}$ where the rate falls as a power).
    """
    z = nodes.z

    def logarithm(gamma: float) -> np.ndarray:
        x = gamma * z
        return np.log1p(-batch * (2.0 - (batch + 1) * x) * x)

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


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
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

    Inside a stride $l$ is its mean by Simpson's rule, and $r(P+\Delta)$ is linear. Infinite from where it diverges on,
    also by an overflow.
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
        if not -ROUNDING * start <= risk < LARGEST_GROWTH * (start + noise):
            return np.append(found, np.full(len(steps) - len(found), np.inf))
        risk = max(risk, nodes.floor)
        if begun + stride in wanted:
            found.append(risk)
    return np.asarray(found)


def largest_rate_drawn(nodes: Nodes, batch: int) -> float:
    r"""The rate from which on the risk of one draw grows: $\sum_j\frac{\gamma\lambda_j}{2-\gamma(B+1)\lambda_j}=1$."""
    own, trace = batch + 1.0, float(nodes.z.sum())
    top = float(nodes.z.max())

    def excess(stable: float) -> float:
        return float((nodes.z / (stable - nodes.z)).sum()) - own

    stable: Any = brentq(excess, top * (1.0 + 0.99 / own), top + 1.01 * trace / own)
    return 2.0 / (own * float(stable))


def largest_used(rate: float | RateSchedule, steps: np.ndarray) -> float:
    """The largest rate that the recursion takes up to the last of `steps`."""
    begins, lengths = _strides(steps, rate).T
    looked_at = np.concatenate([[0.0], begins, begins + 0.5 * (lengths - 1), begins + lengths])
    return float(rate_values(rate, looked_at).max())


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


def stable_edge(rate: float, batch: int) -> float:
    r"""$z_s=\frac2{\gamma(B+1)}$: eigenvalues below contract."""
    return 2.0 / (rate * (batch + 1))


def largest_rate(spectrum: Population, features: int, batch: int) -> float:
    r"""The rate from which on the risk of the deterministic equivalent grows: $\sum_j\frac{\gamma\lambda_j}
    {2-\gamma(B+1)\lambda_j}=1$ over its spectrum, or its edge comes to $z_s=\frac2{\gamma(B+1)}$.

    With $m(z_s)=-\frac1x$ the sum is $\frac1{B+1}\sum_j\frac{D_j}{x-D_j}$.
    """
    D, multiplicity, _ = spectrum
    own, trace = batch + 1.0, float(multiplicity @ D)

    def excess(x: float) -> float:
        return float((multiplicity * D / (x - D)).sum()) - own

    x: Any = brentq(excess, D[0] * (1.0 + 0.99 / own), D[0] + 1.01 * trace / own)
    return 2.0 / (own * _preimage(-1.0 / max(float(x), _edges(spectrum, features)[2]), spectrum, features))


def _edges(spectrum: Population, features: int) -> tuple[float, float, float]:
    r"""Edges of the spectrum, where $\frac{dz}{dm}=0$, which is $\sum_j\big(\frac{mD_j}{1+mD_j}\big)^2=d$ with $m>0$ at
    the left and $m=-\frac1x<0$ at the right; and $x$."""
    D, multiplicity, _ = spectrum

    def left(log: float) -> float:
        share = 1.0 / (1.0 + np.exp(-log) / D)
        return float(multiplicity @ share**2) - features

    def right(x: float) -> float:
        return float((multiplicity * (D / (x - D)) ** 2).sum()) - features

    # Below, shares are at most e^log D.
    lowest = 0.5 * np.log(0.5 * features / float(multiplicity @ D**2))
    log: Any = brentq(left, lowest, -np.log(D[-1]) + np.log(features) + 40.0)
    top, all_of_them = 1.0 / np.sqrt(features), np.sqrt(float(multiplicity @ D**2) / features) / D[0]
    x: Any = brentq(right, D[0] * (1.0 + 0.99 * top), D[0] * (1.0 + 1.01 * all_of_them))
    return _preimage(np.exp(log), spectrum, features), _preimage(-1.0 / x, spectrum, features), float(x)


def _preimage(m: float, spectrum: Population, features: int) -> float:
    r"""$z$ that has this $m$."""
    D, multiplicity, _ = spectrum
    return (float((multiplicity * m * D / (1.0 + m * D)).sum()) / features - 1.0) / m


def _companion(z: np.ndarray, spectrum: Population, features: int, x: float) -> np.ndarray:
    r"""$m(z)$ along the upper half of the contour by Newton's method in $\log m$, from $-\frac1x$ at its right end on.

    Each node starts from what the last two say. Above the real axis only one solution has $\mathrm{Im}\,m>0$.
    """
    D, multiplicity, _ = spectrum
    logs, guess = np.empty(z.size, complex), -np.log(x) + 1j * np.pi
    for place, point in enumerate(z):
        for _ in range(200):
            m = np.exp(guess)
            part = 1.0 / (1.0 + m * D)
            weighted = multiplicity * part
            gap = m * (weighted @ D) - features * (1.0 + m * point)
            step = gap / (m * ((weighted * part) @ D) - features * m * point)
            guess = guess - step
            if abs(step) < SETTLED:
                break
        else:
            raise ArithmeticError("the deterministic equivalent did not converge.")
        logs[place] = guess
        guess = 2.0 * guess - logs[place - 1] if place else guess
    companion = np.exp(logs)
    if not (np.imag(companion) > 0.0).all():
        raise ArithmeticError("the deterministic equivalent left its branch.")
    return companion
