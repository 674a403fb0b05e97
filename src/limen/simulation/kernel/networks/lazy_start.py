r"""Measured on one start of two layers: what the bound of lazy training takes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from limen.precision import in_double
from limen.problem.activations import as_activation
from limen.simulation.kernel.networks.lazy_training import draw_lazy_start

Floats = NDArray[np.float64]
# Places from which the largest second derivative is climbed to, and steps of each climb.
CLIMBS, STEPS = 8, 30


class MeasuredStart(NamedTuple):
    r"""At $\alpha=1$, $f_0=0$: `residual` $\|y\|$, extreme singular values of the Jacobian, its local `lipschitz`
    constant, and the `distance` $\sqrt{y^\top K^{-1}y}$ to the nearest interpolator of the linear network."""

    residual: float
    sigma_min: float
    sigma_max: float
    lipschitz: float
    distance: float


@in_double
def measured_start(activation: str, samples: int, dimension: int, width: int, seed: int) -> MeasuredStart:
    r"""Draws inputs $N(0,I_d)$, labels $\pm1$ and mirrored neurons, and measures them.

    The kernel is $\frac1m(XX^\top)\circ(SS^\top)$, $S=\sigma'(XW^\top)$ (n, m). The norm of the second derivative is
    $\frac1{\sqrt m}\max_j\max_{|u|=1}\sqrt{\sum_i\sigma''(\langle w_j,x_i\rangle)^2\langle u,x_i\rangle^4}$: a convex
    function of $u$, climbed by $u\leftarrow\nabla/|\nabla|$ from the inputs and neurons with the largest
    $|\sigma''|\,|x_i|^2$. $O(n^2(n+m))$.
    """
    x, y, weights, _ = draw_lazy_start(samples, dimension, width, True, seed)
    function = as_activation(activation).function
    slope = jax.vmap(jax.grad(function))
    fields = x @ weights[: width // 2].T
    slopes = np.asarray(slope(jnp.asarray(fields.ravel()))).reshape(fields.shape)
    bends = np.asarray(jax.vmap(jax.grad(jax.grad(function)))(jnp.asarray(fields.ravel()))).reshape(fields.shape)
    kernel = (slopes @ slopes.T) * (x @ x.T) * (2.0 / width)
    values = np.linalg.eigvalsh(kernel)
    distance = float(np.sqrt(y @ np.linalg.solve(kernel, y)))
    lipschitz = _largest_bend(x, bends) / np.sqrt(width)
    return MeasuredStart(
        float(np.linalg.norm(y)), float(np.sqrt(values[0])), float(np.sqrt(values[-1])), lipschitz, distance
    )


def _largest_bend(x: Floats, bends: Floats) -> float:
    sizes = np.abs(bends) * np.sum(x**2, axis=1)[:, None]
    best = 0.0
    for place in np.argsort(sizes.ravel())[-CLIMBS:]:
        row, neuron = np.unravel_index(place, sizes.shape)
        squares, along = bends[:, neuron] ** 2, x[row] / np.linalg.norm(x[row])
        for _ in range(STEPS):
            uphill = x.T @ (squares * (x @ along) ** 3)
            along = uphill / np.linalg.norm(uphill)
        best = max(best, float(np.sqrt(squares @ (x @ along) ** 4)))
    return best
