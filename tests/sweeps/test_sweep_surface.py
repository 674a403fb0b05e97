"""A sweep as people meet it: planning, figures, files, commands, and one sentence per mistake."""

import json
import time

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import limen
from limen.cli.main import limen as command_line
from limen.cli.sweep import sweep_command
from limen.experiments.figure import Line, Map, Points, Threshold
from limen.experiments.registry import PLACES
from limen.machine.pace import in_words
from limen.problem import InputError
from limen.storage import FileStore
from limen.sweeps.estimate import cost_of, estimate
from limen.sweeps.pool import LocalPool
from limen.sweeps.protocol import Finished, Job, Lost, Raised, Returned
from limen.sweeps.schedule import Schedule
from limen.sweeps.sweep import make_record
from limen.sweeps.sweep_record import make_plan, read_record


def toy(**parameters):
    from limen_toy import Toy

    return Toy(**parameters)


@pytest.fixture(scope="module")
def swept(pool, tmp_path_factory):
    """Two numeric axes, one of names, in a store of their own."""
    store = FileStore(tmp_path_factory.mktemp("swept"))
    grid = {"slope": "0:4:5", "shape": "line,square", "d": "log:10:80:4"}
    return limen.sweep(toy(), grid, 2, executor=pool, store=store)


def run(*arguments):
    """A command in this process; its answer, or its mistake."""
    return CliRunner().invoke(command_line, arguments, standalone_mode=False)


def test_a_record_comes_back_from_json():
    record = make_record(toy(bad=7.0), ["slope=1:2:2", "d=10,20"], 3, None, True)
    again = read_record(json.loads(json.dumps(record.describe())))
    assert again == record
    assert again.identifier == record.identifier
    assert make_record(toy(), ["slope=1:2:2", "d=10,20"], 3, None, True).identifier != record.identifier
    assert record.fixed == {"bad": 7.0}


def test_jobs_are_of_one_structure_and_as_long_as_asked():
    plan = make_plan(make_record(toy(), ["slope=1:9:50"], 4, "10,20"))
    costs = {(structure, kind): 0.5 for structure in set(plan.structures) for kind in ("theory", "simulation")}
    schedule = Schedule(plan, plan.units, costs, job_seconds=10.0)
    sizes = []
    while tasks := schedule.take(slots=2):
        units = [unit for task in tasks for unit in task]
        assert len({(plan.structures[unit.point], unit.kind) for unit in units}) == 1
        sizes.append(len(units))
    assert sum(sizes) == len(plan.units) == 500
    assert max(sizes) == 20, "20 results of half a second"
    halves = Schedule(plan, [], costs, 10.0)
    halves.isolate([unit for unit in plan.units if unit.kind == "simulation"][:5])
    assert [[len(task) for task in halves.take(2)] for _ in range(2)] == [[1, 1], [1, 1, 1]], "each run its own task"
    unknown = Schedule(plan, plan.units, {}, 10.0)
    assert len(unknown.take(2)) == 1, "one result while nothing is known"


def test_a_pool_can_be_used_for_anything_and_jobs_cancelled(pool):
    job = Job(10**6, json.loads, ("[1]", "not json"))
    pool.start(job)
    events = []
    while not any(isinstance(event, Finished) for event in events):
        events += pool.wait(5.0)
    assert isinstance(events[0], Returned) and events[0].value == [1]
    assert isinstance(events[1], Raised) and "JSONDecodeError" in events[1].reason
    pool.start(Job(10**6 + 1, time.sleep, (1000.0,)))
    pool.wait(0.3)
    pool.cancel(10**6 + 1)
    assert not any(isinstance(event, Lost) for event in pool.wait(0.2))


def test_workers_do_not_run_the_users_script_again(pool):
    import __main__

    before = getattr(__main__, "__file__", None)
    with LocalPool(1) as one:
        one.start(Job(1, eval, ("__import__('sys').modules['__main__'].__dict__.get('__file__')",)))
        events = []
        while not any(isinstance(event, Finished) for event in events):
            events += one.wait(5.0)
    assert events[0].value is None
    assert getattr(__main__, "__file__", None) == before


