"""The engine with an executor that computes at once, in this process: every number it tells can be reckoned by hand."""

import json
import sys

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import limen
from limen.cli.main import limen as command_line
from limen.experiments.figure import Line, Points
from limen.problem import InputError
from limen.storage import FileStore
from limen.storage.sweep_table import costs, find_sweep, put_costs, renew_members, set_state, stored_sweeps
from limen.sweeps import dataset as assembling
from limen.sweeps import engine
from limen.sweeps.estimate import estimate
from limen.sweeps.grid import MOST_POINTS, make_grid
from limen.sweeps.protocol import Finished, Lost, Raised, Returned
from limen.sweeps.schedule import Schedule
from limen.sweeps.sweep import make_record
from limen.sweeps.sweep_record import make_plan

EACH = 0.5


class Here:
    """One job at a time; a result is said to have cost half a second."""

    def __init__(self, slots=1, values=lambda values: values):
        self.slots, self._values, self._jobs = slots, values, []

    def start(self, job):
        assert len(self._jobs) < self.slots
        self._jobs.append(job)

    def cancel(self, job):
        self._jobs = [other for other in self._jobs if other.number != job]

    def wait(self, timeout):
        if not self._jobs:
            return []
        job, events = self._jobs.pop(0), []
        for position, task in enumerate(job.tasks):
            try:
                values = job.function(task)
                events.append(Returned(job.number, position, self._values(values), EACH * len(values)))
            except Exception as error:
                events.append(Raised(job.number, position, f"{type(error).__name__}: {error}", EACH))
        return [*events, Finished(job.number, 1e8)]

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return None


def toy(**parameters):
    from limen_toy import Toy

    return Toy(**parameters)


def batch_toy(**parameters):
    from limen_toy import BatchToy

    return BatchToy(**parameters)


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    from limen_odd_toy import Odd

    grid = {"slope": [1.0, 2.0, 3.0], "d": [10, 20]}
    return limen.sweep(Odd(), grid, [4, 7], executor=Here(), store=FileStore(tmp_path_factory.mktemp("odd")))


def test_every_number_of_a_dataset_lies_at_its_own_labels(odd):
    """Lengths grow from point to point, theory has rows by seed, one run is missing, and no two numbers are equal."""
    data, kind = odd.dataset, odd.plan.record.experiment
    assert data.path.sizes == {"slope": 3, "d": 2, "seed": 2, "time": 4}
    for slope in (1.0, 2.0, 3.0):
        for d in (10, 20):
            for seed in (4, 7):
                here = data.sel(slope=slope, d=d, seed=seed)
                expected = np.full(4, np.nan)
                steps = range(int(slope) + 1)
                expected[: len(steps)] = [kind(slope=slope, d=d).value(seed, index) for index in steps]
                np.testing.assert_array_equal(here.path_theory, expected)
                missing = (slope, d, seed) == (3.0, 20, 7)
                np.testing.assert_array_equal(here.path, np.full(4, np.nan) if missing else expected + 0.5)
                assert int(here.status) == (-1 if missing else 0 if slope == 2.0 else 1)
            times = data.time_at.sel(slope=slope, d=d).values
            np.testing.assert_array_equal(times[: int(slope) + 1], d * np.arange(slope + 1.0))
            assert np.isnan(times[int(slope) + 1 :]).all()
    assert (data.status_theory == 1).all()
    # A mean over some of the seeds is not the headline of the point.
    assert np.isnan(data.headline_first.sel(slope=3.0, d=20))
    assert float(data.headline_first.sel(slope=2.0, d=20)) == pytest.approx(2020.0 + 0.55 + 0.5)
    assert (odd.points.done, odd.points.failed, odd.points.missing) == (5, 1, 0)
    assert (odd.results.done, odd.results.failed) == (17, 1)


def test_what_is_too_large_for_a_dataset_is_named(odd, monkeypatch):
    monkeypatch.setattr(assembling, "LARGEST_VARIABLE_BYTES", 3 * 2 * 2 * 4 * 8 - 1)
    data = assembling.assemble(odd.plan, odd.store)
    assert "path" not in data
    assert "path, path_theory" in data.attrs["left_out"]
    assert "time_at" in data


def test_an_exported_file_says_what_it_is(odd, tmp_path):
    with xr.open_dataset(odd.export(tmp_path / "sweep.nc")) as back:
        xr.testing.assert_identical(back.load(), odd.dataset)
        assert back.attrs["sweep"] == odd.identifier
        assert json.loads(back.attrs["record"])["seeds"] == [4, 7]
    assert [path.name for path in tmp_path.glob("*.nc")] == ["sweep.nc"]


