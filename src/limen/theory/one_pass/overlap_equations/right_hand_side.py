r"""The differential equations of the overlaps, and the exact mean of one step of SGD at finite $d$.

$\dot M_{ir}=a_iE[\sigma'_i\lambda^*_re]$, $\dot
Q_{ij}=a_iE[\sigma'_i\lambda_je]+a_jE[\sigma'_j\lambda_ie]+\frac\gamma pa_ia_jE[\sigma'_i\sigma'_je^2]$, $\dot
a_i=\epsilon_aE[\sigma_ie]$ in $t=\text{steps}\cdot\gamma/(dp)$ as $d\to\infty$ (Saad & Solla 1995; Goldt et al. 2019;
Veiga et al. 2022). The term with $\gamma/p$ is the noise of SGD; without it the flow is that of the population
gradient.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limen.precision import in_double
from limen.problem.spec import InputError
from limen.theory.one_pass.committee import committee_population
from limen.theory.one_pass.overlaps import Overlaps, checked_overlaps
from limen.theory.one_pass.populations.frozen_points import POINTS
from limen.theory.one_pass.populations.population import Population


class Speeds(NamedTuple):
    r"""Weights of the three parts of the flow: drift, noise of SGD, second layer.

    $(1,\gamma/(pB),\epsilon_a)$ for batches of $B$ (Saad–Solla scaling); $(1,0,\epsilon_a)$ is gradient flow;
    $(0,1,0)$ the noise-dominated limit in the time $t\gamma/p$. None for the second layer keeps it, at no cost.
    """

    drift: Any
    noise: Any
    second_layer: Any


def overlap_slope(population: Population, overlaps: Overlaps, speeds: Speeds, inverse_d: Any = None) -> Overlaps:
    """Time derivative of the overlaps; with `inverse_d` $=1/d$ the mean of one step in units of the step."""
    second_layer = overlaps.second_layer
    drift = speeds.drift * second_layer[:, None] * population.drift(overlaps)
    inward, toward = drift[:, : second_layer.size], drift[:, second_layer.size :]
    noise = population.noise(overlaps, inverse_d) * (second_layer[:, None] * second_layer)
    return Overlaps(inward + inward.T + speeds.noise * noise, toward, _second_layer_slope(population, overlaps, speeds))


def gradient_slope(population: Population, overlaps: Overlaps, speeds: Speeds) -> Overlaps:
    """`overlap_slope` without the noise of SGD, which is its costly part."""
    drift = speeds.drift * overlaps.second_layer[:, None] * population.drift(overlaps)
    p = overlaps.second_layer.size
    return Overlaps(drift[:, :p] + drift[:, :p].T, drift[:, p:], _second_layer_slope(population, overlaps, speeds))


def _second_layer_slope(population: Population, overlaps: Overlaps, speeds: Speeds) -> jax.Array:
    if speeds.second_layer is None:
        return jnp.zeros_like(overlaps.second_layer)
    return speeds.second_layer * population.response(overlaps)


def projected(overlaps: Overlaps, slope: Overlaps) -> Overlaps:
    r"""The derivative when every neuron is put back on its sphere after each step.

    With $g_i=\dot Q_{ii}/Q_{ii}$: $\dot M_{ir}\to\dot M_{ir}-\frac12g_iM_{ir}$, $\dot Q_{ij}\to\dot
    Q_{ij}-\frac12(g_i+g_j)Q_{ij}$. Conserves $Q_{ii}$.
    """
    growth = 0.5 * jnp.diagonal(slope.gram) / jnp.diagonal(overlaps.gram)
    return Overlaps(
        slope.gram - (growth[:, None] + growth) * overlaps.gram,
        slope.overlap - growth[:, None] * overlaps.overlap,
        slope.second_layer,
    )


@in_double
def right_hand_side(
    Q: Any,
    M: Any,
    P: Any,
    a: Any,
    a_star: Any,
    activation: Any,
    rate: float,
    noise: float,
    d: int | None = None,
    train_second_layer: bool = False,
    points: int = POINTS,
) -> dict[str, np.ndarray]:
    r"""Time derivatives of the overlaps of a committee, as a dict with keys `Q`, `M`, `a`.

    $f=\frac1p\sum_ia_i\sigma(u_i\cdot x)$ learns $y=\frac1k\sum_ra^*_r\sigma(u^*_r\cdot x)+\sqrt\Delta\,z$ by
    $u_i\leftarrow u_i+\frac\gamma{dp}a_i\sigma'(\lambda_i)(y-f)x$.

    Args:
        Q, M, P: overlaps student-student (p, p), student-teacher (p, k), teacher-teacher (k, k).
        a, a_star: second layers, a number or one per unit.
        activation: of students and teachers; a name, formula or `Activation`.
        rate: $\gamma\ge0$; 0 gives gradient flow.
        noise: variance $\Delta$ of the label noise.
        d: None for $d=\infty$. A number ($\ge p+k$) gives the exact conditional mean of one step divided by
            $\gamma/(dp)$: in the noise term every average is taken with the weight $|x|^2/d$; $M$ and the drift of
            $Q$ do not change.
        train_second_layer: whether $a$ moves, at the same rate.
        points: frozen points for the noise term of activations without closed form.

    Exact for $\mathrm{erf}(cz)$, $z^2$ and linear units. For other activations the part without $\gamma$ is exact to
    about $10^{-12}$ (ReLU, smooth) and the noise term to $2\cdot10^{-3}$ of itself (smooth) or $10^{-2}$ (kinks) with
    the default points.
    """
    overlaps, teacher_gram, teacher_weights = checked_overlaps(Q, M, P, a, a_star)
    p, k = overlaps.overlap.shape
    check_rate_and_noise(rate, noise)
    if d is not None and d < p + k:
        raise InputError(f"d must be at least students + teachers = {p + k}, got {d}.")
    population = committee_population(activation, p, teacher_gram, teacher_weights, noise, points)
    speeds = Speeds(1.0, jnp.asarray(rate / p), jnp.asarray(1.0) if train_second_layer else None)
    slope = _compiled_slope(population, overlaps, speeds, None if d is None else jnp.asarray(1.0 / d))
    return {
        "Q": np.asarray(slope.gram),
        "M": np.asarray(slope.overlap),
        "a": np.asarray(slope.second_layer),
    }


def check_rate_and_noise(rate: float, noise: float) -> None:
    """Refuses a negative rate or label noise."""
    for name, value in (("rate", rate), ("noise", noise)):
        if not np.all(np.isfinite(value)) or not np.all(np.asarray(value) >= 0):
            raise InputError(f"{name} must be finite and not negative, got {value!r}.")


@eqx.filter_jit
def _compiled_slope(
    population: Population, overlaps: Overlaps, speeds: Speeds, inverse_d: jax.Array | None
) -> Overlaps:
    return overlap_slope(population, overlaps, speeds, inverse_d)
