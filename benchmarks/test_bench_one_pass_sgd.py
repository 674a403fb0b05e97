"""One-pass SGD per sample against a NumPy loop of the same precision and blocking."""

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
import json, time
import numpy as np
from scipy.special import erf
from limen.problem import OnePassSGD, TwoLayer, network, target
from limen.simulation.one_pass.one_pass_sgd import solve

D, WIDTH, BLOCK, TIME = 1000, 4, 200, 5.0
SAMPLES = int(TIME * D * WIDTH)
problem = TwoLayer(
    target=target("committee:2"), network=network(width=WIDTH, activation="saad-solla"),
    algorithm=OnePassSGD(rate=1.0),
)
generator = np.random.default_rng(0)
ROOT, SLOPE, RATE = np.float32(0.5**0.5), np.float32((2 / np.pi) ** 0.5), np.float32(1.0 / (D * WIDTH))

def by_hand():
    weights = generator.standard_normal((WIDTH, D), dtype=np.float32) / np.float32(D**0.5)
    for _ in range(SAMPLES // BLOCK):
        block = generator.standard_normal((BLOCK, D), dtype=np.float32)
        labels = erf(block[:, :2] * ROOT).mean(axis=1)
        for x, y in zip(block, labels):
            fields = weights @ x
            residual = erf(fields * ROOT).mean() - y
            factors = RATE * residual * SLOPE * np.exp(-fields * fields / 2)
            weights -= factors[:, None] * x
    return weights

runs = {"numpy": by_hand, "limen": lambda: solve(problem, np.array([TIME]), D, 0)}
best = dict.fromkeys(runs, np.inf)
for run in runs.values():
    run()
for _ in range(5):
    for name, run in runs.items():
        began = time.process_time()
        run()
        best[name] = min(best[name], (time.process_time() - began) / SAMPLES)
print(json.dumps(best))
"""


def test_a_sample_costs_at_most_half_of_numpy():
    """d = 1,000, 4 neurons, float32, blocks of 200 samples; best of 5, interleaved; all of `solve` is timed."""
    environment = {**os.environ, **ONE_THREAD}
    command = [sys.executable, "-c", MEASUREMENT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds = json.loads(done.stdout)
    print({name: f"{value * 1e6:.1f} us" for name, value in seconds.items()})
    assert 2.0 * seconds["limen"] <= seconds["numpy"]
