r"""The overlap of spherical SGD as $N\to\infty$ with step $\delta/N$: drift, growth from zero, fixed point.

In the time $t=\text{steps}\cdot\delta/N$ the overlap follows
$$\dot m=b(m)=-\phi'(m)(1-m^2)-\tfrac\delta2\,m\,\sigma^2(m).$$
The first term is the limit of small steps (Ben Arous, Gheissari & Jagannath 2021); the second, the corrector, is what
normalising a vector with a gradient of square norm $N\sigma^2$ takes away.
"""

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from limen.problem import InputError
from limen.problem.families.effective_models import SphericalProblem
from limen.theory.effective.sphere.sphere_population import SpherePopulation, sphere_population

GRID = 2001
# A drift this small against its largest value is rounding.
ROUNDING = 1e-11


class SphereDrift:
    """The drift of one problem with what follows from it; cheap to make, tables are shared between problems."""

    def __init__(self, problem: SphericalProblem) -> None:
        self.problem, self.step = problem, problem.step
        self.population: SpherePopulation = sphere_population(problem)

    def __call__(self, m: Any) -> np.ndarray:
        r"""$b(m)$."""
        m = np.asarray(m, dtype=float)
        corrector = 0.5 * self.step * m * self.population.gradient_square(m)
        return -self.population.slope(m) * (1.0 - m**2) - corrector

    @cached_property
    def exponent(self) -> int:
        """The information exponent."""
        return self.population.leading()[0]

    @cached_property
    def leading(self) -> float:
        r"""$a_k$ in $-\phi'\approx a_km^{k-1}$."""
        return self.population.leading()[1]

    @cached_property
    def restoring(self) -> float:
        r"""$\frac\delta2\sigma^2(0)$, the rate at which the corrector pulls to zero."""
        return 0.5 * self.step * float(self.population.gradient_square(np.asarray(0.0)))

    @cached_property
    def volatility(self) -> float:
        r"""$\delta v^2(0)$, the variance of $\sqrt Nm$ gathered per unit of time near zero."""
        return self.step * float(self.population.signal_noise(np.asarray(0.0)))

    @property
    def growth(self) -> float:
        r"""$A=b'(0)$: $a_2-\frac\delta2\sigma^2(0)$ for exponent 2, $-\frac\delta2\sigma^2(0)$ above."""
        return (self.leading if self.exponent == 2 else 0.0) - self.restoring

    @cached_property
    def amplification(self) -> float:
        r"""$F=1+\delta v^2(0)/(2A)$: with exponent 2 and $A>0$, $\sqrt Nm\,e^{-At}\to N(0,F)$ from a uniform start."""
        return 1.0 + self.volatility / (2.0 * self.growth)

    def check_escape(self) -> None:
        """Refuses exponent 2 with a step at which zero overlap attracts."""
        if self.exponent == 2 and self.growth <= 0.0:
            largest = self.leading * self.step / self.restoring
            raise InputError(f"step must be less than {largest:.6g} for the overlap to leave zero, got {self.step:g}.")

    def stable_overlap(self, sign: float = 1.0) -> float:
        r"""Where the flow ends on the side of `sign`: the first zero with falling $b$ beyond where the flow starts.

        Exponents 1 and 2 start from zero; above, zero attracts at every step of order one and the answer is the
        stable point beyond the barrier. 0 if there is none.
        """
        return _stable_overlap(self.problem, sign)

    def _last_of_rising(self, sign: float) -> float:
        m, b = self._tabulated(sign)
        size = float(np.max(np.abs(b))) or 1.0
        rising = np.flatnonzero(b[:-1] > ROUNDING * size)
        if self.exponent <= 2:
            rising = rising[rising <= 1]
        if rising.size == 0:
            return 0.0
        falling = np.flatnonzero(b[rising[0] :] < -ROUNDING * size)
        if falling.size == 0:
            return sign
        last = rising[0] + falling[0]
        first = last - 1
        while b[first] <= ROUNDING * size and first > rising[0]:
            first -= 1
        # Between the last clearly rising and the first clearly falling point of the grid.
        root = brentq(lambda x: sign * float(self(sign * x)), m[first], m[last], xtol=1e-15)
        return sign * float(root)  # pyright: ignore[reportArgumentType]

    def barrier(self) -> float:
        r"""$m_-$, beyond which the overlap first grows; 0 if it grows from zero on, 1 if nowhere."""
        m, b = self._tabulated(1.0)
        rising = np.flatnonzero(b > ROUNDING * float(np.max(np.abs(b))))
        if rising.size == 0:
            return 1.0
        first = rising[0]
        if not b[first - 1] < 0.0:
            return float(m[first - 1])
        return float(brentq(lambda x: float(self(x)), m[first - 1], m[first]))  # pyright: ignore[reportArgumentType]

    def _tabulated(self, sign: float) -> tuple[np.ndarray, np.ndarray]:
        """Distances from zero on the side of `sign`, and the drift away from zero there."""
        # Equal parts of the angle: fixed points near 1 are resolved at small steps.
        m = np.sin(np.linspace(0.0, 0.5 * np.pi, GRID))
        return m, sign * self(sign * m)

    def time_between(self, start: float, end: float) -> float:
        r"""$\int dm/b(m)$ between two overlaps of one sign, without a zero of $b$ between them."""
        return float(quad(lambda m: 1.0 / float(self(m)), start, end, epsabs=1e-10, epsrel=1e-9, limit=400)[0])

    def log_amplitude(self, level: float) -> float:
        r"""$\log$ of the amplitude $a$ for which $m(t)\simeq a\,e^{At}$ at early times reaches `level` at $t=0$.

        $\log|\eta|+\int_0^{\eta}\big[\frac A{b(m)}-\frac1m\big]dm$ for exponent 2.
        """
        growth, sign = self.growth, np.sign(level)
        tiny = 1e-4 * abs(level)

        def excess(m: float) -> float:
            return sign * growth / float(self(sign * m)) - 1.0 / m

        # Below `tiny` the integrand, a difference of large numbers, is smooth: its value there times the length.
        rest = quad(excess, tiny, abs(level), epsabs=1e-11, epsrel=1e-9, limit=400)[0]
        return float(np.log(abs(level)) + rest + tiny * excess(tiny))


@lru_cache(maxsize=256)
def _stable_overlap(problem: SphericalProblem, sign: float) -> float:
    """Hitting times and figures ask for the same fixed point again and again."""
    return SphereDrift(problem)._last_of_rising(sign)
