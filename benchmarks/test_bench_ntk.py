"""Speed of the tangent kernel, best of ten in turns, one core: run with one BLAS thread."""

import time
from collections.abc import Callable

import numpy as np

from limen.theory.kernel.tangent.neural_tangent import ntk

POINTS, DIMENSION = 1000, 100


def best_in_turns(*ways: Callable[[], object]) -> list[float]:
    for work in ways:
        work()
    seconds = [np.inf] * len(ways)
    for _ in range(10):
        for i, work in enumerate(ways):
            start = time.process_time()
            work()
            seconds[i] = min(seconds[i], time.process_time() - start)
    return seconds


def plain_erf_kernel(x1: np.ndarray, x2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Three layers, one product and the least elementwise work on whole matrices, in place."""
    kernel = x1 @ x2.T
    kernel /= x1.shape[1]
    theta = kernel.copy()
    one, two = np.sum(x1**2, axis=1) / x1.shape[1], np.sum(x2**2, axis=1) / x1.shape[1]
    for _ in range(2):
        left, right = np.sqrt(2 / (1 + 2 * one))[:, None], np.sqrt(2 / (1 + 2 * two))
        kernel *= left
        kernel *= right
        slope = np.square(kernel)
        np.subtract(1.0, slope, out=slope)
        np.sqrt(slope, out=slope)
        np.divide(2 / np.pi * left, slope, out=slope)
        slope *= right
        np.arcsin(kernel, out=kernel)
        kernel *= 2 / np.pi
        theta *= slope
        theta += kernel
        one, two = (2 / np.pi * np.arcsin(2 * q / (1 + 2 * q)) for q in (one, two))
    return kernel, theta


def test_erf_kernel_of_three_layers_costs_its_elementwise_work() -> None:
    x1, x2 = np.random.default_rng(0).standard_normal((2, POINTS, DIMENSION))
    for found, wanted in zip(ntk(x1, x2, "erf", 3), plain_erf_kernel(x1, x2), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    baseline, two, one = best_in_turns(
        lambda: plain_erf_kernel(x1, x2), lambda: ntk(x1, x2, "erf", 3), lambda: ntk(x1, None, "erf", 3)
    )
    assert two <= 1.2 * baseline
    assert one <= 1.2 * baseline


def test_relu_kernel_costs_about_the_same() -> None:
    x = np.random.default_rng(0).standard_normal((POINTS, DIMENSION))
    baseline, own = best_in_turns(lambda: plain_erf_kernel(x, x), lambda: ntk(x, None, "relu", 3, 2.0))
    assert own <= 1.5 * baseline
