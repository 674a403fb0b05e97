r"""The Hessian of a trained classifier's loss, by its products with vectors, and what the classes say about it."""

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from limen.precision import in_double
from limen.problem import InputError
from limen.simulation.kernel.classifier import Loss, Weights, class_targets, network_outputs, output_loss, training_loss
from limen.simulation.spectra.spectrum import Operator


@in_double
def hessian_operator(
    weights: Weights,
    inputs: ArrayLike,
    labels: NDArray[np.int64],
    loss: Loss,
    precision: Literal["float32", "float64"] = "float64",
) -> Operator:
    r"""$v\mapsto\nabla^2\hat R\,v$, by forward differentiation of the gradient.

    $v$ is (parameters,), the layers' matrices in order, row by row. The network and its backward signals are computed
    once and kept; a product then costs about two gradients, and no matrix is formed. In `float32` it costs half and has
    an error of some $10^{-7}$ of itself. For `limen.spectra.lanczos` and `top_eigenspace`.

    With $P_k=c_kA_{k-1}W_k$, $A_k=\mathrm{relu}(P_k)$ and backward signals $B_k=\partial\hat R/\partial P_k$, a change
    $V$ of the weights changes $\partial\hat R/\partial W_k=c_kA_{k-1}^\top B_k$ by
    $c_k(\dot A_{k-1}^\top B_k+A_{k-1}^\top\dot B_k)$.
    """
    if precision not in ("float32", "float64"):
        raise InputError(f"precision must be 'float32' or 'float64', got {precision!r}.")
    number = np.dtype(precision).type
    scales = [number((2.0 / len(matrix)) ** 0.5) for matrix in weights]
    layers = [scale * np.asarray(matrix, dtype=precision) for scale, matrix in zip(scales, weights, strict=True)]
    fields, values = [], [np.asarray(inputs, dtype=precision)]
    for matrix in layers:
        fields.append(values[-1] @ matrix)
        values.append(np.maximum(fields[-1], 0))
    # The slope of relu at 0 as JAX has it.
    slopes = [np.heaviside(field, number(0.5)) for field in fields[:-1]]
    targets = class_targets(labels, weights[-1].shape[1], loss).astype(precision)
    signals = [np.asarray(jax.grad(output_loss)(jnp.asarray(fields[-1]), jnp.asarray(targets), loss))]
    for matrix, slope in zip(layers[:0:-1], slopes[::-1], strict=True):
        signals.insert(0, slope * (signals[0] @ matrix.T))
    curvature = _curvature(fields[-1], targets, loss)
    ends = np.cumsum([matrix.size for matrix in layers])

    def product(vector: np.ndarray) -> np.ndarray:
        pieces = zip(scales, np.split(np.asarray(vector, dtype=precision), ends[:-1]), layers, strict=True)
        changes = [scale * piece.reshape(matrix.shape) for scale, piece, matrix in pieces]
        moved, field = [], values[0] @ changes[0]
        for k in range(1, len(layers)):
            moved.append(np.multiply(slopes[k - 1], field, out=field))
            field = values[k] @ changes[k]
            field += moved[-1] @ layers[k]
        signal, found = curvature(field), []
        for k in range(len(layers) - 1, 0, -1):
            found.append(scales[k] * (moved[k - 1].T @ signals[k] + values[k].T @ signal))
            signal = signal @ layers[k].T
            signal += signals[k] @ changes[k].T
            signal *= slopes[k - 1]
        found.append(scales[0] * (values[0].T @ signal))
        return np.concatenate([part.ravel() for part in reversed(found)])

    return product


@in_double
def dense_hessian(weights: Weights, inputs: ArrayLike, labels: NDArray[np.int64], loss: Loss) -> NDArray[np.float64]:
    """The whole matrix (parameters, parameters), by backward over backward differentiation: small networks only."""
    flat, given, targets = _in_double_precision(weights, inputs, labels, loss)
    shapes = tuple(matrix.shape for matrix in weights)
    return np.asarray(
        jax.jacrev(jax.grad(lambda vector: training_loss(_layers(vector, shapes), given, targets, loss)))(flat)
    )