@pytest.mark.parametrize(
    ("slots", "expected"), [(1, [2.5, 2.0, 1.5, 1.0, 0.5, 0.0]), (2, [1.25, 1.0, 0.75, 0.5, 0.5, 0.0])]
)
def test_time_left_is_the_work_left_over_the_workers_that_have_some(store, slots, expected):
    """Six results of half a second, one per job: the last one is shared by nobody."""
    told = []
    (structure,) = set(make_plan(make_record(toy(), ["slope=1:6:6"], theory_only=True)).structures)
    put_costs(store.index, {(structure, "theory"): (EACH, 1e8)})
    limen.sweep(
        toy(), {"slope": "1:6:6"}, theory_only=True, executor=Here(slots), store=store, job_seconds=1e-6,
        on_progress=lambda progress: told.append((progress.computed, progress.failed, progress.seconds_left)),
    )  # fmt: skip
    assert [left for *_, left in told[:-1]] == pytest.approx(expected)
    assert told[-1][:2] == (6, {})


def test_the_cost_of_a_batch_is_that_of_each_of_its_results(store):
    found = limen.sweep(batch_toy(), {"slope": "1:40:40"}, theory_only=True, executor=Here(), store=store)
    assert found.results.done == 40
    (cost,) = costs(store.index).values()
    assert cost == (pytest.approx(EACH), 1e8)


def test_a_batch_that_gives_too_few_results_is_a_failure_of_all(store):
    few = Here(values=lambda values: values[1:] if len(values) > 1 else values)
    found = limen.sweep(batch_toy(), {"slope": "1:5:5"}, theory_only=True, executor=few, store=store)
    assert (found.results.done, found.results.failed) == (1, 4), "the first goes alone, to learn what it costs"
    assert "gave 3 results for 4 points" in found.failures[0].reason


def test_failures_are_told_as_they_come_and_their_claims_given_back(store):
    seen = []

    def look(progress):
        with store.index.read() as index:
            held = {key for (key,) in index.execute("SELECT key FROM claims")}
        assert not held & set(progress.failed)
        seen.append((progress.done, len(progress.failed)))

    limen.sweep(
        toy(bad=2.0, trouble="raise"), {"slope": [1.0, 2.0]}, 2, executor=Here(), store=store, job_seconds=1e-6,
        on_progress=look,
    )  # fmt: skip
    assert sorted({failed for _, failed in seen}) == [0, 1, 2]
    assert seen[-1] == (4, 2)


def test_a_worker_that_dies_is_blamed_only_the_second_time(store):
    """Deaths that took a whole job: halves are tried, then each alone, and each gets a second chance."""

    class Dying(Here):
        deaths = 0

        def wait(self, timeout):
            if self._jobs and Dying.deaths < 1 and len(self._jobs[0].tasks) == 1:
                Dying.deaths += 1
                return [Lost(self._jobs.pop(0).number, None, "its worker died")]
            return super().wait(timeout)

    found = limen.sweep(toy(), {"slope": "1:3:3"}, theory_only=True, executor=Dying(), store=store)
    assert Dying.deaths == 1
    assert (found.results.done, found.failures) == (3, [])


def test_much_that_is_unsaved_is_saved_at_once(store, monkeypatch):
    monkeypatch.setattr(engine, "SAVE_WITHIN", (1e9, 1e9))
    monkeypatch.setattr(engine, "MOST_UNSAVED_BYTES", 200)
    computed = []
    limen.sweep(
        toy(), {"slope": "1:9:9"}, theory_only=True, executor=Here(), store=store, job_seconds=1e-6,
        on_progress=lambda progress: computed.append(progress.computed),
    )  # fmt: skip
    bytes_of_one = toy().theory().dataset.nbytes
    assert 50 < bytes_of_one < 100, "the third is the first that is too much"
    assert computed == [0, 0, 3, 3, 3, 6, 6, 6, 9, 9]


