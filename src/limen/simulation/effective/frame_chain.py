r"""The exact chain of the overlaps of frames on the Stiefel manifold: steps of SGD at a cost that does not grow with N.

A step is $\tilde X=X-\frac\delta N(ca^\top-SX)$, $S=\frac12(cs^\top+sc^\top)$, and back to the manifold by
$X\leftarrow(\tilde X\tilde X^\top)^{-1/2}\tilde X$. It reaches the overlaps $M=X\Theta^\top$ only through the fields
$s_*=\Theta a\sim N(0,I)$, $s=Ms_*+Rw$ with $RR^\top=I-MM^\top$, and $|a|^2=|s_*|^2+|w|^2+\chi^2_{N-2k}$:
$$\tilde X\tilde X^\top=I+\tfrac{\delta^2}{N^2}\big(|a|^2cc^\top-cs^\top S-Ssc^\top+S^2\big).$$
The law of $M$ is that of SGD in all $N$ dimensions, up to the cube root of Wilson and Hilferty for $\chi^2$ (relative
error below $10^{-3}/N$ in what it moves).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import stream_key
from limen.precision import in_double
from limen.problem import InputError, MultiIndex
from limen.simulation.effective.recorded_runs import recorded_steps


@in_double
def chain_lengths(problem: MultiIndex, times: np.ndarray, d: int, seed: int, runs: int) -> np.ndarray:
    r"""$\lVert M\rVert_F/\sqrt k$ (runs, times) of `runs` independent runs from random starts."""
    k = problem.directions
    if d <= 2 * k:
        raise InputError(f"d must be above {2 * k}, twice the directions, got {d}.")
    steps = recorded_steps(problem.step, times, d)
    key = stream_key(seed, d, "frame chain")
    start = jax.random.normal(jax.random.fold_in(key, 0), (runs, k, d))
    frames = np.linalg.qr(np.swapaxes(np.asarray(start), 1, 2))[0][:, :k]
    state = jnp.asarray(np.swapaxes(frames, 1, 2))
    advance = _chain(problem.target.function, problem.loss.slope, k)
    found, taken = [], 0
    for step in steps.whole:
        if step > taken:
            state = advance(state, key, taken, int(step), d, problem.step / d, problem.target.noise**0.5)
            taken = int(step)
        found.append(np.sqrt(np.sum(np.asarray(state) ** 2, axis=(1, 2)) / k))
    return steps.at_times(np.stack(found, axis=1), axis=1)


@lru_cache(maxsize=64)
def _chain(link: Callable[[Any, Any], Any], slope: Callable[[Any, Any], Any], k: int) -> Callable[..., Any]:
    student = jax.vmap(jax.value_and_grad(lambda s: link(s, 0.0)))

    @jax.jit
    def advance(state: Any, key: Any, first: Any, last: Any, d: Any, rate: Any, scale: Any) -> Any:
        runs, rest = state.shape[0], d - 2.0 * k

        def move(i: Any, overlap: Any) -> Any:
            normals = jax.random.normal(jax.random.fold_in(key, i + 1), (runs, 2 * k + 2))
            along, free, noise = normals[:, :k], normals[:, k : 2 * k], normals[:, 2 * k]
            others = rest * (1.0 - 2.0 / (9.0 * rest) + normals[:, 2 * k + 1] * jnp.sqrt(2.0 / (9.0 * rest))) ** 3
            square = (along**2).sum(axis=1) + (free**2).sum(axis=1) + others
            fields = jnp.einsum("rij,rj->ri", overlap, along) + _free_part(overlap, free)
            outputs, gradients = student(fields)
            pull = slope(link(along, jnp.zeros(runs)) + scale * noise, outputs)[:, None] * gradients
            inside = pull[:, :, None] * fields[:, None, :]
            inside = 0.5 * (inside + jnp.swapaxes(inside, 1, 2))
            moved = overlap - rate * (pull[:, :, None] * along[:, None, :] - inside @ overlap)
            # Of the moved frame with itself: the first order vanishes, c a^T X^T = c s^T.
            crossed = pull[:, :, None] * fields[:, None, :]
            crossed = crossed @ inside
            excess = square[:, None, None] * pull[:, :, None] * pull[:, None, :]
            excess = rate**2 * (excess - crossed - jnp.swapaxes(crossed, 1, 2) + inside @ inside)
            return _inverse_root(jnp.eye(k) + excess) @ moved

        return jax.lax.fori_loop(first, last, move, state)

    return advance


def _inverse_root(gram: Any) -> Any:
    """The inverse square root of positive matrices (runs, k, k); of two rows in closed form, by Cayley and Hamilton."""
    if gram.shape[1] != 2:
        values, vectors = jnp.linalg.eigh(gram)
        return (vectors / jnp.sqrt(values)[:, None, :]) @ jnp.swapaxes(vectors, 1, 2)
    first, last, off = gram[:, 0, 0], gram[:, 1, 1], gram[:, 0, 1]
    root = jnp.sqrt(first * last - off**2)
    adjugate = jnp.stack([jnp.stack([last, -off], axis=1), jnp.stack([-off, first], axis=1)], axis=1)
    scale = root * jnp.sqrt(first + last + 2.0 * root)
    return (adjugate + root[:, None, None] * jnp.eye(2)) / scale[:, None, None]


def _free_part(overlap: Any, free: Any) -> Any:
    """$Rw$ with the Cholesky factor of $I-MM^T$, written out: k is at most four and the runs are many."""
    k = overlap.shape[1]
    gram = jnp.eye(k) - overlap @ jnp.swapaxes(overlap, 1, 2)
    factor: list[list[Any]] = [[None] * k for _ in range(k)]
    for i in range(k):
        for j in range(i + 1):
            left = gram[:, i, j] - sum((factor[i][n] * factor[j][n] for n in range(j)), jnp.zeros(overlap.shape[0]))
            root = jnp.sqrt(jnp.maximum(left, 0.0))
            factor[i][j] = root if i == j else left / jnp.maximum(factor[j][j], 1e-12)
    rows = [sum((factor[i][j] * free[:, j] for j in range(i + 1)), jnp.zeros(overlap.shape[0])) for i in range(k)]
    return jnp.stack(rows, axis=1)
