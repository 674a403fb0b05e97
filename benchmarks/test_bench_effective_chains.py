"""The reduced chains of spherical SGD: steps per second over all seeds on two cores, whatever the dimension."""

import os
import time

import numpy as np

import limen
from limen.simulation.effective.spherical_chain import solve_seeds

SEEDS, STEPS = 1024, 8192


def steps_per_second(problem, size):
    times = np.array([0.0, STEPS * problem.step / size])
    solve_seeds(problem, times, size, range(SEEDS))
    best = 0.0
    for _ in range(5):
        began = time.perf_counter()
        solve_seeds(problem, times, size, range(SEEDS))
        best = max(best, SEEDS * STEPS / (time.perf_counter() - began))
    return best


def test_ten_million_steps_per_second_on_two_cores_whatever_the_dimension():
    """Single-index with label noise, 1024 seeds side by side; best of 5."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    problem = limen.SingleIndex("z**2", noise=0.1, step=0.02)
    small, large = (steps_per_second(problem, size) for size in (10**3, 10**6))
    print(f"{small:.3g} steps/s at N = 10^3, {large:.3g} at N = 10^6, on {cores} cores")
    assert small > 1e7 * min(cores, 2) / 2
    assert large > 0.7 * small
