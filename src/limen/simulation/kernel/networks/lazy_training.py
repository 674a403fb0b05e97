r"""Two layers with the output multiplied by $\alpha$: how training becomes lazy."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen.precision import in_double
from limen.problem.activations import Activation, as_activation
from limen.problem.spec import InputError
from limen.simulation.flow_steps import runge_kutta_step, steps_between
from limen.simulation.generators import numpy_generator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LazyRun:
    r"""One training of $f=\frac\alpha{\sqrt m}\sum_jb_j\sigma(\langle w_j,x\rangle)$ beside its linearisation.

    Per recorded time (T,): `residual` $\|y-f_t\|$, `distance` $\|\theta_t-\theta_0\|$, `parameter_deviation`
    $\|\theta_t-\bar\theta_t\|$ and `output_deviation` $\|f_t-\bar f_t\|$ on the training set. At the start:
    `initial_residual` $r_0$ and the extreme singular values `sigma_min`, `sigma_max` of the Jacobian. `inputs` are
    the data (n, d); `error` estimates the integrator's error of $\theta_t$ (a fifteenth of the change when steps are
    doubled).
    """

    times: Floats
    residual: Floats
    distance: Floats
    parameter_deviation: Floats
    output_deviation: Floats
    initial_residual: float
    sigma_min: float
    sigma_max: float
    inputs: Floats
    error: float


class LazyStart(NamedTuple):
    """What lazy training starts from: inputs (n, d), labels (n,), first layer (m, d), output signs (m,)."""

    inputs: Floats
    labels: Floats
    weights: Floats
    signs: Floats


def draw_lazy_start(samples: int, dimension: int, width: int, mirrored: bool, seed: int) -> LazyStart:
    r"""Inputs $N(0,I_d)$, labels $\pm1$, $w_j\sim N(0,I_d/d)$, $b_j=\pm1$; mirrored: the second half of the neurons
    repeats the first with $b_j$ reversed."""
    inputs = numpy_generator(seed, dimension, "inputs").standard_normal((samples, dimension))
    labels = numpy_generator(seed, dimension, "labels").choice([-1.0, 1.0], samples)
    weights = numpy_generator(seed, dimension, "weights").standard_normal((width, dimension)) / np.sqrt(dimension)
    signs = numpy_generator(seed, dimension, "output weights").choice([-1.0, 1.0], width)
    if mirrored:
        weights[width // 2 :], signs[width // 2 :] = weights[: width // 2], -signs[: width // 2]
    return LazyStart(inputs, labels, weights, signs)


@in_double
def lazy_training(
    alpha: float,
    times: ArrayLike,
    *,
    activation: str | Activation = "tanh",
    samples: int = 12,
    dimension: int = 20,
    width: int = 40,
    mirrored: bool = True,
    seed: int = 0,
    stability: float = 0.5,
) -> LazyRun:
    r"""Gradient flow of $\frac1{2n}\|y-f\|^2$ on the first layer, in the time $s=\alpha^2t$.

    Inputs $N(0,I_d)$, labels $\pm1$, $w_j\sim N(0,I_d/d)$, $b_j=\pm1$ fixed. Mirrored: the second half of the neurons
    repeats the first with $b_j$ reversed, so that $f_0=0$; without it $r_0$ grows with $\alpha$ and training does not
    become lazy. `times` are values of $s$: in this unit the linearised flow is the same for all $\alpha$ when
    $f_0=0$. Data and weights do not depend on $\alpha$.
    """
    for name, value in (("samples", samples), ("dimension", dimension), ("width", width)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}.")
    if not alpha > 0:
        raise InputError(f"alpha must be positive, got {alpha}.")
    if mirrored and width % 2:
        raise InputError(f"width must be even for a mirrored start, got {width}.")
    function = as_activation(activation).function
    moments = np.atleast_1d(np.asarray(times, dtype=float))
    x, y, start, signs = draw_lazy_start(samples, dimension, width, mirrored, seed)
    output = alpha / np.sqrt(width) * signs

    jacobian = np.asarray(_jacobian(function, start, output, x))
    initial = np.asarray(_outputs(function, start, output, x))
    left, singular, right = np.linalg.svd(jacobian, full_matrices=False)
    projected = left.T @ (y - initial)

    pieces = steps_between(moments / alpha**2, stability * samples / singular[0] ** 2)
    fine = _states(function, start, output, x, y, pieces)
    doubled = [(h * count / max(-(-count // 2), 1), -(-count // 2)) for h, count in pieces]
    rough = _states(function, start, output, x, y, doubled)
    fitted = np.asarray(jax.vmap(lambda w: _outputs(function, w, output, x))(jnp.asarray(fine)))
    shares = -np.expm1(-np.outer(moments / alpha**2, singular**2) / samples)
    linear_weights = start + ((shares / singular * projected) @ right).reshape(len(moments), *start.shape)
    linear_outputs = initial + (shares * projected) @ left.T
    return LazyRun(
        times=moments,
        residual=np.linalg.norm(y - fitted, axis=1),
        distance=np.linalg.norm(fine - start, axis=(1, 2)),
        parameter_deviation=np.linalg.norm(fine - linear_weights, axis=(1, 2)),
        output_deviation=np.linalg.norm(fitted - linear_outputs, axis=1),
        initial_residual=float(np.linalg.norm(y - initial)),
        sigma_min=float(singular[-1]) if width * dimension >= samples else 0.0,
        sigma_max=float(singular[0]),
        inputs=x,
        error=float(np.max(np.linalg.norm(fine - rough, axis=(1, 2)))) / 15,
    )


def _outputs(function: Any, weights: Any, output: Any, x: Any) -> Any:
    return function(x @ weights.T) @ output


def _jacobian(function: Any, weights: Any, output: Any, x: Any) -> Any:
    """Derivatives (n, m d) of the outputs by the first layer."""
    values = x @ weights.T
    slopes = jax.jvp(function, (jnp.asarray(values),), (jnp.ones_like(values),))[1] * output
    return (slopes[:, :, None] * x[:, None, :]).reshape(len(x), -1)


def _states(function: Any, start: Floats, output: Floats, x: Floats, y: Floats, pieces: Any) -> Floats:
    state, rows = jnp.asarray(start), []
    for size, count in pieces:
        state = _advance(function, state, output, x, y, size, count)
        rows.append(np.asarray(state))
    return np.array(rows)


@partial(jax.jit, static_argnums=0)
def _advance(function: Any, state: Any, output: Any, x: Any, y: Any, size: Any, count: Any) -> Any:
    velocity = jax.grad(lambda weights: -0.5 * jnp.mean((y - _outputs(function, weights, output, x)) ** 2))
    return jax.lax.fori_loop(0, count, lambda _, s: runge_kutta_step(velocity, s, size), state)
