r"""Random features and kernel regression on the handwritten digits."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from limen.simulation.generators import numpy_generator
from limen.simulation.kernel.digits import Split, load_digits, one_hot
from limen.simulation.kernel.spectral_estimators import RegressionErrors


def relu_kernel(inputs: NDArray[np.float64], others: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    r"""$K(x,x')=E_w[\sigma(\langle w,x\rangle/\sqrt d)\,\sigma(\langle w,x'\rangle/\sqrt d)]$, ReLU, $w\sim N(0,I)$.

    With the angle $\vartheta$ between $x$ and $x'$ it is
    $\frac{|x||x'|}{2\pi d}(\sin\vartheta+(\pi-\vartheta)\cos\vartheta)$ (Cho & Saul 2009).
    Shape (n, n), or (n, m) against `others`.
    """
    others = inputs if others is None else others
    product = np.outer(np.linalg.norm(inputs, axis=1), np.linalg.norm(others, axis=1))
    cosine = np.clip(inputs @ others.T / product, -1.0, 1.0)
    angle = np.arccos(cosine)
    return product / (2 * np.pi * inputs.shape[1]) * (np.sin(angle) + (np.pi - angle) * cosine)


def relu_tangent_kernel(
    inputs: NDArray[np.float64], others: NDArray[np.float64] | None = None, depth: int = 2
) -> NDArray[np.float64]:
    r"""The tangent kernel of an infinitely wide ReLU network of `depth` weight layers with $\sigma_w^2=2$, no biases.

    Every layer keeps the norms $2|x||x'|/d$ and maps the angle $\vartheta$ between two inputs by
    $\cos\vartheta\to\frac1\pi(\sin\vartheta+(\pi-\vartheta)\cos\vartheta)$; the kernel so far is multiplied by
    $1-\vartheta/\pi$, and the new covariance is added. Shape (n, n), or (n, m) against `others`.
    """
    others = inputs if others is None else others
    lengths = np.outer(np.linalg.norm(inputs, axis=1), np.linalg.norm(others, axis=1))
    cosine, scale = np.clip(inputs @ others.T / lengths, -1.0, 1.0), 2.0 / inputs.shape[1] * lengths
    tangent = scale * cosine
    for _ in range(depth - 1):
        angle = np.arccos(cosine)
        tangent *= 1.0 - angle / np.pi
        cosine = np.clip((np.sin(angle) + (np.pi - angle) * cosine) / np.pi, -1.0, 1.0)
        tangent += scale * cosine
    return tangent


def relu_features(inputs: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""$\mathrm{relu}(\langle w_j,x\rangle/\sqrt d)$, shape (n, N), for `weights` (N, d)."""
    return np.maximum(inputs @ weights.T / np.sqrt(inputs.shape[1]), 0.0)


def simulate_digits_features(split: Split, features: Sequence[int], ridge: float, seed: int) -> RegressionErrors:
    r"""Ridge regression of the classes on $N$ features $\frac1{\sqrt N}\mathrm{relu}(\langle w_j,x\rangle/\sqrt d)$.

    Minimises $\sum_i|y_i-f(x_i)|^2+\delta\|a\|^2$ over the training labels of `split`, once for each $N$ in `features`
    (the smaller sets of weights are the beginnings of the largest). Errors are sums over the ten classes: `test`
    against the *true* classes of the images left out, `train` against the labels that training saw. One column
    per $N$; $O(n\min(n,N)\,N)$ each.
    """
    digits = load_digits()
    weights = numpy_generator(seed, max(features), "digits features").standard_normal(
        (max(features), digits.inputs.shape[1])
    )
    active = relu_features(digits.inputs, weights)
    labels, truth = one_hot(split.train_labels), one_hot(digits.labels[split.test])
    test, train = [], []
    for count in features:
        rows = active[split.train, :count] / np.sqrt(count)
        fresh = active[split.test, :count] / np.sqrt(count)
        if count < len(rows):
            coefficients = np.linalg.solve(rows.T @ rows + ridge * np.eye(count), rows.T @ labels)
        else:
            coefficients = rows.T @ np.linalg.solve(rows @ rows.T + ridge * np.eye(len(rows)), labels)
        test.append(_mean_square(fresh @ coefficients - truth))
        train.append(_mean_square(rows @ coefficients - labels))
    return RegressionErrors(np.array(test), np.array(train))


def simulate_digits_kernel(splits: Sequence[Split], ridge: float, tangent_depth: int = 0) -> RegressionErrors:
    r"""Kernel ridge regression with `relu_kernel`, the features of `simulate_digits_features` with $N=\infty$; with a
    `tangent_depth`, with `relu_tangent_kernel` of so many layers.

    One column for each of `splits`, which share their images and differ in labels.
    """
    digits = load_digits()
    first = splits[0]
    order = np.concatenate([first.train, first.test])
    images, drawn = digits.inputs[order], digits.inputs[first.train]
    kernel = relu_tangent_kernel(images, drawn, tangent_depth) if tangent_depth else relu_kernel(images, drawn)
    truth = one_hot(digits.labels[first.test])
    labels = np.concatenate([one_hot(split.train_labels) for split in splits], axis=1)
    dual = np.linalg.solve(kernel[: len(first.train)] + ridge * np.eye(len(first.train)), labels)
    outputs = np.split(kernel @ dual, len(splits), axis=1)
    test = [_mean_square(output[len(first.train) :] - truth) for output in outputs]
    train = [
        _mean_square(output[: len(first.train)] - one_hot(split.train_labels))
        for output, split in zip(outputs, splits, strict=True)
    ]
    return RegressionErrors(np.array(test), np.array(train))


def _mean_square(residuals: NDArray[np.float64]) -> float:
    return float(np.mean(np.sum(residuals**2, axis=1)))
