"""The reduced chains of spherical SGD: steps per second of processor time over all seeds, whatever the dimension."""

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
        began = time.process_time()
        solve_seeds(problem, times, size, range(SEEDS))
        best = max(best, SEEDS * STEPS / (time.process_time() - began))
    return best


def test_five_million_steps_per_second_of_a_core_whatever_the_dimension():
    """Single-index with label noise, 1024 seeds side by side; best of 5."""
    problem = limen.SingleIndex("z**2", noise=0.1, step=0.02)
    small, large = (steps_per_second(problem, size) for size in (10**3, 10**6))
    print(f"{small:.3g} steps/s at N = 10^3, {large:.3g} at N = 10^6")
    assert small > 5e6
    assert large > 0.7 * small
