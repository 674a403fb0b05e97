"""Random problems that nobody tuned, put through predict, simulate and compare.

    python benchmarks/campaign.py --count 20 --seed 7          what happens to them, as a table
    python benchmarks/campaign.py --count 20 --seed 7 --plant  the same with time running a tenth too fast in theory

Every draw depends on the seed and its number alone. For every *disagrees* a smaller problem that still disagrees is
looked for and printed. `tests/agreement/test_campaign.py` runs a small draw.
"""

import argparse
import contextlib
import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import limen
from limen.problem.spec import InputError, Spec
from limen.problem.times import time_grid

LONGEST = 60  # seconds of processor time for one problem; more is a hang
PLANTED = 1.1
SMOOTH = ("tanh", "gelu", "erf", "sigmoid", "softplus", "square", "linear", "z**2-1", "tanh(z)+0.3*z", "hermite:3")
KINKED = ("relu", "abs(z)", "relu(z)-0.2*z")
SINGLE = (
    "z", "z**2", "z+0.3*z**2", "tanh(z)", "relu(z)", "sign(z)", "z**3-z", "abs(z)", "heaviside(z-0.5)", "gelu(z)",
    "erf(2*z)", "z>0.5", "sin(z)", "exp(-z**2)", "sign(z+0.3*e)", "z+0.5*z*e", "sqrt(1+z**2)", "cos(z)+0.5*z",
)  # fmt: skip
MULTI = (
    "z1*z2", "z1+z2**2", "committee:2", "parity:2", "relu(z1)-0.5*relu(z2)", "tanh(z1)*z2", "z1+z1*z2", "max(z1,z2)",
    "halfspaces:2", "committee:3", "z1+z2*z3",
)  # fmt: skip
LOSSES = ("square",) * 7 + ("huber:1", "pseudo-huber:1", "logistic")


@dataclass(frozen=True)
class Draw:
    """A problem, the times asked for, the dimension and the number of seeds."""

    problem: Spec
    times: Any
    d: int
    seeds: int

    def __str__(self) -> str:
        times = np.asarray(self.times).tolist()
        return f"problem = {self.problem!r}\ntimes, d, seeds = {times}, {self.d}, {self.seeds}"


@dataclass(frozen=True)
class Outcome:
    """What became of a draw: a verdict, `refused` with the reason, `not ok` with the status, or `crash`."""

    verdict: str
    sentence: str
    seconds: float


def draw(seed: int, number: int) -> Draw:
    """Draw `number` of the campaign `seed`."""
    random = np.random.default_rng([seed, number])
    families = (one_pass, spherical, descent, flow, kernel, single, mixture, tensor)
    chances = (0.28, 0.09, 0.26, 0.09, 0.1, 0.1, 0.05, 0.03)
    for _ in range(100):
        family = families[random.choice(len(families), p=chances)]
        # An invalid draw (an overlap too long for its sphere) is drawn again.
        with contextlib.suppress(InputError):
            return family(random)
    raise AssertionError("no valid problem in 100 draws")


def uniform(random: np.random.Generator, low: float, high: float) -> float:
    """A number with three digits, so that it can be retyped."""
    return float(f"{random.uniform(low, high):.3g}")


def network_and_target(random: np.random.Generator, activations: tuple[str, ...], most: int = 4) -> tuple[Any, Any]:
    """A network of small width with a random second layer and bias, and a target with or without noise."""
    several = random.random() < 0.3
    formula = str(random.choice(MULTI if several else SINGLE))
    noise = uniform(random, 0.01, 0.5) if random.random() < 0.5 else 0.0
    width = int(random.integers(1, most + 1))
    second = tuple(uniform(random, 0.4, 1.6) for _ in range(width)) if random.random() < 0.4 else 1.0
    bias = tuple(uniform(random, -0.4, 0.4) for _ in range(width)) if random.random() < 0.2 else 0.0
    network = limen.network(
        width,
        str(random.choice(activations)),
        second_layer=second,
        bias=bias,
        initial_norm=uniform(random, 0.6, 1.3) if random.random() < 0.3 else 1.0,
        train_second_layer=bool(random.random() < 0.25),
    )
    return network, limen.target(formula, noise=noise)


