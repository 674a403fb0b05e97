r"""Mean-field attention on the circle: the density of infinitely many tokens, by a pseudo-spectral method.

$$\partial_t\rho=-\partial_\theta(\rho v)+D\,\partial_\theta^2\rho,\qquad v=\frac1\beta\partial_\theta\ln h\
\text{(softmax)}\ \text{or}\ \frac1\beta\partial_\theta h,\qquad h(\theta)=\int
e^{\beta\cos(\theta-\theta')}\rho(\theta')\,d\theta'.$$
In Fourier space $h=\sum_kI_k(\beta)\hat\rho_ke^{ik\theta}$; ratios $I_k/I_0$ keep it from overflowing and $I_k/(\beta
I_0)$ makes $\beta=0$ (Kuramoto) no exception. Products are dealiased by the 2/3 rule; time stepping is Dormand–Prince
8, or LSODA where noise makes the modes stiff.

Clusters form as point masses, which no grid resolves. The run stops when the highest third of the kept modes is no
longer small, and says so.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp

from limen.checks import increasing_times, integer, non_negative, number
from limen.method import answers
from limen.problem.spec import InputError
from limen.result import Findings
from limen.theory.attention.bessel import log_uniform_transform, relative_coefficients
from limen.theory.attention.circle.circle_density import circle_grid, fourier_modes
from limen.theory.attention.field_limits import beta_without_normalization

CITATIONS = ("geshkovski2023",)
RESOLVED = 1e-8


@answers("theory", CITATIONS)
def circle_flow(
    density: Callable[[Any], Any],
    beta: float,
    times: ArrayLike,
    normalized: bool = True,
    noise: float = 0.0,
    points: int | None = None,
) -> Findings:
    r"""The law of infinitely many tokens on the circle with $Q^\top K=V=I$, as long as it stays smooth.

    Args:
        density: function of angles in $[-\pi,\pi)$, evaluated on NumPy arrays; non-negative, smooth, any normalisation.
        beta: inverse temperature, any sign; at most 700 in size without softmax.
        times: increasing, non-negative.
        normalized: softmax attention, or without its denominator.
        noise: $D\ge0$ of the angular Brownian motion $\sqrt{2D}\,dW$.
        points: grid points, a multiple of 4; by default 512, or 256 with noise.

    Returns:
        `modes` (time, k), $\mathbb E\cos k\theta$ from $k=0$; `sine_modes` (time, k), $\mathbb E\sin k\theta$;
        `density` (time, angle). Times after the law has steepened are left out, with `ok` false. $O(M\ln M)$ per
        evaluation; $t=5$ in about half a second.
    """
    beta, noise, grid = number("beta", beta), non_negative("noise", noise), increasing_times(times)
    beta_without_normalization(beta, normalized)
    count = (256 if noise > 0.0 else 512) if points is None else integer("points", points, 16)
    if count % 4:
        raise InputError(f"points must be a multiple of 4, got {count}.")
    kept = count // 3
    start = fourier_modes(density, count)[1 : kept + 1]
    slope = _slope(beta, normalized, noise, kept, count)

    def roughness(t: float, state: NDArray[np.float64]) -> float:
        return RESOLVED - float(np.abs(state.view(complex)[2 * kept // 3 :]).max())

    roughness.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    state = np.ascontiguousarray(start).view(float)
    if roughness(0.0, state) <= 0.0:
        raise InputError(f"density must be smooth enough for {count} points: its highest modes exceed {RESOLVED:g}.")
    method = "LSODA" if noise > 0.0 else "DOP853"
    until = max(float(grid[-1]), 1e-12)
    solution = solve_ivp(slope, (0.0, until), state, method, t_eval=grid, events=roughness, rtol=1e-10, atol=1e-13)
    # Without any output time before the stop, `solution.y` is an empty list.
    states = np.asarray(solution.y, dtype=float).reshape(2 * kept, -1)
    modes = np.ascontiguousarray(states.T).view(complex)
    ok = len(modes) == len(grid)
    if ok:
        status = f"resolved by {count} points."
    elif solution.status == 1:
        status = (
            f"the density steepens into clusters at t = {float(solution.t_events[0][0]):.4g} and was followed no "
            "further: use particles from a quiet start, or more points."
        )
    else:
        status = f"the time stepping stopped before t = {until:g}: {solution.message}"
    statistics = {"evaluations": float(solution.nfev)}
    dataset = _dataset(modes, grid[: len(modes)], count)
    return Findings(dataset, ok, status, statistics)


def _slope(
    beta: float, normalized: bool, noise: float, kept: int, count: int
) -> Callable[[float, NDArray[np.float64]], NDArray[np.float64]]:
    r"""Time derivative of the modes $\mathbb Ee^{-ik\theta}$, $k=1,\dots$, as pairs of real numbers."""
    k = np.arange(1, kept + 1)
    relative = relative_coefficients(2, beta, kept)
    scale = 1.0 if normalized else math.exp(float(log_uniform_transform(2, beta)))
    size = count // 2 + 1

    def on_grid(modes: np.ndarray, mean: float) -> NDArray[np.float64]:
        spectrum = np.zeros(size, dtype=complex)
        spectrum[0], spectrum[1 : kept + 1] = mean, modes
        return np.fft.irfft(spectrum, count) * count

    def slope(t: float, state: NDArray[np.float64]) -> NDArray[np.float64]:
        modes = state.view(np.complex128)
        velocity = scale * on_grid(1j * k * relative * modes, 0.0)
        if normalized:
            velocity = velocity / on_grid(beta * relative * modes, 1.0)
        current = np.fft.rfft(on_grid(modes, 1.0) * velocity)[1 : kept + 1] / count
        return np.ascontiguousarray(-1j * k * current - noise * k**2 * modes).view(float)

    return slope


def _dataset(modes: NDArray[np.complex128], times: NDArray[np.float64], count: int) -> xr.Dataset:
    kept = modes.shape[1]
    full = np.zeros((len(modes), count // 2 + 1), dtype=complex)
    full[:, 0], full[:, 1 : kept + 1] = 1.0, modes
    turned = full * (-1.0) ** np.arange(count // 2 + 1)
    density = np.fft.irfft(turned, count, axis=1) * count / (2.0 * np.pi)
    cosines, sines = np.real(full[:, : kept + 1]), -np.imag(full[:, : kept + 1])
    return xr.Dataset(
        {
            "modes": (("time", "k"), cosines),
            "sine_modes": (("time", "k"), sines),
            "density": (("time", "angle"), density),
        },
        coords={"time": times, "k": np.arange(kept + 1), "angle": circle_grid(count)},
    )
