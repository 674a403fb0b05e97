r"""`predict` for multi-index losses on the Stiefel manifold: the ODE of the $k\times k$ overlaps.

With $s=Xa$, $s_*=\Theta a$, $c=\nabla_sL\in\mathbb R^k$, the gradient along the manifold is
$ca^\top-\frac12(cs^\top+sc^\top)X$, and the way back to it costs $\frac{\delta^2}{2N}cc^\top X$ a step. As
$N\to\infty$, in time $t=\text{steps}\cdot\delta/N$,
$$\dot M=-E[cs_*^\top]+\tfrac12E[cs^\top+sc^\top]\,M-\tfrac\delta2E[cc^\top]\,M,$$
the means over $s_*\sim N(0,I_k)$, $s=Ms_*+(I-MM^\top)^{1/2}w$. One direction gives the equation of `SingleIndex`
(Ben Arous, Gheissari & Jagannath 2021); the corrector and several directions are derived here.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from limen.gaussian.sobol import sobol_normals
from limen.link.leap import first_degree, leap
from limen.method import Method
from limen.precision import in_double
from limen.problem import InputError, MultiIndex, OverlapStart
from limen.problem.families.effective_models import SQUARE
from limen.problem.losses import Loss
from limen.problem.starts import overlap_matrix
from limen.result import Findings

CITATIONS = ("benarous2021", "benarous2022")
POINTS, SCRAMBLES = 2**14, 4
# For the moments at zero overlap.
MANY_POINTS = 2**17
# Far below the error of the points; a finer one would follow every kink that passes a point.
TOLERANCE = 1e-5
NEEDED = (
    "start must be an OverlapStart for this target: its first Hermite products have degree {degree}, so that zero "
    "overlap is at rest and a random start leaves it through the noise of its own size."
)


class Points(NamedTuple):
    """Frozen normals: teacher fields (P, k), free parts of the student's fields (P, k), label noise (P,)."""

    along: np.ndarray
    free: np.ndarray
    noise: np.ndarray


class Escape(NamedTuple):
    r"""How zero overlap is left. `exponent`: the degree of the first Hermite tensor of the target, its information
    exponent; `leap`: the largest degree of a next direction once some are known; `rates` (k²,): growth rates of small
    overlaps, descending, zero unless the exponent is 2."""

    exponent: float
    leap: float
    rates: np.ndarray


def refuses(problem: object) -> str | None:
    """Why this theory does not apply, or None."""
    if not isinstance(problem, MultiIndex):
        return "it solves MultiIndex."
    if isinstance(problem.start, OverlapStart) or first_degree(problem.target) == 1:
        return None
    return NEEDED.format(degree=first_degree(problem.target))


@in_double
def solve(problem: MultiIndex, times: np.ndarray) -> Findings:
    r"""`overlap` (time, neuron, latent) at `times` as $N\to\infty$.

    Means over frozen Sobol points, four scramblings: `overlap_spread` is the error of their mean. Links with kinks are
    smooth enough on these points; the integrator's own tolerance is $10^{-5}$. About a second.
    """
    begin = _start(problem)
    times = np.asarray(times, dtype=float)
    paths = np.array([_path(problem, begin, times, scramble) for scramble in range(SCRAMBLES)])
    mean, spread = paths.mean(axis=0), paths.std(axis=0, ddof=1) / np.sqrt(SCRAMBLES)
    dims = ("time", "neuron", "latent")
    dataset = xr.Dataset(
        {"overlap": (dims, mean, {"error": "overlap_spread", "error_part": 1.0}), "overlap_spread": (dims, spread)},
        coords={"time": times},
    )
    ok = bool(np.isfinite(paths).all() and spread.max() < 0.02)
    error = f"the error of the points is {float(spread.max()):.1e}."
    return Findings(dataset, ok, f"integrated; {error}" if ok else f"{error} Start further from zero or saddle.")


def _start(problem: MultiIndex) -> np.ndarray:
    k = problem.directions
    if isinstance(problem.start, OverlapStart):
        return overlap_matrix(problem.start, k, k)
    degree = first_degree(problem.target)
    if degree > 1:
        raise InputError(NEEDED.format(degree=degree))
    return np.zeros((k, k))


