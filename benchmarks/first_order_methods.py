"""Every rule against training on two problems, all variables, each beside a theory with a planted error.

    python benchmarks/first_order_methods.py                 the table of docs/chapters/methods.md
    python benchmarks/first_order_methods.py adam --pilot    seeds that the rules with this word would take

`PILOT` runs on seeds of their own, thrown away, give the number of seeds at which the widest band of any variable is
`BAND` of its range; at most `MOST`. The comparison is then made once, with fresh seeds. `tests/agreement/
test_first_order_methods.py` does the same for a part of the table.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

import limen
from limen.comparison import Comparison
from limen.result import Result
from limen.theory.descent import solve

D, TIMES = 600, (1, 3, 6, 10, 15)
ONE_PASS_TIMES = tuple(np.linspace(0.0, 2.0, 5))
PILOT, PILOT_SEED, BAND, LEAST, MOST = 16, 1_000_000, 0.025, 32, 1000
START = limen.OverlapStart(0.0)


def one_neuron(algorithm: Any) -> limen.TwoLayer:
    target = limen.target("tanh(2*z)", noise=0.1)
    return limen.TwoLayer(target, limen.network(1, "tanh"), algorithm, 4.0, start=START)


def three_neurons(algorithm: Any) -> limen.TwoLayer:
    network = limen.network(3, "gelu", second_layer=(1.5, -1.0, 2.0), bias=(0.0, 0.2, -0.1), train_second_layer=True)
    return limen.TwoLayer(limen.target("tanh(z1) + 0.5*z2", noise=0.05), network, algorithm, 3.0, start=START)


PROBLEMS = (one_neuron, three_neurons)


def averaged_and_clipped(gradient: Any, memory: Any) -> tuple[Any, Any]:
    mean = 0.5 * memory + 0.5 * gradient
    return jnp.clip(mean, -0.3, 0.3), mean


def clipped(gradient: Any) -> Any:
    return jnp.clip(gradient, -0.3, 0.3)


def adam_without_correction(gradient: Any, memory: Any) -> tuple[Any, Any]:
    mean, square = 0.9 * memory[0] + 0.1 * gradient, 0.99 * memory[1] + 0.01 * gradient**2
    return mean / (jnp.sqrt(square) + 0.05), jnp.stack([mean, square])


@contextmanager
def batches_left_out_of_the_response() -> Iterator[None]:
    """By Stein's lemma the mean of force times field is the response; here the batch is forgotten in it, kept in the
    force. (Drawn anew at each step the batch is independent of all before, and its mean is one.)"""
    drawn = solve.draw_batches

    def forgotten(*arguments: Any) -> Any:
        batches = drawn(*arguments)
        assert batches is not None
        return batches._replace(expected=np.ones_like(batches.expected))

    solve.draw_batches = forgotten
    try:
        yield
    finally:
        solve.draw_batches = drawn


@dataclass(frozen=True)
class Case:
    """A rule, and what is wrong with its twin: another rule, or the theory under `broken`."""

    rule: Any
    planted: str
    wrong: Any
    broken: Callable[[], Any] = nullcontext


ONE_STEP = limen.GradientDescent(0.5)
EPOCHS = limen.GradientDescent(0.5, batch_fraction=0.25, replacement=False)
CASES = {
    "gradient descent": Case(ONE_STEP, "step a tenth longer", limen.GradientDescent(0.55)),
    "heavy ball": Case(
        limen.GradientDescent(0.2, momentum=0.7), "momentum off by .05", limen.GradientDescent(0.2, momentum=0.65)
    ),
    "Nesterov": Case(
        limen.GradientDescent(0.2, momentum=0.7, nesterov=True),
        "momentum off by .05",
        limen.GradientDescent(0.2, momentum=0.65, nesterov=True),
    ),
    "schedule": Case(limen.GradientDescent("0.8/(1 + t/5)"), "constant step", limen.GradientDescent(0.8)),
    "batches drawn anew": Case(
        limen.GradientDescent(0.5, batch_fraction=0.25),
        "batches twice as large",
        limen.GradientDescent(0.5, batch_fraction=0.5),
    ),
    "epochs": Case(EPOCHS, "batch not in the response", EPOCHS, batches_left_out_of_the_response),
    "Adam": Case(
        limen.Adam(0.2, 0.9, 0.99, 0.05),
        "no bias correction",
        limen.EntrywiseDescent(0.2, adam_without_correction, 2),
    ),
    "AdamW in batches": Case(
        limen.Adam(0.1, 0.8, 0.95, 0.05, weight_decay=0.5, batch_fraction=0.5),
        "no decay",
        limen.Adam(0.1, 0.8, 0.95, 0.05, batch_fraction=0.5),
    ),
    "soft sign": Case(limen.SignDescent(0.2, 0.1), "smoothing times 3", limen.SignDescent(0.2, 0.3)),
    "own rule": Case(
        limen.EntrywiseDescent(0.8, averaged_and_clipped, 1),
        "memory left out",
        limen.EntrywiseDescent(0.8, clipped),
    ),
}


def predicted(problem: limen.TwoLayer) -> Result:
    """The theory, with more sets than by default: its own error is part of the band."""
    return limen.predict(problem, TIMES, scrambles=16)


def wanted_seeds(problem: limen.TwoLayer, theory: Result) -> int:
    """Seeds at which the widest band of any variable is `BAND`, by the pilot."""
    pilot = limen.simulate(problem, TIMES, d=D, seeds=range(PILOT_SEED, PILOT_SEED + PILOT))
    measured = [variable.measured for variable in limen.compare(theory, pilot).variables]
    factor = max(float(((one.band - one.own) / np.maximum(BAND - one.own, 1e-9)).max()) for one in measured)
    return int(np.clip(np.ceil(PILOT * factor**2), LEAST, MOST))


def outcome(case: Case, make: Callable[[Any], limen.TwoLayer], seeds: int | None) -> tuple[Comparison, Comparison]:
    """The comparison of a rule, and that of its twin, on the same runs."""
    problem = make(case.rule)
    theory = predicted(problem)
    assert theory.ok, theory.status
    runs = limen.simulate(problem, TIMES, d=D, seeds=wanted_seeds(problem, theory) if seeds is None else seeds)
    with case.broken():
        twin = predicted(make(case.wrong))
    return limen.compare(theory, runs), limen.compare(twin, runs, differing=("algorithm",))


def one_pass_outcome(seeds: int) -> tuple[Comparison, Comparison]:
    """Fresh samples and momentum, d = 1000; the twin has the faster clock without the larger noise."""
    beta, rate, start = 0.75, 0.5, limen.OverlapStart(0.3)
    parts = (limen.target("committee:2", noise=0.1), limen.network(2, "saad-solla"))
    problem = limen.TwoLayer(*parts, limen.OnePassSGD(rate, momentum=beta), start=start)
    runs = limen.simulate(problem, ONE_PASS_TIMES, d=1000, seeds=seeds)
    quiet = limen.predict(
        limen.TwoLayer(*parts, limen.OnePassSGD(rate), start=start), np.array(ONE_PASS_TIMES) / (1.0 - beta)
    )
    quiet = replace(quiet, dataset=quiet.dataset.assign_coords(time=np.array(ONE_PASS_TIMES)))
    right = limen.predict(problem, ONE_PASS_TIMES)
    return limen.compare(right, runs), limen.compare(quiet, runs, differing=("algorithm",))


def line(name: str, problem: str, planted: str, found: tuple[Comparison, Comparison], seconds: float) -> str:
    right, twin = found
    worst = max(right.variables, key=lambda one: one.within)
    off = max(twin.variables, key=lambda one: one.deviation - one.band)
    return (
        f"| {name} | {problem} | {right.seeds} | {worst.deviation:.1%} ± {worst.band:.1%} ({worst.name}) "
        f"| {right.verdict} | {planted}: {off.deviation:.1%} ± {off.band:.1%} ({off.name}), {twin.verdict} "
        f"| {seconds:.0f} s |"
    )


def main(words: list[str]) -> None:
    chosen = [word.lower() for word in words if not word.startswith("--")]
    print("| rule | problem | seeds | deviation ± band, where the sum is largest | verdict | planted | processor |")
    print("|---|---|---|---|---|---|---|")
    for name, case in CASES.items():
        for make in PROBLEMS:
            if chosen and not any(word in f"{name} {make.__name__}".lower() for word in chosen):
                continue
            began, words_of = time.process_time(), make.__name__.replace("_", " ")
            if "--pilot" in words:
                problem = make(case.rule)
                print(f"| {name} | {words_of} | {wanted_seeds(problem, predicted(problem))} |", flush=True)
                continue
            found = outcome(case, make, None)
            print(line(name, words_of, case.planted, found, time.process_time() - began), flush=True)
    if "--pilot" not in words and (not chosen or any(word in "one-pass momentum" for word in chosen)):
        began = time.process_time()
        found = one_pass_outcome(64)
        print(line("one-pass momentum", "two students", "noise not enlarged", found, time.process_time() - began))


if __name__ == "__main__":
    main(sys.argv[1:])
