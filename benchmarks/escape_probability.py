"""Escape times of the theory at finite d against trainings, and against planted errors.

    python benchmarks/escape_probability.py run lines.jsonl     trains and predicts; the same command again goes on
    python benchmarks/escape_probability.py table lines.jsonl   the table and the verdicts, of what is there

Four problems at d = 320 and 1280, each from a random start and from a start without overlap. Compared over the two
sizes by the rule of `limen.compare`: the part of runs that have escaped by steps 10, 20, 30 and 40. With 200 trainings
the 99% band of a part is ten per cent wide, so that *agrees* is asked for within 15%. Beside it: quartiles of the
escape time, whether those of the theory lie in the 99% intervals of the trainings', and the distance of Kolmogorov and
Smirnov at each size. Planted errors: the fluctuation of the sample left out, √2 times as large, and a drift of the
overlaps a tenth too large. They are planted where the start has no overlap: a random one decides most of an escape
itself (√2 times the fluctuation moves a part by .06 there, which 200 trainings cannot tell). About an hour of one core.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import xarray as xr
from scipy.stats import binom, ks_2samp, norm, t

import limen
from limen.comparison import Comparison, compare
from limen.problem import GradientDescent, OverlapStart, TwoLayer
from limen.result import Result
from limen.simulation.descent.hard_cosines import largest_hard_cosine
from limen.theory.descent import conditioned_pass, escape, finite_dimension

TIMES = np.arange(0.0, 41.0)
SIZES = (320, 1280)
JUDGED = np.array([10.0, 20.0, 30.0, 40.0])
TOLERANCE = 0.15
QUARTILES = (0.25, 0.5, 0.75)
# From a random start, and without overlap, where planted errors are to be seen.
TRAININGS, UNLUCKY_TRAININGS = {320: 400, 1280: 400}, {320: 425, 1280: 425}
AT_ONCE = 25
# Rows of the theory come in sets, each of them even over starts and first luck; their error shows between the sets.
ROWS, PLANTED_ROWS, SET = 512, 256, 64
FIRST_ROW = 10_000


class Planted(NamedTuple):
    """A theory whose fluctuation of the sample, and whose drift of the overlaps, are multiplied by these."""

    fluctuation: float = 1.0
    drift: float = 1.0


THEORIES = {
    "theory": Planted(),
    "no fluctuation": Planted(fluctuation=0.0),
    "fluctuation √2": Planted(fluctuation=2.0**0.5),
    "drift × 1.1": Planted(drift=1.1),
}


def posed(target: str, width: int, activation: str, step: float, samples_per_dim: float) -> TwoLayer:
    """A network with a hard target and Huber loss, random start."""
    return TwoLayer(
        limen.target(target),
        limen.network(width, activation),
        GradientDescent(step),
        samples_per_dim=samples_per_dim,
        loss="huber:1",
    )


RANDOM = {
    "gelu on z²": posed("z**2", 1, "gelu", 1.2, 10.0),
    "width 3 on z²": posed("z**2", 3, "gelu", 3.6, 10.0),
    "width 2 on z1 z2": posed("z1*z2", 2, "gelu", 2.4, 12.0),
    "relu on z²": posed("z**2", 1, "relu", 1.0, 8.0),
}
UNLUCKY = {
    f"{name}, no overlap": problem.model_copy(update={"start": OverlapStart(0.0)}) for name, problem in RANDOM.items()
}
CASES = RANDOM | UNLUCKY


def trained_escapes(problem: TwoLayer, d: int, seeds: Sequence[int]) -> np.ndarray:
    """Escape times of trainings, infinite where there is none."""
    cosines = [largest_hard_cosine(problem, TIMES, d, seed) for seed in seeds]
    return escape.first_passage(TIMES, np.array(cosines))


def predicted_escapes(
    problem: TwoLayer, d: int, rows: Sequence[int], planted: Planted = THEORIES["theory"]
) -> np.ndarray:
    """Escape times of runs of the theory, or of one with a planted error, set by set."""
    right: Callable[..., Any] = finite_dimension.conditioned_pass
    right_move = conditioned_pass.move_of
    latents = problem.target.latents

    def scaled(problem, points, start, steps, sampling, pinned):
        if sampling.luck is not None:
            # All gradients along the target are multiplied by the drift's factor below.
            factor = np.float32(planted.fluctuation / planted.drift)
            decisive = None if sampling.decisive is None else factor * sampling.decisive
            sampling = sampling._replace(luck=factor * sampling.luck, decisive=decisive)
        return right(problem, points, start, steps, sampling, pinned)

    def faster(algorithm):
        move, numbers = right_move(algorithm)

        def apply(numbers, size, shrink, step, weights, gradient, memory):
            if gradient.ndim == 3:
                gradient[..., :latents] *= planted.drift
            return move.apply(numbers, size, shrink, step, weights, gradient, memory)

        return move._replace(apply=apply), numbers

    with (
        mock.patch.object(finite_dimension, "conditioned_pass", scaled),
        mock.patch.object(conditioned_pass, "move_of", faster),
    ):
        sets = [rows[begin : begin + SET] for begin in range(0, len(rows), SET)]
        found = [escape.escaping_runs(problem, TIMES, d, part, None, part[0], 1).dataset.escape_time for part in sets]
    return np.concatenate(found)


def distance(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Kolmogorov-Smirnov distance of two samples of escape times, and its p-value."""
    one, other = (np.where(np.isfinite(part), part, 1e6) for part in (first, second))
    found: Any = ks_2samp(one, other)
    return float(found.statistic), float(found.pvalue)


