"""Overlap equations: one trajectory, many parameter sets, and the cost against the width."""

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
MEASUREMENT = r'''
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
        began = time.process_time()
        run()
        seconds.append(time.process_time() - began)
    return min(seconds)

def numpy_slope(Q, M, P, rate):
    """The same right-hand side in plain NumPy: all pairs at once, one arcsine per entry of each tilted covariance."""
    p, k = M.shape
    C = np.block([[Q, M], [M.T, P]])
    v = np.concatenate([-np.full(p, 1 / p), np.full(k, 1 / k)])
    width = 1 + np.diag(C)
    own = C[:p]
    kernel = v / np.sqrt(width[:p, None] * width - own**2)
    drift = 2 / np.pi * (kernel @ C - own * (kernel * own).sum(1, keepdims=True) / width[:p, None])
    i, j = np.triu_indices(p)
    Ci, Cj, c = C[i], C[j], C[i, j]
    determinant = width[i] * width[j] - c**2
    si = (width[j][:, None] * Ci - c[:, None] * Cj) / determinant[:, None]
    sj = (width[i][:, None] * Cj - c[:, None] * Ci) / determinant[:, None]
    tilted = C - si[:, :, None] * Ci[:, None] - sj[:, :, None] * Cj[:, None]
    root = 1 / np.sqrt(width - si * Ci - sj * Cj)
    angle = np.arcsin(np.clip(tilted * root[:, :, None] * root[:, None], -1, 1))
    values = (2 / np.pi) ** 2 / np.sqrt(determinant) * ((angle @ v) @ v)
    noise = np.zeros((p, p))
    noise[i, j] = noise[j, i] = values
    return drift[:, :p] + drift[:, :p].T + rate / p * noise, drift[:, p:]

times = np.linspace(0.0, 1000.0, 101)
call = (*start(4, 2), 1.0, 0.0)
steps = one_pass.flow(*call, times, tolerance=1e-6).statistics["steps"]
Q, M, P = call[:3]
slope = one_pass.right_hand_side(*call)
mine = numpy_slope(Q, M, P, 1.0)
assert np.allclose(slope["Q"], mine[0], atol=1e-12) and np.allclose(slope["M"], mine[1], atol=1e-12)
one = numpy_step = np.inf
for _ in range(10):  # side by side, so that both meet the same load
    one = min(one, best(lambda: one_pass.flow(*call, times, tolerance=1e-6), 3))
    numpy_step = min(numpy_step, best(lambda: [numpy_slope(Q, M, P, 1.0) for _ in range(20)], 1) / 20)
rates = np.linspace(0.5, 1.5, 256)
least_one = least_many = np.inf
for _ in range(8):  # in turns, so that both meet the same load; the least of each
    least_one = min(least_one, best(lambda: one_pass.flow(*call, times, tolerance=1e-6), 24))
    least_many = min(least_many, best(lambda: one_pass.flows(*start(4, 2), rates, 0.0, times, tolerance=1e-6), 1))
many, ratio = least_many, least_many / least_one
widths = {}
for p in (2, 4, 8, 16, 32):
    result = one_pass.flow(*start(p, 2), 1.0, 0.0, 20.0, tolerance=1e-6)
    seconds = best(lambda: one_pass.flow(*start(p, 2), 1.0, 0.0, 20.0, tolerance=1e-6), 3)
    widths[p] = seconds / result.statistics["steps"]
# Six new stages a step: what a NumPy integrator of the same order pays for right-hand sides alone.
numpy = 6 * steps * numpy_step
print(json.dumps({"one": one, "numpy": numpy, "256": many, "256 to one": ratio, "seconds a step, by width": widths}))
'''


def test_one_trajectory_and_256():
    """4 students, 2 teachers, saad-solla, to t = 1000 at relative tolerance 1e-6: all of `flow` in processor time, best
    of 30, beside the right-hand sides of the same steps in NumPy; 256 parameter sets; seconds a step, by width."""
    command = [sys.executable, "-c", MEASUREMENT]
    done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=True)
    seconds = json.loads(done.stdout)
    print(seconds)
    assert seconds["one"] <= 0.015
    assert 5 * seconds["one"] <= seconds["numpy"]
    assert seconds["256 to one"] <= 150
    widths = seconds["seconds a step, by width"]
    # p^2 (p + k)^2 / 2 arcsines: 14 times more from 16 to 32, where they are all that counts.
    assert widths["32"] <= 25 * widths["16"]
