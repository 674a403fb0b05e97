r"""Points with given values of the statistics: a random point, then Gauss–Newton.

$x\leftarrow x+s\,J^\top(JJ^\top)^{-1}(u_*-u(x))$, the shortest correction, with $s$ halved until the residual falls.
Near a solution convergence is quadratic. $O(k)$ gradients of the statistics an iteration.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from limen.problem.families.user_model import UserModel
from limen.problem.spec import InputError

MOST_ITERATIONS = 80
CONVERGED = 1e-9
HALVINGS = 8


@partial(jax.jit, static_argnums=0)
def lifted(model: UserModel, value: ArrayLike, starts: ArrayLike) -> tuple[jax.Array, jax.Array]:
    """Points (lift, N) with statistics `value` (lift, k) near `starts` (lift, N), and the residuals left (lift,)."""
    return jax.vmap(lambda one, start: _lift_one(model, one, start))(value, starts)


def _lift_one(model: UserModel, value: jax.Array, start: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Gauss–Newton from one start; the residual is relative to 1 + |value|."""
    scale = 1.0 + jnp.abs(value)

    def residual(x):
        return jnp.max(jnp.abs((value - model.measure(x)) / scale))

    def correction(x):
        rows = jax.jacrev(model.measure)(x)
        gram = rows @ rows.T
        # Keeps the solve finite where the statistics are stationary; far below the spectrum elsewhere.
        floor = 1e-14 * jnp.trace(gram) + 1e-300
        return rows.T @ jnp.linalg.solve(gram + floor * jnp.eye(len(value)), value - model.measure(x))

    def improve(state):
        x, size, count = state
        shift = correction(x)
        trials = x + 0.5 ** jnp.arange(HALVINGS)[:, None] * shift
        sizes = jax.vmap(residual)(trials)
        sizes = jnp.where(jnp.isfinite(sizes), sizes, jnp.inf)
        best = jnp.argmax(sizes < size)
        found = jnp.any(sizes < size)
        return (
            jnp.where(found, trials[best], x),
            jnp.where(found, sizes[best], size),
            jnp.where(found, count + 1, MOST_ITERATIONS),
        )

    def unfinished(state):
        return (state[1] > CONVERGED) & (state[2] < MOST_ITERATIONS)

    x, size, _ = jax.lax.while_loop(unfinished, improve, (start, residual(start), jnp.asarray(0)))
    return x, size


def check_lifted(value: np.ndarray, residuals: np.ndarray) -> None:
    """Refuses a value that some lift did not reach."""
    worst = float(np.max(np.where(np.isfinite(residuals), residuals, np.inf)))
    if worst > 1e-6:
        missed = int(np.sum(~(residuals <= 1e-6)))
        shown = np.array2string(value, precision=4, separator=", ")
        raise InputError(
            f"u = {shown} was not reached by {missed} of {len(residuals)} lifts (relative residual {worst:.2g}): the "
            f"statistics cannot take this value, or only where they are stationary."
        )


def normalized_singular_values(model: UserModel, x: np.ndarray) -> np.ndarray:
    """Singular values of the Jacobian of the statistics, each row divided by its norm."""
    rows = np.asarray(_jacobian(model, x))
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.linalg.svd(rows / np.where(norms > 0.0, norms, 1.0), compute_uv=False)


@partial(jax.jit, static_argnums=0)
def _jacobian(model: UserModel, x: jax.Array) -> jax.Array:
    return jax.jacrev(model.measure)(x)