def some_start(random: np.random.Generator, network: Any, target: Any, warm: float = 0.7) -> Any:
    """Overlaps of order one, with or without a Gram matrix, or a random start."""
    if random.random() > warm:
        return limen.RandomStart()
    size = 0.6 * network.initial_norm / np.sqrt(target.latents)
    overlap = np.round(random.uniform(-0.2, 1.0, (network.width, target.latents)) * size, 3)
    if random.random() < 0.6:
        return limen.OverlapStart(overlap)
    rest = random.standard_normal((network.width, network.width + 3))
    rest *= uniform(random, 0.5, 0.9) / np.linalg.norm(rest, axis=1, keepdims=True)
    return limen.OverlapStart(overlap, np.round(overlap @ overlap.T + rest @ rest.T, 6))


def some_loss(random: np.random.Generator, target: Any) -> str:
    """Mostly the square loss; logistic only where labels are signs."""
    loss = str(random.choice(LOSSES))
    return "square" if loss == "logistic" and "sign" not in str(target.formula) else loss


def one_pass(random: np.random.Generator) -> Draw:
    """One-pass SGD."""
    network, target = network_and_target(random, SMOOTH[:-1] + KINKED)
    batch = int(random.choice([1, 1, 1, 4]))
    algorithm = limen.OnePassSGD(uniform(random, 0.1, 0.8), batch=batch)
    problem = limen.TwoLayer(
        target, network, algorithm, None, some_loss(random, target), some_start(random, network, target)
    )
    return Draw(problem, np.linspace(0.0, uniform(random, 1.0, 4.0), 9), int(random.integers(150, 301)), 64)


def spherical(random: np.random.Generator) -> Draw:
    """SGD on the sphere."""
    network, target = network_and_target(random, SMOOTH[:-1] + KINKED, 2)
    algorithm = limen.SphericalSGD(uniform(random, 0.1, 0.6))
    problem = limen.TwoLayer(target, network, algorithm, start=some_start(random, network, target))
    return Draw(problem, np.linspace(0.0, uniform(random, 1.0, 3.0), 9), int(random.integers(150, 301)), 64)


def descent(random: np.random.Generator) -> Draw:
    """Full-batch gradient descent, with momentum, weight decay or mini-batches now and then."""
    network, target = network_and_target(random, SMOOTH[:-1] + KINKED[:1], 3)
    extra: dict[str, Any] = {}
    if random.random() < 0.2:
        extra["weight_decay"] = uniform(random, 0.01, 0.2)
    if random.random() < 0.2:
        extra["momentum"] = uniform(random, 0.2, 0.8)
    if random.random() < 0.15:
        extra["batch_fraction"] = 0.5
    if not extra and random.random() < 0.25:
        extra["spherical"] = True
    algorithm = limen.GradientDescent(uniform(random, 0.1, 0.6) * network.width, **extra)
    problem = limen.TwoLayer(
        target,
        network,
        algorithm,
        uniform(random, 2.0, 9.0),
        some_loss(random, target),
        some_start(random, network, target),
    )
    return Draw(problem, int(random.integers(5, 13)), int(random.integers(150, 301)), 64)


def flow(random: np.random.Generator) -> Draw:
    """Gradient flow on the sphere."""
    network, target = network_and_target(random, SMOOTH[:6], 3)
    network = limen.network(network.width, network.activation, train_second_layer=network.train_second_layer)
    overlap = limen.OverlapStart(uniform(random, 0.1, 0.6) / target.latents**0.5)
    problem = limen.TwoLayer(target, network, limen.GradientFlow(), uniform(random, 2.0, 6.0), "square", overlap)
    return Draw(problem, np.linspace(0.0, uniform(random, 1.0, 4.0), 6), int(random.integers(150, 251)), 32)


def kernel(random: np.random.Generator) -> Draw:
    """Ridge regression and random features."""
    noise, ridge = uniform(random, 0.05, 0.6), uniform(random, 0.01, 0.5)
    times = np.linspace(0.0, uniform(random, 2.0, 10.0), 6)
    if random.random() < 0.5:
        return Draw(limen.Ridge(uniform(random, 0.3, 2.0), noise=noise, ridge=ridge), times, 300, 96)
    activation = str(random.choice(("tanh", "relu", "erf", "gelu")))
    problem = limen.RandomFeatures(
        uniform(random, 0.5, 3.0), uniform(random, 0.7, 4.0), activation, ridge=ridge, noise=noise
    )
    return Draw(problem, times, 200, 96)


