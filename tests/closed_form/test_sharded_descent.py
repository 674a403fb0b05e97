"""Gradient descent with rows of the inputs on several devices: the sample and the training of one device."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import limen
from limen.problem import InputError

# The devices of a process are counted when jax starts, so several of them need a process of their own.
SCRIPT = r"""
import json, sys
import jax, numpy as np
import limen
from limen.simulation.descent import fixed_sample, gradient_descent as simulator
from limen.simulation.descent.fixed_sample_training import prepare
from limen.simulation.descent.sharded_sample import row_mesh
fixed_sample.BLOCK_ENTRIES = 4000

problem = limen.TwoLayer(
    limen.target("z1 + z1*z2", noise=0.1), limen.network(3, "tanh", train_second_layer=True),
    limen.GradientDescent(0.5), samples_per_dim=8.3,
)
times, answer = np.array([0.0, 1.0, 5.0, 20.0]), {}
for name, inputs in (
    ("gaussian", limen.Inputs()), ("rademacher", limen.Inputs("rademacher")),
    ("variances", limen.Inputs(variances=(0.4, 1.6), fractions=(0.5, 0.5))),
):
    own = problem.model_copy(update={"inputs": inputs})
    with jax.enable_x64(True):
        one = prepare(own, 40, 1, "float64")
        four = prepare(own, 40, 1, "float64", row_mesh(4))
    kept = np.asarray(four.counts) > 0
    answer[name] = {
        "devices": len(four.sample.x.sharding.device_set),
        "rows": [shard.data.shape[0] for shard in four.sample.x.addressable_shards],
        "counted": int(kept.sum()), "n": one.sample.x.shape[0],
        "same_inputs": bool(np.array_equal(np.asarray(four.sample.x)[kept], np.asarray(one.sample.x))),
        "same_labels": bool(np.array_equal(np.asarray(four.sample.y)[kept], np.asarray(one.sample.y))),
    }
for dtype in ("float64", "float32"):
    runs = [simulator.solve(problem, times, 40, 1, dtype=dtype, devices=devices).dataset for devices in (1, 4)]
    answer[dtype] = {
        str(name): float(np.abs(runs[1][name] - runs[0][name]).max() / np.abs(runs[0][name]).max())
        for name in runs[0].data_vars
    }
    answer["moved"] = float(np.abs(runs[0].overlap[0, -1] - runs[0].overlap[0, 0]).max())
    answer["n_attribute"] = [int(run.attrs["n"]) for run in runs]
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def answer():
    # First: what follows an option without dashes is not read.
    flags = f"--xla_force_host_platform_device_count=4 {os.environ.get('XLA_FLAGS', '')}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("inputs", ["gaussian", "rademacher", "variances"])
def test_four_devices_hold_the_sample_of_one(answer, inputs):
    found = answer[inputs]
    assert (found["devices"], found["counted"]) == (4, found["n"])
    assert max(found["rows"]) < found["n"] / 2, "no device holds most of the inputs"
    assert found["same_inputs"]
    assert found["same_labels"]


def test_four_devices_train_as_one_does(answer):
    assert answer["n_attribute"] == [332, 332]
    assert answer["moved"] > 0.05
    assert max(answer["float64"].values()) < 1e-12
    assert max(answer["float32"].values()) < 2e-5


def test_more_devices_than_there_are_is_refused():
    problem = limen.TwoLayer(
        limen.target("z"), limen.network(1, "tanh"), limen.GradientDescent(0.5), samples_per_dim=2.0
    )
    with pytest.raises(InputError, match="devices must be from 1 to the"):
        limen.simulate(problem, 1, d=10, seeds=1, devices=1000)
    assert np.isfinite(limen.simulate(problem, 1, d=10, seeds=1, devices=1).dataset.train_loss).all()
