"""A step of gradient descent against the same step written in NumPy, one thread each."""

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
import jax, numpy as np
from limen.problem import GradientDescent, TwoLayer, network, target
from limen.simulation.descent.fixed_sample_training import prepare, recorded_with_path
from limen.simulation.descent.training_steps import train

STEPS, ETA = 10, np.float32(0.5)
problem = TwoLayer(
    target=target("z"), network=network(width=1, activation="tanh"), algorithm=GradientDescent(step=0.5),
    samples_per_dim=10.24,
)
setting = prepare(problem, 2000, 0, "float32")
x, y, start = np.asarray(setting.sample.x), np.asarray(setting.sample.y), np.asarray(setting.start.first)[0]

def by_hand():
    theta = start
    for _ in range(STEPS):
        value = np.tanh(x @ theta)
        factor = (value - y) * (1 - value * value)
        theta = theta - ETA / np.float32(len(y)) * (factor @ x)
    return theta

def trained(times):
    return jax.block_until_ready(train(problem, setting, np.array(times, float), 0, recorded_with_path))

runs = {
    "numpy": by_hand,
    "recorded every step": lambda: trained(range(1, STEPS + 1)),
    "recorded at the end": lambda: trained([STEPS]),
}
last = trained([STEPS]).path[-1, 0]
assert np.allclose(last, by_hand(), atol=1e-5)
best = dict.fromkeys(runs, np.inf)
for run in runs.values():
    run()
for _ in range(5):
    for name, run in runs.items():
        began = time.process_time()
        run()
        # The gradient at the last weights comes with the record of their loss.
        gradients = STEPS if name == "numpy" else STEPS + 1
        best[name] = min(best[name], (time.process_time() - began) / gradients)
print(json.dumps(best))
"""


def test_a_step_costs_at_most_1_3_steps_of_numpy():
    """n = 20,480, d = 2,000, width 1, float32; a gradient, best of 5, interleaved."""
    environment = {**os.environ, **ONE_THREAD}
    command = [sys.executable, "-c", MEASUREMENT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds = json.loads(done.stdout)
    print({name: f"{value * 1e3:.1f} ms" for name, value in seconds.items()})
    assert seconds["recorded every step"] <= 1.3 * seconds["numpy"]
    assert seconds["recorded at the end"] <= 1.3 * seconds["numpy"]
