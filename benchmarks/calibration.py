"""How often the comparison is wrong, what it finds, and how many seeds it needs.

    python benchmarks/calibration.py [NAME ...] [--seeds N] [--groups G] [--first SEED] [--pool DIR] [--page FILE]
    python benchmarks/calibration.py [NAME ...] --needed [--default]

Each experiment is simulated once with many fresh seeds at its quick parameters: the pool, kept as netCDF in `--pool`,
and used again. Groups of seeds are drawn from it without replacement, and each group is judged against the theory and
against the theory with every compared variable 5% and 10% too large. A pool as large as one group gives one honest
repeat; larger ones give more, which share seeds only when the groups ask for more seeds than the pool has.

`--needed` is where the numbers of seeds of the presets come from: a pilot of 16 seeds from 900,000 on, which no run
uses, is resampled to more and more seeds until the widest band of every compared variable, the theory's own error set
apart, is at most 2.5% of its range. Deviations are not looked at.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from limen.experiments.experiment import Experiment
from limen.experiments.registry import PLACES, experiment_class
from limen.result import Result, load, merge

ERRORS = (0.0, 0.05, 0.10)
VERDICTS = ("agrees", "cannot tell", "disagrees")
WIDEST = 0.025
PILOT, FIRST = 16, 900_000
COUNTS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1000)


def pool(name: str, seeds: int, first: int, seconds: float, folder: Path) -> tuple[Result, Result]:
    """Theory and many runs of an experiment at its quick parameters; as many seeds as the seconds allow, at least 8."""
    files = [folder / f"{name}-{kind}.nc" for kind in ("theory", "simulation")]
    if all(file.exists() for file in files):
        return load(files[0]), load(files[1])
    kind = experiment_class(name)
    experiment, runs, began = kind(**kind.quick), [], time.process_time()
    for seed in range(first, first + (seeds or kind.quick_seeds)):
        runs.append(experiment.simulate(seed))
        if time.process_time() - began > seconds and len(runs) >= 8:
            break
    simulation = merge(runs)
    theory = experiment.theory(simulation.seeds)
    for result, file in zip((theory, simulation), files, strict=True):
        result.save(file)
    return theory, simulation


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
    return tuple(
        replace(result, seeds=seeds, dataset=result.dataset.isel(seed=chosen).assign_coords(seed=list(seeds)))
        if "seed" in result.dataset.dims
        else result
        for result in (theory, simulation)
    )


def planted(theory: Result, names: tuple[str, ...], error: float) -> Result:
    """The theory with the named variables too large by a part `error`."""
    wrong = {name: theory.dataset[name] * (1.0 + error) for name in names if name in theory.dataset}
    return replace(theory, dataset=theory.dataset.assign(wrong))


def judged(name: str, theory: Result, simulation: Result, size: int, groups: int) -> tuple[np.ndarray, float, int]:
    """Counts (error, verdict), the median over groups of the widest band, and the number of groups."""
    kind = experiment_class(name)
    experiment, random = kind(**kind.quick), np.random.default_rng(0)
    count = len(simulation.seeds)
    size = min(size or count, count)
    groups = groups if count > size else 1
    order = np.concatenate([random.permutation(count) for _ in range(-(-groups * size // count))])
    table, bands = np.zeros((len(ERRORS), len(VERDICTS)), dtype=int), []
    for group in range(groups):
        chosen = np.sort(order[group * size : (group + 1) * size])
        if np.unique(chosen).size < size:
            continue
        seeds = tuple(simulation.seeds[i] for i in chosen)
        runs = replace(simulation, dataset=simulation.dataset.isel(seed=chosen), seeds=seeds)
        limit = theory
        if "seed" in theory.dataset.dims:
            limit = replace(theory, dataset=theory.dataset.isel(seed=chosen))
        names = tuple(v.name for v in experiment.compare(limit, runs).variables)
        for row, error in enumerate(ERRORS):
            found = experiment.compare(planted(limit, names, error), runs)
            table[row, VERDICTS.index(found.verdict)] += 1
            if error == 0.0:
                bands.append(max(v.band for v in found.variables))
    return table, float(np.median(bands)), int(table[0].sum())


def main() -> None:
    """Makes the pools, judges them, prints the table and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(PLACES))
    parser.add_argument("--seeds", type=int, default=0, help="seeds of a pool (default: the experiment's own number)")
    parser.add_argument("--size", type=int, default=0, help="seeds of a group (default: the whole pool)")
    parser.add_argument("--groups", type=int, default=20, help="groups drawn from a pool that is larger than one")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seconds", type=float, default=5.0, help="processor time of a pool")
    parser.add_argument("--pool", type=Path, default=Path("calibration-pool"))
    parser.add_argument("--page", type=Path)
    parser.add_argument("--needed", action="store_true", help="print the seeds that narrow the bands, nothing else")
    parser.add_argument("--default", action="store_true", help="with --needed: default parameters, not the quick ones")
    asked = parser.parse_args()
    if asked.needed:
        for name in asked.names:
            kind = experiment_class(name)
            found, cost = needed(kind(**({} if asked.default else kind.quick)), asked.seconds)
            most = 0 if 0 in found.values() else max(found.values())
            print(f"{name}: {most or 'over 1000'} seeds of {cost:.3f} s ({found})", flush=True)
        return
    asked.pool.mkdir(parents=True, exist_ok=True)
    lines = [
        "| experiment | seeds | repeats | widest band | agrees | cannot tell | disagrees | 5% found | 10% found |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    total = np.zeros((len(ERRORS), len(VERDICTS)), dtype=int)
    for name in asked.names:
        theory, simulation = pool(name, asked.seeds, asked.first, asked.seconds, asked.pool)
        table, band, repeats = judged(name, theory, simulation, asked.size, asked.groups)
        total += table
        seeds = min(asked.size or len(simulation.seeds), len(simulation.seeds))
        right, five, ten = table[0], table[1, 2], table[2, 2]
        lines.append(
            f"| {name} | {seeds} | {repeats} | {'-' if not np.isfinite(band) else f'{band:.1%}'} | "
            f"{right[0]} | {right[1]} | {right[2]} | {five} | {ten} |"
        )
        print(lines[-1], flush=True)
    counts = " | ".join(str(count) for count in (*total[0], total[1, 2], total[2, 2]))
    lines.append(f"| **all** | | {total[0].sum()} | | {counts} |")
    print(lines[-1])
    if asked.page is not None:
        asked.page.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
