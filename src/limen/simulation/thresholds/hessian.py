r"""The Hessian of a two-layer network's risk on a fixed sample: dense, or by its products with vectors."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from limen.precision import in_double
from limen.problem import InputError
from limen.problem.activations import Activation, as_activation
from limen.problem.losses import Loss, as_loss
from limen.simulation.spectra.spectrum import Eigenspace, Operator, bottom_eigenspace, top_eigenspace

LARGEST_DENSE = 3000
ALIGNED = 0.1


@dataclass(frozen=True, eq=False)
class NetworkHessian:
    r"""$H=m\nabla^2\hat R$, $\hat R=\frac1n\sum_i\ell(y_i,f(x_i))$, $f(x)=\frac1m\sum_ja_j\sigma(\theta_j\cdot x+b_j)$.

    Derivatives are in the first layer only: `neuron` = None is the whole matrix, of size $md$, neuron by neuron; a
    number is the diagonal block of that neuron, of size $d$. All second derivatives are automatic. Weight decay
    $\lambda$ would add $m\lambda$ to every eigenvalue and is not included.

    `inputs` `(n, d)`, `labels` `(n,)`, `first_layer` `(m, d)`, `second_layer` and `bias` `(m,)`, in double precision.
    """

    inputs: np.ndarray
    labels: np.ndarray
    first_layer: np.ndarray
    second_layer: np.ndarray
    bias: np.ndarray
    activation: Activation
    loss: Loss
    neuron: int | None

    @property
    def size(self) -> int:
        """Rows of the matrix."""
        return self.first_layer.size if self.neuron is None else self.first_layer.shape[1]

    @property
    def operator(self) -> Operator:
        """$v\\mapsto Hv$ without forming the matrix: three products with the inputs."""

        def product(vector: np.ndarray) -> np.ndarray:
            return self._products(np.asarray(vector, dtype=float)[None])[0]

        return product

    def dense(self) -> np.ndarray:
        """The matrix itself, shape `(size, size)`; refused above 3000 rows.

        Each sample adds its second derivatives in the fields $\\theta_j\\cdot x$, automatic too, times $xx^\\top$.
        """
        if self.size > LARGEST_DENSE:
            raise InputError(f"a dense Hessian must have at most {LARGEST_DENSE} rows, got {self.size}.")
        n, d = self.inputs.shape
        curvatures = self._curvatures()
        width = curvatures.shape[1]
        matrix = np.empty((width, d, width, d))
        for i in range(width):
            for j in range(i + 1):
                block = (self.inputs * curvatures[:, i, j, None]).T @ self.inputs / n
                matrix[i, :, j], matrix[j, :, i] = block, block.T
        return 0.5 * (matrix + matrix.transpose(2, 3, 0, 1)).reshape(self.size, self.size)

    def eigenspace(self) -> Eigenspace:
        """All eigenvalues, ascending, and eigenvectors, from the dense matrix."""
        return Eigenspace(*np.linalg.eigh(self.dense()))

    def bottom(self, count: int = 4, seed: int = 0) -> Eigenspace:
        """The `count` smallest eigenvalues, ascending, and their eigenvectors, by Lanczos."""
        return bottom_eigenspace(self.operator, self.size, count, seed)

    def top(self, count: int = 4, seed: int = 0) -> Eigenspace:
        """The `count` largest eigenvalues, descending, and their eigenvectors, by Lanczos."""
        return top_eigenspace(self.operator, self.size, count, seed)

    @in_double
    def _products(self, vectors: np.ndarray) -> np.ndarray:
        return np.asarray(_products(self._arrays, jnp.asarray(vectors), self.activation, self.loss, self.neuron))

    @in_double
    def _curvatures(self) -> np.ndarray:
        x, y, theta, a, b = self._arrays
        return np.asarray(_curvatures((y, x @ theta.T, a, b), self.activation, self.loss, self.neuron))

    @cached_property
    def _arrays(self) -> tuple[Any, ...]:
        arrays = (self.inputs, self.labels, self.first_layer, self.second_layer, self.bias)
        with jax.enable_x64(True):
            return tuple(map(jnp.asarray, arrays))


def network_hessian(
    inputs: ArrayLike,
    labels: ArrayLike,
    first_layer: ArrayLike,
    second_layer: ArrayLike,
    bias: ArrayLike,
    activation: Activation | str,
    loss: Loss | str,
    neuron: int | None = None,
) -> NetworkHessian:
    """The Hessian of a network, trained or not, on the sample given; see `NetworkHessian` for shapes.

    `second_layer` and `bias` may also be one number.
    """
    x, y = np.asarray(inputs, dtype=float), np.asarray(labels, dtype=float)
    theta = np.atleast_2d(np.asarray(first_layer, dtype=float))
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise InputError(f"labels must be one per row of inputs, got shapes {y.shape} and {x.shape}.")
    if theta.ndim != 2 or theta.shape[1] != x.shape[1]:
        raise InputError(f"first_layer must have shape (m, {x.shape[1]}), got {theta.shape}.")
    if neuron is not None and not 0 <= neuron < len(theta):
        raise InputError(f"neuron must be a whole number from 0 to {len(theta) - 1}, or None, got {neuron!r}.")
    a, b = (_per_neuron(part, name, len(theta)) for part, name in ((second_layer, "second_layer"), (bias, "bias")))
    return NetworkHessian(x, y, theta, a, b, as_activation(activation), as_loss(loss), neuron)


def alignment(vectors: np.ndarray, directions: ArrayLike) -> np.ndarray:
    r"""Squared length of each eigenvector inside (any neuron) $\otimes$ (span of `directions`), shape `(count,)`.

    `vectors` `(size, count)` in columns, of the whole matrix or of a block; `directions` `(k, d)`, independent rows.
    """
    rows = np.atleast_2d(np.asarray(directions, dtype=float))
    if vectors.shape[0] % rows.shape[1]:
        raise InputError(f"directions must have as many columns as inputs, got {rows.shape[1]}.")
    basis, _ = np.linalg.qr(rows.T)
    parts = vectors.T.reshape(vectors.shape[1], -1, rows.shape[1]) @ basis
    return np.asarray((parts**2).sum(axis=(1, 2)))


def bulk_edge(extremes: Eigenspace, directions: ArrayLike, aligned: float = ALIGNED) -> float:
    """First eigenvalue, from the end inwards, that is no outlier.

    That is one whose vector has less than `aligned` of its squared length along `directions` `(k, d)`.
    `extremes` as from `bottom` or `top`. The directions must be all those the weights of the Hessian depend on: target
    directions and the neurons themselves. Finite size leaves the edge short of its limit by $O(d^{-2/3})$.
    """
    ordinary = alignment(extremes.vectors, directions) < aligned
    if not ordinary.any():
        raise InputError(f"count must be larger: all {len(ordinary)} eigenvectors lie along the directions given.")
    return float(extremes.values[int(ordinary.argmax())])


@partial(jax.jit, static_argnames=("activation", "loss", "neuron"))
def _products(arrays: tuple[Any, ...], vectors: Any, activation: Activation, loss: Loss, neuron: int | None) -> Any:
    x, y, theta, a, b = arrays
    width = theta.shape[0]

    def risk(moved: Any) -> Any:
        layer = moved.reshape(theta.shape) if neuron is None else theta.at[neuron].set(moved)
        output = activation.function(jnp.einsum("nd,md->nm", x, layer) + b) @ a / width
        return width * loss.function(y, output).mean()

    at = theta.ravel() if neuron is None else theta[neuron]
    return jax.vmap(lambda vector: jax.jvp(jax.grad(risk), (at,), (vector,))[1])(vectors)


@partial(jax.jit, static_argnames=("activation", "loss", "neuron"))
def _curvatures(arrays: tuple[Any, ...], activation: Activation, loss: Loss, neuron: int | None) -> Any:
    """Second derivatives of $m\\ell(y,f)$ in the fields of all neurons, or of one; shape (n, m, m) or (n, 1, 1)."""
    y, fields, a, b = arrays
    width = fields.shape[1]
    chosen = slice(None) if neuron is None else slice(neuron, neuron + 1)

    def risk(moved: Any, field: Any, label: Any) -> Any:
        return width * loss.function(label, activation.function(field.at[chosen].set(moved) + b) @ a / width)

    return jax.vmap(jax.hessian(risk))(fields[:, chosen], fields, y)


def _per_neuron(values: ArrayLike, name: str, width: int) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.shape not in ((), (width,)):
        raise InputError(f"{name} must be one number or {width} (one per neuron), got shape {array.shape}.")
    return np.broadcast_to(array, (width,))
