"""Runs what is missing: jobs out, results into the store, deaths repaired, suspects isolated, failures named."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import xarray as xr

from limen.machine.pace import Pace
from limen.result import Result, netcdf
from limen.storage.claims import Claims
from limen.storage.file_store import FileStore
from limen.storage.sweep_table import failures, put_failures
from limen.sweeps.point_tasks import compute, resolve
from limen.sweeps.protocol import Event, Executor, Finished, Job, Lost, Raised, Returned
from limen.sweeps.schedule import Schedule
from limen.sweeps.sweep_record import Plan, Unit

# How long a result may wait before it is saved: so that saving takes about a fiftieth of the time, within bounds. What
# a dead driver loses is what waits, and never more than two seconds of it.
SAVING_SHARE = 0.02
SAVE_WITHIN = (0.3, 1.3)
MOST_UNSAVED_BYTES = 64e6
TURN = 0.5
LOOK_AT_OTHERS_EVERY = 0.5
# So many workers must die over one point before it is given up: the first may have been killed by accident.
STRIKES = 2
# Engines may follow each other on one executor, so numbers are never used twice.
_numbers = itertools.count(1)


@dataclass
class Progress:
    """How far a sweep is: results in all, there before, computed now, computed by other drivers, failed."""

    total: int
    stored: int
    computed: int = 0
    shared: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    # Computed and about to be saved; computed at this moment by other drivers.
    unsaved: int = 0
    awaited: int = 0
    memory: float = 0.0
    seconds_left: float | None = None

    @property
    def done(self) -> int:
        """Results that are in the store."""
        return self.stored + self.computed + self.shared

    @property
    def finished(self) -> int:
        """Results that are there, saved or about to be."""
        return self.done + self.unsaved


class Engine:
    """One drive of a sweep over an executor. All writing is done here, by the driver: workers need no store."""

    def __init__(
        self, plan: Plan, schedule: Schedule, store: FileStore, executor: Executor, claims: Claims, progress: Progress
    ) -> None:
        self._plan, self._schedule, self._store = plan, schedule, store
        self._executor, self._claims, self.progress = executor, claims, progress
        self._began = time.time()
        self._running: dict[int, dict[int, list[Unit]]] = {}
        self._unsaved: dict[str, Result] = {}
        self._unsaved_bytes, self._save_at, self._saving = 0, float("inf"), SAVE_WITHIN[0]
        self._pace = Pace(executor.slots)
        self._strikes: dict[str, int] = {}
        # Where workers die with all they hold, a unit may be struck for its neighbour: the last try is made alone.
        self._suspects: list[Unit] = []
        self._alone: int | None = None
        self._others: dict[str, Unit] = {}
        self._looked_at = 0.0

    def drive(self, stop: Callable[[], bool], report: Callable[[Progress], None]) -> None:
        """Until nothing is left, or `stop` says so. Whatever happens, results that came are stored."""
        try:
            self._fill_slots()
            _warm_up()
            while not stop():
                self._claims.beat()
                self._fill_slots()
                if not self._running and not len(self._schedule) and not self._suspects:
                    self.save()
                    if not self._others:
                        break
                for event in self._executor.wait(max(0.0, min(TURN, self._save_at - time.monotonic()))):
                    self._handle(event)
                if self._unsaved_bytes > MOST_UNSAVED_BYTES or time.monotonic() >= self._save_at:
                    self.save()
                self._look_at_others()
                self.progress.awaited = len(self._others)
                self.progress.seconds_left = self._seconds_left()
                report(self.progress)
        finally:
            for job in self._running:
                self._executor.cancel(job)
            self.save()
            report(self.progress)

    def save(self) -> None:
        """Stores what has come."""
        if not self._unsaved:
            return
        began = time.monotonic()
        unsaved, self._unsaved, self._unsaved_bytes = self._unsaved, {}, 0
        self._store.put(unsaved)
        self.progress.computed += len(unsaved)
        self.progress.unsaved, self._save_at = 0, float("inf")
        self._saving = min(max((time.monotonic() - began) / SAVING_SHARE, SAVE_WITHIN[0]), SAVE_WITHIN[1])

    def _seconds_left(self) -> float | None:
        """Wall time to the end; the last results cannot be shared by more workers than there are results."""
        under_way = [unit for tasks in self._running.values() for units in tasks.values() for unit in units]
        work = self._schedule.seconds_left(under_way, self._executor.slots)
        left = len(self._schedule) + len(under_way)
        if work is None:
            return self._pace.seconds_left(left)
        return work / max(1, min(self._executor.slots, left))

    def _fill_slots(self) -> None:
        while len(self._running) < self._executor.slots and self._alone not in self._running:
            tasks = self._schedule.take(self._executor.slots)
            alone = not tasks and bool(self._suspects) and not self._running
            if alone:
                tasks = [[self._suspects.pop()]]
            if not tasks:
                return
            ours, stored, others = self._claims.take([unit.key for task in tasks for unit in task])
            self.progress.shared += len(stored)
            self._others.update({unit.key: unit for task in tasks for unit in task if unit.key in others})
            mine = [[unit for unit in task if unit.key in ours] for task in tasks]
            mine = [task for task in mine if task]
            if mine:
                number = next(_numbers)
                self._alone = number if alone else None
                self._running[number] = dict(enumerate(mine))
                work = tuple(self._plan.task(task) for task in mine)
                self._executor.start(Job(number, compute, work, partial(resolve, self._plan.record.reference)))

    def _handle(self, event: Event) -> None:
        match event:
            case Returned(job, position, value, seconds):
                self._keep(self._running[job].pop(position), value, seconds)
            case Raised(job, position, reason, _):
                units = self._running[job].pop(position)
                if len(units) > 1:
                    self._schedule.isolate(units)
                else:
                    self._fail(units[0], reason)
            case Lost():
                self._repair(event)
            case Finished(job, memory):
                self.progress.memory = max(self.progress.memory, memory)
                self._schedule.put_back(unit for units in self._running.pop(job).values() for unit in units)

    def _keep(self, units: list[Unit], results: Sequence[Result], seconds: float) -> None:
        if len(results) != len(units):
            for unit in units:
                self._fail(unit, f"the experiment gave {len(results)} results for {len(units)} points")
            return
        self._schedule.observe(units[0], seconds / len(units))
        self._pace.arrived(len(units))
        self.progress.unsaved += len(units)
        self._save_at = min(self._save_at, time.monotonic() + self._saving)
        for unit, result in zip(units, results, strict=True):
            self._unsaved[unit.key] = result
            self._unsaved_bytes += result.dataset.nbytes

    def _repair(self, lost: Lost) -> None:
        left = self._running.pop(lost.job)
        suspects = [] if lost.innocent else left.pop(lost.position, []) if lost.position is not None else None
        if suspects is None:
            suspects, left = [unit for units in left.values() for unit in units], {}
        self._schedule.put_back(unit for units in left.values() for unit in units)
        if len(suspects) > 1:
            self._schedule.isolate(suspects)
        elif suspects:
            unit = suspects[0]
            self._strikes[unit.key] = self._strikes.get(unit.key, 0) + 1
            if lost.final or self._strikes[unit.key] >= STRIKES:
                again = "" if lost.final else f", {STRIKES} times"
                self._fail(unit, f"{lost.reason}{again}")
            else:
                self._suspects.append(unit)

    def _fail(self, unit: Unit, reason: str) -> None:
        self.progress.failed[unit.key] = reason
        put_failures(self._store.index, {unit.key: reason})
        self._claims.release([unit.key])

    def _look_at_others(self) -> None:
        """What other drivers are at: done by now, failed, or given up and ours to do."""
        if not self._others or time.monotonic() - self._looked_at < LOOK_AT_OTHERS_EVERY:
            return
        self._looked_at = time.monotonic()
        failed = failures(self._store.index, self._others, self._began)
        for key, reason in failed.items():
            self.progress.failed[key] = reason
            del self._others[key]
        ours, stored, others = self._claims.take(list(self._others))
        self.progress.shared += len(stored)
        # A driver may have failed on a key, and given its claim back, between the two questions.
        late = failures(self._store.index, ours, self._began)
        self.progress.failed.update(late)
        self._claims.release(list(late))
        self._schedule.put_back(self._others[key] for key in ours if key not in late)
        self._others = {key: self._others[key] for key in others}


def _warm_up() -> None:
    """Imports what saving needs while the workers start, so that the first save is as quick as the others."""
    netcdf(xr.Dataset({"x": ("time", [0.0])}, {"time": [0.0]}))
