r"""A fully connected ReLU network of any depth and width, trained on labelled samples by plain gradient methods."""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.gaussian.keys import stream_key
from limen.problem.spec import InputError
from limen.simulation.generators import numpy_generator

Loss = Literal["logistic", "square", "quadratic-hinge"]
Weights = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class TrainedClassifier:
    """`weights`, one (inputs, outputs) matrix per layer; training `loss` and `error` (share of labels missed) at the
    end; `steps` taken."""

    weights: tuple[NDArray[Any], ...]
    loss: float
    error: float
    steps: int

    def outputs(self, inputs: ArrayLike) -> NDArray[Any]:
        """Outputs (n, classes); the class is the largest."""
        given = jnp.asarray(inputs, dtype=self.weights[0].dtype)
        return np.asarray(_compiled_outputs(tuple(map(jnp.asarray, self.weights)), given))

    def error_on(self, inputs: ArrayLike, labels: NDArray[np.int64]) -> float:
        """Share of `labels` (n,) that are not the largest output; with one output, not its sign (0 or 1)."""
        outputs = self.outputs(inputs)
        answers = outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0.0).astype(int)
        return float(np.mean(answers != labels))


def initial_weights(
    seed: int,
    inputs: int,
    width: int,
    depth: int,
    classes: int,
    output_scale: float = 1.0,
    dtype: Any = np.float32,
) -> tuple[NDArray[Any], ...]:
    """Standard normal matrices of a network with `depth` weight layers and `depth - 1` hidden layers of `width`.

    The last is multiplied by `output_scale`: a small one starts near the function zero, so that what is learnt is not
    blurred by what was there before.
    """
    for name, value in (("width", width), ("depth", depth)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}.")
    sizes = [inputs, *[width] * (depth - 1), classes]
    generator = numpy_generator(seed, width, "classifier weights")
    matrices = [generator.standard_normal(shape) for shape in pairwise(sizes)]
    matrices[-1] *= output_scale
    return tuple(matrix.astype(dtype) for matrix in matrices)


def network_outputs(weights: Weights, inputs: jax.Array) -> jax.Array:
    r"""$\alpha^{(k+1)}=\mathrm{relu}(\sqrt{2/n_k}\,\alpha^{(k)}W^{(k)})$, and no ReLU at the end; no biases.

    The factors in front of standard normal weights keep activations, gradients and the best learning rate of order
    one at every width.
    """
    values = inputs
    for layer, matrix in enumerate(weights):
        values = jnp.sqrt(2.0 / matrix.shape[0]).astype(inputs.dtype) * (values @ matrix)
        if layer < len(weights) - 1:
            values = jnp.maximum(values, 0.0)
    return values


def training_loss(weights: Weights, inputs: jax.Array, targets: jax.Array, loss: Loss) -> jax.Array:
    r"""`logistic`: $\frac1n\sum_i[\log\sum_ce^{f_c}-\langle y_i,f\rangle]$; `square`: $\frac1{2n}\sum_i|y_i-f|^2$;
    `quadratic-hinge`: $\frac1{2n}\sum_i\max(0,1-y_if)^2$, of one output.

    `targets` $y$ (n, classes) has ones and zeros for `logistic`, $\pm1$ for `quadratic-hinge`; numbers for `square`.
    """
    return output_loss(network_outputs(weights, inputs), targets, loss)


def output_loss(outputs: jax.Array, targets: jax.Array, loss: Loss) -> jax.Array:
    """`training_loss` of given outputs (n, classes)."""
    if loss == "quadratic-hinge":
        return 0.5 * jnp.mean(jnp.maximum(0.0, 1.0 - targets * outputs) ** 2)
    if loss == "logistic":
        return jnp.mean(jax.nn.logsumexp(outputs, axis=1) - jnp.sum(targets * outputs, axis=1))
    return 0.5 * jnp.mean(jnp.sum((outputs - targets) ** 2, axis=1))


def class_targets(labels: NDArray[np.int64], classes: int, loss: Loss) -> NDArray[np.float64]:
    r"""What the loss is held against: $e_{label}$ for `logistic`, $e_{label}-\frac1C$ for `square`, $\pm1$ for one
    output."""
    if classes == 1:
        return np.asarray(2.0 * labels[:, None] - 1.0, dtype=np.float64)
    return np.eye(classes)[labels] - (1.0 / classes if loss == "square" else 0.0)


