"""What the engine of sweeps costs per result: planning, scheduling, pickling, storing, assembling."""

import os
import sys
import time
from itertools import count
from pathlib import Path

import pytest

import limen
from limen.storage import FileStore
from limen.sweeps.pool import LocalPool

TOY = Path(__file__).parents[1] / "tests" / "sweeps" / "toy"
POINTS, SEEDS = 100, 9


def idle_cores(during: float = 1.0) -> float:
    """Cores of this process that nobody used for a second, where the system tells."""
    if not hasattr(os, "sched_getaffinity"):
        return float(os.cpu_count() or 1)

    def idle() -> int:
        rows = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")]
        mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        return sum(int(row[4]) for row in rows if row[0] in mine)

    before = idle()
    time.sleep(during)
    return (idle() - before) / (os.sysconf("SC_CLK_TCK") * during)


@pytest.fixture(scope="module")
def pool():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(TOY), *sys.path])
        with LocalPool(2) as workers:
            yield workers


@pytest.mark.parametrize("job_seconds", [1e-6, 10.0], ids=["one result per job", "jobs of ten seconds"])
def test_tiny_results(benchmark, pool, tmp_path, job_seconds):
    from limen_toy import Toy

    sizes = count(10)

    def thousand():
        store = FileStore(tmp_path / "store")
        grid = {"slope": f"1:{POINTS}:{POINTS}"}
        return limen.sweep(Toy(d=next(sizes)), grid, SEEDS, executor=pool, store=store, job_seconds=job_seconds)

    found = benchmark.pedantic(thousand, rounds=3, warmup_rounds=1)
    assert found.results.done == POINTS * (SEEDS + 1)
    benchmark.extra_info["ms per result"] = 1e3 * benchmark.stats.stats.min / (POINTS * (SEEDS + 1))


def test_assembling_a_dataset(benchmark, pool, tmp_path):
    from limen_toy import Toy

    store = FileStore(tmp_path / "store")
    grid = {"slope": f"1:{POINTS}:{POINTS}"}
    limen.sweep(Toy(), grid, SEEDS, executor=pool, store=store)
    again = benchmark.pedantic(lambda: limen.sweep(Toy(), grid, SEEDS, executor=pool, store=store).dataset, rounds=3)
    assert again.sizes["slope"] == POINTS


def test_a_second_worker(benchmark, tmp_path):
    """Busy work on one worker and on two, in turns: at least 1.8 where two cores have nothing else to do."""
    from limen_toy import Toy

    if idle_cores() < 1.9:
        pytest.skip("two workers against one need two idle cores")

    stores = count()

    def swept(workers: int) -> float:
        with LocalPool(workers) as own:
            options = {"executor": own, "job_seconds": 0.5}
            limen.sweep(Toy(), {"slope": "0:3:4"}, 1, store=FileStore(tmp_path / f"{next(stores)}"), **options)
            store, began = FileStore(tmp_path / f"{next(stores)}"), time.perf_counter()
            limen.sweep(Toy(busy=2_000_000), {"slope": "1:12:12"}, 3, store=store, **options)
            return time.perf_counter() - began

    turns = [(swept(1), swept(2)) for _ in range(2)]
    seconds = {workers: min(turn[workers - 1] for turn in turns) for workers in (1, 2)}
    benchmark.pedantic(swept, args=(2,), rounds=1)
    benchmark.extra_info["speed-up"] = seconds[1] / seconds[2]
    assert seconds[1] / seconds[2] >= 1.8