def test_a_map_over_two_numbers_with_theory_and_threshold(swept):
    figure = swept.figure()
    assert len(figure.panels) == 2, "one for each shape"
    marks = figure.panels[0].marks
    (diagram,) = [mark for mark in marks if isinstance(mark, Map)]
    assert np.shape(diagram.values) == (4, 5)
    np.testing.assert_allclose(
        diagram.values, swept.dataset.level.sel(shape="line").mean("seed").transpose("d", "slope").values
    )
    (line,) = [mark for mark in marks if isinstance(mark, Line)]
    np.testing.assert_allclose(line.x, 2.0), "theory's level line, at the middle of 0..4"
    (threshold,) = [mark for mark in marks if isinstance(mark, Threshold)]
    assert (threshold.x, figure.panels[0].y_scale) == (2.5, "log")
    assert "slope δ" in figure.panels[0].x_label
    with pytest.raises(InputError, match="the quantity must be one of level, headline_end"):
        swept.figure("nothing")


def test_lines_over_one_number(pool, store):
    found = limen.sweep(toy(), {"slope": "0:4:5", "shape": "line,square"}, 2, executor=pool, store=store)
    marks = found.figure("headline_end").panels[0].marks
    assert [type(mark) for mark in marks[:4]] == [Line, Points, Line, Points]
    np.testing.assert_allclose(marks[2].y, 9.0 * np.arange(5.0))
    zipped = limen.sweep(toy(), {"slope": "0:2:3", "d": [10, 20, 30]}, 2, executor=pool, store=store, zipped=True)
    assert zipped.dataset.level.dims == ("point", "seed")
    np.testing.assert_array_equal(zipped.dataset.slope, [0.0, 1.0, 2.0])
    assert zipped.figure().panels[0].marks


def test_files(swept, tmp_path):
    back = xr.open_dataset(swept.export(tmp_path / "sweep.nc"))
    xr.testing.assert_equal(back.load(), swept.dataset)
    back.close()
    table = (tmp_path / "sweep.csv", swept.export(tmp_path / "sweep.csv"))[0].read_text().splitlines()
    assert len(table) == 1 + 5 * 2 * 4 * 2
    assert {"slope", "shape", "d", "seed", "level", "level_theory"} <= set(table[0].split(","))
    with pytest.raises(InputError, match=r"exported to \.nc or \.csv"):
        swept.export(tmp_path / "sweep.xls")


def test_costs_are_measured_kept_and_used(store, log):
    plan = make_plan(make_record(toy(seconds=0.05), ["slope=1:8:8"], 3, "10,40,160"))
    found = estimate(plan, store, 2, 10.0)
    measured = len(log.lines())
    assert measured == 8, "two theories and two runs, at the smallest and the largest size"
    assert (found.points, found.results, found.stored) == (24, 96, measured)
    assert 0.05 * 88 <= found.work_seconds < 0.2 * 88
    assert found.wall_seconds == pytest.approx(found.work_seconds / 2)
    assert found.memory_bytes > 2e7
    assert "96 results, 8 of them in the store" in str(found)
    again = estimate(plan, store, 2, 10.0)
    assert (again, len(log.lines())) == (found, measured)


def test_costs_between_sizes_follow_a_power_law():
    plan = make_plan(make_record(toy(), [], 1, "10,20,40"))
    small, middle, large = plan.structures
    known = {(small, "theory"): (1.0, 0.0), (large, "theory"): (16.0, 0.0)}
    assert cost_of(plan, (middle, "theory"), known) == pytest.approx(4.0)
    assert cost_of(plan, (middle, "simulation"), known) == 0.0
    assert [in_words(s) for s in (0.2, 59.0, 300.0, 9000.0, 1e6)] == [
        "less than a second",
        "59 s",
        "5 min",
        "2.5 h",
        "12 days",
    ]


