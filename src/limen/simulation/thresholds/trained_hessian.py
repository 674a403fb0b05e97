r"""The largest eigenvalues of $m\nabla^2\hat R$ in everything that is trained, along one training."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import eigh

from limen.precision import in_double
from limen.problem import TwoLayer
from limen.simulation.descent.trained_weights import TrainedWeights
from limen.simulation.spectra.spectrum import top_eigenspace
from limen.simulation.two_layer_gradient import Functions, functions_of

# Up to this many rows the matrix is formed: without an outlier Lanczos is slow at the edge of a bulk.
LARGEST_DENSE = 2000


class Curvature(NamedTuple):
    """Along a training: `eigenvalue` (time, count), descending, and `train_loss` (time,)."""

    eigenvalue: np.ndarray
    train_loss: np.ndarray


def trained_top(problem: TwoLayer, trained: TrainedWeights, count: int = 1) -> Curvature:
    """The `count` largest eigenvalues at every time of a training, and the train loss.

    Parameters are the first layer, and the second where it is trained. Second derivatives of each sample's loss in its
    fields and in the second layer are automatic.
    """
    values, losses = zip(*(_top(problem, trained, i, count) for i in range(len(trained.first_layer))), strict=True)
    return Curvature(np.array(values), np.array(losses))


def _top(problem: TwoLayer, trained: TrainedWeights, at: int, count: int) -> tuple[np.ndarray, float]:
    x, first = trained.inputs.astype(float), trained.first_layer[at].astype(float)
    (n, d), m = x.shape, len(first)
    parts = (trained.labels, x @ first.T, trained.second_layer[at], trained.bias)
    curvatures, loss = _curvatures(functions_of(problem), parts)
    if not np.isfinite(curvatures).all():
        return np.full(count, np.nan), np.nan
    own = curvatures[:, m:, m:].mean(axis=0) if problem.network.train_second_layer else np.empty((0, 0))
    mixed = curvatures[:, :m, m : m + len(own)]
    size = m * d + len(own)

    def product(vector: np.ndarray) -> np.ndarray:
        fields, outer = x @ vector[: m * d].reshape(m, d).T, vector[m * d :]
        pulls = np.einsum("nij,nj->ni", curvatures[:, :m, :m], fields) + mixed @ outer
        return np.concatenate([(pulls.T @ x).ravel() / n, np.einsum("nij,ni->j", mixed, fields) / n + own @ outer])

    if size > LARGEST_DENSE:
        return top_eigenspace(product, size, count).values, loss
    matrix = np.empty((size, size))
    for i in range(m):
        rows = slice(i * d, (i + 1) * d)
        for j in range(m):
            matrix[rows, j * d : (j + 1) * d] = (x * curvatures[:, i, j, None]).T @ x / n
        matrix[rows, m * d :] = x.T @ mixed[:, i] / n
        matrix[m * d :, rows] = matrix[rows, m * d :].T
    matrix[m * d :, m * d :] = own
    values = eigh(matrix, eigvals_only=True, subset_by_index=(size - count, size - 1))
    return np.asarray(values)[::-1], loss


@in_double
def _curvatures(functions: Functions, parts: tuple[np.ndarray, ...]) -> tuple[np.ndarray, float]:
    """Second derivatives of $m\\ell$ in fields and second layer, (n, 2m, 2m), and the mean of the loss."""
    second, losses = _second_derivatives(functions, *(jnp.asarray(part, float) for part in parts))
    return np.asarray(second), float(losses.mean())


@partial(jax.jit, static_argnums=0)
def _second_derivatives(functions: Functions, labels: Any, fields: Any, second: Any, bias: Any) -> Any:
    m = second.size

    def loss(at: Any, label: Any) -> Any:
        return functions.loss(label, functions.activation(at[:m] + bias) @ at[m:] / m)

    places = jnp.concatenate([fields, jnp.broadcast_to(second, fields.shape)], axis=1)
    return m * jax.vmap(jax.hessian(loss))(places, labels), jax.vmap(loss)(places, labels)