@in_double
def class_mean_eigenvalues(weights: Weights, inputs: ArrayLike, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""Eigenvalues, descending, of the Gauss-Newton matrix seen from the classes' mean gradients; square loss.

    The Gauss-Newton matrix is $G=\frac1n\sum_{i,a}g_{ia}g_{ia}^\top$, $g_{ia}=\nabla f_a(x_i)$: the Hessian without the
    residuals' part, which training makes small. Let $V$ be an orthonormal basis of the span of the means
    $\bar g_{ca}=\frac1{n_c}\sum_{i\in c}g_{ia}$ over the samples of class $c$, for every output $a$: at most $C^2$
    directions. Returned are the eigenvalues of $V^\top GV$, computed from the network's first derivatives only.
    By interlacing each is at most the corresponding eigenvalue of $G$, and close to it where gradients within a class
    differ less than between classes. Source: Papyan 2020.
    """
    classes = weights[-1].shape[1]
    flat, given, members = _in_double_precision(weights, inputs, labels, "logistic")
    shapes = tuple(matrix.shape for matrix in weights)
    present = np.flatnonzero(np.bincount(labels, minlength=classes))
    shares = members[:, present] / members[:, present].sum(axis=0)
    means = _mean_gradients(flat, given, shares, shapes=shapes)
    basis, _ = np.linalg.qr(np.asarray(means).reshape(-1, flat.size).T)
    along = np.asarray(_derivatives_along(flat, given, jnp.asarray(basis.T), shapes=shapes))
    along = along.reshape(basis.shape[1], -1)
    return np.asarray(np.linalg.eigvalsh(along @ along.T / given.shape[0])[::-1], dtype=np.float64)


def _curvature(outputs: np.ndarray, targets: np.ndarray, loss: Loss) -> Operator:
    """The change of the loss's slope with a change of the outputs (n, classes)."""
    n = outputs.dtype.type(len(outputs))
    if loss == "square":
        return lambda change: change / n
    if loss == "quadratic-hinge":
        inside = (targets * outputs < 1) / n
        return lambda change: inside * change
    likelihoods = softmax(outputs, axis=1)
    return lambda change: likelihoods / n * (change - np.sum(likelihoods * change, axis=1, keepdims=True))


@partial(jax.jit, static_argnames=("shapes",))
def _mean_gradients(flat: Any, inputs: Any, shares: Any, *, shapes: Any) -> Any:
    """(classes present, outputs, parameters)."""
    return jax.jacrev(lambda at: shares.T @ network_outputs(_layers(at, shapes), inputs))(flat)


@partial(jax.jit, static_argnames=("shapes",))
def _derivatives_along(flat: Any, inputs: Any, directions: Any, *, shapes: Any) -> Any:
    """(directions, samples, outputs)."""

    def outputs(at: Any) -> Any:
        return network_outputs(_layers(at, shapes), inputs)

    return jax.lax.map(lambda direction: jax.jvp(outputs, (flat,), (direction,))[1], directions)


def _layers(flat: Any, shapes: tuple[tuple[int, int], ...]) -> Weights:
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    return tuple(part.reshape(shape) for part, shape in zip(jnp.split(flat, ends[:-1]), shapes, strict=True))


def _in_double_precision(weights: Weights, inputs: ArrayLike, labels: NDArray[np.int64], loss: Loss) -> Any:
    doubled = tuple(jnp.asarray(matrix, dtype=jnp.float64) for matrix in weights)
    targets = jnp.asarray(class_targets(labels, weights[-1].shape[1], loss))
    return ravel_pytree(doubled)[0], jnp.asarray(inputs, dtype=jnp.float64), targets
