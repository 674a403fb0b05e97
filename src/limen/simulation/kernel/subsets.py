"""Ridge regression trained on random subsets of given rows, tested on the rows left out."""

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


def subset_errors(
    features: Floats | None, kernel: Floats | None, labels: Floats, samples: int, ridge: float, seed: int
) -> SubsetErrors:
    r"""Draws `samples` rows without replacement and minimises $\sum_i|y_i-a\cdot\phi_i|^2+\delta|a|^2$ over them.

    One of `features` (M, p) and `kernel` (M, M) is given; `ridge` is $\delta$.
    """
    order = numpy_generator(seed, samples, "subset").permutation(len(labels))
    seen, rest = order[:samples], order[samples:]
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
    square = ((labels - outputs) ** 2).sum(axis=1)
    wrong = 0.0
    if labels.shape[1] > 1:
        wrong = float(np.mean(outputs[rest].argmax(axis=1) != labels[rest].argmax(axis=1)))
    return SubsetErrors(float(square[seen].mean()), float(square[rest].mean()), wrong)
