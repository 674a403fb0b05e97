"""Overlap equations: one trajectory, many parameter sets, and the cost against the width."""

import json
import os
import subprocess
import sys

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
# Threads are counted when the libraries are loaded: the measurement is a process of its own.
MEASUREMENT = """
import json, time
import numpy as np
from limen import one_pass

def start(p, k, d=1000):
    units = np.random.default_rng(0).standard_normal((p, d)) / d**0.5
    return units @ units.T, units[:, :k], np.eye(k), 1.0, 1.0, "saad-solla"

def best(run, repeats):
    run()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return min(seconds)

times = np.linspace(0.0, 1000.0, 101)
one = best(lambda: one_pass.flow(*start(4, 2), 1.0, 0.0, times, tolerance=1e-6), 10)
rates = np.linspace(0.5, 1.5, 256)
many = best(lambda: one_pass.flows(*start(4, 2), rates, 0.0, times, tolerance=1e-6), 2)
widths = {}
for p in (2, 4, 8, 16, 32):
    result = one_pass.flow(*start(p, 2), 1.0, 0.0, 20.0, tolerance=1e-6)
    seconds = best(lambda: one_pass.flow(*start(p, 2), 1.0, 0.0, 20.0, tolerance=1e-6), 2)
    widths[p] = seconds / result.statistics["steps"]
print(json.dumps({"one": one, "many": many, "seconds a step, by width": widths}))
"""


def test_one_trajectory_and_256():
    """4 students, 2 teachers, saad-solla, to t = 1000 at relative tolerance 1e-6, all of `flow` timed."""
    command = [sys.executable, "-c", MEASUREMENT]
    done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=True)
    seconds = json.loads(done.stdout)
    print(seconds)
    assert seconds["one"] <= 0.015
    assert seconds["many"] <= 150 * seconds["one"]
