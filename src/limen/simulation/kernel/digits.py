r"""Real data: the 1797 handwritten digits that ship with scikit-learn, and honest or corrupted labels for them."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limen.problem.spec import InputError
from limen.simulation.generators import numpy_generator

CLASSES = 10


@dataclass(frozen=True, eq=False)
class Digits:
    r"""All images, `inputs` (1797, 64), and their classes, `labels` (1797,), 0 to 9.

    Pixels are centred over the whole set and every image is scaled to the norm $\sqrt d=8$, so that no image counts
    for more than another.
    """

    inputs: NDArray[np.float64]
    labels: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of the training images and of all others in the whole set, and the labels that training sees."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    train_labels: NDArray[np.int64]


@lru_cache(maxsize=1)
def load_digits() -> Digits:
    """The images and classes; arrays are read-only because every caller gets the same ones."""
    try:
        from sklearn import datasets
    except ImportError:
        raise InputError('the digits come with scikit-learn, which is missing: pip install "limen[data]".') from None
    images, labels = datasets.load_digits(return_X_y=True)
    inputs = np.asarray(images, dtype=float)
    inputs = inputs - inputs.mean(axis=0)
    inputs *= np.sqrt(inputs.shape[1]) / np.linalg.norm(inputs, axis=1, keepdims=True)
    classes = np.asarray(labels, dtype=np.int64)
    inputs.flags.writeable = classes.flags.writeable = False
    return Digits(inputs, classes)


def split_digits(seed: int, samples: int, images: int | None = None) -> Split:
    """`samples` of the first `images` (by default of all) drawn without replacement for training, with their true
    labels; the rest is for testing."""
    digits = load_digits()
    count = len(digits.labels) if images is None else images
    if not 1 <= samples < count:
        raise InputError(f"samples must lie between 1 and {count - 1}, got {samples}.")
    order = numpy_generator(seed, samples, "digits split").permutation(count)
    return Split(order[:samples], order[samples:], digits.labels[order[:samples]])


def corrupted(split: Split, corruption: float, seed: int) -> Split:
    """Each training label is replaced, with probability `corruption`, by a class drawn evenly from all ten.

    One seed decides for each image at which corruption its label falls, and to what: labels corrupted a little are
    corrupted a lot too.
    """
    if not 0.0 <= corruption <= 1.0:
        raise InputError(f"corruption must lie between 0 and 1, got {corruption}.")
    generator = numpy_generator(seed, len(split.train), "digits corruption")
    falls = generator.random(len(split.train)) < corruption
    replaced = np.where(falls, generator.integers(0, CLASSES, len(split.train)), split.train_labels)
    return Split(split.train, split.test, replaced)


def one_hot(labels: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""Rows $e_{label}-\frac1{10}$, shape (n, 10): a coordinate per class, which sum to zero."""
    return np.eye(CLASSES)[labels] - 1.0 / CLASSES


def corruption_noise(corruption: Any) -> Any:
    r"""Variance of a corrupted label, summed over classes: $(1-(1-q)^2)(1-\frac1{10})$; its mean is $(1-q)$ times the
    true one."""
    return (1.0 - (1.0 - corruption) ** 2) * (1.0 - 1.0 / CLASSES)
