r"""Gaussian moments of the search phase of exponent 2, where the diffusion of $z=\sqrt Nm$ is linear.

$dz=(\alpha-\kappa(t))z\,dt+\sqrt{D(t)}\,dB$, $z_0\sim N(0,1)$: an Ornstein-Uhlenbeck process below the transition, an
unstable one above. Spiked matrices: $\alpha=4\lambda$, $\kappa=4r$, $D=8cr$ with $\dot r=-8r(r-c)$, $r(0)=1$.
"""

from typing import Any

import numpy as np

from limen.problem import InputError
from limen.theory.effective.search.search_phase import search_rates
from limen.theory.lsoda import lsoda

TOLERANCE = 1e-9


def search_moments(problem: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Variance $E z^2$ at `times` (from 0 on, increasing) and growth $G(t)=e^{\int_0^t(\alpha-\kappa)}$.

    $\frac d{dt}Ez^2=2(\alpha-\kappa)Ez^2+D$ from 1; two times $s\le t$ have $E z(s)z(t)=\frac{G(t)}{G(s)}Ez(s)^2$.
    As $N\to\infty$ with $|m|\ll1$ (Ben Arous, Gheissari & Jagannath 2022), for exponent 2 only.
    """
    exponent, rates = search_rates(problem, 1.0)
    if exponent != 2:
        raise InputError(f"the information exponent must be 2 for a linear search phase, and is {exponent}.")

    def rate(t: float, state: np.ndarray) -> list[float]:
        now = rates(t)
        growth = now.push - now.restoring
        return [2.0 * growth * state[0] + now.volatility, growth]

    solution = lsoda(rate, (1.0, 0.0), times, TOLERANCE, 1e-12)
    return solution.y[0], np.exp(solution.y[1])
