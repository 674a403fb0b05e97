"""Which results go together into the next job: one structure, about ten seconds of work, everyone busy to the end."""

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping

from limen.sweeps.sweep_record import Plan, Unit

JOB_SECONDS = 10.0
LONGEST_JOB = 3600.0
MOST_IN_A_JOB = 1000
# A batch of theories is one compilation for its length: few lengths, and not too long to lose.
MOST_IN_A_BATCH = 64


class Schedule:
    """Units that are still to be done, in queues of one structure and kind.

    Jobs grow with what has been learnt about the cost of their queue: one unit while nothing is known, then as many as
    fill `job_seconds`, but at the end of a queue no more than an equal share for every slot.
    """

    def __init__(
        self, plan: Plan, units: Iterable[Unit], costs: Mapping[tuple[str, str], float], job_seconds: float
    ) -> None:
        self._plan = plan
        self._job_seconds = job_seconds
        self._costs = dict(costs)
        self._observed: Counter[tuple[str, str]] = Counter()
        self._trusted = set(costs)
        self._queues: dict[tuple[str, str], deque[Unit]] = {}
        self._alone: deque[list[Unit]] = deque()
        for unit in sorted(units, key=self._order):
            self._queues.setdefault(self._queue(unit), deque()).append(unit)
        self._batches = plan.record.experiment.batches_theory()

    def _queue(self, unit: Unit) -> tuple[str, str]:
        return self._plan.structures[unit.point], unit.kind

    def _order(self, unit: Unit) -> tuple[float, str, bool, int, tuple[int, ...]]:
        """Large sizes first, so that the last jobs are short; then by structure, theory before simulation."""
        return (
            -self._plan.size(unit.point),
            self._plan.structures[unit.point],
            unit.kind == "simulation",
            unit.point,
            unit.seeds,
        )

    def __len__(self) -> int:
        return sum(map(len, self._queues.values())) + sum(map(len, self._alone))

    def take(self, slots: int) -> list[list[Unit]]:
        """The next job: a list of tasks, each a list of units; empty when nothing is left."""
        if self._alone:
            return self._tasks(self._alone.popleft())
        for queue, units in self._queues.items():
            if not units:
                continue
            cost = self._costs.get(queue)
            count = 1 if cost is None else max(1, math.ceil(self._job_seconds / max(cost, 1e-9)))
            count = min(count, math.ceil(len(units) / slots), MOST_IN_A_JOB)
            return self._tasks([units.popleft() for _ in range(count)])
        return []

    def _tasks(self, units: list[Unit]) -> list[list[Unit]]:
        """Theories that are not paired may go together; all else one by one. Units are of one queue."""
        together = self._batches and units[0].kind == "theory" and not units[0].seeds
        batch = MOST_IN_A_BATCH if together else 1
        return [units[begin : begin + batch] for begin in range(0, len(units), batch)]

    def put_back(self, units: Iterable[Unit]) -> None:
        """Units that were taken and not tried come first again."""
        for unit in units:
            self._queues.setdefault(self._queue(unit), deque()).appendleft(unit)

    def isolate(self, units: list[Unit]) -> None:
        """Units among which one is suspected: one is tried alone, several in halves."""
        half = len(units) // 2
        for part in (units[:half], units[half:]):
            if part:
                self._alone.append(part)

    def observe(self, unit: Unit, seconds: float) -> None:
        """Learns what a unit cost; the first of a structure also compiles, so that the latest weighs most."""
        queue = self._queue(unit)
        self._observed[queue] += 1
        before = self._costs.get(queue)
        self._costs[queue] = seconds if before is None else 0.25 * before + 0.75 * seconds

    def costs(self) -> dict[tuple[str, str], float]:
        """Seconds per unit by structure and kind, as far as known."""
        return dict(self._costs)

    def seconds_left(self, under_way: Iterable[Unit] = (), slots: int = 1) -> float | None:
        """Work that is left, on one core, units under way counted whole; None while some cost is unknown.

        The first unit of a structure in each of the `slots` compiles, and says little about the others.
        """
        left = Counter({queue: len(units) for queue, units in self._queues.items() if units})
        left.update(self._queue(unit) for units in (*self._alone, under_way) for unit in units)
        if any(queue not in self._trusted and self._observed[queue] <= slots for queue in left):
            return None
        return sum(count * self._costs[queue] for queue, count in left.items())
