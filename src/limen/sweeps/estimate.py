"""What a sweep will cost, before it starts: work and memory, from runs of its own smallest and largest points."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from limen.experiments.figure import counted
from limen.machine.pace import in_words
from limen.storage.claims import Claims
from limen.storage.file_store import FileStore
from limen.storage.sweep_table import costs, put_costs
from limen.sweeps.engine import Engine, Progress
from limen.sweeps.pool import LocalPool
from limen.sweeps.schedule import MOST_IN_A_JOB, Schedule
from limen.sweeps.sweep import missing_units
from limen.sweeps.sweep_record import Plan, Unit

# The first run of a structure compiles, the second shows what the others will take.
RUNS_TO_MEASURE = 2

Costs = Mapping[tuple[str, str], tuple[float, float]]


@dataclass(frozen=True)
class Estimate:
    """What is asked, what is stored, and about what the rest takes: work on one core, wall time and memory of all
    workers."""

    points: int
    seeds: int
    results: int
    stored: int
    jobs: int
    work_seconds: float
    wall_seconds: float
    memory_bytes: float
    workers: int

    def describe(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        seeds = f", {counted(self.seeds, 'seed')}" if self.seeds else ", theory alone"
        lines = [f"{self.points} points{seeds}: {self.results} results, {self.stored} of them in the store."]
        if self.results > self.stored:
            lines.append(
                f"The rest is about {in_words(self.work_seconds)} of work in {self.jobs} jobs: "
                f"{in_words(self.wall_seconds)} on {self.workers} workers, "
                f"with about {self.memory_bytes / 1e6:.0f} MB of memory."
            )
        return "\n".join(lines)


def estimate(plan: Plan, store: FileStore, workers: int, job_seconds: float) -> Estimate:
    """Runs two results of each kind at the smallest and at the largest size where costs are not known yet.

    What is run is stored like any other result. Costs in between follow a power law in the size.
    """
    missing = missing_units(plan, store)
    known = costs(store.index)
    unmeasured = _to_measure(plan, missing, known)
    if unmeasured:
        _measure(plan, store, unmeasured)
        known = costs(store.index)
        missing = missing_units(plan, store)
    queues: dict[tuple[str, str], int] = {}
    for unit in missing:
        queue = _queue(plan, unit)
        queues[queue] = queues.get(queue, 0) + 1
    seconds = {queue: cost_of(plan, queue, known) for queue in queues}
    work = sum(count * seconds[queue] for queue, count in queues.items())
    jobs = sum(
        math.ceil(count / min(MOST_IN_A_JOB, max(1, math.ceil(job_seconds / max(seconds[queue], 1e-9)))))
        for queue, count in queues.items()
    )
    wanted = {_queue(plan, unit) for unit in plan.units}
    memory = max((cost[1] for queue, cost in known.items() if queue in wanted), default=0.0)
    busy = max(1, min(workers, len(missing)))
    stored = len(plan.units) - len(missing)
    return Estimate(
        len(plan.points),
        len(plan.record.seeds),
        len(plan.units),
        stored,
        jobs,
        work,
        work / busy,
        busy * memory,
        workers,
    )


def cost_of(plan: Plan, queue: tuple[str, str], known: Costs) -> float:
    """Seconds per result: measured, or between (or beyond) measured sizes of this sweep by a power law."""
    if queue in known:
        return known[queue][0]
    sizes = _sizes(plan)
    measured = sorted(
        (sizes[structure], known[structure, queue[1]][0]) for structure in sizes if (structure, queue[1]) in known
    )
    if not measured:
        return 0.0
    (small, low), (large, high) = measured[0], measured[-1]
    size = sizes[queue[0]]
    if not 0.0 < small < large or size <= 0.0 or min(low, high) <= 0.0:
        return sum(seconds for _, seconds in measured) / len(measured)
    exponent = math.log(high / low) / math.log(large / small)
    return low * (size / small) ** exponent


def _queue(plan: Plan, unit: Unit) -> tuple[str, str]:
    return plan.structures[unit.point], unit.kind


def _sizes(plan: Plan) -> dict[str, float]:
    return {structure: plan.size(point) for point, structure in enumerate(plan.structures)}


def _to_measure(plan: Plan, missing: list[Unit], known: Costs) -> list[Unit]:
    sizes = _sizes(plan)
    chosen: list[Unit] = []
    for kind in ("theory", "simulation"):
        there = sorted({plan.structures[unit.point] for unit in missing if unit.kind == kind}, key=lambda s: sizes[s])
        for structure in dict.fromkeys([*there[:1], *there[-1:]]):
            if (structure, kind) not in known:
                same = [unit for unit in missing if _queue(plan, unit) == (structure, kind)]
                chosen += same[:RUNS_TO_MEASURE]
    return chosen


def _measure(plan: Plan, store: FileStore, units: list[Unit]) -> None:
    progress = Progress(len(units), 0)
    schedule = Schedule(plan, units, {}, 0.0)
    with LocalPool(1) as pool, Claims(store.index) as claims:
        Engine(plan, schedule, store, pool, claims, progress).drive(lambda: False, lambda progress: None)
    put_costs(store.index, {queue: (seconds, progress.memory) for queue, seconds in schedule.costs().items()})
