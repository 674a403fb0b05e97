"""What the engine itself costs, and that workers do not fight. Other tests run beside these, so that wall time is
measured only against what the machine gives at that moment; the benchmarks measure the rest."""

import resource
import subprocess
import sys
import time

import pytest

import limen
from limen.storage import FileStore
from limen.sweeps.pool import LocalPool

pytestmark = pytest.mark.slow

ROUNDS = 2_000_000
PLAIN = f"""
import time
began = time.perf_counter()
for _ in range(12):
    total = 0
    for i in range({ROUNDS}):
        total += i * i
print(time.perf_counter() - began)
"""


def toy(**parameters):
    from limen_toy import Toy

    return Toy(**parameters)


def test_ten_thousand_tiny_jobs_cost_less_than_5_ms_each_and_no_memory(store, pool):
    """One result per job, the worst case: jobs are sized for ten seconds of work otherwise."""
    limen.sweep(toy(), {"slope": "0:1:2"}, 1, executor=pool, store=store)
    memory = []

    def note(progress):
        memory.append((progress.computed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))

    began = time.process_time()
    found = limen.sweep(
        toy(d=11), {"slope": "1:500:500"}, 19, executor=pool, store=store, job_seconds=1e-6, on_progress=note
    )
    seconds = time.process_time() - began
    assert found.results.done == 10_000
    assert seconds / 10_000 < 5e-3, f"{1e3 * seconds / 10_000:.2f} ms per job"
    early = max(peak for done, peak in memory if done <= 3000)
    assert memory[-1][1] - early < 30_000, "kilobytes"


def test_two_workers_get_as_much_done_as_two_plain_processes(tmp_path):
    shares = []
    for attempt in range(3):
        plain = [subprocess.Popen([sys.executable, "-c", PLAIN], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        expected = max(float(process.communicate()[0]) for process in plain)
        with LocalPool(2) as pool:
            warm = FileStore(tmp_path / f"warm{attempt}")
            limen.sweep(toy(), {"slope": "0:3:4"}, 1, executor=pool, store=warm, job_seconds=1e-6)
            began = time.perf_counter()
            # Twelve theories and twelve runs: as much work as the plain processes had.
            limen.sweep(
                toy(busy=ROUNDS), {"slope": "1:12:12"}, 1, executor=pool,
                store=FileStore(tmp_path / f"store{attempt}"), job_seconds=0.5,
            )  # fmt: skip
            shares.append(expected / (time.perf_counter() - began))
    # Nine tenths of two processes are 1.8 times one.
    assert max(shares) > 0.9, shares
