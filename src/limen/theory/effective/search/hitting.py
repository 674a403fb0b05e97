r"""How long until an overlap is reached from a uniform start: laws of hitting times, search against descent.

Times are $t=\text{steps}\cdot\delta/N$ (`SpikedTensor`: $\text{steps}\cdot c/N$), so that samples are $tN/\delta$.
Hitting means $m\ge\eta$ for odd exponents and $|m|\ge\eta$ for even ones.
"""

from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from limen.problem import InputError, SpikedTensor
from limen.theory.effective.fixed_point import fixed_point
from limen.theory.effective.search.search_law import Survival, survival
from limen.theory.effective.search.search_phase import search_rates
from limen.theory.effective.sphere.sphere_drift import SphereDrift
from limen.theory.effective.sphere.sphere_population import checked_sphere
from limen.theory.effective.tensor_flow import tensor_fixed_points

# Searches longer than this many relaxation times are called endless.
LONGEST = 1e9
WEAK, STRONG = 0.3, 0.9
# The search is over at this part of the stable overlap at the latest: beyond, the drift saturates.
LATEST = 0.5


def drift_exponent(problem: Any) -> int:
    r"""The first $k\ge1$ with $\phi^{(k)}(0)\ne0$, which decides how long the search lasts.

    Teacher and student: the first common Hermite degree $k\ge1$ of the links for the square loss, the exponent of the
    loss itself for others; `OnlinePCA`: 2; `BinaryMixture`: 1, or 2 for equal weights; `SpikedTensor`: its order. Links
    whose first common Hermite product is negative are refused: overlaps $m>0$ are repelled (Ben Arous,
    Gheissari & Jagannath 2021).
    """
    if isinstance(problem, SpikedTensor):
        return problem.order
    return SphereDrift(checked_sphere(problem, "drift_exponent (or a SpikedTensor)")).exponent


def critical_samples_per_dim(N: float, exponent: int) -> float:
    r"""$\alpha_c(N,k)$: weak recovery takes $\alpha N$ samples with $\alpha\gtrsim\alpha_c=1,\ \log N,\ N^{k-2}$.

    For $k=1$, $k=2$ and $k\ge3$ (Ben Arous, Gheissari & Jagannath 2021, Theorems 1.3 and 1.4, up to constants and
    logarithms).
    """
    if not N >= 2:
        raise InputError(f"N must be at least 2, got {N!r}.")
    if not (isinstance(exponent, (int, np.integer)) and exponent >= 1):
        raise InputError(f"exponent must be a positive whole number, got {exponent!r}.")
    return {1: 1.0, 2: float(np.log(N))}.get(int(exponent), float(N) ** (exponent - 2))


def hitting_time(problem: Any, N: int, level: float, quantiles: Any = (0.25, 0.5, 0.75)) -> Any:
    r"""Quantiles of the time $t$ at which the overlap first reaches `level` from a uniform start; arrays for arrays.

    * Exponent 1: the time of the ODE from zero, the same for every quantile.
    * Exponent 2: the linear growth of a Gaussian amplitude, then the ODE:
      $t=\frac1A\log\frac{a(\eta)\sqrt N}{\sqrt F|\zeta|}$, $\zeta\sim N(0,1)$, $A=b'(0)$, $F=1+\delta v^2(0)/2A$, as
      $m^2=m_*^2\frac q{1+q}$ with $q=\frac{\zeta^2}{Nm_*^4}e^{4(\lambda-\delta)t}$ for `OnlinePCA`, and
      $m^2=(\lambda-c)\frac q{1+q}$, $q=\frac{c\lambda\zeta^2}{(\lambda-c)^2N}e^{8(\lambda-c)t}$ for matrices.
    * Exponent 3 and above: the blow-up of the search diffusion by its Fokker–Planck equation (about a second), then the
      ODE, from half of the stable overlap on at the latest; inf where the search outlasts a billion relaxation times.

    Leading order as $N\to\infty$, $\sqrt N\,\eta\gg1$.

    Args:
        problem: a loss on the sphere, or a `SpikedTensor`.
        N: the dimension.
        level: $\eta$, between 0 and the stable overlap.
        quantiles: probabilities between 0 and 1.
    """
    wanted = np.asarray(quantiles, dtype=float)
    if wanted.size == 0 or not ((wanted > 0.0) & (wanted < 1.0)).all():
        raise InputError(f"quantiles must lie between 0 and 1, got {quantiles!r}.")
    _check(problem, N, level)
    exponent = drift_exponent(problem)
    if exponent >= 3:
        law, rest = _search(problem, N, level, enough=1.0 - float(wanted.max()))
        found = np.array([law.quantile(p) + rest for p in wanted.ravel()])
    elif exponent == 1:
        found = np.full(wanted.size, SphereDrift(problem).time_between(0.0, level))
    else:
        branches = _branches(problem, N, level)
        found = np.array([_growth_quantile(*branches, p) for p in wanted.ravel()])
    return float(found[0]) if wanted.ndim == 0 else found.reshape(wanted.shape)


