"""Random problems that nobody tuned, put through predict, simulate and compare.

    python benchmarks/campaign.py --count 20 --seed 7   what happens to them, as a table

Every draw depends on the seed and its number alone, and every problem is treated alike: theory and training, at d and
2d, grow by blocks of 16 seeds. The first block compiles, the second is timed; both tell the spread, and with it the
number of seeds for a band of 1.25% of the range, as far as 10 s of processor time go; where the band is still above
2.5% then, seeds are added until it is not, as far as 40 s go. Bands alone are looked at, never deviations, and nothing
is thrown away: of normal means 1.0 to 1.1% then lie outside a 99% interval. Three theories are compared with the same
trainings: the right one, one whose time or learning rate is a tenth too large, and one in which every variable grows
from its start by a tenth too much. For every *disagrees* a smaller problem that still disagrees is looked for and
printed. With `--lines FILE` every outcome is appended to a file as it comes; `--table FILE` makes the table of such a
file. `tests/agreement/test_campaign.py` checks draws and table.
"""

import argparse
import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from random_problems import Draw, draw
from witnesses import BLOCK, PLANTED, NotOkError, Witnesses, trained

import limen
from limen.comparison.measure import variable_range
from limen.problem.spec import InputError

# Half-widths wanted, part of the range, and the processor time in seconds that blocks beyond the second may take.
BANDS = ((0.0125, 10.0), (0.025, 40.0))
MOST = 2048  # seeds
# An error that moves a prediction by less, part of the range, is hidden by the resolution and twice the band wanted.
VISIBLE = 0.04


@dataclass(frozen=True)
class Outcome:
    """What became of a draw: a verdict, `both diverge`, `refused` with the reason, `not ok` with the status, `hang` or
    `crash`; and the verdicts on the two planted theories, where there were some: `planted` (rate or time) with how far
    the error moved the prediction, and `grown` (growth)."""

    kind: str
    verdict: str
    sentence: str
    seconds: float
    seeds: int = 0
    planted: str = ""
    moved: float = 0.0
    number: int = -1
    grown: str = ""


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


def measured(given: Draw, planted: float, quick: bool) -> tuple[Witnesses, list[str]]:
    """Witnesses with seeds by the rule of this module, and the variables to judge; `quick`: one size, two blocks."""
    found = Witnesses(given, planted, given.sizes[-1:] if quick else ())
    found.grow()  # compiles
    began = time.process_time()
    found.grow()
    cost, spent = time.process_time() - began, 0.0
    right, _, runs = found.together()
    names = watched(right[-1], runs[-1])
    for band, seconds in () if quick else BANDS:
        wanted = min(seeds_for(band, found, names), MOST)
        while found.seeds < wanted and spent + cost <= seconds:
            began = time.process_time()
            found.grow()
            spent += time.process_time() - began
    return found, names


def seeds_for(wanted: float, found: Witnesses, names: list[str]) -> float:
    """Seeds with which the widest band is as narrow as wanted, by the width that those at hand give."""
    right, _, runs = found.together()
    band = max(float(one.measured.band.max()) for one in limen.compare(right, runs, names).variables)
    return found.seeds * min(band / wanted, 100.0) ** 2


def moved_by(wrong: Any, right: Any, run: Any, names: list[str]) -> float:
    """The largest difference of two predictions, part of the range that the comparison uses: of means over seeds where
    they are paired, with and without the signs of the right ones."""
    parts = []
    for name in names:
        other = right.dataset[name]
        off = wrong.dataset[name] - other
        means = [off.mean("seed"), (np.sign(other) * off).mean("seed")] if "seed" in off.dims else [off]
        parts.append(max(float(abs(mean).max()) for mean in means) / variable_range(other, run.dataset[name]))
    return max(parts)


def grown_theory(right: Any, names: list[str], factor: float) -> Any:
    """The theory with every named variable as far from its first value as `factor` says, 1 being right."""
    made = {}
    for name in names:
        part = right.dataset[name]
        begin = part.isel(time=0, drop=True) if "time" in part.dims else 0.0 * part
        made[name] = (begin + factor * (part - begin)).transpose(*part.dims).assign_attrs(part.attrs)
    return replace(right, dataset=right.dataset.assign(made))


def diverges(given: Draw) -> bool:
    """Whether training leaves the finite numbers."""
    try:
        trained(given, given.d, range(BLOCK))
    except NotOkError as error:
        return "diverge" in str(error) or "finite" in str(error)
    return False


