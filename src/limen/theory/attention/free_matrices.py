r"""Attention with random matrices as $d\to\infty$: tokens move on the words $V^kx_j$, which become orthogonal.

Let $V$ be random and independent of $B=Q^\top K$, and $n$ independent uniform tokens be fixed as $d\to\infty$. What a
token becomes lies in the span of $V^kx_j$. Orthonormalised for each $j$, these vectors turn $V$ into a Jacobi matrix
$J$ that depends on its law alone, the same for every $j$, and different $j$ stay orthogonal:

- `ginibre` ($G/\sqrt d$): $V^kx$ are orthonormal themselves, $J$ is the shift;
- `wigner`, `goe` (norm 2): $J$ has 1 beside the diagonal, 0 on it (the semicircle);
- `wishart` ($GG^\top/d$): 1 beside the diagonal, on it 1, 2, 2, ... (Marchenko–Pastur at ratio one);
- the identity: $J=1$.

On these orthonormal vectors $B$ is a matrix of independent standard normals (`ginibre`), or a symmetric one with
variance one (`wigner`) or two (`goe`) on the diagonal. So the limit is attention itself, in $n$ times as many
dimensions as words are needed, with $V=1_n\otimes J$ and $B$ Gaussian: random through $B$ alone.
"""

import numpy as np
import xarray as xr

from limen.checks import integer, positive
from limen.machine.memory import check_memory
from limen.method import Method
from limen.problem import SelfAttention
from limen.result import Findings

CITATIONS = ("geshkovski2023",)
CLUSTERED = 1e-3
STEP, DRAWS = 0.05, 128
# Weight on the last words beyond which more of them are needed.
TRUNCATED = 1e-6
GROWING = "it has no limit: x^T B x' contains sqrt(d) <x, x'>{}, so that attention sharpens with d at fixed beta."


def refuses(problem: object) -> str | None:
    """Why the limit does not exist or is not this one, or None."""
    if not isinstance(problem, SelfAttention):
        return "it solves SelfAttention problems."
    if problem.feed_forward is not None:
        return "it has no feed_forward: fixed weights have no limit of many dimensions."
    if isinstance(problem.query_key, tuple) or isinstance(problem.value, tuple):
        return "it needs random matrices, or the identity: a given matrix has no limit of many dimensions."
    if problem.noise > 0.0:
        return "it has no noise: in many dimensions Brownian motion of fixed strength outruns every attention."
    if problem.query_key == "wishart":
        return GROWING.format("")
    if problem.value == "query-key" and problem.query_key is not None:
        return GROWING.format(" along V")
    if problem.value == "query-key":
        return "it has no limit: the value matrix 1/sqrt(d) vanishes."
    if problem.heads > 1 and not (problem.query_key is None and problem.value is None):
        return "it needs one head: words of several matrices grow in number as a tree."
    return None