def train_classifier(
    weights: Weights,
    inputs: ArrayLike,
    labels: NDArray[np.int64],
    loss: Loss = "logistic",
    *,
    rate: float = 0.2,
    momentum: float = 0.9,
    steps: int = 1000,
    batch: int | None = None,
    goal: float = 0.0,
    seed: int = 0,
) -> TrainedClassifier:
    r"""Heavy-ball descent $v\leftarrow\beta v-\eta\nabla\hat R$, $W\leftarrow W+v$ on `labels` (n,), classes 0, 1, ...

    Full batch, or `batch` samples drawn with replacement at each step from the stream of `seed`. Stops after `steps`,
    or once the full training loss is at most `goal` (looked at every 50 steps). In the dtype of `weights`. Full batch
    is stable for $\eta<2(1+\beta)/\lambda_{\max}$ of the Hessian. A loss that is not finite at the end is refused, with
    the advice to lower the rate.
    """
    if loss not in get_args(Loss):
        raise InputError(f"loss must be one of {', '.join(get_args(Loss))}, got {loss!r}.")
    classes = weights[-1].shape[1]
    if (loss == "quadratic-hinge") != (classes == 1) and loss != "square":
        raise InputError(
            f"loss {loss!r} does not go with {classes} outputs: one for quadratic-hinge, more for logistic."
        )
    if labels.min() < 0 or labels.max() >= max(classes, 2):
        raise InputError(f"labels must lie between 0 and {classes - 1}, got {labels.min()} to {labels.max()}.")
    dtype = weights[0].dtype
    given, targets = jnp.asarray(inputs, dtype=dtype), jnp.asarray(class_targets(labels, classes, loss), dtype=dtype)
    trained, reached, taken = _descend(
        tuple(map(jnp.asarray, weights)), given, targets, stream_key(seed, given.shape[0], "classifier batches"),
        rate, momentum, steps, goal, loss=loss, batch=batch,
    )  # fmt: skip
    final = float(reached)
    if not np.isfinite(final):
        raise InputError(f"rate is too large for this network, got {rate:g}: training diverged, halve it.")
    answer = TrainedClassifier(tuple(map(np.asarray, trained)), final, 0.0, int(taken))
    return TrainedClassifier(answer.weights, final, answer.error_on(inputs, labels), int(taken))


CHECK_EVERY = 50


@partial(jax.jit, static_argnames=("loss", "batch"))
def _descend(
    weights: Weights,
    inputs: jax.Array,
    targets: jax.Array,
    key: jax.Array,
    rate: Any,
    momentum: Any,
    steps: Any,
    goal: Any,
    *,
    loss: Loss,
    batch: int | None,
) -> tuple[Weights, jax.Array, jax.Array]:
    gradient = jax.grad(training_loss)

    def step(at: Any, state: tuple[Weights, Weights]) -> tuple[Weights, Weights]:
        here, speed = state
        if batch is None:
            slope = gradient(here, inputs, targets, loss)
        else:
            drawn = jax.random.randint(jax.random.fold_in(key, at), (batch,), 0, inputs.shape[0])
            slope = gradient(here, inputs[drawn], targets[drawn], loss)
        speed = jax.tree.map(lambda v, g: (momentum * v - rate * g).astype(v.dtype), speed, slope)
        return jax.tree.map(jnp.add, here, speed), speed

    def unfinished(state: Any) -> Any:
        _, _, reached, taken = state
        return (taken < steps) & (reached > goal)

    def advance(state: Any) -> Any:
        here, speed, _, taken = state
        until = jnp.minimum(taken + CHECK_EVERY, steps)
        here, speed = jax.lax.fori_loop(taken, until, step, (here, speed))
        return here, speed, training_loss(here, inputs, targets, loss), until

    start = (weights, jax.tree.map(jnp.zeros_like, weights), training_loss(weights, inputs, targets, loss), 0)
    here, _, reached, taken = jax.lax.while_loop(unfinished, advance, start)
    return here, reached, taken


_compiled_outputs = jax.jit(network_outputs)