def test_commands_list_show_export_cancel(swept, monkeypatch, tmp_path):
    monkeypatch.setenv("LIMEN_STORE", str(swept.store.root))
    listed = json.loads(run("sweeps", "--json").output)["sweeps"]
    (row,) = [row for row in listed if row["id"] == swept.identifier]
    assert (row["points"], row["done"], row["failed"], row["missing"], row["state"]) == (40, 40, 0, 0, "done")
    assert swept.identifier in run("sweeps").output
    shown = json.loads(run("sweeps", "show", swept.identifier[:6], "--json").output)
    assert (shown["done"], shown["failed"], shown["missing"]) == (40, 0, 0)
    exported = json.loads(run("sweeps", "export", swept.identifier, "--out", str(tmp_path), "--json").output)
    assert set(exported["files"]) == {"dataset", "table", "figure", "pdf"}
    said = run("sweeps", "cancel", swept.identifier).output
    assert said == f"sweep {swept.identifier} is done; there is nothing to cancel.\n"
    assert json.loads(run("sweeps", "--json").output)["sweeps"][0]["state"] == "done"
    assert json.loads(run("store", "info", "--json").output)["results"] == 40 * 3
    assert json.loads(run("store", "verify", "--json").output)["damaged"] == []
    assert json.loads(run("store", "gc", "--json").output)["results"] == 0


def test_results_of_other_sources_do_not_count(store, pool, monkeypatch):
    found = limen.sweep(toy(), {"slope": "0:1:2"}, 1, executor=pool, store=store)
    assert found.points.done == 2
    with store.index.write() as index:
        index.execute('UPDATE sweeps SET record = replace(record, \'"sources": "\', \'"sources": "older\')')
    assert (found.points.done, found.points.missing) == (0, 2)
    monkeypatch.setenv("LIMEN_STORE", str(store.root))
    assert "is cancelled" in run("sweeps", "cancel", found.identifier).output


def test_a_cancelled_sweep_stops_by_itself(store, pool):
    from limen.storage.sweep_table import set_state, state_of

    def cancel(progress):
        if state_of(store.index, identifier) == "running":
            set_state(store.index, identifier, "cancelled")

    slow = toy(seconds=0.3)
    identifier = make_record(slow, ["slope=1:20:20"], 3).identifier
    stopped = limen.sweep(slow, ["slope=1:20:20"], 3, executor=pool, store=store, on_progress=cancel)
    assert stopped.cancelled
    assert stopped.results.done < 80


@pytest.mark.parametrize("name", sorted(PLACES))
def test_options_of_a_sweep_do_not_hide_parameters(name):
    options = sweep_command(name).params
    names = [option.name for option in options]
    assert len(set(names)) == len(names)
    flags = [flag for option in options for flag in option.opts]
    assert len(set(flags)) == len(flags)


SWEEP = ("sweep", "limen_toy:Toy")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (SWEEP, "the grid is empty"),
        ((*SWEEP, "--grid", "speed=1:2:3"), "speed is not a parameter of toy"),
        ((*SWEEP, "--grid", "slope=1:2:1000000000"), "1,000,000,000 points"),
        ((*SWEEP, "--grid", "slope=1:2:3", "--scheduler", "tcp://127.0.0.1:9"), "cannot be reached within 5 s"),
        ((*SWEEP, "--grid", "slope=1:2:3", "--slope", "4"), "both on the grid and as --slope"),
        ((*SWEEP, "--grid", "slope=-20:2:3"), "slope must be greater than -10"),
        ((*SWEEP, "--grid", "slope=1:2:3", "--workers", "0"), "workers must be at least 1"),
        ((*SWEEP, "--grid", "slope=1:2:3", "--time-limit", "-1"), "time_limit must be positive"),
        ((*SWEEP, "--grid", "slope=1:2:3", "--seeds", "0"), "seeds must be"),
        (("sweep", "limen_toy:Nothing", "--grid", "slope=1:2:3"), "cannot be imported"),
        (("sweep", "grokkin"), "did you mean 'grokking'"),
        (("sweeps", "show", "zzz"), "no sweep begins with 'zzz'"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_work(arguments, words, log):
    error = run(*arguments).exception
    assert isinstance(error, InputError), error
    assert words in str(error)
    assert "\n" not in str(error)
    assert log.lines() == []


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_jobs_have_a_length(store, seconds):
    with pytest.raises(InputError, match="job_seconds must be above 0 and at most 3600"):
        limen.sweep("limen_toy:Toy", {"slope": [1.0]}, 1, job_seconds=seconds, store=store)


def test_seeds_have_an_end(store):
    with pytest.raises(InputError, match="seeds must be at most 2,000,000"):
        limen.sweep("limen_toy:Toy", {"slope": [1.0]}, 99_999_999_999, store=store)
