"""Memory of descent on a fixed sample against the size X of its inputs, the whole sample and batches of half of it."""

import subprocess
import sys

import pytest

# The largest size of a process only grows: each case is a process of its own, and programs are compiled before.
MEASUREMENT = """
import resource, sys
import numpy as np
from limen.problem import GradientDescent, TwoLayer, network, target
from limen.simulation.descent.gradient_descent import solve

D, RATIO, TIMES = 2000, 25.6, np.array([0.0, 3.0])
problem = TwoLayer(target("z"), network(1, "tanh"), GradientDescent(0.1, batch_fraction=float(sys.argv[1])), RATIO)
solve(problem, TIMES, 20, 0)
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
solve(problem, TIMES, D, 0)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / (4 * RATIO * D**2))
"""


@pytest.mark.parametrize("fraction", ["1.0", "0.5"])
def test_at_most_1_2_times_the_inputs(fraction):
    """n = 51,200, d = 2,000, float32: X = 410 MB. What is left is the draw of a block of rows and the compiler."""
    done = subprocess.run([sys.executable, "-c", MEASUREMENT, fraction], capture_output=True, text=True, check=True)
    print(f"{float(done.stdout):.2f} X")
    assert float(done.stdout) < 1.2
