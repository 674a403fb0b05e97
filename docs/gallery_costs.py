"""Measures what an experiment costs: processor seconds of its theory and of one seed, at its quick parameters.

    python docs/gallery_costs.py [NAME ...]

writes `docs/gallery_costs.json`, from which the gallery tells cheap experiments from dear ones. Everything is done once
before it is timed, so that compilation is not counted.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from limen.experiments.registry import PLACES, experiment_class

COSTS = Path(__file__).parent / "gallery_costs.json"
SEEDS = tuple(range(900_000, 900_006))


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of some work."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(name: str) -> list[float]:
    """Seconds of the theory (a paired one: of a row) and the median of a seed's."""
    kind = experiment_class(name)
    experiment = kind(**kind.quick)
    rows = SEEDS if experiment.paired else ()
    _, *runs = [seconds(lambda seed=seed: experiment.simulate(seed)) for seed in SEEDS]
    _, theory = [seconds(lambda: experiment.theory(rows)) for _ in range(2)]
    return [float(f"{theory / max(len(rows), 1):.2g}"), float(f"{statistics.median(runs):.2g}")]


if __name__ == "__main__":
    found = json.loads(COSTS.read_text()) if COSTS.is_file() else {}
    for name in sys.argv[1:] or sorted(PLACES):
        found[name] = measure(name)
        print(name, found[name], flush=True)
        lines = (f" {json.dumps(name)}: {json.dumps(cost)}" for name, cost in sorted(found.items()))
        COSTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