def single(random: np.random.Generator) -> Draw:
    """One unit vector on the sphere: single-index, online PCA, a mixture of two."""
    start = limen.OverlapStart(uniform(random, 0.1, 0.7)) if random.random() < 0.6 else limen.RandomStart()
    step, choice = uniform(random, 0.1, 0.6), random.integers(3)
    if choice == 0:
        link = str(random.choice(("relu", "tanh", "z**2", "gelu", "erf")))
        problem: Spec = limen.SingleIndex(link, noise=uniform(random, 0.0, 0.3), step=0.3 * step, start=start)
    elif choice == 1:
        problem = limen.OnlinePCA(uniform(random, 0.5, 3.0), step, start)
    else:
        problem = limen.BinaryMixture(uniform(random, 0.55, 0.9), step, start)
    return Draw(problem, np.linspace(0.0, uniform(random, 0.5, 3.0), 7), int(random.integers(150, 401)), 96)


def mixture(random: np.random.Generator) -> Draw:
    """Gaussian mixtures and the XOR of four."""
    penalty, step = uniform(random, 0.03, 0.2), uniform(random, 0.3, 1.0)
    if random.random() < 0.5:
        problem: Spec = limen.GaussianMixture(int(random.integers(2, 4)), uniform(random, 2.0, 10.0), penalty, step)
    else:
        problem = limen.XorMixture(4, uniform(random, 2.0, 10.0), penalty, step)
    return Draw(problem, np.linspace(0.0, uniform(random, 1.0, 3.0), 6), int(random.integers(150, 301)), 64)


def tensor(random: np.random.Generator) -> Draw:
    """A spiked matrix or tensor of order three."""
    order = int(random.integers(2, 4))
    start = limen.OverlapStart(uniform(random, 0.5, 0.9))
    problem = limen.SpikedTensor(order, uniform(random, 2.0, 5.0), uniform(random, 0.1, 0.6), start)
    return Draw(problem, np.linspace(0.0, uniform(random, 0.05, 0.3), 6), 60 if order == 2 else 24, 64)


def faster(problem: Spec) -> Spec | None:
    """The problem with a learning rate a tenth larger where time counts steps, else None: there time itself is sped."""
    algorithm = getattr(problem, "algorithm", None)
    if isinstance(problem, limen.TwoLayer) and problem.counts_steps:
        quick = algorithm.model_copy(update={"step": PLANTED * algorithm.step})
        return problem.model_copy(update={"algorithm": quick})
    return None


def predicted(given: Draw, planted: bool) -> Any:
    """The prediction, paired seed by seed where the start is random; `planted` lets time run a tenth too fast."""
    options: dict[str, Any] = {}
    quick = faster(given.problem) if planted else None
    problem = quick or given.problem
    times = given.times if quick is not None or not planted else PLANTED * np.asarray(given.times)
    try:
        found = limen.predict(problem, times)
    except InputError as error:
        if "d and seeds" not in str(error):
            raise
        options = {"d": given.d, "seeds": given.seeds}
        found = limen.predict(problem, times, **options)
    if planted:
        coordinates = {"time": np.asarray(time_grid(given.times, getattr(given.problem, "counts_steps", False)))}
        if "time2" in found.dataset.coords:
            coordinates["time2"] = coordinates["time"]
        found = replace(found, dataset=found.dataset.assign_coords(coordinates), spec=given.problem.describe())
    return found


