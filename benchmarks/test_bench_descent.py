"""The mean-field theory of gradient descent: one set of paths, its growth, and the training it stands for."""

import json
import os
import subprocess
import sys

ONE_THREAD = {
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
# Threads are counted when the libraries are loaded: the measurement is a process of its own.
MEASUREMENT = """
import json, time, tracemalloc
import numpy as np
from scipy.special import ndtr
from limen import GradientDescent, TwoLayer, descent, network, target

def problem(width):
    return TwoLayer(target("z + z**2"), network(width, "gelu"), GradientDescent(0.3), samples_per_dim=8.0)

def solved(steps, width, paths):
    return descent.solve(problem(width), steps, paths=paths, scrambles=1)

# What the theory stands for, for one seed: gradient descent of one GeLU neuron at d = 1000, n = 8000, float32.
generator = np.random.default_rng(0)
x = generator.standard_normal((8000, 1000), dtype=np.float32)
y, start = x[:, 0] + x[:, 0] ** 2, np.full(1000, 1000**-0.5, np.float32)

def by_hand():
    theta = start
    for _ in range(80):
        field = x @ theta
        mass, density = ndtr(field), np.exp(-field * field / 2) * np.float32((2 * np.pi) ** -0.5)
        factor = (field * mass - y) * (mass + field * density)
        theta = theta - np.float32(0.3 / 8000) * (factor @ x)
    return theta

sizes = {
    "T=80": (80, 1, 4096), "T=40": (40, 1, 4096), "T=160": (160, 1, 4096),
    "paths=2048": (80, 1, 2048), "paths=8192": (80, 1, 8192),
    "m=3": (20, 3, 4096), "m=1": (20, 1, 4096), "m=2": (20, 2, 4096), "m=6": (20, 6, 4096),
}
runs = {"numpy": by_hand, **{name: (lambda size=size: solved(*size)) for name, size in sizes.items()}}
best = dict.fromkeys(runs, np.inf)
for run in runs.values():
    run()
for _ in range(3):
    for name, run in runs.items():
        began = time.process_time()
        run()
        best[name] = min(best[name], time.process_time() - began)
memory = {}
for name in ("T=80", "m=3"):
    tracemalloc.start()
    estimate = solved(*sizes[name]).statistics["memory"]
    memory[name] = tracemalloc.get_traced_memory()[1] / estimate
    tracemalloc.stop()
print(json.dumps({"seconds": best, "memory": memory}))
"""


def test_one_set_of_paths_in_a_second():
    """4096 paths and one scramble, all of `solve` timed after compilation, best of 3, beside 80 steps of NumPy.

    Cost must grow no faster than the T³, m³ and N of the operations, memory must be what is announced.
    """
    command = [sys.executable, "-c", MEASUREMENT]
    done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    seconds, memory = found["seconds"], found["memory"]
    print({name: f"{value * 1e3:.0f} ms" for name, value in seconds.items()})
    print({name: f"peak / estimate {value:.2f}" for name, value in memory.items()})
    assert seconds["T=80"] <= 1.0
    assert seconds["m=3"] <= 1.0
    assert seconds["T=80"] <= 2.0 * seconds["numpy"]
    # Nearly all of the T³ is products of large matrices, and does not yet show at these T: 2.7 measured.
    assert seconds["T=160"] <= 5.0 * seconds["T=80"] and seconds["T=80"] <= 5.0 * seconds["T=40"]
    assert seconds["paths=8192"] <= 2.6 * seconds["T=80"] and seconds["T=80"] <= 2.6 * seconds["paths=2048"]
    assert seconds["m=6"] <= 9.0 * seconds["m=3"]
    for name, value in memory.items():
        # Blocks of few steps are announced a tenth too large.
        assert 0.85 <= value <= 1.1, name
