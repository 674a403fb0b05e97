r"""How long one-pass SGD stays at the uninformed saddle of phase retrieval: exit times and their law.

Spherical SGD with $\sigma=\sigma_*=z^2$, $k=1$, $a=a^*=1$, time $t=\text{steps}\cdot\gamma/(dp)$. The exit time is the
first $t$ at which the excess risk $R=1+\frac1{p^2}\mathrm{tr}\,Q^2-\frac2p|m|^2$ is $(1-T)R(0)$. Near the saddle
$m_j\propto e^{4c_pt}$ and $Q_{jl}\to0$, $j\ne l$ (Arnaboldi et al. 2023). From a random start of norm one,
$\mu_0=d\sum_jm_j^2$ and $\tau_0=2d\sum_{j<l}Q_{jl}^2$ are of order one: exit times are random at leading order, and so
is the effect of the noise of SGD.
"""

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.special import digamma

from limen.problem.spec import InputError

Average = Literal["quenched", "annealed", "noise"]
AVERAGES = ("quenched", "annealed", "noise")
MOST_DRAWS = 2**14
ENTRIES = 2**22
# After a change of this size the next would be about its cube.
MOST_ROUNDS, LAST_CHANGE = 30, 1e-4


def growth_rate(width: int, rate: float, noise: float) -> float:
    r"""$c_p=1-\frac\gamma p\big(1+\frac1p+\frac4{p^2}+\frac\Delta2\big)$; no escape if $c_p\le0$."""
    return 1.0 - rate / width * (1.0 + 1.0 / width + 4.0 / width**2 + noise / 2.0)


def amplitude_factor(width: int, rate: float, noise: float) -> float:
    r"""$F=1+\frac\gamma{p\,c_p}\big(5-\frac3p+\frac4{p^2}+\frac\Delta2\big)$: late overlaps are $N(0,F/d)\,e^{4c_pt}$.

    The start alone gives 1; the rest is the noise of SGD, an unstable Ornstein–Uhlenbeck process. $1/c_1$ at $p=1$.
    """
    c = growth_rate(width, rate, noise)
    return 1.0 + rate / (width * c) * (5.0 - 3.0 / width + 4.0 / width**2 + noise / 2.0)


def bending(width: int, rate: float, noise: float) -> float:
    r"""$b$ in $|m|^2=S/d$ at the exit, $t=\frac1{8c_p}\log\frac{\cdot}{1-bS/d}$: growth and risk to second order in
    $|m|^2$.

    With $w=\frac{4\gamma}p(1-\frac2p)$ and $\rho=\frac3{p+2}$ ($\sum_jm_j^4=\rho|m|^4$ on average over directions), the
    overlaps of the neurons follow $Q_{jl}=A\,m_jm_l$, $A=(1+w)/(c_p+\frac1p-\frac{8\gamma}{p^3})$, and
    $\frac d{dt}|m|^2=8c_p|m|^2-k|m|^4$ with $k=\frac8pA(1-\rho)-\frac{16\gamma}{p^2}+8(1+w)\rho$, while
    $\frac1{p^2}\mathrm{tr}\,Q^2$ holds the risk up: $b=\frac k{8c_p}+\frac{A^2(1-\rho)}{2p}$. At $p=1$ the logistic
    solution, $b=1/u_\infty=(1-6\gamma)/c_1$, exactly.
    """
    p, c = width, growth_rate(width, rate, noise)
    fourth, driven = 3.0 / (p + 2.0), 1.0 + 4.0 * rate / p * (1.0 - 2.0 / p)
    aligned = driven / (c + (1.0 - 8.0 * rate / p**2) / p)
    saturation = 8.0 / p * aligned * (1.0 - fourth) - 16.0 * rate / p**2 + 8.0 * driven * fourth
    return saturation / (8.0 * c) + aligned**2 * (1.0 - fourth) / (2.0 * p)


