"""The fourth verb: an experiment over a grid of parameters, sizes and seeds."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import xarray as xr

from limen.checks import seed_list
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure
from limen.machine.interruption import STOPPING, Stopped
from limen.problem.own_functions import own_names
from limen.problem.spec import InputError, Spec
from limen.result import netcdf, write_file
from limen.storage.claims import Claims
from limen.storage.file_store import FileStore
from limen.storage.sweep_table import Counts, costs, counts, failures, put_costs, put_sweep, set_state, state_of
from limen.sweeps.dataset import assemble
from limen.sweeps.engine import Engine, Progress
from limen.sweeps.grid import MOST_POINTS, make_grid
from limen.sweeps.phase_diagram import phase_diagram, quantities
from limen.sweeps.point_tasks import check_quantities, reference_to, resolve
from limen.sweeps.protocol import Executor
from limen.sweeps.schedule import JOB_SECONDS, LONGEST_JOB, Schedule
from limen.sweeps.sweep_record import Plan, Record, make_plan

LOOK_FOR_CANCELLATION_EVERY = 1.0


@dataclass(frozen=True)
class Failure:
    """A result that could not be had: what it was, and why."""

    params: dict[str, Any]
    kind: str
    seed: int | None
    reason: str


@dataclass(frozen=True)
class Sweep:
    """A sweep and what the store has of it; the store is the only truth, so this may be asked at any time.

    `computed` is the number of results computed by the call that returned it.
    """

    plan: Plan
    store: FileStore
    computed: int = 0
    cancelled: bool = False

    @property
    def identifier(self) -> str:
        """A short name, the same whenever the same is asked."""
        return self.plan.record.identifier

    @property
    def points(self) -> Counts:
        """Points of the grid: all, done (every result is there), failed, missing."""
        return counts(self.store.index, self.identifier)[0]

    @property
    def results(self) -> Counts:
        """Results: theory of each point, and each seed."""
        return counts(self.store.index, self.identifier)[1]

    @property
    def failures(self) -> list[Failure]:
        """What failed, and why."""
        reasons = failures(self.store.index, [unit.key for unit in self.plan.units])
        stored = self.store.has(reasons)
        return [
            Failure(
                self.plan.points[unit.point], unit.kind, unit.seeds[0] if unit.kind == "simulation" else None,
                reasons[unit.key],
            )
            for unit in self.plan.units
            if unit.key in reasons and unit.key not in stored
        ]  # fmt: skip

    @cached_property
    def dataset(self) -> xr.Dataset:
        """One labelled dataset over the grid; see `limen.sweeps.dataset.assemble`."""
        return assemble(self.plan, self.store)

    def quantities(self) -> list[str]:
        """What can be drawn: numbers per point, those the experiment compares first."""
        record = self.plan.record
        return quantities(record.experiment, self.dataset, [axis.name for axis in record.grid.axes])

    def figure(self, quantity: str | None = None) -> Figure:
        """The phase diagram, as data: a map over two numeric parameters, lines over one."""
        record = self.plan.record
        names = [axis.name for axis in record.grid.axes]
        return phase_diagram(
            record.experiment, self.dataset, names, self._thresholds(names), quantity, len(record.seeds)
        )

    def _thresholds(self, names: list[str]) -> dict[str, dict[str, float]]:
        theory = next(unit for unit in self.plan.units if unit.kind == "theory")
        found = self.store.get([theory.key]).get(theory.key)
        if found is None:
            return {}
        experiment = self.plan.record.experiment(**self.plan.points[theory.point])
        return {name: experiment.thresholds(name, found) for name in names}

    def export(self, path: str | Path) -> Path:
        """Writes the dataset: `.nc` whole, `.csv` the numbers per point (and seed)."""
        path = Path(path)
        if path.suffix == ".nc":
            write_file(netcdf(self.dataset), path)
        elif path.suffix == ".csv":
            record = self.plan.record
            names = {axis.name for axis in record.grid.axes} | {"seed", "point"}
            table = self.dataset[[name for name, v in self.dataset.data_vars.items() if set(v.dims) <= names]]
            table.to_dataframe().reset_index().to_csv(path, index=False)
        else:
            raise InputError(f"a sweep is exported to .nc or .csv, got {path.name!r}.")
        return path

    def report(self) -> str:
        """Counts, and one line for each failure."""
        points, results = self.points, self.results
        lines = [
            f"sweep {self.identifier}: {points.done} of {points.total} points done, {points.failed} failed, "
            f"{points.missing} missing ({results.done} of {results.total} results)."
        ]
        for failure in self.failures:
            plain = {name: value for name, value in failure.params.items() if not isinstance(value, dict)}
            where = ", ".join(f"{name} = {value}" for name, value in plain.items())
            what = failure.kind if failure.seed is None else f"seed {failure.seed}"
            lines.append(f"  failed: {where}, {what}: {failure.reason}.")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report()


def sweep(
    experiment: str | Spec | type[Experiment],
    grid: Mapping[str, Any] | Sequence[str] = (),
    seeds: int | Sequence[int] | None = None,
    sizes: Any = None,
    executor: Executor | int | str | None = None,
    *,
    times: Any = None,
    quantities: Sequence[str] = (),
    zipped: bool = False,
    theory_only: bool = False,
    time_limit: float | None = None,
    job_seconds: float = JOB_SECONDS,
    store: FileStore | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Sweep:
    """Theory and simulations of an experiment over a grid; what the store has is not computed again.

    Args:
        experiment: a name of the gallery, `module:Class`, a class, an experiment that has the fixed parameters, or a
            problem, whose parameters stand on the grid by their paths (`"algorithm.step"`).
        grid: `{"rate": "0.1:0.5:5", "noise": [0.0, 0.2]}` or `["rate=0.1:0.5:5"]`. Values: `a:b:n`, `log:a:b:n`,
            `v,v,...`, or any sequence.
        seeds: `16` means 0..15; by default the experiment's own number.
        sizes: values of the experiment's size, as one more axis.
        executor: a number of local worker processes (default: one per core), `"dask"` for a local Dask cluster,
            `"tcp://host:port"` for a running one, or an object with the interface of `limen.sweeps.protocol.Executor`.
        times: of a problem, as `limen.predict` takes them; 20 by default.
        quantities: variables of a problem whose last values are wanted at each point; by default every loss.
        zipped: walk the axes side by side instead of in all combinations.
        theory_only: no simulations.
        time_limit: seconds one result may take; one that takes longer is reported as failed.
        job_seconds: how much work goes to a worker at once.
        store: where results are kept; by default where `limen run` keeps them.
        on_progress: called as the sweep goes.

    An interruption (Ctrl-C) stops the workers, keeps what is finished, and raises KeyboardInterrupt; the same call goes
    on from there. So does a full disk, with OSError.
    """
    from limen.sweeps.executors import make_executor

    posed = _posed(experiment, times, quantities)
    record = make_record(posed, grid, seeds, sizes, zipped, theory_only)
    check_job_seconds(job_seconds)
    plan, store = make_plan(record), store or FileStore()
    if quantities:
        _check_stored(plan, store)
    with make_executor(executor, time_limit) as workers:
        return run_plan(plan, store, workers, job_seconds, on_progress)


def _check_stored(plan: Plan, store: FileStore) -> None:
    """Refuses unknown quantities where the store has the first theory already, so that no worker would say it."""
    unit = next(unit for unit in plan.units if unit.kind == "theory")
    found = store.get([unit.key]).get(unit.key)
    if found is not None:
        check_quantities(plan.record.experiment(**plan.points[unit.point]), found)


def _posed(
    experiment: str | Spec | type[Experiment], times: Any, quantities: Sequence[str]
) -> str | Experiment | type[Experiment]:
    """A problem as an experiment; times and quantities belong to problems alone."""
    if isinstance(experiment, Spec) and not isinstance(experiment, Experiment):
        from limen.experiments.own_problem import OwnProblem

        given = {} if times is None else {"times": times}
        return OwnProblem(problem=experiment, quantities=tuple(quantities), **given)
    for name, value in (("times", times), ("quantities", quantities or None)):
        if value is not None:
            raise InputError(f"{name} must be left out with an experiment: it is for sweeps of a problem.")
    return experiment


def make_record(
    experiment: str | Experiment | type[Experiment],
    grid: Mapping[str, Any] | Sequence[str] = (),
    seeds: int | Sequence[int] | None = None,
    sizes: Any = None,
    zipped: bool = False,
    theory_only: bool = False,
) -> Record:
    """What a sweep asks for, checked as far as it can be without making its points."""
    if isinstance(experiment, str):
        kind, fixed = resolve(experiment), {}
    elif isinstance(experiment, Experiment):
        kind = type(experiment)
        given = experiment.model_dump(mode="json")
        # Without what has no default.
        plain = kind.model_construct().model_dump(mode="json")
        fixed = {name: value for name, value in given.items() if name not in plain or value != plain[name]}
    elif isinstance(experiment, type) and issubclass(experiment, Experiment):
        kind, fixed = experiment, {}
    else:
        raise InputError(
            f"a sweep takes a problem, an experiment or the name of one, got {type(experiment).__name__}: give "
            "fixed parameters as axes of one value."
        )
    names = own_names(experiment) if isinstance(experiment, Spec) else []
    if names:
        raise InputError(f"the workers of a sweep cannot have your function {names[0]!r}: write it as a formula.")
    seeds = kind.default_seeds if seeds is None else seeds
    if isinstance(seeds, int) and seeds > 10 * MOST_POINTS:
        raise InputError(f"seeds must be at most {10 * MOST_POINTS:,}, the most runs of a sweep, got {seeds:,}.")
    chosen = () if theory_only else seed_list(seeds)
    nested = experiment.nested_parameters() if isinstance(experiment, Experiment) else {}
    made = make_grid(kind, grid, sizes, zipped, max(1, len(chosen)), nested)
    for axis in made.axes:
        fixed.pop(axis.name, None)
    return Record(reference_to(kind), fixed, made, chosen)


def check_job_seconds(job_seconds: float) -> None:
    """Refuses jobs of no length, or endless ones."""
    if not 0.0 < job_seconds <= LONGEST_JOB:
        raise InputError(f"job_seconds must be above 0 and at most {LONGEST_JOB:g}, got {job_seconds:g}.")


def run_plan(
    plan: Plan,
    store: FileStore,
    executor: Executor,
    job_seconds: float = JOB_SECONDS,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Sweep:
    """Computes what the store lacks of a plan."""
    identifier = plan.record.identifier
    put_sweep(store.index, identifier, plan.record.describe(), [(unit.key, unit.point) for unit in plan.units])
    missing = missing_units(plan, store)
    known = {queue: seconds for queue, (seconds, _) in costs(store.index).items()}
    schedule = Schedule(plan, missing, known, job_seconds)
    progress = Progress(len(plan.units), len(plan.units) - len(missing))
    looked = [time.monotonic(), False]

    def cancelled() -> bool:
        if not looked[1] and time.monotonic() - looked[0] > LOOK_FOR_CANCELLATION_EVERY:
            looked[:] = [time.monotonic(), state_of(store.index, identifier) == "cancelled"]
        return bool(looked[1])

    with store.index.open(), Claims(store.index) as claims, _interruptible() as interrupted:
        engine = Engine(plan, schedule, store, executor, claims, progress)
        engine.drive(lambda: bool(interrupted()) or cancelled(), on_progress)
        seen = {queue: (seconds, progress.memory) for queue, seconds in schedule.costs().items()}
        put_costs(store.index, {queue: cost for queue, cost in seen.items() if cost[0] != known.get(queue)})
        if number := interrupted():
            raise Stopped(number)
    if not looked[1]:
        set_state(store.index, identifier, "finished")
    return Sweep(plan, store, progress.computed, bool(looked[1]))


def missing_units(plan: Plan, store: FileStore) -> list[Any]:
    """What of a plan is not in the store, after its files have been checked: a damaged one is as good as none."""
    keys = [unit.key for unit in plan.units]
    for file in store.files_of(keys):
        store.check(file)
    there = store.has(keys)
    return [unit for unit in plan.units if unit.key not in there]


@contextmanager
def _interruptible() -> Iterator[Callable[[], int]]:
    """Every wish to stop is noted and acted on between two turns, never in the middle of a write.

    What is given is the number of the signal, 0 while there is none. A second one is not waited for.
    """
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise Stopped(number)

    def first() -> int:
        return asked[0] if asked else 0

    if threading.current_thread() is not threading.main_thread():
        yield first
        return
    heard = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heard}
    try:
        yield first
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
