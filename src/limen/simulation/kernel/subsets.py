"""Regression trained on random subsets of given rows, tested on the rows left out."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limen.simulation.generators import numpy_generator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SubsetErrors:
    """Mean squares summed over outputs on rows drawn and left out, and the share of rows left out whose largest output
    is not at their largest label (0 with one output)."""

    train: float
    test: float
    wrong: float


def row_orders(seed: int, rows: int, draws: int) -> Iterator[NDArray[np.int64]]:
    """Random orders of the rows, the same for every size: the beginning of each is drawn, the rest is left out."""
    generator = numpy_generator(seed, rows, "subset")
    return (generator.permutation(rows) for _ in range(draws))


def subset_errors(
    features: Floats | None,
    kernel: Floats | None,
    labels: Floats,
    order: NDArray[np.int64],
    samples: int,
    ridge: float,
) -> SubsetErrors:
    r"""Minimises $\sum_i|y_i-a\cdot\phi_i|^2+\delta|a|^2$ over the first `samples` rows of `order`.

    One of `features` (M, p) and `kernel` (M, M) is given; `ridge` is $\delta$.
    """
    seen = order[:samples]
    if kernel is None:
        assert features is not None
        drawn = features[seen]
        if drawn.shape[1] < samples:
            inside = drawn.T @ drawn + ridge * np.eye(drawn.shape[1])
            outputs = features @ np.linalg.solve(inside, drawn.T @ labels[seen])
        else:
            dual = np.linalg.solve(drawn @ drawn.T + ridge * np.eye(samples), labels[seen])
            outputs = features @ (drawn.T @ dual)
    else:
        dual = np.linalg.solve(kernel[np.ix_(seen, seen)] + ridge * np.eye(samples), labels[seen])
        outputs = kernel[:, seen] @ dual
    return _errors(outputs, labels, order, samples)


def subset_flow_errors(
    features: Floats | None,
    kernel: Floats | None,
    labels: Floats,
    order: NDArray[np.int64],
    samples: int,
    times: Floats,
    decay: float,
) -> list[SubsetErrors]:
    r"""Gradient flow $\dot a=\frac1n\sum_i(y_i-a\cdot\phi_i)\phi_i-\lambda a$ from 0 on the first `samples` rows of
    `order`, looked at at each of `times`; $\lambda$ = `decay`. One diagonalisation of the rows that were drawn."""
    seen = order[:samples]
    if kernel is None:
        assert features is not None
        left, values, right = np.linalg.svd(features[seen] / np.sqrt(samples), full_matrices=False)
        projected = values[:, None] * (left.T @ labels[seen]) / np.sqrt(samples)
        basis, values = features @ right.T, values**2
    else:
        values, vectors = np.linalg.eigh(kernel[np.ix_(seen, seen)] / samples)
        projected, basis = vectors.T @ labels[seen] / samples, kernel[:, seen] @ vectors
    rates = np.maximum(values, 0.0) + max(decay, 1e-300)
    return [
        _errors(basis @ ((-np.expm1(-time * rates) / rates)[:, None] * projected), labels, order, samples)
        for time in times
    ]


def _errors(outputs: Floats, labels: Floats, order: NDArray[np.int64], samples: int) -> SubsetErrors:
    seen, rest = order[:samples], order[samples:]
    square = ((labels - outputs) ** 2).sum(axis=1)
    wrong = 0.0
    if labels.shape[1] > 1:
        wrong = float(np.mean(outputs[rest].argmax(axis=1) != labels[rest].argmax(axis=1)))
    return SubsetErrors(float(square[seen].mean()), float(square[rest].mean()), wrong)
