"""How long the kernel chapter takes: a phase diagram of random features, and curves in time."""

import time

import numpy as np
import pytest

from limen.theory.kernel import random_features, random_features_flow, ridge_flow


@pytest.mark.benchmark(timer=time.process_time)
def test_random_features_map(benchmark):
    psi1, psi2 = np.meshgrid(np.geomspace(0.1, 10, 100), np.geomspace(0.1, 10, 100))
    risk = benchmark.pedantic(random_features, (psi1, psi2, 1e-3, "tanh", 1.0, 0.3, 0.2), rounds=5, warmup_rounds=1)
    assert risk.test.shape == (100, 100)
    assert benchmark.stats.stats.min <= 0.2


def test_random_features_flow_curve(benchmark):
    times = np.geomspace(0.01, 1e4, 100)
    benchmark.pedantic(random_features_flow, (6.0, 3.0, times, "relu", 1.0, 0.3, 0.2), rounds=3, warmup_rounds=1)


def test_flow_curve_at_the_threshold(benchmark):
    times = np.geomspace(0.01, 1e4, 100)
    benchmark.pedantic(ridge_flow, (1.0, times, 0.5), rounds=3, warmup_rounds=1)
