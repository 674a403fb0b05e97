"""What a user waits for, as one table: `python benchmarks/table.py [word ...]`, or the end of `make bench`.

Every row stands beside a baseline measured in the same run, in turns, best of several, in processor time on one thread:
a slow or busy machine slows both. A cold row is a new process with no compiled programs kept; beside it stands a
process that imports jax and xarray, which every answer needs. Words choose the rows whose names hold one of them.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ONE_THREAD = {
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
IMPORTS = "import jax, xarray"
LIMEN = Path(sys.executable).with_name("limen")


@dataclass(frozen=True)
class Process:
    """A process from its beginning to its end. `kept`: with what an earlier one like it has compiled and stored."""

    what: str
    goal: float
    command: tuple[str, ...]
    kept: bool = False


@dataclass(frozen=True)
class Call:
    """`run()` against `beside()`, both defined by `code`; `goal` bounds their ratio. `beside` says what it is."""

    what: str
    goal: float
    beside: str
    code: str


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


def limen(*words: str) -> tuple[str, ...]:
    return str(LIMEN), *words


PREDICT = """
import limen
problem = limen.TwoLayer({target}, limen.network({width}, {activation}), {algorithm}{more})
limen.predict(problem, {times})
"""
START = ", start=limen.OverlapStart(0.3, gram=((1.0, 0.1), (0.1, 1.0)))"
COMMITTEE = "'(({0})+({1}))/2'"
ONE_PASS = PREDICT.format(
    target="'committee:2'",
    width=2,
    activation="'saad-solla'",
    algorithm="limen.OnePassSGD(1.0)",
    more=START,
    times=5.0,
)
OWN = PREDICT.format(
    target=COMMITTEE.format("z1+tanh(z1)/3", "z2+tanh(z2)/3"),
    width=2,
    activation="'z+tanh(z)/3'",
    algorithm="limen.OnePassSGD(1.0)",
    more=START,
    times=5.0,
)
DESCENT = PREDICT.format(
    target="'z'", width=1, activation="'tanh'", algorithm="limen.GradientDescent(0.5)", more=", 4.0", times=10
)
FLOW = PREDICT.format(
    target="'z'", width=8, activation="'tanh'", algorithm="limen.GradientFlow()", more=", 4.0", times=5.0
)
THEORY = "from limen.experiments.registry import experiment_class as kind; e = kind('{}')(); e.theory((0, 1, 2, 3))"

PROCESSES = (
    Process("limen list", 0.4, limen("list")),
    Process("limen run grokking --help", 0.4, limen("run", "grokking", "--help")),
    Process("import limen; limen.predict", 1.0, python("import limen; limen.predict")),
    Process("one-pass SGD, first prediction of a second process", 2.0, python(ONE_PASS), kept=True),
    Process("gradient descent, the same", 2.0, python(DESCENT), kept=True),
    Process("gradient flow, the same", 2.0, python(FLOW), kept=True),
    Process("stored run shown again", 1.0, limen("run", "marchenko-pastur", "--seeds", "2"), kept=True),
    Process("own activation in one-pass SGD, cold", 3.0, python(OWN)),
    *(
        Process(f"{name}, theory, cold", 4.0, python(THEORY.format(name)))
        for name in ("committee-sgd", "overparametrized-committee", "sgd-regimes")
    ),
    Process("unlearning, theory", 1.5, python(THEORY.format("unlearning")), kept=True),
    Process("grokking, theory", 5.0, python(THEORY.format("grokking")), kept=True),
)

OVERLAPS = """
import numpy as np
from limen import one_pass
units = np.random.default_rng(0).standard_normal((4, 1000)) / 1000**0.5
start, times = (units @ units.T, units[:, :2], np.eye(2), 1.0, 1.0, "saad-solla"), np.linspace(0.0, 1000.0, 101)
beside = lambda: one_pass.flow(*start, 1.0, 0.0, times, tolerance=1e-6)
run = lambda: one_pass.flows(*start, np.linspace(0.5, 1.5, 256), 0.0, times, tolerance=1e-6)
"""
SGD = """
import numpy as np
from limen.problem import OnePassSGD, TwoLayer, network, target
from limen.simulation.one_pass.one_pass_sgd import solve
problem = TwoLayer(target("committee:2"), network(4, "saad-solla"), OnePassSGD(1.0))
generator = np.random.default_rng(0)
run = lambda: solve(problem, np.array([1.0]), 1000, 0)
beside = lambda: generator.standard_normal((4000, 1000), dtype=np.float32)
"""
STEP = """
import jax, numpy as np
from limen.problem import GradientDescent, TwoLayer, network, target
from limen.simulation.descent.fixed_sample_training import prepare, recorded
from limen.simulation.descent.training_steps import train
problem = TwoLayer(target("z"), network(1, "tanh"), GradientDescent(0.5), 10.24)
setting = prepare(problem, 2000, 0, "float32")
x, theta = np.asarray(setting.sample.x), np.asarray(setting.start.first)[0]
# The gradient at the last weights comes with the record of their loss.
run = lambda: jax.block_until_ready(train(problem, setting, np.array([9.0]), 0, recorded))
def beside():
    for _ in range(10):
        x @ theta
"""
LATENTS = """
import numpy as np, limen
from limen.simulation.population_loss import population_losses
problem = limen.TwoLayer(limen.target("z1*z2"), limen.network(4, "tanh"), limen.OnePassSGD(0.1))
weights = 0.5 * np.random.default_rng(0).standard_normal((101, 4, 6))
given = weights[:, :, :2], weights @ weights.swapaxes(1, 2), np.ones((101, 4))
run = lambda: population_losses(problem, *given)
y, nodes = np.linspace(-9.0, 9.0, 121), np.linspace(-8.0, 8.0, 401)[:, None]
def beside():
    for _ in range(404):
        np.tanh(nodes + y)
