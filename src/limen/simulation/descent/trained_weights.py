"""Networks along training on a fixed sample, with that sample: for what only the weights can tell."""

from typing import Any, NamedTuple

import numpy as np

from limen.precision import in_double
from limen.problem import InputError, TwoLayer
from limen.problem.times import time_grid
from limen.simulation.descent.fixed_sample_training import Setting, prepare
from limen.simulation.descent.training_steps import train
from limen.simulation.two_layer_gradient import Weights


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
    if problem.network.train_bias:
        raise InputError("trained_weights needs fixed biases, and train_bias is set.")
    setting = prepare(problem, d, seed, dtype)
    path = train(problem, setting, time_grid(times, counts_steps=True), seed, _weights)
    parts = (setting.sample.x, setting.sample.y, path.first, path.second, setting.frame, setting.bias)
    return TrainedWeights(*(np.asarray(part) for part in parts))


def _weights(weights: Weights, risk: Any, setting: Setting) -> Weights:
    return weights
