r"""Stationary laws of noisy mean-field attention on the circle.

With tangential noise $\sqrt{2D}\,dW$ and $h=\int e^{\beta\cos(\theta-\theta')}\rho(\theta')\,d\theta'$ stationary
densities solve
$$\rho\propto h^{1/(\beta D)}\ \text{(softmax)},\qquad\rho\propto e^{h/(\beta D)}\ \text{(without)},$$
and at $\beta=0$ the Kuramoto equation $r=I_1(r/D)/I_0(r/D)$. The uniform law always solves them and is stable for
$D>D_c$ (`critical_noise`). Without softmax and above `discontinuous_transition_beta(2)` ordered and uniform laws
coexist beyond $D_c$: try both starts.
"""

import math
from typing import Literal

import numpy as np
import xarray as xr

from limen.checks import integer, number, positive
from limen.method import answers
from limen.problem.spec import InputError
from limen.result import Findings
from limen.theory.attention.bessel import log_uniform_transform, relative_coefficients
from limen.theory.attention.circle.circle_density import circle_grid
from limen.theory.attention.field_limits import beta_without_normalization

CITATIONS = ("geshkovski2023",)
Start = Literal["concentrated", "uniform"]
STEPS = 50_000
TOLERANCE = 1e-13
RESOLVED = 1e-8


@answers("theory", CITATIONS)
def stationary_law(
    beta: float, noise: float, normalized: bool = True, start: Start = "concentrated", points: int = 512
) -> Findings:
    r"""A stationary law of attention with noise $D$ on the circle, symmetric about angle 0, by a damped fixed point.

    Args:
        beta: inverse temperature, any sign; at most 700 in size without softmax.
        noise: $D>0$.
        normalized: softmax attention, or without its denominator.
        start: where the iteration starts: `concentrated` (a narrow law) or `uniform` (nearly uniform, $r=0.01$).
        points: grid points, a multiple of 4.

    Returns:
        `order_parameter`, $r=\mathbb E\cos\theta$; `modes` (k), $\mathbb E\cos k\theta$ from $k=0$; `density` (angle).
        Next to $D_c$ convergence slows down like $1/|D-D_c|$; `ok` says whether it was reached.
    """
    beta, noise, points = number("beta", beta), positive("noise", noise), integer("points", points, 16)
    beta_without_normalization(beta, normalized)
    if points % 4:
        raise InputError(f"points must be a multiple of 4, got {points}.")
    if start not in ("concentrated", "uniform"):
        raise InputError(f"start must be 'concentrated' or 'uniform', got {start!r}.")
    kept = points // 3
    angles = circle_grid(points)
    waves = np.cos(np.arange(1, kept + 1)[:, None] * angles)
    relative = relative_coefficients(2, beta, kept)
    scale = 1.0 if normalized else math.exp(float(log_uniform_transform(2, beta)))

    def law(modes: np.ndarray) -> np.ndarray:
        potential = 2.0 * (relative * modes) @ waves
        if normalized and beta != 0.0:
            potential = np.log1p(np.maximum(beta * potential, -1.0 + 1e-300)) / beta
        exponent = scale * potential / noise
        density = np.exp(exponent - exponent.max())
        return density / density.sum()

    modes = np.full(kept, 0.0)
    modes[0] = 0.01
    if start == "concentrated":
        modes = np.exp(-0.005 * np.arange(1, kept + 1) ** 2)
    change, steps = math.inf, 0
    while change > TOLERANCE and steps < STEPS:
        new = waves @ law(modes)
        change = float(np.abs(new - modes).max())
        modes = 0.25 * modes + 0.75 * new
        steps += 1
    density = law(modes) * points / (2.0 * np.pi)
    tail = float(np.abs(modes[2 * kept // 3 :]).max())
    ok, status = True, "converged."
    if change > TOLERANCE:
        ok, status = False, f"not converged after {steps} steps (change {change:.1g}): the noise is close to critical."
    elif tail > RESOLVED:
        ok, status = False, f"too narrow for {points} points (highest modes {tail:.1g}): take more points."
    dataset = xr.Dataset(
        {
            "order_parameter": ((), float(modes[0])),
            "modes": (("k",), np.concatenate([[1.0], modes])),
            "density": (("angle",), density),
        },
        coords={"k": np.arange(kept + 1), "angle": angles},
    )
    statistics = {"steps": float(steps), "residual": change}
    return Findings(dataset, ok, status, statistics)