def test_jobs_shrink_towards_the_end_of_a_queue_and_large_sizes_come_first():
    plan = make_plan(make_record(toy(), ["slope=1:9:50"], theory_only=True, sizes="10,20"))
    known = {(structure, "theory"): 0.5 for structure in plan.structures}
    schedule = Schedule(plan, plan.units, known, job_seconds=10.0)
    assert schedule.seconds_left() == 50.0
    taken = []
    while tasks := schedule.take(slots=2):
        taken.append((len(tasks), plan.size(tasks[0][0].point)))
    # 20 of half a second are ten seconds; of the 30 that are left two workers get 15 each, and so on.
    counts = [20, 15, 8, 4, 2, 1]
    assert taken == [*((count, 20.0) for count in counts), *((count, 10.0) for count in counts)]


def test_what_was_not_tried_comes_first_again_and_the_latest_cost_weighs_most():
    plan = make_plan(make_record(toy(), ["slope=1:4:4"], theory_only=True))
    schedule = Schedule(plan, plan.units, {}, job_seconds=1.0)
    (first,), _ = schedule.take(1)[0], schedule.take(1)
    schedule.put_back([first])
    assert schedule.take(1) == [[first]]
    schedule.isolate([first])
    assert schedule.seconds_left() is None
    schedule.observe(first, 8.0)
    assert schedule.seconds_left() is None, "the first also compiles"
    schedule.observe(first, 4.0)
    assert schedule.seconds_left() == pytest.approx(3 * 5.0), "two in the queue and a suspect"
    assert schedule.seconds_left(slots=2) is None, "both workers compile"
    assert schedule.costs()[plan.structures[0], "theory"] == pytest.approx(5.0)
    assert schedule.seconds_left(plan.units[:1]) == pytest.approx(4 * 5.0)


@pytest.mark.parametrize(("workers", "busy"), [(8, 8), (50, 12)])
def test_an_estimate_by_hand(store, workers, busy):
    """Four theories of one second and eight runs of two, in jobs of four seconds."""
    plan = make_plan(make_record(toy(), ["slope=1:4:4"], 2))
    structure = plan.structures[0]
    put_costs(store.index, {(structure, "theory"): (1.0, 3e7), (structure, "simulation"): (2.0, 1e8)})
    found = estimate(plan, store, workers, 4.0)
    assert (found.points, found.seeds, found.results, found.stored, found.workers) == (4, 2, 12, 0, workers)
    assert found.jobs == 1 + 4
    assert found.work_seconds == pytest.approx(20.0)
    assert found.wall_seconds == pytest.approx(20.0 / busy)
    assert found.memory_bytes == pytest.approx(busy * 1e8)


def test_the_largest_grid_is_allowed_and_one_more_is_not():
    from limen_toy import Toy

    full = {"slope": np.arange(400.0), "d": np.arange(1, 501)}
    assert len(make_grid(Toy, full, seeds=10)) == MOST_POINTS == 200_000
    with pytest.raises(InputError, match="200,000 points and 11 seeds"):
        make_grid(Toy, full, seeds=11)
    with pytest.raises(InputError, match="200,001 points"):
        make_grid(Toy, ["slope=1:2:200001"])


def test_a_swept_parameter_is_not_also_fixed():
    record = make_record(toy(slope=7.0, bad=3.0), ["slope=1:2:2"], 1)
    assert record.fixed == {"bad": 3.0}
    assert [point["slope"] for point in make_plan(record).points] == [1.0, 2.0]


def test_sweeps_are_listed_newest_first_and_their_addresses_renewed(store):
    older = limen.sweep(toy(), {"slope": [1.0]}, theory_only=True, executor=Here(), store=store)
    newer = limen.sweep(toy(), {"slope": [2.0]}, theory_only=True, executor=Here(), store=store)
    assert [sweep.identifier for sweep in stored_sweeps(store.index)] == [newer.identifier, older.identifier]
    assert [sweep.state for sweep in stored_sweeps(store.index)] == ["finished", "finished"]
    set_state(store.index, older.identifier, "cancelled")
    assert find_sweep(store.index, older.identifier[:5]).state == "cancelled"
    # As after a change of limen's sources: the same sweep has other addresses.
    renew_members(store.index, older.identifier, [("another", 0)])
    assert (older.results.total, older.results.done) == (1, 0)
    assert newer.results.done == 1