def solve(
    problem: SelfAttention,
    times: np.ndarray,
    draws: int = DRAWS,
    step: float = STEP,
    words: int | None = None,
    seed: int = 0,
) -> Findings:
    r"""Mean cosine and share of pairs that have met, of $n$ tokens under random $B$ and $V$, as $d\to\infty$.

    Means over `draws` Gaussian $B$ with their standard errors (`mean_cosine_error`, 0 where $B$ is the identity and the
    limit is not random). `words` is the number of $V^k$ kept ($T+6\sqrt T+10$ for the last time $T$ if not given): if
    the last of them carries weight, `ok` is False. `step` is that of a Runge–Kutta method of order four. Cost:
    $O(\text{draws}\,n\,(n\,\text{words})^2)$ per step. At finite $d$ tokens start $d^{-1/2}$ away from orthogonal,
    which an unstable start amplifies: times must be short against $\log d$.
    """
    step, count = positive("step", step), integer("draws", draws, 1)
    grid = np.asarray(times, dtype=float)
    jacobi = _jacobi(problem, grid[-1], words)
    size = problem.tokens * len(jacobi)
    check_memory("draws x words", 8.0 * count * size * (size + 8 * problem.tokens), "take fewer")
    query_key = _query_key(problem, size, count, seed)
    state = np.zeros((1 if query_key is None else count, problem.tokens, problem.tokens, len(jacobi)))
    state[:, np.arange(problem.tokens), np.arange(problem.tokens), 0] = 1.0
    cosines, met, clock, lost = [], [], 0.0, 0.0
    for moment in grid:
        pieces = int(np.ceil((moment - clock) / step - 1e-9))
        for _ in range(pieces):
            state = _advance(state, (moment - clock) / pieces, problem, query_key, jacobi)
        clock = moment
        if len(jacobi) > 1:
            lost = max(lost, float((state[..., -1] ** 2).sum(axis=2).max()))
        flat = state.reshape(len(state), problem.tokens, size)
        pairs = (flat @ flat.swapaxes(1, 2))[:, *np.triu_indices(problem.tokens, 1)]
        cosines.append(pairs.mean(axis=1))
        met.append((pairs >= 1.0 - CLUSTERED).mean(axis=1))
    rows = {"mean_cosine": np.array(cosines), "clustered_pairs": np.array(met)}
    dataset = xr.Dataset(coords={"time": grid})
    for name, values in rows.items():
        spread = values.std(axis=1, ddof=1) / np.sqrt(count) if values.shape[1] > 1 else np.zeros(grid.size)
        dataset[name] = ("time", values.mean(axis=1), {"error": f"{name}_error"})
        dataset[f"{name}_error"] = ("time", spread)
    ok = lost <= TRUNCATED
    status = f"{len(jacobi)} words, {len(state)} draws of the query-key matrix."
    if not ok:
        status = f"the last of {len(jacobi)} words carries the weight {lost:.1e}: words must be larger."
    return Findings(dataset, ok, status, {"words": float(len(jacobi)), "lost_weight": lost})


def _jacobi(problem: SelfAttention, last: float, words: int | None) -> np.ndarray:
    """The value matrix on orthonormal words of one token, as columns of images."""
    if problem.value is None:
        return np.ones((1, 1)) * problem.heads
    count = int(np.ceil(last + 6.0 * np.sqrt(last) + 10.0)) if words is None else integer("words", words, 2)
    up = np.eye(count, k=-1)
    if problem.value == "ginibre":
        return up
    diagonal = np.where(np.arange(count) == 0, 1.0, 2.0) if problem.value == "wishart" else np.zeros(count)
    return up + up.T + np.diag(diagonal)


def _query_key(problem: SelfAttention, size: int, draws: int, seed: int) -> np.ndarray | None:
    if problem.query_key is None:
        return None
    normal = np.random.default_rng([seed, size]).standard_normal((draws, size, size))
    if problem.query_key == "ginibre":
        return normal
    if problem.query_key == "goe":
        return (normal + normal.swapaxes(1, 2)) / np.sqrt(2.0)
    upper = np.triu(normal)
    return upper + np.triu(normal, 1).swapaxes(1, 2)


def _advance(
    state: np.ndarray, length: float, problem: SelfAttention, query_key: np.ndarray | None, jacobi: np.ndarray
) -> np.ndarray:
    """One step of the classical method; the length of every token is restored at its end."""
    slopes = []
    for part in (0.0, 0.5, 0.5, 1.0):
        place = state + length * part * slopes[-1] if slopes else state
        slopes.append(_velocity(place, problem, query_key, jacobi))
    moved = state + length / 6.0 * (slopes[0] + 2.0 * slopes[1] + 2.0 * slopes[2] + slopes[3])
    return moved / np.sqrt((moved**2).sum(axis=(2, 3), keepdims=True))


def _velocity(
    state: np.ndarray, problem: SelfAttention, query_key: np.ndarray | None, jacobi: np.ndarray
) -> np.ndarray:
    systems, n = state.shape[:2]
    flat = state.reshape(systems, n, -1)
    queries = flat if query_key is None else flat @ query_key
    scores = problem.beta * (queries @ flat.swapaxes(1, 2))
    if problem.normalized:
        attention = np.exp(scores - scores.max(axis=2, keepdims=True))
        attention /= attention.sum(axis=2, keepdims=True)
    else:
        attention = np.exp(scores) / n
    pull = (attention @ flat).reshape(state.shape) @ jacobi.T
    along = (pull * state).sum(axis=(2, 3), keepdims=True) / (state**2).sum(axis=(2, 3), keepdims=True)
    return pull - along * state


free_matrices = Method("free-matrices", "theory", CITATIONS, refuses, solve)
