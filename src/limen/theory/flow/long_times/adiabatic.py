r"""How complexity grows: the second layer of a network that fits pure noise, on the scale $t=sm$.

Write $a(t)=\sqrt m\,\gamma(t/m)$. Exactly, $\gamma'=-\alpha\,\partial_\gamma e$ at fixed first layer; while $\gamma$
moves over times of order $m$ the first layer has aged to its asymptotic state, which leaves

$$\gamma'(s)=-\alpha\,e_\infty'(\gamma),\qquad\gamma(0)=0,$$

with $e_\infty$ of `asymptotic_error` (Montanari & Urbani 2025). It starts with slope $\gamma_*=\sqrt\alpha\,\tau
E_{th}$ and ends at $\gamma_{GF}$, where the training error vanishes. Limit: $n,d\to\infty$, then $m\to\infty$. At
finite $m$ the second layer starts from $a_0$ and the linear part is seen for $m^{-1/2}\ll s\ll1$ only.
"""

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import make_interp_spline

from limen.labelled import labelled
from limen.method import answers
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.flow.long_times.threshold import (
    asymptotic_error,
    checked_variance,
    interpolation_threshold,
    threshold_energy,
)

CITATIONS = ("montanari2025",)
NODES = 97


@answers("theory", CITATIONS)
def adiabatic(h: Any, samples_per_parameter: float, times: Any = None, noise: float = 1.0) -> Findings:
    r"""$\gamma(s)$ for $s=t/m$ and the training error along it.

    Args:
        h, samples_per_parameter, noise: as in `interpolation_threshold`.
        times: values of $s$, increasing, or the last one (then 101 equal steps); None: 101 from 0 until $\gamma$ is
            within 0.1% of $\gamma_{GF}$.

    Returns:
        `gamma` (time) and `train_loss` (time), $e_\infty(\gamma(s))$, against `time` $=s$; numbers `threshold`
        ($\gamma_{GF}$), `threshold_energy` ($E_{th}$) and `initial_slope` ($\gamma_*$). About one second.
    """
    threshold = interpolation_threshold(h, samples_per_parameter)
    energy = threshold_energy(h)
    scale = checked_variance(noise) ** 0.5
    # At noise variance 1; e' is smooth up to the threshold, where it vanishes linearly.
    nodes = threshold * 0.5 * (1.0 - np.cos(np.pi * np.arange(NODES) / (NODES - 1)))
    errors = asymptotic_error(h, samples_per_parameter, nodes)
    ends = ([(1, -energy / samples_per_parameter**0.5)], [(1, 0.0)])
    error = make_interp_spline(nodes, errors, k=3, bc_type=ends)
    slope = error.derivative()

    def speed(s: float, gamma: np.ndarray) -> np.ndarray:
        return -samples_per_parameter * slope(np.minimum(gamma, threshold))

    def arrived(s: float, gamma: np.ndarray) -> float:
        return float(gamma[0]) - 0.999 * threshold

    if times is None:
        arrived.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
        reach = solve_ivp(speed, (0.0, 1e6), [0.0], "DOP853", rtol=1e-9, atol=1e-12, events=arrived)
        grid = np.linspace(0.0, float(reach.t[-1]), 101)
    else:
        grid = time_grid(times, False)
    # tau^2 e(gamma / tau): gamma / tau moves as at variance 1, at the pace 1.
    solution = solve_ivp(speed, (0.0, grid[-1] or 1e-12), [0.0], "DOP853", t_eval=grid, rtol=1e-10, atol=1e-13)
    gamma = np.minimum(solution.y[0], threshold)
    dataset = labelled(
        {
            "gamma": (("time",), scale * gamma),
            "train_loss": (("time",), noise * np.maximum(error(gamma), 0.0)),
            "threshold": scale * threshold,
            "threshold_energy": energy,
            "initial_slope": scale * samples_per_parameter**0.5 * energy,
        },
        coords={"time": grid},
    )
    return Findings(dataset, True, "time is t/m.")
