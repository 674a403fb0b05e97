"""How often the comparison is wrong, what it finds, and how many seeds it needs.

    python benchmarks/calibration.py [NAME ...] [--repeats R] [--seeds N] [--default] [--seconds S] [--lines FILE]
    python benchmarks/calibration.py --page FILE
    python benchmarks/calibration.py [NAME ...] --needed [--default]

A repeat is a whole run of an experiment at its quick parameters with fresh seeds, a block whose first number the
operating system draws. It is judged against the theory, and against the theory with every compared variable 5% and 10%
too large. Each repeat is one JSON line in `--lines`; a later call adds what is missing to `--repeats`. Lines made with
other parameters or another number of seeds than the experiment has now are not counted. `--seconds` is the processor
time after which an experiment begins no further repeat. `--page` writes the tables into a page, between its marks.

`--needed` is where the numbers of seeds of the presets come from: a pilot of 16 seeds from 900,000 on, which no run
uses, is resampled to more and more seeds until the widest band of every compared variable, the theory's own error set
apart, is at most 2.5% of its range. Deviations are not looked at.
"""

import argparse
import json
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.registry import PLACES, experiment_class
from limen.result import Result, merge

ERRORS = (0.0, 0.05, 0.10)
VERDICTS = ("agrees", "cannot tell", "disagrees")
WIDEST = 0.025
# Below this band a planted error of 5% should be found.
NARROW = 0.02
PILOT, FIRST = 16, 900_000
# Their theories are approximate, and their sentences say by how much: a disagreement is no false one.
APPROXIMATE = ("double-descent-digits", "hessian-digits", "lazy-constants", "overfitting-bound", "random-labels")
COUNTS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1000)
# Fresh seeds lie below this, so that runs inside a seed, numbered on from it, stay below 2^31.
FRESH = 2**19
# Seeds for which a paired theory is made at once.
BLOCK = 300
LINES = Path(__file__).with_suffix(".jsonl")
Line = dict[str, Any]


def preset(name: str, default: bool) -> tuple[Experiment, int]:
    """An experiment at its quick (or default) parameters, and its number of seeds there."""
    kind = experiment_class(name)
    return (kind(), kind.default_seeds) if default else (kind(**kind.quick), kind.quick_seeds)


def label(name: str, default: bool, seeds: int) -> Line:
    """What a line must say to be counted: the parameters and the number of seeds of the experiment as it is now."""
    experiment, own = preset(name, default)
    described = json.loads(json.dumps(experiment.describe()))
    chosen = {} if default else {field: described[field] for field in type(experiment).quick}
    return {"name": name, "preset": "default" if default else "quick", "parameters": chosen, "seeds": seeds or own}


