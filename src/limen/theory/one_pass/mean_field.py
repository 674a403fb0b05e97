r"""Wide committees: neurons as particles that interact through their overlaps with the teacher alone.

Write $U=MP^{-1}U^*+U^\perp$. From a rotation-invariant start the orthogonal parts of different neurons stay nearly
orthogonal, $Q\approx MP^{-1}M^\top+\mathrm{diag}(q)$ up to $e^{Ct}(p^{-1/2}+d^{-1/2})$, so that $p(k+1)$ numbers
$(m_i,q_i)$ replace $p(p+k)$ (Arnaboldi et al. 2023). They follow the overlap equations with that $Q$,
$\dot q_i=\dot Q_{ii}-2m_i^\top P^{-1}\dot m_i$.

At finite $d$ the orthogonal parts of two neurons have an overlap $\sqrt{q_iq_j}\,\xi$, and as $p\to\infty$ the
direction of each stays what it was: $\xi$ keeps the law of the overlap of two uniform unit vectors of $\mathbb R^D$,
$D=d-k$, over which the kernels of different neurons are averaged.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import roots_gegenbauer

from limen.gaussian.sobol import sobol_normals
from limen.labelled import labelled
from limen.method import answers
from limen.precision import in_double
from limen.problem.activations import Activation, as_activation
from limen.problem.spec import InputError
from limen.result import Findings
from limen.theory.one_pass.square_particles import square_slopes

CITATIONS = ("arnaboldi2023escaping",)
DEGREES = 24
POINTS = 1024
NODES = 10


@answers("theory", CITATIONS)
@in_double
def mean_field(
    M0: Any,
    q0: Any,
    P: Any,
    a: Any,
    a_star: Any,
    activation: Any,
    rate: float,
    noise: float,
    times: Sequence[float] | np.ndarray,
    self_term: bool = True,
    d: int | None = None,
    tolerance: float = 1e-7,
) -> Findings:
    r"""Particles $(m_i,q_i)$ of a wide committee with fixed second layer.

    Args:
        M0: overlaps with the teacher (p, k), or (start, p, k): several starts are integrated with common steps, until
            the first of them diverges.
        q0: squared norms of the orthogonal parts (p,), (start, p), or one number.
        P, a, a_star: teacher Gram matrix (k, k), invertible; second layers (p,) and (k,), or one number each.
        activation: an `Activation`, a name or a formula. `square` in closed form, $O(pk^2)$; others by 24 Hermite
            degrees for the two-point kernels, $O(p^2)$, and 1024 frozen Sobol points for the noise of SGD, $O(p)$.
            A kink is allowed at zero.
        rate, noise: $\gamma$ (its noise term is of order $\gamma/p$; 0 is gradient flow) and the label variance.
        times: increasing, $t=\text{steps}\cdot\gamma/(dp)$.
        self_term: whether a neuron's kernel with itself uses $Q_{ii}=m_i^\top P^{-1}m_i+q_i$ (a network of width $p$)
            or $m_i^\top P^{-1}m_i$ (particles that stand for $p=\infty$). It is the leading term in $1/p$.
        d: the dimension, at least k + 2: kernels of different neurons are averaged over
            $\xi\sim(1-\xi^2)^{(D-3)/2}$, $D=d-k$, by 10 Gauss–Gegenbauer nodes. For `square` this is explicit,
            $\dot q_i\mathrel{-}=\frac8pa_iq_i\sum_{j\ne i}a_jq_j/D$ and risk
            $+\frac1{p^2}\sum_{i\ne j}a_ia_jq_iq_j/D$. Exact as $p\to\infty$ at fixed $d$ and $\gamma/p\to0$; the
            noise term of SGD, itself of order $\gamma/p$, is left at $d=\infty$. None is $d=\infty$.
        tolerance: relative tolerance of the Runge–Kutta 5(4) steps, between 1e-12 and 0.1; the absolute one is a
            hundredth of it.

    Returns:
        `excess_risk` (time), `overlap` (time, neuron, latent), `orthogonal_norm` (time, neuron), with a first dimension
        `start` where there are several.
    """
    overlap, teacher = (np.atleast_2d(np.asarray(value, dtype=float)) for value in (M0, P))
    p, k = overlap.shape[-2:]
    norms = np.broadcast_to(np.asarray(q0, dtype=float), overlap.shape[:-1])
    second = np.broadcast_to(np.asarray(a, dtype=float), (p,))
    read_out = np.broadcast_to(np.asarray(a_star, dtype=float), (k,))
    grid = np.atleast_1d(np.asarray(times, dtype=float))
    function = as_activation(activation)
    square = function.formula in ("square", "z**2")
    _check(overlap, norms, teacher, function, rate, noise, grid, d)
    if not 1e-12 <= tolerance <= 0.1:
        raise InputError(f"tolerance must be between 1e-12 and 0.1, got {tolerance!r}.")
    numbers = np.array([rate, noise, 0.0 if d is None else 1.0 / (d - k), float(self_term)])
    parts = (np.linalg.inv(teacher), teacher, second, read_out, numbers)
    cosines = _cosines(None if square or d is None else d - k)
    points = sobol_normals(POINTS, p + k) if rate > 0.0 and not square else np.zeros((1, p + k))
    known = () if square else jax.tree.map(jnp.asarray, (*parts, points, cosines))

    def fields(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes and excess risks, states along a leading axis."""
        if square:
            return square_slopes(states, *parts)
        found = [_slopes(function.function, rate > 0.0, state, *known) for state in states]
        return np.stack([np.asarray(moved) for moved, _ in found]), np.array([float(risk) for _, risk in found])

    def slope(t: float, state: np.ndarray) -> np.ndarray:
        return fields(state.reshape(-1, p, k + 1))[0].ravel()

    start = np.concatenate([overlap, norms[..., None]], axis=-1).ravel()
    last, fine = max(grid[-1], 1e-12), 1e-2 * tolerance
    solution = solve_ivp(slope, (0.0, last), start, "RK45", t_eval=grid, rtol=tolerance, atol=fine)
    reached = solution.t.size == grid.size
    states = solution.y.T.reshape(-1, *overlap.shape[:-2], p, k + 1)
    risk = fields(states.reshape(-1, p, k + 1))[1].reshape(states.shape[:-2])
    variables = {
        "excess_risk": (("time",), risk),
        "overlap": (("time", "neuron", "latent"), states[..., :k]),
        "orthogonal_norm": (("time", "neuron"), states[..., k]),
    }
    if overlap.ndim == 3:
        variables = {name: (("start", *dims), np.swapaxes(values, 0, 1)) for name, (dims, values) in variables.items()}
    dataset = labelled(variables, coords={"time": grid[: solution.t.size]})
    status = f"{p} particles." if reached else f"diverged at t = {solution.t[-1]:.4g}: take a smaller rate."
    statistics = {"evaluations": float(solution.nfev)}
    return Findings(dataset, reached, status, statistics)


