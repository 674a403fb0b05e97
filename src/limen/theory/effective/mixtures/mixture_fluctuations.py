r"""Mean and spread of the overlap on the binary mixture to the next order in $1/N$, about the ODE's path.

With $c=-\tanh(s+h)$, $a=c\,(s_*-sm)$ and $\|Y\|^2-s^2=N+q$ one step of the exact chain is
$$m\leftarrow m-\tfrac\delta N\big[a+\tfrac\delta2mc^2\big]+\tfrac{\delta^2}{N^2}\big[-\tfrac12mc^2q+\tfrac\delta2ac^2
+\tfrac38\delta^2mc^4\big]+\dots$$
Expanded about $\dot m=b(m)$, $E\,m\simeq m+\mu/N$ and $N\,\mathrm{Var}\simeq\Sigma$ follow
$$\dot\Sigma=2b'\Sigma+\delta\,\mathrm{Var}\big[a+\tfrac\delta2mc^2\big],\qquad
\dot\mu=b'\mu+\tfrac12b''\Sigma+\delta E\big[-\tfrac12mc^2q+\tfrac\delta2ac^2+\tfrac38\delta^2mc^4\big]
-\tfrac\delta2bb',$$
from $\Sigma=1$, $\mu=0$ at a uniform start; the last term is that of steps of finite length (van Kampen's expansion of
the chain; its first line holds the volatility of Ben Arous, Gheissari & Jagannath 2022).
"""

import numpy as np

from limen.problem import BinaryMixture
from limen.theory.effective.sphere.sphere_drift import SphereDrift
from limen.theory.lsoda import lsoda

NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()
PAIR_WEIGHTS = np.outer(NODE_WEIGHTS, NODE_WEIGHTS)
DIFFERENCE = 1e-3
TOLERANCE = 1e-7


def step_moments(problem: BinaryMixture, m: float) -> tuple[float, float]:
    r"""$\mathrm{Var}[a+\frac\delta2mc^2]$ and $E[-\frac12mc^2q+\frac\delta2ac^2+\frac38\delta^2mc^4]$ at overlap `m`.

    Gauss-Hermite quadrature over $s_*$ and the part of $Y$ along $x$ that is orthogonal to $\theta$.
    """
    delta, first, second, next_order = problem.step, 0.0, 0.0, 0.0
    across = NODES[None, :]
    for sign, chance in ((1.0, problem.weight), (-1.0, 1.0 - problem.weight)):
        along = (sign + NODES)[:, None]
        field = m * along + np.sqrt(max(1.0 - m * m, 0.0)) * across
        slope = -np.tanh(field + problem.field)
        square, towards = slope**2, slope * (along - field * m)
        excess = along**2 + across**2 - field**2 - 2.0
        move = towards + 0.5 * delta * m * square
        small = -0.5 * m * square * excess + 0.5 * delta * towards * square + 0.375 * delta**2 * m * square**2
        first += chance * float(np.sum(PAIR_WEIGHTS * move))
        second += chance * float(np.sum(PAIR_WEIGHTS * move**2))
        next_order += chance * float(np.sum(PAIR_WEIGHTS * small))
    return second - first**2, next_order


def overlap_fluctuations(problem: BinaryMixture, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""$m$, $\mu$ and $\Sigma$ at `times` (from 0 on) from a uniform start, each (time,); for unequal weights."""
    drift = SphereDrift(problem)

    def rate(t: float, state: np.ndarray) -> list[float]:
        m = float(np.clip(state[0], DIFFERENCE - 1.0, 1.0 - DIFFERENCE))
        before, here, after = (float(drift(x)) for x in (m - DIFFERENCE, m, m + DIFFERENCE))
        slope, bend = (after - before) / (2.0 * DIFFERENCE), (after - 2.0 * here + before) / DIFFERENCE**2
        variance, next_order = step_moments(problem, m)
        shift = 0.5 * bend * state[2] + problem.step * (next_order - 0.5 * here * slope)
        return [here, slope * state[1] + shift, 2.0 * slope * state[2] + problem.step * variance]

    solution = lsoda(rate, (0.0, 0.0, 1.0), times, TOLERANCE, 1e-9)
    return solution.y[0], solution.y[1], solution.y[2]