def repeats(experiment: Experiment, count: int, missing: int) -> Iterator[Line]:
    """Runs with fresh seeds, each judged against right and planted theories.

    A theory that is not paired is made once. A paired one is made for many repeats at a time; their seeds then follow
    each other.
    """
    block = max(1, min(missing, BLOCK // count)) if experiment.paired else 1
    theory = None if experiment.paired else experiment.theory()
    while True:
        first = secrets.randbelow(FRESH)
        began = time.process_time()
        limit = theory or experiment.theory(tuple(range(first, first + block * count)))
        predicted = (time.process_time() - began) / block
        for start in range(first, first + block * count, count):
            yield repeat(experiment, range(start, start + count), limit) | {"theory_seconds": round(predicted, 3)}


def repeat(experiment: Experiment, seeds: range, theory: Result) -> Line:
    """One run, its verdicts with each of `ERRORS`, and what it took; the sentence where it is no agreement."""
    began = time.process_time()
    simulation = merge([experiment.simulate(seed) for seed in seeds])
    simulated = time.process_time() - began
    if "seed" in theory.dataset.dims:
        theory = replace(theory, seeds=tuple(seeds), dataset=theory.dataset.sel(seed=list(seeds)))
    found = experiment.compare(theory, simulation)
    names = {variable.name for variable in found.variables}
    if not names <= set(theory.dataset):
        # The comparison makes its own variables from those that both witnesses have; a part of a logarithm is a power.
        shared = {str(name) for name in theory.dataset if name in simulation.dataset}
        names |= {name for name in shared if not name.startswith("log_")}
    wrong = [experiment.compare(planted(theory, names, error), simulation) for error in ERRORS[1:]]
    return {
        "first_seed": seeds[0],
        "verdicts": [one.verdict for one in (found, *wrong)],
        "band": round(widest(found), 5),
        "simulation_seconds": round(simulated, 3),
    } | ({} if found.verdict == "agrees" else {"sentence": found.sentence})


def widest(found: Comparison) -> float:
    """The widest band of all compared variables; -1 where a variable has none."""
    widths = np.array([variable.band for variable in found.variables])
    return float(widths.max()) if np.isfinite(widths).all() else -1.0


def planted(theory: Result, names: Iterable[str], error: float) -> Result:
    """The theory with the named variables too large by a part `error`."""
    wrong = {name: theory.dataset[name] * (1.0 + error) for name in names if name in theory.dataset}
    for name, values in wrong.items():
        values.attrs = theory.dataset[name].attrs
    return replace(theory, dataset=theory.dataset.assign(wrong))


def read(file: Path) -> list[Line]:
    """All lines of a file, none if there is no file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def counted(lines: list[Line], wanted: Line) -> list[Line]:
    """The lines that say what is wanted."""
    return [line for line in lines if all(line.get(key) == value for key, value in wanted.items())]


def measure(name: str, asked: argparse.Namespace) -> None:
    """Adds the repeats of one experiment that are missing."""
    wanted = label(name, asked.default, asked.seeds)
    missing, began = asked.repeats - len(counted(read(asked.lines), wanted)), time.process_time()
    if missing <= 0:
        return
    for found in islice(repeats(preset(name, asked.default)[0], wanted["seeds"], missing), missing):
        with asked.lines.open("a") as file:
            file.write(json.dumps(wanted | found) + "\n")
        if time.process_time() - began > asked.seconds:
            break


def row(name: str, lines: list[Line]) -> str:
    """One row of the table from all repeats of an experiment."""
    counts = np.array([[[one == v for v in VERDICTS] for one in line["verdicts"]] for line in lines]).sum(axis=0)
    bands = [line["band"] for line in lines if line["band"] >= 0.0]
    band = f"{np.median(bands):.1%}" if bands else "-"
    seconds = np.median([line["simulation_seconds"] for line in lines])
    numbers = (*counts[0], counts[1, 2], counts[2, 2])
    return f"| {name} | {lines[0]['seeds']} | {seconds:.2g} | {len(lines)} | {band} | {' | '.join(map(str, numbers))} |"


HEAD = (
    "| experiment | seeds | seconds | repeats | widest band | agrees | cannot tell | disagrees "
    "| 5% found | 10% found |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def table(lines: list[Line], names: Iterable[str], default: bool, seeds: int = 0) -> str:
    """The table of all experiments that have lines, its sums, and in words what is promised and which are missing."""
    rows, every, missing, narrow, deciding = [HEAD], [], [], [], 0
    measured = {line["name"] for line in lines}
    for name in names:
        own = counted(lines, label(name, default, seeds)) if name in measured else []
        if not own:
            missing.append(name)
            continue
        rows.append(row(name, own))
        every += own
        deciding += 2 * sum(line["verdicts"][0] == "agrees" for line in own) > len(own)
        narrow += [line["verdicts"][1] == "disagrees" for line in own if 0.0 <= line["band"] < NARROW]
    if not every:
        return "No lines."
    said = [[line["verdicts"][i] for line in every] for i in range(len(ERRORS))]
    sums = [said[0].count(verdict) for verdict in VERDICTS] + [said[i].count("disagrees") for i in (1, 2)]
    rows.append(f"| **all** | | | {len(every)} | | {' | '.join(map(str, sums))} |")
    right = [line["verdicts"][0] for line in every if line["name"] not in APPROXIMATE]
    words = f"False *disagrees*: {right.count('disagrees')} of {len(right)}"
    words += f", approximate theories (`{'`, `'.join(APPROXIMATE)}`) set apart. " if len(right) < len(every) else ". "
    words += f"Presets that agree in most repeats: {deciding} of {len(rows) - 2}. "
    words += f"Planted 5% where the band is below 2%: {sum(narrow)} of {len(narrow)} found."
    words += f"\nWithout a row: {', '.join(f'`{name}`' for name in missing)}." if missing else ""
    return "\n".join([*rows, "", words])


def page_table(which: str, lines: list[Line]) -> str:
    """A table of the page: `quick`, `default`, or `ten` seeds."""
    if which == "ten":
        return table(lines, ("perceptron", "phase-retrieval-sgd", "committee-sgd"), False, 10)
    names = PLACES if which == "quick" else dict.fromkeys(one["name"] for one in lines if one["preset"] == which)
    return table(lines, names, which == "default")


def write_page(page: Path, lines: list[Line]) -> None:
    """Puts the tables between the marks `<!-- table: WHICH -->` and `<!-- end -->` of a page."""
    marks = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)
    page.write_text(marks.sub(lambda mark: f"{mark[1]}{page_table(mark[2], lines)}\n{mark[3]}", page.read_text()))


def needed(experiment: Experiment, seconds: float) -> tuple[dict[str, int], float]:
    """Seeds at which the band of each variable is narrow enough (0: not with 1000), and processor time of one seed."""
    runs, times = [], []
    for seed in range(FIRST, FIRST + PILOT):
        began = time.process_time()
        runs.append(experiment.simulate(seed))
        times.append(time.process_time() - began)
        if sum(times) > seconds and len(runs) >= 8:
            break
    simulation = merge(runs)
    theory, random = experiment.theory(simulation.seeds), np.random.default_rng(0)
    found: dict[str, int] = {}
    for count in COUNTS:
        for variable in experiment.compare(*resampled(theory, simulation, count, random)).variables:
            width = np.max(variable.measured.band - variable.measured.own)
            found[variable.name] = found.get(variable.name) or (count if width <= WIDEST else 0)
        if all(found.values()):
            break
    return found, float(np.median(times[1:]))


def resampled(theory: Result, simulation: Result, count: int, random: np.random.Generator) -> tuple[Result, Result]:
    """Both with `count` seeds drawn with replacement, under new names."""
    chosen, seeds = random.integers(0, len(simulation.seeds), count), tuple(range(count))

    def drawn(result: Result) -> Result:
        if "seed" not in result.dataset.dims:
            return result
        dataset = result.dataset.isel(seed=chosen).assign_coords(seed=list(seeds))
        return replace(result, seeds=seeds, dataset=dataset)

    return drawn(theory), drawn(simulation)


def main() -> None:
    """Makes the repeats that are missing, or the page, or the numbers of seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(PLACES))
    parser.add_argument("--repeats", type=int, default=20, help="repeats of each experiment, old lines counted")
    parser.add_argument("--seeds", type=int, default=0, help="seeds of a repeat (default: the experiment's own number)")
    parser.add_argument("--seconds", type=float, default=60.0, help="processor time of an experiment")
    parser.add_argument("--lines", type=Path, default=LINES, help="file of the repeats")
    parser.add_argument("--page", type=Path, help="write the tables of all lines there, nothing else")
    parser.add_argument("--needed", action="store_true", help="print the seeds that narrow the bands, nothing else")
    parser.add_argument("--default", action="store_true", help="default parameters, not the quick ones")
    asked = parser.parse_args()
    if asked.page is not None:
        write_page(asked.page, read(asked.lines))
        return
    for name in asked.names:
        if asked.needed:
            found, cost = needed(preset(name, asked.default)[0], asked.seconds)
            most = 0 if 0 in found.values() else max(found.values())
            print(f"{name}: {most or 'over 1000'} seeds of {cost:.3f} s ({found})", flush=True)
            continue
        measure(name, asked)
        own = counted(read(asked.lines), label(name, asked.default, asked.seeds))
        print(row(name, own) if own else f"{name}: no repeat", flush=True)


if __name__ == "__main__":
    main()
