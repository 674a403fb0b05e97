"""What theory takes from real data: kernel matrix and classes of handwritten digits, and the leverages of features."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from limen.gaussian.sobol import sobol_normals
from limen.simulation.kernel.digits import load_digits, one_hot
from limen.simulation.kernel.digits_regression import relu_features, relu_kernel
from limen.theory.kernel.rows.subsets import RandomFeatures, SubsetRisk, subset_risk
from limen.theory.kernel.tangent.neural_tangent import ntk

# Random features from which the law of their leverages is taken.
EXAMPLES = 256


def digits_classes(images: int) -> NDArray[np.float64]:
    """Class coordinates of the first `images` of the set, shape (images, 10)."""
    return one_hot(load_digits().labels[:images])


def digits_risk(
    images: int, samples: int, ridge: float, features: float = np.inf, tangent_depth: int = 0
) -> SubsetRisk:
    """Regression on `samples` of the first `images` with so many ReLU features, infinitely many for the kernel; with a
    `tangent_depth`, with the tangent kernel of so many layers."""
    law = None if np.isinf(features) else RandomFeatures(features, _examples(images))
    return subset_risk(None, _kernel(images, tangent_depth), digits_classes(images), float(samples), ridge, law)


@lru_cache(maxsize=1)
def _kernel(images: int, tangent_depth: int) -> NDArray[np.float64]:
    inputs = load_digits().inputs[:images]
    return ntk(inputs, None, "relu", tangent_depth, 2.0)[1] if tangent_depth else relu_kernel(inputs)


@lru_cache(maxsize=1)
def _examples(images: int) -> NDArray[np.float64]:
    inputs = load_digits().inputs[:images]
    return relu_features(inputs, sobol_normals(EXAMPLES, inputs.shape[1], 0))