def _path(problem: MultiIndex, begin: np.ndarray, times: np.ndarray, scramble: int) -> np.ndarray:
    k, points = problem.directions, frozen_points(problem.directions, scramble)
    drift = drift_of(problem.target.function, problem.loss.slope)
    scale, step = problem.target.noise**0.5, problem.step

    def rate(t: float, flat: np.ndarray) -> np.ndarray:
        return np.asarray(drift(flat.reshape(k, k), *points, scale, step)).ravel()

    if times[-1] == 0.0:
        return np.broadcast_to(begin, (times.size, k, k))
    found = solve_ivp(rate, (0.0, times[-1]), begin.ravel(), t_eval=times, rtol=TOLERANCE, atol=TOLERANCE)
    return found.y.T.reshape(-1, k, k) if found.success else np.full((times.size, k, k), np.nan)


@lru_cache(maxsize=8)
def frozen_points(k: int, scramble: int, count: int = POINTS) -> Points:
    """Sobol normals with their mirror images."""
    half = sobol_normals(count // 2, 2 * k + 1, scramble)
    whole = np.concatenate([half, -half])
    return Points(whole[:, :k], whole[:, k : 2 * k], whole[:, 2 * k])


@lru_cache(maxsize=64)
def drift_of(link: Callable[[Any, Any], Any], slope: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    r"""$\dot M$ as a function of $M$ (k, k), the `Points`, the deviation of the label noise and the step."""
    student = jax.vmap(jax.value_and_grad(lambda s: link(s, 0.0)))

    @jax.jit
    def drift(overlap: Any, along: Any, free: Any, noise: Any, scale: Any, step: Any) -> Any:
        rest = jnp.eye(overlap.shape[0]) - overlap @ overlap.T
        values, vectors = jnp.linalg.eigh(rest)
        root = (vectors * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T
        fields = along @ overlap.T + free @ root
        outputs, gradients = student(fields)
        labels = link(along, jnp.zeros(along.shape[0])) + scale * noise
        pull = slope(labels, outputs)[:, None] * gradients
        count = along.shape[0]
        inside = pull.T @ fields / count
        back = 0.5 * (inside + inside.T) - 0.5 * step * (pull.T @ pull) / count
        return -(pull.T @ along) / count + back @ overlap

    return drift


@in_double
def stiefel_escape(problem: MultiIndex) -> Escape:
    r"""Information exponent and leap of the target, and the growth rates of small overlaps, for the square loss.

    To first order $\dot M=2HMH-\frac\delta2C\,M$ with $H=E\nabla^2h$ and $C=E[cc^\top]$ at $M=0$: zero repels if the
    largest rate is positive, and SGD leaves it after $\frac N{2A\delta}\log N$ samples at rate $A$. With exponent 1 it
    takes $O(N)$ samples, with exponent $\ell\ge3$ about $N^{\ell-1}$ (Ben Arous, Gheissari & Jagannath 2021).
    """
    if problem.loss != Loss(SQUARE):
        raise InputError(f"loss must be {SQUARE!r} for the escape, got {problem.loss.name!r}.")
    k = problem.directions
    exponent, largest = first_degree(problem.target), leap(problem.target)
    if exponent != 2:
        return Escape(exponent, largest, np.zeros(k * k))
    points, link = frozen_points(k, 0, MANY_POINTS), problem.target.function
    values = np.asarray(link(points.along, np.zeros(len(points.along))))
    # E[(z z^T - 1) h] is the mean second derivative, kinks included.
    bend = (points.along * values[:, None]).T @ points.along / len(values) - values.mean() * np.eye(k)
    student = jax.vmap(jax.value_and_grad(lambda s: link(s, 0.0)))
    outputs, gradients = (np.asarray(part) for part in student(jnp.asarray(points.free)))
    residuals = values + problem.target.noise**0.5 * points.noise - outputs
    pull = -2.0 * residuals[:, None] * gradients
    noise = pull.T @ pull / len(pull)
    growth = 2.0 * np.kron(bend, bend) - 0.5 * problem.step * np.kron(noise, np.eye(k))
    return Escape(2, largest, np.sort(np.linalg.eigvals(growth).real)[::-1])


stiefel_flow = Method("stiefel-flow", "theory", CITATIONS, refuses, solve)