def test_an_incomplete_sweep_ends_with_exit_code_1(tmp_path, monkeypatch, store):
    monkeypatch.setenv("LIMEN_STORE", str(store.root))
    monkeypatch.setattr("limen.sweeps.executors.LocalPool", lambda workers, limit: Here())
    monkeypatch.setattr("limen.cli.sweep.save", lambda sweep, out, quantity: {})
    grid = ("sweep", "limen_toy:Toy", "--grid", "slope=1,2", "--seeds", "3", "--out", str(tmp_path), "--json")
    bad = CliRunner().invoke(command_line, [*grid, "--bad", "2", "--trouble", "raise"], standalone_mode=False)
    assert bad.return_value == 1
    answer = json.loads(bad.stdout)
    assert (answer["points"], answer["done"], answer["failed"], answer["missing"]) == (2, 1, 1, 0)
    assert (answer["seeds"], answer["computed"], answer["params"]) == (3, 5, {"bad": 2.0, "trouble": "raise"})
    assert answer["results"] == {"total": 8, "done": 5, "failed": 3, "missing": 0}
    assert [failure["seed"] for failure in answer["failures"]] == [0, 1, 2]
    good = CliRunner().invoke(command_line, [*grid], standalone_mode=False)
    assert not good.return_value


@pytest.mark.parametrize("where", [("--backend", "dask"), ("--scheduler", "tcp://127.0.0.1:9")])
def test_without_dask_one_sentence_says_what_to_install(where, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    arguments = ["sweep", "limen_toy:Toy", "--grid", "slope=1,2", *where]
    error = CliRunner().invoke(command_line, arguments, standalone_mode=False).exception
    assert isinstance(error, InputError)
    assert str(error) == "Dask is not installed: pip install 'limen[distributed]'."


@pytest.mark.parametrize("zipped", [False, True])
def test_a_sweep_of_one_point_is_drawn(store, zipped):
    from limen_toy import Toy

    found = limen.sweep(Toy(), {"slope": [2.0], "d": [7]}, 2, executor=Here(), store=store, zipped=zipped)
    (panel,) = found.figure().panels
    assert [np.size(mark.x) for mark in panel.marks if isinstance(mark, Line | Points)] == [1, 1]


def test_nothing_finished_waits_for_long_to_be_saved(store, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(engine.time, "monotonic", lambda: clock[0])
    waited, saved_at = [], []

    class Slow(Here):
        def wait(self, timeout):
            clock[0] += min(timeout, 0.4)
            return super().wait(timeout)

    put = store.put

    def slow_put(results):
        saved_at.append(clock[0])
        clock[0] += 0.1
        put(results)

    monkeypatch.setattr(store, "put", slow_put)

    def look(progress):
        waited.append((clock[0], progress.unsaved))
        assert progress.finished == progress.done + progress.unsaved

    from limen_toy import Toy

    limen.sweep(Toy(), {"slope": list(range(20))}, 2, executor=Slow(), store=store, job_seconds=1e-6, on_progress=look)
    came = [at for (at, now), (_, before) in zip(waited[1:], waited, strict=False) if now and not before]
    assert max(min(saved for saved in saved_at if saved >= at) - at for at in came) < 1.7
    assert len(saved_at) > 5
    assert waited[-1][1] == 0


class OneHouse(Here):
    """Jobs that share a worker: one that holds the slope 2 takes all the others with it."""

    def wait(self, timeout):
        if not any(point.get("slope") == 2.0 for job in self._jobs for task in job.tasks for point in task.points):
            return super().wait(timeout)
        dead, self._jobs = self._jobs, []
        return [Lost(job.number, None, "its worker died") for job in dead]


def test_who_only_stood_beside_is_not_blamed(tmp_path):
    found = limen.sweep(
        toy(), {"slope": "0:4:5"}, 3, executor=OneHouse(slots=3), store=FileStore(tmp_path), job_seconds=1.0
    )
    assert {failure.params["slope"] for failure in found.failures} == {2.0}
    assert (found.points.done, found.points.failed) == (4, 1)


def test_quantities_that_a_problem_does_not_have_are_refused(tmp_path):
    problem = limen.TwoLayer("z", limen.network(1, "tanh"), limen.OnePassSGD(0.1), start=limen.OverlapStart(0.1))
    store, grid = FileStore(tmp_path), {"algorithm.rate": [0.1, 0.2]}
    asked = {"times": 1, "theory_only": True, "store": store}
    swept = limen.sweep(problem, grid, quantities=("foo",), executor=Here(), **asked)
    assert len(swept.failures) == 2
    assert all("'foo' is not a variable of this problem " in one.reason for one in swept.failures)
    assert not limen.sweep(problem, grid, quantities=("test_loss",), executor=Here(), **asked).failures
    with pytest.raises(InputError, match="'foo' is not a variable of this problem"):
        limen.sweep(problem, grid, quantities=("foo",), executor=Here(), **asked)