def exit_time(
    width: int, d: int, rate: float, noise: float, fraction: float = 0.01, average: Average = "quenched"
) -> float:
    r"""Mean exit time from random starts on the sphere in $d$ dimensions.

    With $X=\frac{Tp(p+1)d+(2p\mu_0-\tau_0)(1-T)}{2p\mu_0}$:

    * `quenched`: $E\log X/(8c_p)$ over the law of $(\mu_0,\tau_0)$; as $d\to\infty$
      $\frac{\log(T(p+1)d/4)-\psi(p/2)}{8c_p}$;
    * `annealed`: $\log X$ at the means $\mu_0=p$, $\tau_0=p(p-1)$;
    * `noise`: the mean exit of SGD, $E\log\frac{S+(F-1)(\mu_0-2)}{F\mu_0\,(1-bS/d)}\big/(8c_p)$, where
      $S=X\mu_0+\frac{p-1}2v(t)$ is $d|m|^2$ at the exit. It adds the noise that the overlaps gather until the exit
      (`amplitude_factor`; what comes after it, by which $E\log|m|^2$ grows by $(p-2)(F-1)/S$, is taken out), the
      noise-driven overlaps $v$ of the neurons with each other, which hold the risk up (`neuron_overlap`), and the
      quadratic terms of the flow (`bending`).

    The exact law of the start at this $d$ is averaged over $2^{14}$ fixed draws (fewer beyond 15 neurons), with
    $\log\chi^2_p$ as control; error about $10^{-3}/(8c_p)$ at $Td\approx30$ and below beyond. `quenched` and `annealed`
    leave the quadratic terms out, a delay of about $\frac{p+1}2bT/(8c_p)$. What `noise` leaves out is of second order
    in $T$ and in $(F-1)/(Td)$, and a part of about $10/d$ of the growth rate (exits 1% later at $d=1000$). Near
    $\gamma=p^2/8$ the overlaps of the neurons are large but rare, and by their mean square the exit comes too late (6%
    at $p=4$, $\gamma=1.73$, $d=3000$).

    Args:
        width: number of neurons $p$.
        d: the dimension.
        rate: $\gamma$.
        noise: variance $\Delta$ of the label noise.
        fraction: $T$, in (0, 1); small for the linear growth to hold.
        average: `quenched`, `annealed` or `noise`.
    """
    if average not in AVERAGES:
        raise InputError(f"average must be one of {', '.join(AVERAGES)}, got {average!r}.")
    _check(width, d, rate, noise, fraction)
    growth = growth_rate(width, rate, noise)
    if average == "annealed":
        argument = (fraction * (width + 1) * d + (width + 1) * (1.0 - fraction)) / (2.0 * width)
        return float(np.log(argument) / (8.0 * growth))
    mu, tau, control = _random_starts(width, d, _draws(width), 0)
    logarithm = 8.0 * growth * exit_times_from(mu, tau, width, d, rate, noise, fraction, average)
    return float((np.mean(logarithm + np.log(control)) - np.log(2.0) - digamma(width / 2.0)) / (8.0 * growth))


def exit_times(
    width: int,
    d: int,
    rate: float,
    noise: float,
    fraction: float = 0.01,
    average: Average = "noise",
    draws: int = 4096,
    seed: int = 0,
) -> np.ndarray:
    r"""A sample of the law of the exit time, shape (draws,), sorted.

    `quenched`: one time per random start, $\log X/(8c_p)$, the law of the linearised flow. `noise`: starts and noise of
    SGD together; the noise after the exit is taken out of the mean, not of the spread. The law does not narrow as
    $d\to\infty$: its spread is of order one in $t$.
    """
    if average not in ("quenched", "noise"):
        raise InputError(f"average must be quenched or noise for a distribution, got {average!r}.")
    _check(width, d, rate, noise, fraction)
    mu, tau, _ = _random_starts(width, d, draws, seed)
    return np.sort(exit_times_from(mu, tau, width, d, rate, noise, fraction, average))


