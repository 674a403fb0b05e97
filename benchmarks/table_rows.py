"""The rows of `table.py`: what is waited for, what stands beside it, and the goal.

Code of a row runs in its own process, in this tree and in the one it is compared with; it uses names that both have,
or says which stand for them.
"""

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Process:
    """A process from its beginning to its end. `kept`: with what an earlier one like it has compiled and stored."""

    what: str
    goal: float
    command: tuple[str, ...]
    kept: bool = False


@dataclass(frozen=True)
class Call:
    """`run()` against `beside()`, both defined by `code`; `goal` bounds their ratio.

    `part`: the goal as a part of the time before, where the goal was set so; it counts where there is a tree before.
    """

    what: str
    goal: float
    beside: str
    code: str
    part: float | None = None


@dataclass(frozen=True)
class Number:
    """A number that `code` prints, in `unit`; the goal is the most allowed, or the least where `least`."""

    what: str
    goal: float
    unit: str
    code: str
    least: bool = False


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


def limen(*words: str) -> tuple[str, ...]:
    return (*python("import sys; from limen.cli.main import main; sys.argv[0] = 'limen'; sys.exit(main())"), *words)


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
KINK = PREDICT.format(
    target=COMMITTEE.format("relu(z1)", "relu(z2)"),
    width=2,
    activation="'relu'",
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
FIRST_LOOK = """
from limen.experiments.registry import experiment_class as kind
assert kind('grokking')().first_look() is not None
"""
FLOWS = (
    "unlearning", "interpolation-threshold", "interpolation-diagram", "lazy-vs-feature", "overfitting-bound",
    "complexity-growth",
)  # fmt: skip

PROCESSES = (
    Process("`limen list`", 0.4, limen("list")),
    Process("`limen run grokking --help`", 0.4, limen("run", "grokking", "--help")),
    Process("`import limen; limen.predict`", 1.0, python("import limen; limen.predict")),
    Process("one-pass SGD, first prediction of a second process", 2.0, python(ONE_PASS), kept=True),
    Process("gradient descent, the same", 2.0, python(DESCENT), kept=True),
    Process("gradient flow of eight neurons, the same", 2.0, python(FLOW), kept=True),
    Process("stored run shown again", 1.0, limen("run", "marchenko-pastur", "--seeds", "2"), kept=True),
    Process("own activation in one-pass SGD, cold", 3.0, python(OWN)),
    Process("ReLU in one-pass SGD, cold", 3.0, python(KINK)),
    *(
        Process(f"`{name}`, theory, cold", 4.0, python(THEORY.format(name)))
        for name in ("committee-sgd", "overparametrized-committee", "sgd-regimes")
    ),
    Process("`grokking`, first curve", 1.0, python(FIRST_LOOK), kept=True),
    Process("`grokking`, theory", 5.0, python(THEORY.format("grokking")), kept=True),
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
from limen.simulation.descent.fixed_sample_training import prepare
problem = TwoLayer(target("z"), network(1, "tanh"), GradientDescent(0.5), 10.24)
setting = prepare(problem, 2000, 0, "float32")
x, theta = np.asarray(setting.sample.x), np.asarray(setting.start.first)[0]
# The gradient at the last weights comes with the record of their loss.
try:
    from limen.simulation.descent.fixed_sample_training import recorded
    from limen.simulation.descent.training_steps import train
    run = lambda: jax.block_until_ready(train(problem, setting, np.array([9.0]), 0, recorded))
except ImportError:
    from limen.simulation.descent.gradient_descent import _train
    from limen.simulation.two_layer_gradient import functions_of
    counts = np.int32(0), np.array([9, 1], np.int32)
    run = lambda: jax.block_until_ready(_train(functions_of(problem), False, True, None, setting, *counts))
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
try:
    product = hessian_operator(weights, x, labels, "square", "float32")
except TypeError:
    product = hessian_operator(weights, x, labels, "square")
run = lambda: lanczos(product, 6464, 100, 2)
wide = [x.astype(np.float32), *(w.astype(np.float32) for w in weights)]
def beside():
    # The matrix products of 200 gradients alone.
    for _ in range(200):
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

SECOND = (
    """
import warnings
import limen
numbers = iter(range(1, 1000))
def predicted(rate):
    problem = limen.TwoLayer("""
    + COMMITTEE.format("z1+tanh(z1)/3", "z2+tanh(z2)/3")
    + """, limen.network(2, "z+tanh(z)/3"), limen.OnePassSGD(rate),
        start=limen.OverlapStart(0.3, gram=((1.0, 0.1), (0.1, 1.0))))
    return limen.predict(problem, 5.0)
import numpy as np
run = lambda: predicted(1.0 + 1e-3 * next(numbers))
beside = lambda: np.tanh(np.linspace(-8.0, 8.0, 3_000_000))
"""
)
MEMORY = """
import resource, sys
import numpy as np
from limen.problem import GradientDescent, TwoLayer, network, target
from limen.simulation.descent.gradient_descent import solve
times = np.array([0.0, 3.0])
problem = TwoLayer(target("z"), network(1, "tanh"), GradientDescent(0.1, batch_fraction={}), 25.6)
solve(problem, times, 20, 0)
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
solve(problem, times, 2000, 0)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / (4 * 25.6 * 2000**2))
"""
PATHS_MEMORY = """
import resource
from limen import GradientDescent, TwoLayer, descent, network, target
problem = TwoLayer(target("z + z**2"), network(1, "gelu"), GradientDescent(0.3), samples_per_dim=8.0)
descent.solve(problem, 5, paths=4096, scrambles=1)
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
descent.solve(problem, 320, paths=4096, scrambles=1)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / 1e6)
"""
COMPILED = """
import jax.monitoring
import limen
counted = []
jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: counted.append(name))
for point in range(1000):
    problem = limen.TwoLayer(
        limen.target("committee:2", noise=1e-3 * point), limen.network(2, "saad-solla"),
        limen.OnePassSGD(1.0 + 1e-3 * point), start=limen.OverlapStart(0.3, gram=((1.0, 0.1), (0.1, 1.0))),
    )
    limen.predict(problem, 5.0)
    if point == 0:
        counted.clear()
print(sum(name.endswith("backend_compile_duration") for name in counted))
"""
WORKER = """
import resource, tempfile
import limen
from limen.experiments.registry import experiment_class
from limen.storage import FileStore
from limen.sweeps.pool import LocalPool
kind = experiment_class("committee-sgd")
def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
def swept():
    began = children()
    with tempfile.TemporaryDirectory() as folder:
        with LocalPool(1) as pool:
            limen.sweep(kind(**kind.quick), {"rate": "1:1:1"}, 1, executor=pool, store=FileStore(folder))
    return children() - began
swept()
print(swept())
"""
TWO = """
import os, sys, tempfile, time
if len(os.sched_getaffinity(0)) < 2:
    sys.exit("two workers need two cores")
sys.path.insert(0, "tests/sweeps/toy")
import limen
from limen_toy import Toy
from limen.storage import FileStore
from limen.sweeps.pool import LocalPool
def swept(workers):
    with tempfile.TemporaryDirectory() as folder, LocalPool(workers) as pool:
        limen.sweep(Toy(), {"slope": "0:3:4"}, 1, executor=pool, job_seconds=0.5, store=FileStore(folder + "/first"))
        began = time.perf_counter()
        options = {"executor": pool, "job_seconds": 0.5, "store": FileStore(folder + "/second")}
        limen.sweep(Toy(busy=2_000_000), {"slope": "1:12:12"}, 3, **options)
        return time.perf_counter() - began
seconds = [(swept(1), swept(2)) for _ in range(2)]
print(min(one for one, _ in seconds) / min(two for _, two in seconds))
"""

CALLS = (
    Call("own activation in one-pass SGD, again", 7.0, "three million tanh in NumPy", SECOND),
    Call("256 parameter sets of the committee ODE", 80.0, "one set", OVERLAPS),
    Call("4000 samples of one-pass SGD, d = 1000, 4 students", 0.61, "drawing them in NumPy", SGD, 8.0 / 12.4),
    Call("10 steps of descent, 20480 x 2000 float32", 1.25, "10 products of inputs and vector", STEP, 14.0 / 21.1),
    Call("losses of two latents, 101 times, 4 neurons", 1.0, "tanh at 401 x 121 points for each", LATENTS),
    Call("descent with responses, 320 steps, 4096 paths", 16.0, "80 steps: T² is 16", PATHS, 4.0 / 9.5),
    Call("Hessian, 6464 parameters, two probes of 100 steps", 1.54, "products of 200 gradients", HESSIAN, 0.12 / 0.33),
    Call("20 attention fields, 64 systems of 32 x 128", 1.3, "its products and exponentials", ATTENTION),
    Call("50 lone points of random features", 2.5, "10,000 points at once", POINT, 0.2 / 1.7),
)

NUMBERS = (
    Number("memory of descent, whole sample, 51200 x 2000", 1.1, "X", MEMORY.format(1.0)),
    Number("memory of descent, batches of half", 1.1, "X", MEMORY.format(0.5)),
    Number("memory of descent with responses, 320 steps", float("inf"), "MB", PATHS_MEMORY),
    Number("programs compiled by 1000 points of one structure, after the first", 0, "programs", COMPILED),
    Number("processor time of a new process in a sweep", 2.0, "s", WORKER),
    Number("two workers against one, on the clock", 1.8, "times", TWO, least=True),
)

ROWS = (
    *PROCESSES,
    *CALLS,
    *NUMBERS,
    *(Process(f"`{name}`, theory", 1.5, python(THEORY.format(name)), kept=True) for name in FLOWS),
)
