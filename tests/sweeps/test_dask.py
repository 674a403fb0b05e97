"""Sweeps on Dask: the same results bit for bit, and a worker that is killed loses nothing."""

import os
import signal
import subprocess
import sys

import pytest
import xarray as xr

import limen
from limen.storage import FileStore
from limen.sweeps import dask_executor
from limen.sweeps.dask_executor import DaskExecutor
from limen.sweeps.protocol import ExecutorLost

# A cluster starts several processes, and a nanny takes seconds to replace one.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def cluster(_log):
    with DaskExecutor.local(2) as executor:
        yield executor


def sweep(store, executor, **parameters):
    from limen_toy import Toy

    options = {"executor": executor, "store": store, "job_seconds": 1.0, **parameters.pop("options", {})}
    seeds = options.pop("seeds", 4)
    return limen.sweep(Toy(**parameters), {"slope": "0:4:5"}, seeds, **options)


def test_dask_and_local_workers_give_the_same(cluster, pool, store, tmp_path):
    local = sweep(FileStore(tmp_path / "local"), pool)
    far = sweep(store, cluster)
    xr.testing.assert_identical(far.dataset, local.dataset)


def test_a_killed_dask_worker_loses_nothing_finished(cluster, pool, store, tmp_path, log):
    expected = sweep(FileStore(tmp_path / "local"), pool, seconds=0.1).dataset
    log.clear()
    killed = []

    def kill_one(progress):
        if not killed and progress.computed > 3:
            killed.append(int(log.path.read_text().split()[-1]))
            os.kill(killed[0], signal.SIGKILL)

    found = sweep(store, cluster, seconds=0.1, options={"on_progress": kill_one})
    assert killed
    assert (found.results.done, found.failures) == (25, [])
    xr.testing.assert_identical(found.dataset, expected)


def test_a_point_that_kills_dask_workers_is_isolated(cluster, pool, store, trouble, tmp_path):
    expected = sweep(FileStore(tmp_path / "local"), pool, bad=2.0, trouble="crash").dataset
    trouble.touch()
    found = sweep(store, cluster, bad=2.0, trouble="crash")
    trouble.unlink()
    others = [slope for slope in expected.slope.values if slope != 2.0]
    xr.testing.assert_identical(found.dataset.curve.sel(slope=others), expected.curve.sel(slope=others))
    assert (found.points.done, found.points.failed) == (4, 1)
    assert {failure.params["slope"] for failure in found.failures} == {2.0}
    assert all("its Dask worker died" in failure.reason for failure in found.failures)


CLUSTER = """
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50)
    print(cluster.scheduler_address, flush=True)
    input()
"""


def test_a_lost_scheduler_is_one_sentence_and_what_was_finished_is_kept(pool, store, tmp_path, log, monkeypatch):
    monkeypatch.setattr(dask_executor, "SCHEDULER_PATIENCE", 2.0)
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def kill(progress):
        if progress.computed > 3:
            process.kill()

    lost = pytest.raises(ExecutorLost, match=r"was lost .* goes on from there")
    with process, DaskExecutor(process.stdout.readline().strip()) as executor, lost:
        sweep(store, executor, seconds=0.1, options={"on_progress": kill})
    kept = len(list(store.keys()))
    assert kept > 3
    log.clear()
    found = sweep(store, pool, seconds=0.1)
    assert (found.results.done, found.failures) == (25, [])
    assert len(log.lines()) == 25 - kept
    xr.testing.assert_identical(found.dataset, sweep(FileStore(tmp_path / "local"), pool, seconds=0.1).dataset)


@pytest.mark.usefixtures("log")
def test_a_time_limit_on_dask(store, trouble):
    trouble.touch()
    with DaskExecutor.local(1, time_limit=4.0) as executor:
        found = sweep(store, executor, bad=2.0, trouble="hang", options={"seeds": 1, "job_seconds": 0.001})
    trouble.unlink()
    assert (found.points.done, found.points.failed) == (4, 1)
    assert all("time limit of 4 s" in failure.reason for failure in found.failures)
