"""Networks that add modulo p: drawn with random waves, or trained on part of the table."""

from typing import NamedTuple

import numpy as np

from limen.simulation.generators import numpy_generator

# Decay of the averages of gradients and of their squares, and what keeps the step finite.
FIRST_MEMORY, SECOND_MEMORY, SMALLEST = 0.9, 0.98, 1e-8
START = 0.7


class ModularRun(NamedTuple):
    """Along the recorded steps: accuracies on the seen and unseen pairs, half mean squares of the error of all outputs
    of a pair, and the part of a neuron's power that is in its strongest frequency, averaged over neurons."""

    train_accuracy: np.ndarray
    test_accuracy: np.ndarray
    train_loss: np.ndarray
    test_loss: np.ndarray
    periodicity: np.ndarray


def random_waves_accuracy(modulus: int, width: int, seed: int, networks: int = 1) -> float:
    """Part of all pairs that networks of `width` neurons with random frequencies and phases add right, on average.

    $O(p^3N)$ operations each.
    """
    random, places = numpy_generator(seed, width, "random waves"), np.arange(modulus)
    right = 0
    for _ in range(networks):
        waves = 2.0 * np.pi / modulus * np.outer(places, random.integers(1, (modulus + 1) // 2, width))
        phases = random.uniform(0.0, 2.0 * np.pi, (2, width))
        first, second = (np.cos(waves + phase) for phase in phases)
        readout = np.cos(waves + phases.sum(axis=0))
        for n in places:
            outputs = (first[n] + second) ** 2 @ readout.T
            right += int((outputs.argmax(axis=1) == (n + places) % modulus).sum())
    return right / (networks * modulus**2)


def train_modular(
    modulus: int, width: int, fraction: float, steps: np.ndarray, rate: float, weight_decay: float, seed: int
) -> ModularRun:
    r"""Full-batch AdamW on a random `fraction` of the $p^2$ pairs, square loss, from Gaussian weights; recorded at
    increasing `steps`.

    $f_q=\frac1N\sum_kW_{qk}(U_{kn}+V_{km})^2$, loss $\frac12\sum_q(f_q-\delta_{q,n+m})^2$ averaged over pairs.
    $O(p^3N)$ operations a step; single precision.
    """
    random = numpy_generator(seed, modulus, "modular addition")
    weights: list[np.ndarray] = [
        (START * random.standard_normal(shape)).astype(np.float32)
        for shape in ((modulus, width), (modulus, width), (width, modulus))
    ]
    n, m = np.divmod(np.arange(modulus**2), modulus)
    labels = np.eye(modulus, dtype=np.float32)[(n + m) % modulus]
    order, count = random.permutation(modulus**2), round(fraction * modulus**2)
    seen, unseen = order[:count], order[count:]
    first, second = (np.eye(modulus, dtype=np.float32)[:, part[seen]] for part in (n, m))
    means: list[np.ndarray] = [np.zeros_like(part) for part in weights]
    squares: list[np.ndarray] = [np.zeros_like(part) for part in weights]
    rows = []
    for step in range(int(steps[-1]) + 1):
        if step in steps:
            rows.append(_observed(weights, (n, m), labels, seen, unseen))
        fields = weights[0][n[seen]] + weights[1][m[seen]]
        hidden = fields**2
        residual = (hidden @ weights[2] / width - labels[seen]) / count
        back = 2.0 * fields * (residual @ weights[2].T) / width
        gradients = (first @ back, second @ back, hidden.T @ residual / width)
        for i, gradient in enumerate(gradients):
            means[i] = FIRST_MEMORY * means[i] + (1.0 - FIRST_MEMORY) * gradient
            squares[i] = SECOND_MEMORY * squares[i] + (1.0 - SECOND_MEMORY) * gradient**2
            mean, square = (
                means[i] / (1.0 - FIRST_MEMORY ** (step + 1)),
                squares[i] / (1.0 - SECOND_MEMORY ** (step + 1)),
            )
            weights[i] = (1.0 - rate * weight_decay) * weights[i] - rate * mean / (np.sqrt(square) + SMALLEST)
    return ModularRun(*np.array(rows).T)


def _observed(
    weights: list[np.ndarray], pairs: tuple[np.ndarray, ...], labels: np.ndarray, seen: np.ndarray, unseen: np.ndarray
) -> tuple[float, ...]:
    outputs = (weights[0][pairs[0]] + weights[1][pairs[1]]) ** 2 @ weights[2] / weights[2].shape[0]
    right = outputs.argmax(axis=1) == labels.argmax(axis=1)
    losses = 0.5 * ((outputs - labels) ** 2).sum(axis=1)
    power = np.abs(np.fft.rfft(weights[0], axis=0)[1:]) ** 2
    share = (power.max(axis=0) / power.sum(axis=0)).mean()
    return right[seen].mean(), right[unseen].mean(), losses[seen].mean(), losses[unseen].mean(), share
