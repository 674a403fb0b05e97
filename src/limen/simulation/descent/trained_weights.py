"""Networks along gradient descent, with the sample they were trained on: for what only the weights can tell."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.precision import in_double
from limen.problem import TwoLayer
from limen.problem.times import time_grid
from limen.simulation.descent.fixed_sample_training import Setting, prepare, updated
from limen.simulation.two_layer_gradient import Functions, Weights, functions_of, risk_and_gradient


class TrainedWeights(NamedTuple):
    """One training.

    `inputs` (n, d) and `labels` (n,): the sample. `first_layer` (time, m, d) and `second_layer` (time, m). `directions`
    (k, d): the orthonormal directions of the target. `bias` (m,).
    """

    inputs: np.ndarray
    labels: np.ndarray
    first_layer: np.ndarray
    second_layer: np.ndarray
    directions: np.ndarray
    bias: np.ndarray


@in_double
def trained_weights(problem: TwoLayer, times: object, d: int, seed: int, dtype: str = "float32") -> TrainedWeights:
    """The training of `gradient_descent.solve` with the same seed, its weights kept at `times` (whole steps).

    Memory: the sample, and $md$ numbers per time.
    """
    steps = time_grid(times, counts_steps=True).astype(np.int32)
    setting = prepare(problem, d, seed, dtype)
    spherical = bool(getattr(problem.algorithm, "spherical", False))
    path = _path(functions_of(problem), spherical, setting, jnp.asarray(np.diff(steps, prepend=0)))
    parts = (setting.sample.x, setting.sample.y, path.first, path.second, setting.frame, setting.bias)
    return TrainedWeights(*(np.asarray(part) for part in parts))


@partial(jax.jit, static_argnums=(0, 1))
def _path(functions: Functions, spherical: bool, setting: Setting, intervals: jax.Array) -> Weights:
    x, y = setting.sample

    def step(_: jax.Array, weights: Weights) -> Weights:
        _, gradient = risk_and_gradient(functions, weights, setting.bias, x, y)
        return updated(setting.rule, spherical, weights, gradient)

    def interval(weights: Weights, length: jax.Array) -> tuple[Weights, Weights]:
        weights = jax.lax.fori_loop(0, length, step, weights)
        return weights, weights

    return jax.lax.scan(interval, setting.start, intervals)[1]
