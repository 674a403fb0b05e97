r"""Spherical one-pass SGD on phase retrieval with one neuron, solved exactly.

With $\sigma=\sigma_*=z^2$, $d\to\infty$ and $t=\text{steps}\cdot\gamma/d$, the overlap obeys
$\dot m=4m[(1-6\gamma)(1-m^2)-\gamma\Delta/2]$, a logistic equation for $m^2$ (Arnaboldi et al. 2023). From a random
start $m_0=O(d^{-1/2})$ the noise of SGD near the saddle matters at leading order; there the overlap is an unstable
Ornstein–Uhlenbeck process, whose growing amplitude is Gaussian around $m_0$.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import wofz

from limen.gaussian.starts.start_weights import start_overlaps
from limen.labelled import labelled
from limen.method import Method
from limen.problem import Activation, InputError, OverlapStart, SphericalSGD, TwoLayer
from limen.problem.rates import is_schedule
from limen.problem.starts import overlap_matrix
from limen.result import Findings

CITATIONS = ("arnaboldi2023escaping",)
# Trapezoid nodes over the Gaussian amplitude; the dip at amplitude 0 narrows with time.
AMPLITUDES = np.linspace(-8.0, 8.0, 1201)


def refuses(problem: object) -> str | None:
    """Why this closed form does not apply, or None."""
    if not isinstance(problem, TwoLayer):
        return "it solves two-layer networks."
    network, target = problem.network, problem.target
    if not isinstance(problem.algorithm, SphericalSGD):
        return f"it solves SphericalSGD, not {type(problem.algorithm).__name__}."
    if is_schedule(problem.algorithm.rate):
        return f"it solves a constant rate, not {problem.algorithm.rate!r}."
    if network.width != 1 or network.train_second_layer:
        return "it solves one neuron with a fixed second layer."
    if network.activation != Activation(formula="square") and network.activation.formula not in ("z**2", "z*z"):
        return f"it solves the activation square, not {network.activation.label}."
    if target.formula not in ("phase-retrieval", "z**2", "z1**2", "z*z", "z1*z1"):
        return f"it solves the target phase-retrieval, not {target.label}."
    if problem.loss.name != "square":
        return f"it solves square loss, not {problem.loss.name}."
    if (
        network.per_neuron("second_layer") != (1.0,)
        or network.per_neuron("bias") != (0.0,)
        or network.initial_norm != 1
    ):
        return "it solves second_layer = 1, bias = 0, initial_norm = 1."
    return problem.inputs.unlike_isotropic()


def solve(problem: TwoLayer, times: np.ndarray, d: int | None = None, seeds: Sequence[int] = ()) -> Findings:
    r"""Mean overlap, risk and test loss, given each start.

    With `d` and `seeds`: one row per seed, from the simulator's own start $m_0$, averaged over the noise of SGD at
    that $d$ (leading order in $d^{-1/2}$). Without them the start must be an `OverlapStart`, $d=\infty$.
    $O(\text{times})$ per seed.
    """
    algorithm = problem.algorithm
    assert isinstance(algorithm, SphericalSGD) and isinstance(algorithm.rate, float)
    rate, noise = algorithm.rate, problem.target.noise
    if d is not None and seeds:
        starts = np.array([start_overlaps(problem, d, seed)[0][0, 0] for seed in seeds])
    elif isinstance(problem.start, OverlapStart):
        starts = overlap_matrix(problem.start, 1, 1)[0]
    else:
        raise InputError("d and seeds are required: from a random start the escape depends on the overlap d^(-1/2).")
    spread = amplitude_variance(rate, noise, times, d)
    mean = np.array([_moments(start, spread, rate, noise, times)[0] for start in starts])
    square = mean_square(starts, rate, noise, times, d)
    excess = 2.0 * (1.0 - square)
    time_dims = ("seed", "time") if seeds else ("time",)

    def shaped(values: np.ndarray, extra: int = 0) -> np.ndarray:
        return (values if seeds else values[0]).reshape(*(values.shape if seeds else values.shape[1:]), *(1,) * extra)

    dataset = labelled(
        {
            "overlap": ((*time_dims, "neuron", "latent"), shaped(mean, 2)),
            "excess_risk": (time_dims, shaped(excess)),
            "test_loss": (time_dims, shaped(excess + noise / 2.0)),
        },
        coords={"time": times, **({"seed": list(seeds)} if seeds else {})},
        attrs={} if d is None else {"d": d},
    )
    return Findings(dataset, True, said(rate, noise))


def said(rate: float, noise: float) -> str:
    """The status: the escape rate, or why nothing escapes."""
    growth = growth_rate(rate, noise)
    if growth <= 0:
        return f"no escape: c = 1 - 6*rate - rate*noise/2 = {growth:.4g} is not positive; take a smaller rate."
    return f"exact, escape rate 8c = {8 * growth:.4g}."


def growth_rate(rate: float, noise: float) -> float:
    r"""$c=1-6\gamma-\gamma\Delta/2$: near zero overlap $m\propto e^{4ct}$; no escape if $c\le0$."""
    return 1.0 - 6.0 * rate - rate * noise / 2.0


def plateau_risk(rate: float, noise: float) -> float:
    r"""Excess risk as $t\to\infty$, $\gamma\Delta/(1-6\gamma)$; 2 (nothing learnt) without escape."""
    if growth_rate(rate, noise) <= 0.0:
        return 2.0
    return rate * noise / (1.0 - 6.0 * rate)


def square_overlap(start: np.ndarray, rate: float, noise: float, times: np.ndarray) -> np.ndarray:
    r"""$m^2(t)=u_\infty\big/\big[1+(u_\infty/m_0^2-1)e^{-8ct}\big]$, $u_\infty=c/(1-6\gamma)$; arguments broadcast."""
    c = growth_rate(rate, noise)
    limit = c / (1.0 - 6.0 * rate)
    decay = np.exp(-8.0 * c * times)
    u = start**2
    return limit * u / (u + (limit - u) * decay)


def amplitude_variance(rate: float, noise: float, times: np.ndarray, d: int | None) -> np.ndarray:
    r"""Variance of the amplitude $m\,e^{-4ct}$ around $m_0$ in the linear phase, $\frac{F-1}d(1-e^{-8ct})$, $F=1/c$."""
    if d is None:
        return np.zeros_like(times)
    c = growth_rate(rate, noise)
    return (1.0 - c) / c * -np.expm1(-8.0 * c * times) / d


def mean_square(starts: np.ndarray, rate: float, noise: float, times: np.ndarray, d: int | None) -> np.ndarray:
    r"""$E\,m^2$ at each time from each of `starts` (runs,), over the Gaussian amplitude; shape (runs, time).

    With $D=e^{-8ct}$ the square of an amplitude $a$ is $\frac{u_\infty}{1-D}\big[1-\frac{w^2}{a^2+w^2}\big]$,
    $w^2=u_\infty D/(1-D)$: a Lorentzian, whose mean over $a\sim N(m_0,s^2)$ is Faddeeva's function,
    $$E\frac1{a^2+w^2}=\sqrt{\frac\pi2}\,\frac1{ws}\,\mathrm{Re}\,\mathrm{wofz}\Big(\frac{m_0+iw}{s\sqrt2}\Big).$$
    Where $1-D$ is small, and without escape, the rule of `AMPLITUDES`.
    """
    variance, c = amplitude_variance(rate, noise, times, d), growth_rate(rate, noise)
    found, closed = np.empty((len(starts), len(times))), np.zeros(len(times), dtype=bool)
    if c > 0.0:
        closed = (8.0 * c * times > 1e-3) & (variance > 0.0)
    for row, start in enumerate(starts):
        found[row, ~closed] = _moments(start, variance[~closed], rate, noise, times[~closed])[1]
    if closed.any():
        limit, decay, s = c / (1.0 - 6.0 * rate), np.exp(-8.0 * c * times[closed]), np.sqrt(variance[closed])
        w = np.sqrt(limit * decay / (1.0 - decay))
        dip = wofz((np.asarray(starts)[:, None] + 1j * w) / (np.sqrt(2.0) * s)).real
        found[:, closed] = limit / (1.0 - decay) * (1.0 - np.sqrt(0.5 * np.pi) * w / s * dip)
    return found


def _moments(
    start: float, variance: np.ndarray, rate: float, noise: float, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Mean of the overlap and of its square over the Gaussian amplitude, at each time.

    From $\gamma=1/6$ on the logistic equation has no stable side; the overlap decays, so small that it is linear.
    """
    if rate >= 1.0 / 6.0:
        growth = np.exp(4.0 * growth_rate(rate, noise) * times)
        return start * growth, (start**2 + variance) * growth**2
    weights = np.exp(-0.5 * AMPLITUDES**2)
    weights /= weights.sum()
    amplitude = start + np.sqrt(variance)[:, None] * AMPLITUDES
    square = square_overlap(amplitude, rate, noise, times[:, None])
    return (np.sign(amplitude) * np.sqrt(square)) @ weights, square @ weights


phase_retrieval = Method("phase-retrieval", "theory", CITATIONS, refuses, solve)
