"""Faults that really happen: nothing finished is lost, nothing is computed twice, and what failed is named."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import limen
from limen.storage import FileStore, run
from limen.sweeps.pool import LocalPool

LIMEN = [sys.executable, "-c", "from limen.cli.main import main; main()"]
SLOPES = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
SEEDS = 3
ALL = len(SLOPES) * (SEEDS + 1)


def toy(**parameters):
    from limen_toy import Toy

    return Toy(**parameters)


def sweep(store, executor, slopes=SLOPES, on_progress=lambda progress: None, **parameters):
    return limen.sweep(
        toy(**parameters), {"slope": slopes}, SEEDS, executor=executor, store=store, job_seconds=1.0,
        on_progress=on_progress,
    )  # fmt: skip


def undisturbed(tmp_path, pool, log, **parameters) -> xr.Dataset:
    """The same sweep without any fault, in a store of its own."""
    found = sweep(FileStore(tmp_path / "undisturbed"), pool, **parameters)
    assert found.results.done == ALL
    log.clear()
    return found.dataset


def once(log) -> bool:
    return set(log.times().values()) == {1}


def test_the_dataset_is_labelled_and_right(store, pool, log):
    found = sweep(store, pool)
    assert found.points.describe() == {"total": 6, "done": 6, "failed": 0, "missing": 0}
    assert found.results.done == len(log.lines()) == ALL
    assert once(log)
    data = found.dataset
    assert data.curve.dims == ("slope", "seed", "time")
    np.testing.assert_array_equal(data.curve_theory.values, np.outer(SLOPES, np.arange(4.0)))
    alone = toy(slope=3.0).simulate(1).dataset
    np.testing.assert_array_equal(data.level.sel(slope=3.0, seed=1), alone.level[0])
    np.testing.assert_array_equal(data.headline_end, data.curve.mean("seed")[:, -1])


def test_running_again_computes_nothing_and_sweeps_share_points(store, pool, log):
    sweep(store, pool)
    log.clear()
    again = sweep(store, pool)
    assert (again.computed, log.lines()) == (0, [])
    more = sweep(store, pool, slopes=[*SLOPES, 6.0])
    assert more.computed == SEEDS + 1
    assert {line.split()[1] for line in log.lines()} == {"6"}
    log.clear()
    run(toy(slope=6.0), range(SEEDS), store)
    assert log.lines() == [], "a single run of a point finds the same results"


def test_a_killed_worker_costs_only_its_own_task(store, pool, log, tmp_path):
    expected = undisturbed(tmp_path, pool, log, seconds=0.02)
    killed = []

    def kill_one(progress):
        if not killed and progress.computed + len(log.lines()) > 5:
            killed.append(pool.processes()[0])
            os.kill(killed[0], signal.SIGKILL)

    found = sweep(store, pool, seconds=0.02, on_progress=kill_one)
    assert killed
    assert (found.results.done, found.failures) == (ALL, [])
    xr.testing.assert_identical(found.dataset, expected)
    assert once(log), "what was finished before the death was not computed again"


@pytest.mark.parametrize(
    ("kind", "words"),
    [("crash", "killed by signal 9 (SIGKILL), 2 times"), ("raise", "ValueError: this slope is no good (limen_toy.py:")],
)
def test_a_bad_point_is_isolated_named_and_taken_up_again(store, pool, log, tmp_path, trouble, kind, words):
    expected = undisturbed(tmp_path, pool, log, bad=2.0, trouble=kind)
    trouble.touch()
    found = sweep(store, pool, bad=2.0, trouble=kind)
    assert (found.points.done, found.points.failed, found.points.missing) == (5, 1, 0)
    assert [(failure.params["slope"], failure.seed) for failure in found.failures] == [(2.0, s) for s in range(SEEDS)]
    assert all(words in failure.reason for failure in found.failures)
    assert "slope = 2.0, seed 1" in found.report()
    assert np.isnan(found.dataset.level.sel(slope=2.0)).all()
    assert once(log) and len(log.lines()) == ALL - SEEDS
    log.clear()
    trouble.unlink()
    healed = sweep(store, pool, bad=2.0, trouble=kind)
    assert (healed.computed, healed.failures) == (SEEDS, [])
    assert {line.split()[1] for line in log.lines()} == {"2"}, "exactly what had failed is run"
    xr.testing.assert_identical(healed.dataset, expected)


def test_a_point_that_hangs_meets_the_time_limit(store, log, trouble):
    trouble.touch()
    with LocalPool(2, time_limit=6.0) as pool:
        found = limen.sweep(toy(bad=2.0, trouble="hang"), {"slope": SLOPES}, 1, executor=pool, store=store)
    trouble.unlink()
    assert (found.points.done, found.points.failed) == (5, 1)
    (failure,) = found.failures
    assert failure.reason == "it took longer than the time limit of 6 s"
    assert once(log)


def test_a_bad_theory_among_many_is_found_by_halves(store, pool, log):
    from limen_toy import BatchToy

    found = limen.sweep(
        BatchToy(bad=9.0, trouble="raise"), {"slope": "0:19:20"}, theory_only=True, executor=pool, store=store
    )
    assert (found.points.done, found.points.failed) == (19, 1)
    assert "this theory is bad" in found.failures[0].reason
    assert once(log)


def test_a_full_disk_stops_the_sweep_and_loses_nothing_stored(store, pool, log, tmp_path, monkeypatch):
    expected = undisturbed(tmp_path, pool, log, seconds=0.1)
    write, calls = FileStore._write, []

    def full(self, dataset):
        calls.append(dataset)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, dataset)

    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "_write", full)
        with pytest.raises(OSError, match="No space left"):
            sweep(store, pool, seconds=0.1)
    kept = len(store.keys())
    assert 0 < kept < ALL
    found = sweep(store, pool, seconds=0.1)
    assert found.computed == ALL - kept
    xr.testing.assert_identical(found.dataset, expected)


@pytest.mark.filterwarnings("ignore:a stored result was damaged")
def test_a_truncated_file_is_set_aside_and_computed_again(store, pool, log, tmp_path):
    expected = sweep(store, pool).dataset
    kept = len(store.keys())
    path = max((store.root / "results").rglob("*.nc"), key=lambda file: file.stat().st_size)
    path.write_bytes(path.read_bytes()[:1000])
    log.clear()
    found = sweep(store, pool)
    assert 0 < found.computed <= kept
    assert len(log.lines()) == found.computed
    assert len(list((store.root / "quarantine").iterdir())) == 1
    xr.testing.assert_identical(found.dataset, expected)


@pytest.mark.slow
def test_two_drivers_on_one_store_share_the_work(store, pool, log, tmp_path):
    expected = undisturbed(tmp_path, pool, log, seconds=0.03)
    found = []

    def drive(executor):
        with executor:
            found.append(sweep(FileStore(store.root), executor, seconds=0.03))

    drivers = [threading.Thread(target=drive, args=(LocalPool(1),)) for _ in range(2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert once(log) and len(log.lines()) == ALL
    assert sum(part.computed for part in found) == ALL
    for part in found:
        assert part.results.done == ALL
        xr.testing.assert_identical(part.dataset, expected)


# While trouble is armed, the last point never ends: however slow the machine, the driver is not done when it is killed.
STUCK = {"bad": SLOPES[-1], "trouble": "hang"}


def driver(store: FileStore, out: Path, *arguments: str) -> subprocess.Popen[str]:
    grid = ["--grid", "slope=" + ",".join(f"{slope:g}" for slope in SLOPES)]
    options = ["--seeds", str(SEEDS), "--workers", "1", "--job-seconds", "1", "--out", str(out)]
    options += [part for name, value in STUCK.items() for part in (f"--{name}", str(value))]
    environment = {**os.environ, "LIMEN_STORE": str(store.root)}
    command = [*LIMEN, "sweep", "limen_toy:Toy", *grid, *options, *arguments]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_until(condition, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_killed_driver_is_resumed_by_another(store, pool, log, tmp_path, trouble):
    expected = undisturbed(tmp_path, pool, log, **STUCK)
    trouble.touch()
    process = driver(store, tmp_path)
    wait_until(lambda: len(store.keys()) > 3)
    process.kill()
    process.communicate()
    worker = int(log.path.read_text().split()[-1])
    wait_until(lambda: not running(worker), 30.0)
    trouble.unlink()
    kept = store.keys()
    assert 3 < len(kept) <= ALL - SEEDS
    log.clear()
    found = sweep(store, pool, **STUCK)
    assert found.computed == ALL - len(kept) == len(log.lines())
    xr.testing.assert_identical(found.dataset, expected)


def running(pid: int) -> bool:
    """Whether a process still computes; one that ended and was not collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interruption_keeps_what_is_finished_and_says_how_to_resume(store, log, tmp_path, trouble, asked, code):
    trouble.touch()
    process = driver(store, tmp_path)
    wait_until(lambda: len(store.keys()) > 3)
    process.send_signal(asked)
    output, errors = process.communicate(timeout=120.0)
    trouble.unlink()
    assert process.returncode == code
    assert output == ""
    last = errors.strip().splitlines()[-1]
    assert last.startswith("Interrupted: ")
    assert "Resume with: limen sweep limen_toy:Toy --grid slope=0,1,2,3,4,5 --seeds 3" in last
    assert "Traceback" not in errors
    assert f"{len(store.keys())} of {ALL} results are kept" in last
    assert store.index.path.exists()
    with store.index.read() as index:
        assert index.execute("SELECT count(*) FROM claims").fetchone() == (0,)
