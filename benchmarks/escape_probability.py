"""Escape times of the theory at finite d against trainings, and against planted errors.

    python benchmarks/escape_probability.py run lines.jsonl     trains and predicts; the same command again goes on
    python benchmarks/escape_probability.py table lines.jsonl   the table and the verdicts, of what is there

Four problems at d = 320 and 1280 from random starts, then without overlap. Compared over both sizes by the rule of
`limen.compare` with its own tolerance of 5%: the part of runs that have escaped by steps 0, 10, 20, 30 and 40, and by
the quartiles of the theory's own escape time (those it reaches within 40 steps at both sizes). A quartile is right if
that part of the trainings has escaped by then; so quartiles need no law of their own, and whole steps do no harm.
Three planted errors are judged alike: the fluctuation of the sample left out, √2 times as large, and a drift of the
overlaps a tenth too large. Beside the theory stands the one on as many points as `predict` takes by itself: its rows
have each their own error in the growth of the overlaps, by which 1 to 2% fewer escape. That hides a part of a larger
fluctuation: √2 stands on as many points as the theory.

64 trainings share a sample, each with a target of its own (`many_targets`), and a seed is a sample: its value is the
part of 64. The band is the larger one of the binomial and of that between samples.

How many trainings and rows: as many as make the band some 3 to 4% of the range, by their spread alone. Processor time
at d = 1280, of a training and of a row of the theory: 0.035 and 0.03 s (gelu), 0.07 and 0.2 s (width 3), 0.06 and
0.1 s (width 2), 0.05 and 0.025 s (relu).
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import xarray as xr
from scipy.stats import binom, norm, t

import limen
from limen.comparison import Comparison, compare
from limen.problem import GradientDescent, OverlapStart, TwoLayer
from limen.result import Result
from limen.simulation.descent.hard_cosines import first_steps_above
from limen.theory.descent import conditioned_pass, escape, finite_dimension

TIMES = np.arange(0.0, 41.0)
SIZES = (320, 1280)
# The curve starts at nothing, which belongs to its range.
JUDGED = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
QUARTILES = (0.25, 0.5, 0.75)
# Trainings that share a sample, and samples of each problem and size.
TOGETHER = 64
SAMPLES = {320: 128, 1280: 256}
# Rows of the theory come in sets, each of them even over starts and first luck; their error shows between the sets.
SET, FIRST_ROW, APART = 64, 10_000, 512
LINE = {320: 256, 1280: 512}
# Lines of the theory, and of the others, by width: rows of one neuron cost a tenth of those of three.
LINES = {1: (8, 4), 2: (3, 2), 3: (6, 2)}
# Points of the theory by width: four times those it takes by itself.
PATHS = {1: 2**14, 2: 2**14, 3: 2**15}


class Planted(NamedTuple):
    """A theory whose fluctuation of the sample, and whose drift of the overlaps, are multiplied by these; on `PATHS`
    points, or as many as it takes by itself."""

    fluctuation: float = 1.0
    drift: float = 1.0
    many_paths: bool = False


THEORIES = {
    "theory": Planted(many_paths=True),
    "theory, usual paths": Planted(),
    "no fluctuation": Planted(fluctuation=0.0),
    "fluctuation √2": Planted(fluctuation=2.0**0.5, many_paths=True),
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
    "relu on z²": posed("z**2", 1, "relu", 1.0, 16.0),
}
# Where only the fluctuation of the sample lets a network escape.
UNLUCKY = {
    f"{name}, no overlap": problem.model_copy(update={"start": OverlapStart(0.0)}) for name, problem in RANDOM.items()
}
CASES = RANDOM | UNLUCKY


def trained_escapes(problem: TwoLayer, d: int, samples: Sequence[int]) -> np.ndarray:
    """Escape times of the trainings of these samples one after another, infinite where there is none."""
    steps = int(TIMES[-1])
    return np.concatenate([first_steps_above(problem, escape.LEARNT, steps, d, one, TOGETHER) for one in samples])


def predicted_escapes(
    problem: TwoLayer, d: int, rows: Sequence[int], planted: Planted = THEORIES["theory"]
) -> np.ndarray:
    """Escape times of runs of the theory, or of one with a planted error; every `SET` of them are even over starts and
    first luck."""
    right: Callable[..., Any] = finite_dimension.conditioned_pass
    right_move = conditioned_pass.move_of
    latents = problem.target.latents

    def scaled(problem, points, start, steps, sampling, pinned, fresh):
        if sampling.luck is not None:
            # All gradients along the target are multiplied by the drift's factor below.
            factor = np.float32(planted.fluctuation / planted.drift)
            decisive = None if sampling.decisive is None else factor * sampling.decisive
            sampling = sampling._replace(luck=factor * sampling.luck, decisive=decisive)
        return right(problem, points, start, steps, sampling, pinned, fresh=fresh)

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
        paths = PATHS[problem.network.width] if planted.many_paths else None
        found = escape.escaping_runs(problem, TIMES, d, rows, paths, rows[0], max(1, len(rows) // SET))
    return found.dataset.escape_time.values


def quartiles(times: np.ndarray) -> np.ndarray:
    """Quartiles of escape times, infinite where so many do not escape."""
    return np.quantile(times, QUARTILES, method="nearest")


def quartile_intervals(times: np.ndarray) -> np.ndarray:
    """99% intervals (quartile, 2) of all three quartiles by order statistics: free of any law."""
    ordered, count, tail = np.sort(times), times.size, 0.01 / (2 * len(QUARTILES))
    ranks = np.array([binom.ppf((tail, 1.0 - tail), count, part) for part in QUARTILES]).astype(int)
    return ordered[np.clip(ranks + np.array([-1, 0]), 0, count - 1)]


def judged_times(predicted: dict[int, np.ndarray]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """At each size what is judged: names (steps, and the quartiles that a theory reaches at all sizes) and times."""
    ends = {d: quartiles(times) for d, times in predicted.items()}
    reached = np.all([np.isfinite(part) for part in ends.values()], axis=0)
    names = np.concatenate([JUDGED, np.array(QUARTILES)[reached]])
    return {d: (names, np.concatenate([JUDGED, part[reached]])) for d, part in ends.items()}


def verdict(trained: dict[int, np.ndarray], predicted: dict[int, np.ndarray], tolerance: float = 0.05) -> Comparison:
    """Escaped parts at all sizes by the rule of `limen.compare`: at given steps, and at the theory's own quartiles of
    the escape time. A seed is a sample, its value the part of its trainings that have escaped."""
    theories, simulations = [], []
    for d, (names, times) in judged_times({d: predicted[d] for d in sorted(trained)}).items():
        passed, rows = (found[d][:, None] <= times for found in (trained, predicted))
        coords = {"judged": names}
        sets = rows[: len(rows) // SET * SET].reshape(-1, SET, names.size).mean(axis=1)
        # A standard deviation of n sets is itself uncertain: Student's t in place of the normal law.
        few = t.ppf(0.995, len(sets) - 1) / norm.ppf(0.995)
        error = few * np.maximum(sets.std(axis=0, ddof=1), 0.5 / SET * (times > 0)) / len(sets) ** 0.5
        variables = {
            "escaped": ("judged", rows.mean(axis=0), {"error": "escaped_error"}),
            "escaped_error": ("judged", error),
        }
        theories.append(Result(xr.Dataset(variables, coords, {"d": d}), {}, "theory"))
        parts = passed.reshape(-1, TOGETHER, names.size).mean(axis=1)
        found = xr.Dataset({"escaped": (("seed", "judged"), parts, {"outcomes": TOGETHER})}, coords, {"d": d})
        simulations.append(Result(found.assign_coords(seed=np.arange(len(parts))), {}, "simulation"))
    return compare(theories, simulations, ["escaped"], tolerance=tolerance)


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
    """All that is to be run: case, witness, size, first and last run of a line. A line is a sample of trainings or a
    few sets of rows; every case has its first lines before another goes on, and random starts come first."""
    lines = []
    for case in CASES:
        for d in SIZES:
            for who in ("training", *THEORIES):
                if who == "training":
                    size, apart, first, count = TOGETHER, TOGETHER, 0, SAMPLES[d]
                else:
                    size, apart, first = LINE[d], APART, FIRST_ROW
                    count = LINES[CASES[case].network.width][who != "theory"]
                begins = [first + apart * i for i in range(count)]
                order = case in UNLUCKY
                lines += [(order + i / count, case, who, d, begin, begin + size) for i, begin in enumerate(begins)]
    lines.sort(key=lambda line: line[0])
    return [line[1:] for line in lines]


def run(path: Path) -> None:
    """Adds the lines that are missing."""
    done = read(path)
    for case, who, d, begin, end in wanted():
        if begin in done.get((case, d, who), {}):
            continue
        if who == "training":
            times = trained_escapes(CASES[case], d, [begin // TOGETHER])
        else:
            times = predicted_escapes(CASES[case], d, range(begin, end), THEORIES[who])
        kept = [float(time) if np.isfinite(time) else None for time in times]
        with path.open("a") as file:
            file.write(json.dumps({"case": case, "d": d, "who": who, "first": begin, "times": kept}) + "\n")


def table(path: Path) -> None:
    """Escaped parts, quartiles and verdicts of what the file holds; sentences of the verdicts below."""
    lines, sentences = read(path), []

    def of(case: str, who: str) -> dict[int, np.ndarray]:
        return {d: np.array(list(lines[case, d, who].values())) for d in SIZES if (case, d, who) in lines}

    print("| problem | | d | runs | escaped by 10, 20, 30, 40 | quartiles of the escape | deviation, band | verdict |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        trained = of(case, "training")
        for who in ("training", *THEORIES):
            found = of(case, who)
            if set(found) != set(SIZES) or set(trained) != set(SIZES):
                continue
            judged = ("", "")
            if who != "training":
                said = verdict(trained, found)
                one = said["escaped"]
                judged = (f"{one.deviation:.1%}, {one.band:.1%}", said.verdict)
                sentences.append(f"{case}, {who}: {said.sentence}")
            for d, times in found.items():
                parts = " ".join(f"{(times <= step).mean():.3f}" for step in JUDGED[1:])
                middle = " ".join(f"{time:g}" for time in quartiles(times))
                if who == "training":
                    middle += " in " + ", ".join(f"{low:g}–{high:g}" for low, high in quartile_intervals(times))
                last = judged if d == SIZES[-1] else ("", "")
                print(f"| {case} | {who} | {d} | {times.size} | {parts} | {middle} | {last[0]} | {last[1]} |")
    print("", *sentences, sep="\n")


if __name__ == "__main__":
    {"run": run, "table": table}[sys.argv[1]](Path(sys.argv[2]))