def watched(theory: Any, run: Any) -> list[str]:
    """The variables that move: whose predicted range along time is a tenth of their size, or of one. Chosen from the
    theory alone; what stands still has no range to be judged by."""
    shared = [name for name in theory.dataset.data_vars if name in run.dataset.data_vars]
    moving = []
    for name in shared:
        part = theory.dataset[name]
        if "time" in part.dims and "time2" not in part.dims:
            span = float((part.max("time") - part.min("time")).max())
            if span > 0.1 * max(1.0, float(abs(part).max())):
                moving.append(str(name))
    return moving or [name for name in ("test_loss", "excess_risk", *map(str, shared)) if name in shared][:1]


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Ends what takes longer, with `TimeoutError`."""

    def ring(number: int, frame: Any) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judged(given: Draw, planted: bool = False, longest: int = LONGEST) -> Outcome:
    """The outcome of one draw."""
    began = time.process_time()

    def done(verdict: str, sentence: str) -> Outcome:
        return Outcome(verdict, sentence, time.process_time() - began)

    try:
        with limited(longest):
            theory = predicted(given, planted)
            if not theory.ok:
                return done("not ok", theory.status)
            run = limen.simulate(given.problem, given.times, d=given.d, seeds=given.seeds)
            if not run.ok:
                return done("not ok", run.status)
            found = limen.compare(theory, run, watched(theory, run))
            return done(found.verdict, found.sentence)
    except InputError as error:
        return done("refused", str(error))
    except TimeoutError as error:
        return done("hang", str(error))
    except Exception as error:
        return done("crash", f"{type(error).__name__}: {error}")


def simpler(given: Draw) -> Iterator[Draw]:
    """Draws with one feature less."""
    problem = given.problem
    if not isinstance(problem, limen.TwoLayer):
        return
    network, target = problem.network, problem.target
    changes: list[dict[str, Any]] = []
    if problem.loss.name != "square":
        changes.append({"loss": limen.problem.Loss(name="square")})
    if target.noise:
        changes.append({"target": target.model_copy(update={"noise": 0.0})})
    for name, value in (("train_second_layer", False), ("bias", 0.0), ("second_layer", 1.0), ("initial_norm", 1.0)):
        if getattr(network, name) != value:
            changes.append({"network": network.model_copy(update={name: value})})
    for change in changes:
        with contextlib.suppress(InputError):
            fields = {name: getattr(problem, name) for name in type(problem).model_fields}
            yield Draw(type(problem)(**{**fields, **change}), given.times, given.d, given.seeds)


def shrunk(given: Draw, verdict: str) -> Draw:
    """The simplest draw found that has the same verdict, one feature at a time."""
    for candidate in simpler(given):
        if judged(candidate).verdict == verdict:
            return shrunk(candidate, verdict)
    return given


def campaign(count: int, seed: int, planted: bool = False, first: int = 0, shrink: bool = True) -> list[Outcome]:
    """Runs draws `first`..`first + count - 1` and prints what is worth knowing as it goes."""
    outcomes = []
    for number in range(first, first + count):
        given = draw(seed, number)
        outcome = judged(given, planted)
        outcomes.append(outcome)
        print(f"{number:4d} {outcome.verdict:12s} {outcome.seconds:6.1f} s  {outcome.sentence[:150]}", flush=True)
        if outcome.verdict in ("disagrees", "crash", "hang", "not ok") and not planted:
            small = shrunk(given, outcome.verdict) if shrink and outcome.verdict == "disagrees" else given
            print("      " + str(small).replace("\n", "\n      "), flush=True)
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    """Counts, and reasons of refusals, in Markdown."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    seconds = sorted(outcome.seconds for outcome in outcomes)
    lines = ["| outcome | problems | part |", "|---|---|---|"]
    lines += [f"| {name} | {number} | {number / len(outcomes):.0%} |" for name, number in counts.most_common()]
    lines.append(f"\nProcessor time: median {seconds[len(seconds) // 2]:.1f} s, longest {seconds[-1]:.1f} s.")
    reasons = Counter(outcome.sentence[:90] for outcome in outcomes if outcome.verdict in ("refused", "not ok"))
    lines += [f"- {number} x {reason}" for reason, number in reasons.most_common()]
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--plant", action="store_true")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--json", default=None)
    given = parser.parse_args()
    print(f"seed {given.seed}")
    outcomes = campaign(given.count, given.seed, given.plant, given.first, not given.no_shrink)
    print(table(outcomes))
    if given.json:
        with open(given.json, "w") as file:
            json.dump([vars(outcome) for outcome in outcomes], file)


if __name__ == "__main__":
    main()