@partial(jax.jit, static_argnums=(0, 1))
def _slopes(
    function: Any,
    noisy: bool,
    state: jax.Array,
    inverse: jax.Array,
    teacher: jax.Array,
    second: jax.Array,
    read_out: jax.Array,
    numbers: jax.Array,
    points: jax.Array,
    cosines: tuple[jax.Array, jax.Array],
) -> tuple[jax.Array, jax.Array]:
    """Time derivative of (m, q), (p, k + 1), and the excess risk."""
    rate, noise, _, self_term = numbers
    p, k = second.shape[0], read_out.shape[0]
    overlap, rest = state[:, :k], state[:, k]
    aligned = overlap @ inverse @ overlap.T
    length = jnp.diagonal(aligned) + rest
    kernel_length = jnp.diagonal(aligned) + self_term * rest
    signed = jnp.concatenate([-second / p, read_out / k])
    # Columns: students, then teachers; the diagonal entry is the neuron's kernel with itself.
    cross = jnp.concatenate([aligned.at[jnp.arange(p), jnp.arange(p)].set(kernel_length), overlap], axis=1)
    variance = jnp.concatenate([length, jnp.diagonal(teacher)])
    rows = jnp.concatenate([overlap, teacher], axis=0)
    joint = jnp.concatenate([cross, jnp.concatenate([overlap.T, teacher], axis=1)], axis=0)
    coefficients = _coefficients(function, variance)
    # Without the self-term a particle meets another of its kind, whose orthogonal part points elsewhere.
    apart = jnp.sqrt(rest[:, None] * rest) * (1.0 - self_term * jnp.eye(p))
    apart = jnp.pad(apart, ((0, k), (0, k)))

    def average(pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
        cosine, weight = pair
        turned = joint + cosine * apart
        slopes, curves, values = _kernels(coefficients, variance, turned)
        return weight * slopes[:p], weight * curves[:p], weight * slopes[:p] * turned[:p], weight * values

    parts = (part.sum(axis=0) for part in jax.lax.map(average, cosines))
    slope_slope, curve_value, slope_along, pair_value = parts
    bend = curve_value @ signed
    drift = second[:, None] * (bend[:, None] * overlap + (slope_slope * signed) @ rows)
    radial = second * (bend * length + slope_along @ signed)
    risk = 0.5 * signed @ pair_value @ signed
    spread = jnp.zeros(p)
    if noisy:
        latent = points[:, p:] @ jnp.linalg.cholesky(teacher).T
        fields = latent @ (inverse @ overlap.T) + jnp.sqrt(jnp.maximum(rest, 0.0)) * points[:, :p]
        values, slopes = jax.jvp(function, (fields,), (jnp.ones_like(fields),))
        error = function(latent) @ read_out / k - values @ second / p
        spread = (slopes**2 * (error[:, None] ** 2 + noise)).mean(axis=0)
    grown = 2.0 * radial + rate / p * second**2 * spread
    moved = grown - 2.0 * jnp.einsum("ir,rs,is->i", overlap, inverse, drift)
    return jnp.concatenate([drift, moved[:, None]], axis=1), risk


def _kernels(
    coefficients: jax.Array, variance: jax.Array, covariance: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""$E[\sigma'_i\sigma'_b]$, $E[\sigma''_i\sigma_b]$ and $E[\sigma_i\sigma_b]$ by Horner in the correlation."""
    size = jnp.sqrt(variance[:, None] * variance)
    correlation = covariance / size
    slopes, curves, values = jnp.zeros_like(covariance), jnp.zeros_like(covariance), jnp.zeros_like(covariance)
    for m in range(DEGREES - 2, -1, -1):
        slopes = slopes * correlation + (m + 1) * coefficients[:, m + 1, None] * coefficients[:, m + 1]
        curves = curves * correlation + ((m + 1) * (m + 2)) ** 0.5 * coefficients[:, m + 2, None] * coefficients[:, m]
    for m in range(DEGREES - 1, -1, -1):
        values = values * correlation + coefficients[:, m, None] * coefficients[:, m]
    return slopes / size, curves / variance[:, None], values


def _cosines(dimension: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the overlap of two uniform unit vectors; None: orthogonal."""
    if dimension is None:
        return np.zeros(1), np.ones(1)
    if dimension == 2:
        # The arcsine law, where Gegenbauer's exponent is its limit 0.
        return np.cos((2 * np.arange(NODES) + 1) * np.pi / (2 * NODES)), np.full(NODES, 1.0 / NODES)
    nodes, weights = roots_gegenbauer(NODES, 0.5 * dimension - 1.0)
    return nodes, weights / weights.sum()


def _coefficients(function: Any, variance: jax.Array) -> jax.Array:
    r"""$c_m(q)=E[\sigma(\sqrt q\,\xi)\,he_m(\xi)]$ for every variance $q$, (count, DEGREES + 1).

    Gauss–Legendre panels that meet at zero, where a kink may be.
    """
    nodes, weights, basis = _panels()
    return (function(jnp.sqrt(variance)[:, None] * nodes) * weights) @ basis.T


def _panels() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    legendre, own = np.polynomial.legendre.leggauss(40)
    edges = np.array([-10.0, -5.0, -2.0, 0.0, 2.0, 5.0, 10.0])
    half = np.diff(edges) / 2.0
    nodes = (edges[:-1, None] + half[:, None] * (legendre + 1.0)).ravel()
    weights = (half[:, None] * own).ravel() * np.exp(-(nodes**2) / 2.0) / np.sqrt(2.0 * np.pi)
    basis = [np.ones_like(nodes), nodes]
    for m in range(1, DEGREES):
        basis.append((nodes * basis[m] - m**0.5 * basis[m - 1]) / (m + 1) ** 0.5)
    return nodes, weights, np.array(basis)


def _check(
    overlap: np.ndarray,
    norms: np.ndarray,
    teacher: np.ndarray,
    function: Activation,
    rate: float,
    noise: float,
    grid: np.ndarray,
    d: int | None,
) -> None:
    k = overlap.shape[-1]
    if overlap.ndim > 3:
        raise InputError(f"M0 must have shape (p, k) or (start, p, k), got {overlap.shape}.")
    if teacher.shape != (k, k) or not np.allclose(teacher, teacher.T):
        raise InputError(f"P must be a symmetric matrix of shape ({k}, {k}), got shape {teacher.shape}.")
    smallest = float(np.linalg.eigvalsh(teacher)[0])
    if not smallest > 1e-12 * np.trace(teacher):
        raise InputError(f"P must be positive definite in the mean-field reduction, got eigenvalue {smallest:.3g}.")
    if not (norms >= 0.0).all():
        raise InputError(f"q0 must not be negative, got {norms.min():g}.")
    if not rate >= 0.0:
        raise InputError(f"rate must not be negative, got {rate}.")
    if not noise >= 0.0:
        raise InputError(f"noise must not be negative, got {noise}.")
    if grid.ndim != 1 or grid[0] < 0.0 or (np.diff(grid) <= 0.0).any():
        raise InputError("times must be an increasing list of non-negative numbers.")
    if d is not None and not (d == int(d) and d >= k + 2):
        raise InputError(f"d must be a whole number of at least k + 2 = {k + 2}, got {d}.")
    if any(point != 0.0 for point in function.breakpoints):
        raise InputError(f"activation must have no kink away from 0 here, got {function.label}.")
