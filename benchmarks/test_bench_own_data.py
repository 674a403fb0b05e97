"""Your own data: the spectrum of a large table, points of a learning curve."""

import numpy as np

import limen

generator = np.random.default_rng(0)
table = generator.standard_normal((10_000, 1000))
inputs = generator.standard_t(6, (1000, 20))
labels = inputs[:, 0] + generator.standard_normal(1000)


def test_spectrum_of_a_large_table(benchmark):
    """Ten thousand rows of a thousand columns."""
    found = benchmark.pedantic(lambda: limen.data.spectrum(table), rounds=2)
    assert found.dataset.eigenvalue.size == 1000


def test_one_point_of_a_learning_curve(benchmark):
    """A thousand rows, ridge."""
    found = benchmark.pedantic(lambda: limen.data.learning_curve(inputs, labels, sizes=[200]), rounds=3)
    assert found.ok


def test_frontier_of_one_size(benchmark):
    """Mean risk of SGD without a draw, a million features."""
    found = benchmark.pedantic(
        lambda: limen.kernel.scaling_frontier(0.8, 0.4, [10**6], np.geomspace(1e8, 1e12, 9)), rounds=2
    )
    assert np.isfinite(found[0]).all()