def exit_times_from(
    mu: np.ndarray,
    tau: np.ndarray,
    width: int,
    d: int,
    rate: float,
    noise: float,
    fraction: float,
    average: Average = "quenched",
) -> np.ndarray:
    r"""Exit times from starts with given $\mu_0=d|m|^2$ and $\tau_0=2d\sum_{j<l}Q_{jl}^2$, same shapes.

    With `noise` the argument `mu` stands for $\mu(t)e^{-8c_pt}/F$ at late times, which has the law of $\mu_0$.
    """
    growth = growth_rate(width, rate, noise)
    level = fraction * width * (width + 1) * d + (2.0 * width * mu - tau) * (1.0 - fraction)
    if not np.all(level > 0.0):
        raise InputError(f"fraction * d must be of order one or more for an exit, got {fraction * d:g}.")
    if average != "noise":
        return np.log(level / (2.0 * width * mu)) / (8.0 * growth)
    factor, bend = amplitude_factor(width, rate, noise), bending(width, rate, noise) / d
    decay, source = _relaxation(width, rate, noise)
    bare, gathered, half = level / (2.0 * width), (factor - 1.0) * (mu - 2.0), 0.5 * (width - 1)

    def proposed(overlap: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Exit times with these overlaps of the neurons, and the two factors that depend on them."""
        needed = bare + half * overlap
        amplitude, room = needed + gathered, 1.0 - bend * needed
        if not (amplitude.min() > 0.0 and room.min() > 0.0):
            raise InputError(
                f"fraction must be small and fraction * d large against {factor - 1.0:.3g} for the law with noise, "
                f"got {fraction:g} and {fraction * d:g}."
            )
        return np.log(amplitude / (factor * mu * room)) / (8.0 * growth), amplitude, room

    typical = np.log(bare.mean() / mu.mean()) / (8.0 * growth)
    # A start whose first fluctuation already counts as an exit has left at once.
    times = np.maximum(proposed(neuron_overlap(typical, width, rate, noise))[0], 0.0)
    # Halley's method: the equation of v gives its derivatives at no cost, and every round cubes the error.
    for _ in range(MOST_ROUNDS):
        overlap = neuron_overlap(times, width, rate, noise)
        proposal, amplitude, room = proposed(overlap)
        change = half * (source - decay * overlap)
        rise, bent = change / amplitude, bend * change / room
        moved = (rise + bent) / (8.0 * growth)
        gap, slope, curvature = proposal - times, moved - 1.0, moved * (bent - rise - decay)
        before, times = times, np.maximum(times - gap * slope / (slope**2 - 0.5 * gap * curvature), 0.0)
        if np.abs(times - before).max() < LAST_CHANGE:
            break
    return times


def neuron_overlap(times: Any, width: int, rate: float, noise: float) -> np.ndarray:
    r"""$v(t)=d\,E\,Q_{jl}^2$, $j\ne l$, at the saddle: $\dot v=-\kappa v+s$ from $v(0)=1$.

    $\kappa=\frac{16}p(1-\frac{8\gamma}{p^2})$, $s=\frac{16\gamma}pE[\lambda_j^2\lambda_l^2\varepsilon^2(1+\frac\gamma
    p\varepsilon)^2]$ with independent standard fields. The weight $\lambda_j^2\lambda_l^2$ turns two of the fields'
    squares into $\chi^2_3$, so the moments of $\varepsilon$ under it follow from its cumulants.
    """
    if width == 1:
        return np.zeros_like(times)
    decay, source = _relaxation(width, rate, noise)
    lost = np.expm1(-decay * times)
    # -expm1(-x)/x has no pole at decay = 0.
    waited = -lost / decay if np.max(np.abs(decay * times)) > 1e-9 else times
    return 1.0 + lost + source * waited


def _relaxation(width: int, rate: float, noise: float) -> tuple[float, float]:
    r"""$\kappa$ and $s$ of `neuron_overlap`."""
    p, g = width, rate / width
    order = np.arange(1, 5)
    cumulants = 2.0 ** (order - 1) * np.array([1.0, 1.0, 2.0, 6.0]) * (1.0 + (-1.0 / p) ** order * (p + 4.0))
    cumulants[1] += noise
    k1, k2, k3, k4 = (float(cumulant) for cumulant in cumulants)
    second = k2 + k1**2
    third = k3 + 3 * k2 * k1 + k1**3
    fourth = k4 + 4 * k3 * k1 + 3 * k2**2 + 6 * k2 * k1**2 + k1**4
    decay = 16.0 / p * (1.0 - 8.0 * rate / p**2)
    return decay, 16.0 * g * (second + 2.0 * g * third + g**2 * fourth)


def _check(width: int, d: int, rate: float, noise: float, fraction: float) -> None:
    if width < 1 or width != int(width):
        raise InputError(f"width must be a positive whole number, got {width!r}.")
    if d < width + 1 or d != int(d):
        raise InputError(f"d must be a whole number of at least width + 1 = {width + 1}, got {d!r}.")
    if not rate > 0.0:
        raise InputError(f"rate must be positive, got {rate}.")
    if not noise >= 0.0:
        raise InputError(f"noise must not be negative, got {noise}.")
    if not 0.0 < fraction < 1.0:
        raise InputError(f"fraction must lie in (0, 1), got {fraction}.")
    growth = growth_rate(width, rate, noise)
    if growth <= 0.0:
        raise InputError(f"rate must be small enough for escape (c_p > 0), got rate {rate:g} with c_p = {growth:.4g}.")


def _draws(width: int) -> int:
    return int(np.clip(ENTRIES // (width + 1) ** 2, 64, MOST_DRAWS))


@lru_cache(maxsize=16)
def _random_starts(width: int, d: int, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""$\mu_0$ and $\tau_0$ of random starts, and $\chi^2_p$ numbers near $\mu_0$ (norms not divided out)."""
    generator = np.random.default_rng(seed)
    along = generator.standard_normal((draws, width))
    # Bartlett: in a suitable basis of what is orthogonal to the target, the neurons are a triangle.
    rest = np.tril(generator.standard_normal((draws, width, width)), -1)
    diagonal = np.arange(width)
    rest[:, diagonal, diagonal] = np.sqrt(generator.chisquare(d - 1 - diagonal, (draws, width)))
    vectors = np.concatenate([along[:, :, None], rest], axis=2)
    vectors = vectors / np.linalg.norm(vectors, axis=2, keepdims=True)
    gram = vectors @ vectors.transpose(0, 2, 1)
    tau = d * ((gram**2).sum(axis=(1, 2)) - width)
    return d * (vectors[:, :, 0] ** 2).sum(axis=1), tau, (along**2).sum(axis=1)
