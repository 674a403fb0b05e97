"""What a user waits for, as one table: `python benchmarks/table.py [word ...]`, or the end of `make bench`.

Every row stands beside a baseline measured in the same run, in turns, best of several, in processor time on one thread:
a slow or busy machine slows both. A cold row is a new process with no compiled programs kept; beside it stands a
process that imports jax and xarray, which every answer needs. Words choose the rows whose names hold one of them.

    python benchmarks/table.py --before CHECKOUT

times every row in another checkout of limen too, in turns with this one; what that one cannot do is `-`. Goals that
were set as times on another machine are then in proportion to the time before.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from table_rows import ROWS, Call, Number, Process, python

HERE = Path(__file__).resolve().parents[1]
ONE_THREAD = {
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
IMPORTS = "import jax, xarray"
# A process is measured in so many turns, and in fewer once both trees have taken so many seconds of processor time.
TURNS, ENOUGH = 4, 40.0
HARNESS = """
import json, time
{code}
def seconds(work):
    began = time.process_time()
    work()
    return time.process_time() - began
run(), beside()
print(json.dumps([min(times) for times in zip(*[(seconds(run), seconds(beside)) for _ in range(4)])]))
"""
Found = dict[str, tuple[float, float] | None]


class Trees:
    """Checkouts of limen under their names, each with a folder for what it compiles and stores."""

    def __init__(self, before: Path | None, folder: Path) -> None:
        self.places = ({} if before is None else {"before": before.resolve()}) | {"now": HERE}
        self.folder = folder

    def environment(self, name: str, kept: str) -> dict[str, str]:
        """The variables of a process of that tree; `kept` names the folder, new ones are empty."""
        place = self.folder / name / kept
        own = {"PYTHONPATH": str(self.places[name] / "src"), "XDG_CACHE_HOME": str(place)}
        return os.environ | ONE_THREAD | own | {"LIMEN_STORE": str(place / "store")}

    def output(self, name: str, command: tuple[str, ...], kept: str) -> str | None:
        """What a process of that tree prints, None where it fails."""
        options = {"env": self.environment(name, kept), "cwd": self.places[name], "capture_output": True, "text": True}
        done = subprocess.run(command, **options)
        return done.stdout if done.returncode == 0 else None


def processor_seconds(trees: Trees, name: str, command: tuple[str, ...], kept: str) -> float | None:
    """Processor time of a process and of those it waited for, None where it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    fine = trees.output(name, command, kept) is not None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime if fine else None


def measured_process(row: Process, trees: Trees, turns: int) -> Found:
    """Seconds of the row and of the imports in each tree, in turns; of kept programs the first turn is one more."""
    best: dict[str, float | None] = {}
    imports, spent = float("inf"), 0.0
    for turn in range(turns + int(row.kept)):
        kept = "kept" if row.kept else f"{row.what} {turn}".replace("/", " ")
        for name in trees.places:
            earlier = best.get(name)
            if turn > 0 and earlier is None:
                continue
            found = processor_seconds(trees, name, row.command, kept)
            spent += found or 0.0
            best[name] = found if earlier is None or found is None else min(found, earlier)
        imports = min(imports, processor_seconds(trees, "now", python(IMPORTS), kept) or imports)
        if spent > ENOUGH and turn > 0:
            break
    return {name: None if value is None else (value, imports) for name, value in best.items()}


def measured_call(row: Call, trees: Trees, turns: int) -> Found:
    """Seconds of the call and of what stands beside it in each tree, in turns of processes and inside of each."""
    best: Found = {}
    for _ in range((turns + 1) // 2):
        for name in trees.places:
            if name in best and best[name] is None:
                continue
            printed = trees.output(name, python(HARNESS.format(code=row.code)), "kept")
            earlier = best.get(name)
            if printed is None:
                best[name] = None
                continue
            own, beside = json.loads(printed)
            best[name] = (own, beside) if earlier is None else (min(own, earlier[0]), min(beside, earlier[1]))
    return best


def process_line(row: Process, found: Found) -> str:
    own = found["now"]
    words = {name: "-" if pair is None else f"{pair[0]:.2f} s" for name, pair in found.items()}
    beside = "" if own is None else f"importing jax and xarray: {own[1]:.2f} s"
    met = own is not None and own[0] <= row.goal
    return line(row.what, words, beside, f"{row.goal:g} s", met)


def call_line(row: Call, found: Found) -> str:
    words = {}
    for name, pair in found.items():
        words[name] = "-" if pair is None else f"{1e3 * pair[0]:.3g} ms ({pair[0] / pair[1]:.3g})"
    own, before = found["now"], found.get("before")
    beside = "" if own is None else f"{row.beside}: {1e3 * own[1]:.3g} ms"
    if own is not None and before is not None and row.part is not None:
        goal = row.part * before[0]
        return line(row.what, words, beside, f"{1e3 * goal:.3g} ms", own[0] <= goal)
    met = own is not None and own[0] <= row.goal * own[1]
    return line(row.what, words, beside, f"({row.goal:g})", met)


def number_line(row: Number, trees: Trees) -> str:
    values: dict[str, float | None] = {}
    for name in trees.places:
        printed = trees.output(name, python(row.code), "kept")
        values[name] = None if printed is None else float(printed)
    words = {name: "-" if value is None else f"{value:.3g} {row.unit}" for name, value in values.items()}
    own = values["now"]
    met = own is not None and (own >= row.goal if row.least else own <= row.goal)
    goal = "" if row.goal == float("inf") else f"{'at least ' if row.least else ''}{row.goal:g} {row.unit}"
    return line(row.what, words, "", goal, met)


def line(what: str, words: Mapping[str, str], beside: str, goal: str, met: bool) -> str:
    judged = "" if not goal or words["now"] == "-" else "yes" if met else "no"
    cells = (what, *words.values(), beside, goal, judged)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only rows whose names hold one of them")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout, in turns with this one")
    parser.add_argument("--turns", type=int, default=TURNS, help="how often a process is measured")
    options = parser.parse_args()

    def wanted(row: Process | Call | Number) -> bool:
        return not options.words or any(word in row.what for word in options.words)

    with tempfile.TemporaryDirectory() as folder:
        trees = Trees(options.before, Path(folder))
        columns = ("what", *trees.places, "beside it", "goal", "reached")
        print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
        for row in filter(wanted, ROWS):
            if isinstance(row, Process):
                found = process_line(row, measured_process(row, trees, options.turns))
            elif isinstance(row, Call):
                found = call_line(row, measured_call(row, trees, options.turns))
            else:
                found = number_line(row, trees)
            print(found, flush=True)


if __name__ == "__main__":
    sys.exit(main())