def judged(given: Draw, planted: float = PLANTED, quick: bool = False) -> Outcome:
    """The outcome of one draw, and what becomes of a theory that is `planted` times too fast (1: none is made)."""
    began, count = time.process_time(), 0

    def done(verdict: str, sentence: str, **twins: Any) -> Outcome:
        kind = type(getattr(given.problem, "algorithm", given.problem)).__name__
        return Outcome(kind, verdict, sentence, time.process_time() - began, count, **twins)

    try:
        try:
            found, names = measured(given, planted, quick)
        except NotOkError as error:
            if "diverge" in str(error) and diverges(given):
                return done("both diverge", str(error))
            raise
        count = found.seeds
        right, wrong, runs = found.together()
        verdict, twins = limen.compare(right, runs, names), {}
        if planted != 1.0:
            twins["grown"] = limen.compare([grown_theory(one, names, planted) for one in right], runs, names).verdict
        if wrong is not None:
            twins["planted"] = limen.compare(wrong, runs, names).verdict
            twins["moved"] = moved_by(wrong[-1], right[-1], runs[-1], names)
        return done(verdict.verdict, verdict.sentence, **twins)
    except InputError as error:
        return done("refused", str(error))
    except NotOkError as error:
        return done("not ok", str(error))
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
            yield Draw(type(problem)(**{**fields, **change}), given.times, given.d)


def shrunk(given: Draw, verdict: str) -> Draw:
    """The simplest draw found that has the same verdict, one feature at a time."""
    for candidate in simpler(given):
        if judged(candidate, planted=1.0).verdict == verdict:
            return shrunk(candidate, verdict)
    return given


def campaign(numbers: Iterable[int], seed: int, shrink: bool = True, lines: str | None = None) -> list[Outcome]:
    """Runs the draws of these numbers, prints what is worth knowing as it goes, and appends it to `lines`."""
    outcomes = []
    for number in numbers:
        # Compiled programs of hundreds of problems are more maps of memory than a process may have.
        jax.clear_caches()
        given = draw(seed, number)
        outcome = replace(judged(given), number=number)
        outcomes.append(outcome)
        if lines is not None:
            with open(lines, "a") as file:
                file.write(json.dumps(vars(outcome)) + "\n")
        twins = f"planted {outcome.planted or '-':12s} grown {outcome.grown or '-':12s}"
        head = f"{number:4d} {outcome.kind:16s} {outcome.verdict:12s} {twins}"
        print(f"{head} {outcome.seconds:5.1f} s {outcome.seeds:4d} seeds  {outcome.sentence[:160]}", flush=True)
        if outcome.verdict in ("disagrees", "crash", "hang", "not ok"):
            small = shrunk(given, outcome.verdict) if shrink and outcome.verdict == "disagrees" else given
            print("      " + str(small).replace("\n", "\n      "), flush=True)
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    """Counts of verdicts, planted and not, and reasons of refusals, in Markdown."""
    counts = [Counter(getattr(one, name) for one in outcomes) for name in ("verdict", "planted", "grown")]
    lines = ["| outcome | problems | rate or time planted | growth planted |", "|---|---|---|---|"]
    for name in sorted({*counts[0], *counts[1], *counts[2]} - {""}, key=lambda name: -counts[0][name]):
        parts = (f"{one[name]} ({one[name] / (one.total() - one['']):.0%})" if one[name] else "" for one in counts)
        lines.append(f"| {name} | {' | '.join(parts)} |")
    seen = [one for one in outcomes if one.planted and one.moved > VISIBLE]
    caught = sum(one.planted == "disagrees" for one in seen)
    if seen:
        part = f"{caught} ({caught / len(seen):.0%})"
        lines.append(f"\nPlanted where it moves the prediction by more than {VISIBLE:.0%}: {len(seen)}, found {part}.")
    seconds, seeds = (sorted(getattr(one, name) for one in outcomes) for name in ("seconds", "seeds"))
    middle = len(outcomes) // 2
    lines.append(
        f"\n{len(outcomes)} problems. Median: {seconds[middle]:.0f} s of processor time, {seeds[middle]} seeds."
    )
    reasons = Counter(one.sentence[:90] for one in outcomes if one.verdict in ("refused", "not ok"))
    lines += [f"- {number} x {reason}" for reason, number in reasons.most_common()]
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--numbers", type=int, nargs="+", help="these problems, in place of --first and --count")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--lines", default=None, help="file to which every outcome is appended as it comes")
    parser.add_argument("--table", default=None, help="file of such lines whose table is printed; nothing is run")
    given = parser.parse_args()
    if given.table:
        with open(given.table) as file:
            print(table([Outcome(**json.loads(line)) for line in file]))
        return
    print(f"seed {given.seed}")
    numbers = given.numbers or range(given.first, given.first + given.count)
    print(table(campaign(numbers, given.seed, not given.no_shrink, given.lines)))


if __name__ == "__main__":
    main()
