"""Training of a whole network by gradient flow or descent, with what its kernel and weights do meanwhile."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import svds

from limen.precision import in_double
from limen.problem.spec import InputError
from limen.simulation.flow_steps import runge_kutta_step, shifted, steps_between
from limen.simulation.kernel.networks.mlp import MLP, Parameters, empirical_ntk, forward, outputs

Floats = NDArray[np.float64]
_DENSE = 400  # Gram matrices up to this size are diagonalised whole


@dataclass(frozen=True)
class MLPTraining:
    r"""Outputs on training inputs (T, n) and test inputs (T, m) at the recorded moments.

    `kernel_drift` is $\sup_t\|K_t-K_0\|/\|K_0\|$ in operator norm and `weight_drift` $\sup_t\|W^{(\ell)}(t)-
    W^{(\ell)}(0)\|/\sqrt{n_\ell}$ for each layer, the suprema over recorded moments. `error` estimates the largest
    error of the recorded outputs due to the integrator: a fifteenth of their change when all steps are doubled;
    it is 0 for gradient descent, which has none.
    """

    train: Floats
    test: Floats
    kernel_drift: float
    weight_drift: tuple[float, ...]
    error: float


@in_double
def train_by_flow(
    mlp: MLP,
    parameters: Parameters,
    inputs: ArrayLike,
    labels: ArrayLike,
    times: ArrayLike,
    test_inputs: ArrayLike | None = None,
    stability: float = 0.5,
) -> MLPTraining:
    r"""Gradient flow $\dot\theta=-\nabla\frac1{2n}\|y-f\|^2$ of all parameters.

    Runge-Kutta steps of order 4 and size `stability` $\cdot n/\lambda_{\max}(K_0)$ (the method is stable up to 2.8),
    and once more with steps twice as long for `error`. `times` are increasing; inputs (n, d), labels (n,).
    """
    x, y, fresh = _data(mlp, inputs, labels, test_inputs)
    moments = np.atleast_1d(np.asarray(times, dtype=float))
    if not 0 < stability <= 1:
        raise InputError(f"stability must be positive and at most 1, got {stability}.")
    start = empirical_ntk(mlp, parameters, x)
    longest = stability * len(x) / float(np.linalg.norm(start, 2))
    pieces = steps_between(moments, longest)
    fine = _record(mlp, parameters, x, y, fresh, start, [(h, count, _flow) for h, count in pieces])
    halved = [(h * count / max(-(-count // 2), 1), -(-count // 2), _flow) for h, count in pieces]
    rough = _outputs_only(mlp, parameters, x, y, fresh, halved)
    error = np.max(np.abs(np.concatenate([fine.train, fine.test], axis=1) - rough)) / 15
    return MLPTraining(fine.train, fine.test, fine.kernel_drift, fine.weight_drift, float(error))


@in_double
def train_by_descent(
    mlp: MLP,
    parameters: Parameters,
    inputs: ArrayLike,
    labels: ArrayLike,
    step: float,
    steps: ArrayLike,
    test_inputs: ArrayLike | None = None,
) -> MLPTraining:
    r"""Gradient descent on $\frac1{2n}\|y-f\|^2$ with learning rate `step`, recorded after each number in `steps`."""
    x, y, fresh = _data(mlp, inputs, labels, test_inputs)
    if not step > 0:
        raise InputError(f"step must be positive, got {step}.")
    counts = np.atleast_1d(np.asarray(steps))
    if not (np.issubdtype(counts.dtype, np.integer) and np.all(np.diff(counts, prepend=0) >= 0)):
        raise InputError(f"steps must be increasing whole numbers, got {counts.tolist()}.")
    start = empirical_ntk(mlp, parameters, x)
    pieces = [(float(step), int(count), _descent) for count in np.diff(counts, prepend=0)]
    return _record(mlp, parameters, x, y, fresh, start, pieces)


def _record(
    mlp: MLP, parameters: Parameters, x: Floats, y: Floats, fresh: Floats, start: Floats, pieces: list[Any]
) -> MLPTraining:
    state, train, test = parameters, [], []
    kernel_drift, weight_drift = 0.0, np.zeros(mlp.depth)
    for size, count, advance in pieces:
        state = advance(mlp, state, x, y, size, count)
        train.append(outputs(mlp, state, x))
        test.append(outputs(mlp, state, fresh))
        kernel_drift = max(kernel_drift, float(np.linalg.norm(empirical_ntk(mlp, state, x) - start, 2)))
        changes = [np.asarray(now[0]) - np.asarray(then[0]) for now, then in zip(state, parameters, strict=True)]
        norms = [_operator_norm(change) / np.sqrt(change.shape[1]) for change in changes]
        weight_drift = np.maximum(weight_drift, norms)
    drift = kernel_drift / float(np.linalg.norm(start, 2))
    return MLPTraining(np.array(train), np.array(test), drift, tuple(weight_drift.tolist()), 0.0)


def _outputs_only(mlp: MLP, state: Parameters, x: Floats, y: Floats, fresh: Floats, pieces: list[Any]) -> Floats:
    rows = []
    for size, count, advance in pieces:
        state = advance(mlp, state, x, y, size, count)
        rows.append(np.concatenate([outputs(mlp, state, x), outputs(mlp, state, fresh)]))
    return np.array(rows)


@partial(jax.jit, static_argnums=0)
def _flow(mlp: MLP, state: Parameters, x: Any, y: Any, size: Any, count: Any) -> Parameters:
    return jax.lax.fori_loop(0, count, lambda _, s: runge_kutta_step(_velocity(mlp, x, y), s, size), state)


@partial(jax.jit, static_argnums=0)
def _descent(mlp: MLP, state: Parameters, x: Any, y: Any, size: Any, count: Any) -> Parameters:
    velocity = _velocity(mlp, x, y)
    return jax.lax.fori_loop(0, count, lambda _, s: shifted(s, velocity(s), size), state)


def _velocity(mlp: MLP, x: Any, y: Any) -> Any:
    return jax.grad(lambda parameters: -0.5 * jnp.mean((y - forward(mlp, parameters, x)) ** 2))


def _operator_norm(matrix: Floats) -> float:
    if min(matrix.shape) <= _DENSE:
        gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
        return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))
    largest: Any = svds(matrix, k=1, return_singular_vectors=False, v0=np.ones(min(matrix.shape)))
    return float(largest[0])


def _data(mlp: MLP, inputs: Any, labels: Any, test_inputs: Any) -> tuple[Floats, Floats, Floats]:
    x, y = np.asarray(inputs, dtype=float), np.asarray(labels, dtype=float)
    fresh = np.zeros((0, mlp.widths[0])) if test_inputs is None else np.asarray(test_inputs, dtype=float)
    for name, points in (("inputs", x), ("test_inputs", fresh)):
        if points.ndim != 2 or points.shape[1] != mlp.widths[0]:
            raise InputError(f"{name} must have shape (points, {mlp.widths[0]}), got {points.shape}.")
    if y.shape != (len(x),):
        raise InputError(f"labels must have one number per input ({len(x)}), got shape {y.shape}.")
    return x, y, fresh
