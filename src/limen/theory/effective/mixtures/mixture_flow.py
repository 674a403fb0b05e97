r"""The limiting flow of multiclass logistic regression on a Gaussian mixture.

With $M$ the coordinates of the rows $x^c$ in an orthonormal basis of the span of the means and $R$ the Gram matrix of
what is orthogonal to it, as $d\to\infty$ with $\delta=c/d$ (Ben Arous, Gheissari, Huang & Jagannath 2023),
$$\dot M=-\beta M-E[e\,Y_\parallel^\top],\qquad\dot R=-2\beta R-E[ew^\top+we^\top]+\tfrac c\lambda E[ee^\top],$$
$e=\pi-y$. Given the class $a$ the logits are $N(M\mu_a,Q/\lambda)$, $Q=MM^\top+R$, and integration by parts leaves only
moments of $\pi$: with $J=\mathrm{diag}(\pi)-\pi\pi^\top$,
$$E[eY_\parallel^\top]=\sum_ap_aE_a[e]\mu_a^\top+\tfrac1\lambda E[J]M,\qquad E[ew^\top]=\tfrac1\lambda E[J]R .$$
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from limen.gaussian.gram_matrices import square_root
from limen.gaussian.starts.mixture_starts import given_start
from limen.method import Method
from limen.problem import GaussianMixture, OverlapStart
from limen.result import Findings
from limen.theory.effective.mixtures.mixture_points import check_points, whitened_points

CITATIONS = ("benarous2023", "benarous2022")
POINTS = 1 << 12
TOLERANCE = 1e-8


class MixtureState(NamedTuple):
    r"""`aligned` $M$ (k, k) in the basis of `GaussianMixture.means`, `orthogonal_gram` $R$ (k, k)."""

    aligned: np.ndarray
    orthogonal_gram: np.ndarray


def refuses(problem: object) -> str | None:
    """Why this flow does not answer the problem, or None."""
    return None if isinstance(problem, GaussianMixture) else "it answers GaussianMixture problems."


def solve(problem: GaussianMixture, times: np.ndarray, points: int = POINTS) -> Findings:
    r"""Overlaps $\langle x^c,\mu_a\rangle$ and the Gram matrix of the orthogonal parts at `times`, as $d\to\infty$.

    A random start has overlaps 0 and the identity, which is what $x^c\sim N(0,I_d/d)$ becomes.
    Variables `overlap` (time, class, mean), `orthogonal_gram` (time, class, class2). Adaptive order 5(4) with frozen
    Sobol points: $O(nk^2)$ per class and evaluation, error of the averages about $10^{-5}$ at the default `points`.
    """
    path = mixture_path(problem, start_state(problem, given_of(problem)), times, check_points(points))
    dataset = xr.Dataset(
        {
            "overlap": (("time", "class", "mean"), path.aligned @ problem.means.T),
            "orthogonal_gram": (("time", "class", "class2"), path.orthogonal_gram),
        },
        coords={"time": times},
    )
    status = "flow of the summary statistics, d to infinity."
    return Findings(dataset, True, status)


def given_of(problem: GaussianMixture) -> OverlapStart | None:
    """The start a problem fixes, or None."""
    return problem.start if isinstance(problem.start, OverlapStart) else None


def start_state(problem: GaussianMixture, start: OverlapStart | None = None) -> MixtureState:
    """The statistics of a start; without one, no overlap and the identity."""
    k = problem.classes
    if start is None:
        return MixtureState(np.zeros((k, k)), np.eye(k))
    given = given_start(start, problem.means, k)
    return MixtureState(given.aligned, given.orthogonal_gram)


def mixture_path(
    problem: GaussianMixture, state: MixtureState, times: np.ndarray, points: int = POINTS
) -> MixtureState:
    """The statistics at `times`, a time axis before each."""
    k = problem.classes
    begin = np.concatenate([state.aligned.ravel(), state.orthogonal_gram.ravel()])

    def slope(_: float, flat: np.ndarray) -> np.ndarray:
        parts = mixture_drift(problem, MixtureState(*flat.reshape(2, k, k)), points)
        return np.concatenate([part.ravel() for part in parts])

    times = np.asarray(times, dtype=float)
    if times[-1] == 0.0:
        flat = np.repeat(begin[None], len(times), axis=0)
    else:
        solution: Any = solve_ivp(slope, (0.0, times[-1]), begin, t_eval=times, rtol=TOLERANCE, atol=0.1 * TOLERANCE)
        if not solution.success:
            raise ArithmeticError(f"the flow could not be integrated: {solution.message}")
        flat = solution.y.T
    return MixtureState(*np.moveaxis(flat.reshape(-1, 2, k, k), 1, 0))


def mixture_drift(problem: GaussianMixture, state: MixtureState, points: int = POINTS) -> MixtureState:
    r"""$(\dot M,\dot R)$. At $\lambda=\infty$ every cloud is a point and $\dot R=-2\beta R$."""
    aligned, gram = state
    k, beta = problem.classes, problem.penalty
    spread = 1.0 / problem.sharpness
    if spread == 0.0:
        noise = np.zeros((1, k))
    else:
        noise = np.sqrt(spread) * whitened_points(k, points) @ square_root(aligned @ aligned.T + gram)
    pull, curvature, square = np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k))
    for a, (weight, mean) in enumerate(zip(problem.weights, problem.means, strict=True)):
        probabilities = softmax(noise + aligned @ mean)
        first = probabilities.mean(axis=0)
        second = probabilities.T @ probabilities / len(probabilities)
        error = first.copy()
        error[a] -= 1.0
        pull += weight * np.outer(error, mean)
        curvature += weight * (np.diag(first) - second)
        square += weight * second
        square[a] -= weight * first
        square[:, a] -= weight * first
        square[a, a] += weight
    leak = spread * curvature @ gram
    return MixtureState(
        -beta * aligned - pull - spread * curvature @ aligned,
        -2.0 * beta * gram - leak - leak.T + problem.step * spread * square,
    )


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


mixture_flow = Method("mixture-flow", "theory", CITATIONS, refuses, solve)