def quartiles(times: np.ndarray) -> np.ndarray:
    """Quartiles of escape times, infinite where so many do not escape."""
    return np.quantile(times, QUARTILES, method="nearest")


def quartile_intervals(times: np.ndarray) -> np.ndarray:
    """99% intervals (quartile, 2) of all three quartiles by order statistics: free of any law."""
    ordered, count, tail = np.sort(times), times.size, 0.01 / (2 * len(QUARTILES))
    ranks = np.array([binom.ppf((tail, 1.0 - tail), count, part) for part in QUARTILES]).astype(int)
    return ordered[np.clip(ranks + np.array([-1, 0]), 0, count - 1)]


def verdict(trained: dict[int, np.ndarray], predicted: dict[int, np.ndarray]) -> Comparison:
    """Escaped parts at all sizes, by the rule of `limen.compare`."""
    theories, simulations = [], []
    for d in sorted(trained):
        passed, rows = (times[d][:, None] <= JUDGED for times in (trained, predicted))
        part, coords = rows.mean(axis=0), {"time": JUDGED}
        sets = rows[: len(rows) // SET * SET].reshape(-1, SET, JUDGED.size).mean(axis=1)
        # A standard deviation of n sets is itself uncertain: Student's t in place of the normal law.
        few = t.ppf(0.995, len(sets) - 1) / norm.ppf(0.995)
        error = few * np.maximum(sets.std(axis=0, ddof=1), 0.5 / SET) / len(sets) ** 0.5
        variables = {"escaped": ("time", part, {"error": "escaped_error"}), "escaped_error": ("time", error)}
        theories.append(Result(xr.Dataset(variables, coords, {"d": d}), {}, "theory"))
        found = xr.Dataset({"escaped": (("seed", "time"), 1.0 * passed)}, coords, {"d": d})
        simulations.append(Result(found.assign_coords(seed=np.arange(len(passed))), {}, "simulation"))
    return compare(theories, simulations, ["escaped"], tolerance=TOLERANCE)


Lines = dict[tuple[str, int, str], dict[int, float]]


def read(path: Path) -> Lines:
    """Escape times by case, size and witness, then by seed."""
    found: Lines = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        one = json.loads(line)
        at = found.setdefault((one["case"], one["d"], one["who"]), {})
        at.update({one["first"] + i: np.inf if time is None else time for i, time in enumerate(one["times"])})
    return found


def wanted() -> list[tuple[str, str, int, int, int]]:
    """All that is to be run: case, witness, size, first and last seed of a line; every case has its first lines before
    another has its second."""
    lines = []
    for case in CASES:
        trainings = TRAININGS if case in RANDOM else UNLUCKY_TRAININGS
        for d in SIZES:
            counts = {"training": trainings[d], "theory": ROWS}
            if case in UNLUCKY:
                counts |= {who: PLANTED_ROWS for who in THEORIES if who != "theory"}
            for who, count in counts.items():
                size, offset = (AT_ONCE, 0) if who == "training" else (SET, FIRST_ROW)
                lines += [
                    (begin, case, who, d, offset + begin, offset + min(begin + size, count))
                    for begin in range(0, count, size)
                ]
    lines.sort(key=lambda line: line[0])
    return [line[1:] for line in lines]


def run(path: Path) -> None:
    """Adds what is missing, a few runs a line."""
    done = read(path)
    for case, who, d, begin, end in wanted():
        seeds = [seed for seed in range(begin, end) if seed not in done.get((case, d, who), {})]
        if not seeds:
            continue
        if who == "training":
            times = trained_escapes(CASES[case], d, seeds)
        else:
            times = predicted_escapes(CASES[case], d, seeds, THEORIES[who])
        kept = [float(time) if np.isfinite(time) else None for time in times]
        with path.open("a") as file:
            file.write(json.dumps({"case": case, "d": d, "who": who, "first": seeds[0], "times": kept}) + "\n")


def table(path: Path) -> None:
    """Escaped parts, quartiles, distances and verdicts of what the file holds."""
    lines = read(path)

    def of(case: str, who: str) -> dict[int, np.ndarray]:
        return {d: np.array(list(lines[case, d, who].values())) for d in SIZES if (case, d, who) in lines}

    print("| problem | | d | runs | escaped by 10, 20, 30, 40 | quartiles of the escape | distance (p) | verdict |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        trained = of(case, "training")
        if not trained:
            continue
        for who in ("training", *THEORIES):
            found = of(case, who)
            both = {d: times for d, times in trained.items() if d in found}
            said = "" if who == "training" or not both else verdict(both, found).verdict
            for d, times in found.items():
                parts = " ".join(f"{(times <= step).mean():.3f}" for step in JUDGED)
                middle = " ".join(f"{time:g}" for time in quartiles(times))
                apart = ""
                if who == "training":
                    middle += " in " + ", ".join(f"{low:g}–{high:g}" for low, high in quartile_intervals(times))
                else:
                    apart = "{:.3f} ({:.1e})".format(*distance(trained[d], times))
                    inside = quartile_intervals(trained[d])
                    held = (inside[:, 0] <= quartiles(times)) & (quartiles(times) <= inside[:, 1])
                    middle += "" if held.all() else " (outside)"
                print(f"| {case} | {who} | {d} | {times.size} | {parts} | {middle} | {apart} | {said} |")


if __name__ == "__main__":
    {"run": run, "table": table}[sys.argv[1]](Path(sys.argv[2]))
