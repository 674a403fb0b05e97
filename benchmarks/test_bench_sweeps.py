"""What the engine of sweeps costs per result: planning, scheduling, pickling, storing, assembling."""

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


@pytest.fixture(scope="module")
def pool():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(TOY), *sys.path])
        with LocalPool(2) as workers:
            yield workers


@pytest.mark.parametrize("job_seconds", [0.0, 10.0], ids=["one result per job", "jobs of ten seconds"])
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
    """Busy work on one worker and on two: the ratio is to be at least 1.8 on a machine with nothing else to do."""
    from limen_toy import Toy

    stores, seconds = count(), {}

    def swept(workers: int) -> float:
        with LocalPool(workers) as own:
            options = {"executor": own, "job_seconds": 0.5}
            limen.sweep(Toy(), {"slope": "0:3:4"}, 1, store=FileStore(tmp_path / f"{next(stores)}"), **options)
            store, began = FileStore(tmp_path / f"{next(stores)}"), time.perf_counter()
            limen.sweep(Toy(busy=2_000_000), {"slope": "1:12:12"}, 3, store=store, **options)
            return time.perf_counter() - began

    seconds[1] = min(swept(1) for _ in range(2))
    seconds[2] = benchmark.pedantic(swept, args=(2,), rounds=2)
    benchmark.extra_info["speed-up"] = seconds[1] / seconds[2]
    assert seconds[1] / seconds[2] >= 1.8