def hitting_probability(problem: Any, N: int, level: float, times: Any) -> Any:
    r"""Probability of having reached `level` by each time; an array for an array. The law of `hitting_time`.

    For tensors of order $k\ge3$ with $\lambda=\Lambda N^{(k-2)/2}$ it is the probability of escape.
    """
    grid = np.asarray(times, dtype=float)
    if grid.size == 0 or not (np.isfinite(grid) & (grid >= 0.0)).all():
        raise InputError(f"times must be finite and not negative, got {times!r}.")
    _check(problem, N, level)
    exponent = drift_exponent(problem)
    if exponent >= 3:
        law, rest = _search(problem, N, level, last=float(grid.max()))
        values = np.where(grid >= rest, 1.0 - law(np.maximum(grid - rest, 0.0)), 0.0)
    elif exponent == 1:
        values = (grid >= SphereDrift(problem).time_between(0.0, level)).astype(float)
    else:
        values = _growth_probability(problem, N, level, grid)
    return float(values) if grid.ndim == 0 else values


def search_fraction(problem: Any, N: int, weak: float = WEAK, strong: float = STRONG) -> float:
    r"""The share of samples spent in the search: median time to $|m|=$ `weak` $m_*$ over that to `strong` $m_*$.

    Tends to 1 as $N\to\infty$ for exponents $\ge2$ (as $\log N$ or a power of $N$ against a constant), and to a
    constant below 1 for exponent 1.
    """
    if not 0.0 < weak < strong < 1.0:
        raise InputError(f"weak and strong must satisfy 0 < weak < strong < 1, got {weak!r} and {strong!r}.")
    end = fixed_point(problem)
    reached = [hitting_time(problem, N, part * end, 0.5) for part in (weak, strong)]
    if not np.isfinite(reached[1]):
        raise InputError(f"strong must be reached by half of the runs, and {strong * end:.4g} is not at N = {N}.")
    return float(reached[0] / reached[1])


def _check(problem: Any, N: int, level: float) -> None:
    if not isinstance(problem, SpikedTensor):
        checked_sphere(problem, "hitting times (or a SpikedTensor)")
    if not (isinstance(N, (int, np.integer)) and N >= 3):
        raise InputError(f"N must be a whole number of at least 3, got {N!r}.")
    end = fixed_point(problem)
    if not 0.0 < level < end:
        raise InputError(f"level must be between 0 and the stable overlap {end:.6g}, got {level!r}.")


def _branches(problem: Any, N: int, level: float) -> tuple[float, float, float]:
    r"""$A$, and $\log x_\pm$ such that $|\zeta|=x_\pm e^{-At}$ on either side hits at $t$; inf where one never does."""
    if isinstance(problem, SpikedTensor):
        gap, c = problem.signal - problem.step, problem.step
        ratio = level**2 / (gap - level**2)
        log = 0.5 * float(np.log(ratio * gap**2 * N / (c * problem.signal)))
        return 4.0 * gap, log, log
    drift = SphereDrift(problem)
    shift = 0.5 * float(np.log(N / drift.amplification))
    plus = drift.log_amplitude(level) + shift
    other = drift.stable_overlap(-1.0)
    minus = drift.log_amplitude(-level) + shift if other < -level else np.inf
    return drift.growth, plus, minus


def _growth_probability(problem: Any, N: int, level: float, times: np.ndarray) -> np.ndarray:
    growth, *logs = _branches(problem, N, level)
    with np.errstate(over="ignore"):
        return np.sum([ndtr(-np.exp(log - growth * times)) for log in logs], axis=0)


def _growth_quantile(growth: float, plus: float, minus: float, probability: float) -> float:
    def alone(log: float, tail: float) -> float:
        return max((log - float(np.log(-ndtri(tail)))) / growth, 0.0) if tail < 0.5 else np.inf

    if np.isinf(minus):
        return alone(plus, probability)
    early, late = sorted((alone(plus, 0.5 * probability), alone(minus, 0.5 * probability)))
    if late - early < 1e-9:
        return early

    def excess(t: float) -> float:
        return float(np.sum([ndtr(-np.exp(log - growth * t)) for log in (plus, minus)])) - probability

    return float(brentq(excess, early, late, xtol=1e-12))  # pyright: ignore[reportArgumentType]


def _search(
    problem: Any, N: int, level: float, enough: float = 0.0, last: float | None = None
) -> tuple[Survival, float]:
    """Law of the time until the diffusion is out of the noise's reach, and the time from there to the level."""
    k, rates = search_rates(problem, N)
    settled = rates(np.inf)
    barrier = (settled.restoring / settled.push) ** (1.0 / (k - 2))
    noise = (settled.volatility / (2.0 * settled.push)) ** (1.0 / k)
    root = float(np.sqrt(N))
    top = min(max(10.0, 6.0 * barrier, 10.0 * noise), _saturating(problem) * root)
    end = level * root
    law = survival(rates, k, min(top, end), LONGEST / settled.restoring if last is None else last, enough)
    return law, 0.0 if end <= top else _descent(problem, top / root, level)


def _saturating(problem: Any) -> float:
    r"""The overlap from which the ODE leads whatever the noise: half of $m_*$, and past the barrier $m_-$."""
    tensor = isinstance(problem, SpikedTensor)
    barrier = tensor_fixed_points(problem)[0] if tensor else SphereDrift(problem).barrier()
    end = fixed_point(problem)
    return max(LATEST * end, float(np.sqrt(barrier * end)))


def _descent(problem: Any, start: float, level: float) -> float:
    if not isinstance(problem, SpikedTensor):
        return SphereDrift(problem).time_between(start, level)
    k, signal, c = problem.order, problem.signal, problem.step

    def slowness(m: float) -> float:
        return 1.0 / (2.0 * k * m * (signal * m ** (k - 2) - (m * m + c) ** (k - 1)))

    return float(quad(slowness, start, level, epsabs=1e-10, epsrel=1e-9, limit=400)[0])
