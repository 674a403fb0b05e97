r"""Bayes-optimal approximate message passing for a single-index model, on drawn data.

With $A=X/\sqrt d$ and a signal of unit-variance components, $\hat x^0$ given and $g^{-1}=0$,
$$\omega^t=A\hat x^t-v^tg^{t-1},\quad g^t_i=\frac{E[z\mid y_i,\omega^t_i,v^t]-\omega_i^t}{v^t},\quad
\frac1{\Sigma^t}=\frac1d\sum_i(g_i^t)^2,\quad\hat x^{t+1}=\frac{\hat x^t+\Sigma^tA^\top g^t}{1+\Sigma^t},\quad
v^{t+1}=\frac{\Sigma^t}{1+\Sigma^t},$$
where $z\mid\omega,v\sim N(\omega,v)$ before the label is seen.

Source: Rangan 2011, "Generalized approximate message passing for estimation with random linear mixing".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from limen.problem import InputError
from limen.problem.targets import Target
from limen.simulation.spectra.random_matrices import stream_generator
from limen.simulation.thresholds.single_index import draw_single_index

NODES = 101
REACH = 6.0
MOST_AT_ONCE = 1 << 21


@dataclass(frozen=True, eq=False)
class MessagePassing:
    """Squared cosines `overlaps` with the direction, and `variances` $v$ claimed by the algorithm: (seeds, steps + 1).

    Where its assumptions hold the algorithm knows its own error: overlap and variance add up to 1.
    """

    overlaps: np.ndarray
    variances: np.ndarray


def message_passing(
    target: Target,
    samples_per_dim: float,
    dimension: int,
    seeds: Sequence[int],
    steps: int = 30,
    start: float = 0.01,
) -> MessagePassing:
    r"""Runs from a start of squared cosine `start`, which breaks the symmetry of an even link.

    The target needs additive noise and no `e`: its likelihood is then known, and posterior means are taken by
    101 nodes over the range of $z$ for every sample. Cost per step: two products with the data, 101 n exponentials.
    """
    if not (target.noise > 0 and not target.uses_inner_noise):
        raise InputError(f"target must have additive noise and no e inside, and {target.label!r} has not.")
    if not 0 < start < 1:
        raise InputError(f"start must lie between 0 and 1, got {start}.")
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}.")
    runs = [_run(target, samples_per_dim, dimension, seed, steps, start) for seed in seeds]
    overlaps, variances = zip(*runs, strict=True)
    return MessagePassing(np.array(overlaps), np.array(variances))


def _run(
    target: Target, samples_per_dim: float, dimension: int, seed: int, steps: int, start: float
) -> tuple[list[float], list[float]]:
    rows, labels = draw_single_index(target, samples_per_dim, dimension, seed)
    rows = rows / np.sqrt(dimension)
    estimate = np.sqrt(start * (1.0 - start)) * stream_generator(seed, dimension, "start").standard_normal(dimension)
    # The signal is sqrt(d) along the first axis; only its projection matters.
    estimate[0] = start * np.sqrt(dimension)
    variance, scores = 1.0 - start, np.zeros(len(labels))
    overlaps, variances = [_squared_cosine(estimate)], [variance]
    for _ in range(steps):
        fields = rows @ estimate - variance * scores
        scores = _output(target, labels, fields, variance)
        spread = dimension / float(scores @ scores)
        estimate = (estimate + spread * (scores @ rows)) / (1.0 + spread)
        variance = spread / (1.0 + spread)
        overlaps.append(_squared_cosine(estimate))
        variances.append(variance)
    return overlaps, variances


def _squared_cosine(estimate: np.ndarray) -> float:
    return float(estimate[0] ** 2 / (estimate @ estimate))


def _output(target: Target, labels: np.ndarray, fields: np.ndarray, variance: float) -> np.ndarray:
    nodes = np.linspace(-REACH, REACH, NODES)
    result = np.empty(len(labels))
    size = MOST_AT_ONCE // NODES
    for begin in range(0, len(labels), size):
        part = slice(begin, begin + size)
        z = fields[part, None] + np.sqrt(variance) * nodes
        with jax.enable_x64(True):
            means = np.asarray(target.function(z.reshape(-1, 1), np.zeros(z.size)), dtype=np.float64).reshape(z.shape)
        exponents = -0.5 * nodes**2 - (labels[part, None] - means) ** 2 / (2.0 * target.noise)
        weights = np.exp(exponents - exponents.max(1, keepdims=True))
        result[part] = (weights @ nodes) / weights.sum(1) / np.sqrt(variance)
    return result