"""
PATHS = """
from limen import GradientDescent, TwoLayer, descent, network, target
problem = TwoLayer(target("z + z**2"), network(1, "gelu"), GradientDescent(0.3), samples_per_dim=8.0)
run = lambda: descent.solve(problem, 320, paths=4096, scrambles=1)
beside = lambda: descent.solve(problem, 80, paths=4096, scrambles=1)
"""
HESSIAN = """
import numpy as np
from limen.simulation.effective.classifier_hessian import hessian_operator
from limen.spectra import lanczos
generator = np.random.default_rng(0)
weights = tuple(generator.standard_normal(shape) for shape in ((64, 64), (64, 32), (32, 10)))
x, labels = generator.standard_normal((2000, 64)), generator.integers(0, 10, 2000)
product = hessian_operator(weights, x, labels, "square", "float32")
run = lambda: lanczos(product, 6464, 100, 1)
wide = [x.astype(np.float32), *(w.astype(np.float32) for w in weights)]
def beside():
    # The matrix products of 100 gradients alone.
    for _ in range(100):
        hidden = wide[0] @ wide[1]; second = hidden @ wide[2]; out = second @ wide[3]
        back = out @ wide[3].T; first = back @ wide[2].T
        second.T @ out, hidden.T @ back, wide[0].T @ first
"""
ATTENTION = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
from limen.attention import uniform_tokens
from limen.simulation.attention.ensemble import IDENTITY, batched_field
tokens = uniform_tokens(32, 128, range(64))
field = jax.jit(lambda x: batched_field(x, jnp.asarray(2.0), IDENTITY, 1, True, None, None))
moving = jnp.asarray(tokens)
logits, mixed = np.empty((64, 32, 32)), np.empty_like(tokens)
def run():
    for _ in range(20):
        field(moving).block_until_ready()
def beside():
    for _ in range(20):
        np.matmul(tokens, tokens.swapaxes(1, 2), out=logits); np.exp(logits, out=logits)
        np.matmul(logits, tokens, out=mixed)
"""
POINT = """
import numpy as np
from limen.kernel import random_features
def run():
    for _ in range(50):
        random_features(2.0, 3.0, 1e-3, "tanh", 1.0, 0.3, 0.2)
psi = np.full(10_000, 2.0)
beside = lambda: random_features(psi, 3.0, 1e-3, "tanh", 1.0, 0.3, 0.2)
"""

CALLS = (
    Call("256 parameter sets of the committee ODE", 80.0, "one set", OVERLAPS),
    Call("one-pass SGD, d = 1000, 4 students", 1.4, "drawing its inputs in NumPy", SGD),
    Call("gradient descent, 10 steps, 20480 x 2000 float32", 1.25, "10 products of the inputs with a vector", STEP),
    Call("losses of two latents, 101 times, 4 neurons", 1.0, "tanh at 401 x 121 points for each", LATENTS),
    Call("descent with responses, 320 steps", 16.0, "80 steps: T² is 16", PATHS),
    Call("Hessian, 6464 parameters, one probe of 100 steps", 3.0, "products of 100 gradients", HESSIAN),
    Call("attention field, 64 systems of 32 x 128", 1.3, "its products and exponentials in NumPy", ATTENTION),
    Call("50 lone points of random features", 2.5, "10,000 points at once", POINT),
)

HARNESS = """
import json, time
{code}
def seconds(work):
    began = time.process_time()
    work()
    return time.process_time() - began
run(), beside()
print(json.dumps([min(times) for times in zip(*[(seconds(run), seconds(beside)) for _ in range(5)])]))
"""


def processor_seconds(command: tuple[str, ...], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured_process(row: Process, folder: Path) -> tuple[float, float]:
    """Seconds of the row and of the baseline, each the best of three, in turns."""
    own, baseline = [], []
    for turn in range(3):
        place = folder / ("kept" if row.kept else f"{abs(hash(row.what))}-{turn}")
        environment = os.environ | ONE_THREAD | {"XDG_CACHE_HOME": str(place), "LIMEN_STORE": str(place / "store")}
        if row.kept and turn == 0:
            processor_seconds(row.command, environment)
        own.append(processor_seconds(row.command, environment))
        baseline.append(processor_seconds(python(IMPORTS), environment))
    return min(own), min(baseline)


def measured_call(row: Call) -> tuple[float, float]:
    command = python(HARNESS.format(code=row.code))
    done = subprocess.run(command, env=os.environ | ONE_THREAD, check=True, capture_output=True, text=True)
    own, baseline = json.loads(done.stdout)
    return own, baseline


def main(words: list[str]) -> None:
    def wanted(row: Process | Call) -> bool:
        return not words or any(word in row.what for word in words)

    print("| what | limen | baseline | ratio | goal | |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for row in filter(wanted, PROCESSES):
            own, baseline = measured_process(row, Path(folder))
            met = "reached" if own <= row.goal else ""
            print(
                f"| {row.what} | {own:.2f} s | {baseline:.2f} s, importing jax and xarray | {own / baseline:.2f} "
                f"| {row.goal:g} s | {met} |",
                flush=True,
            )
    for row in filter(wanted, CALLS):
        own, baseline = measured_call(row)
        met = "reached" if own <= row.goal * baseline else ""
        print(
            f"| {row.what} | {1e3 * own:.3g} ms | {1e3 * baseline:.3g} ms, {row.beside} | {own / baseline:.3g} "
            f"| {row.goal:g} | {met} |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
