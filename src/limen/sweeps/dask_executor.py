"""Jobs on a Dask cluster: a local one, or any whose scheduler can be reached (SLURM, Kubernetes, your machines)."""

import logging
import queue
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from limen.problem.spec import InputError
from limen.sources import whole_digest
from limen.sweeps.protocol import Event, ExecutorLost, Finished, Job, Lost, Raised, Returned
from limen.workers.environment import one_thread_environment, spawning
from limen.workers.inside import peak_memory, reason
from limen.workers.process import available_cores

CONNECT_TIMEOUT = 5.0
FETCH_TIMEOUT = 20.0
NANNY_PATIENCE = 10.0
SCHEDULER_PATIENCE = 10.0
# From outside, a job that computes looks like one that still imports; imports are not the task's fault.
IMPORT_GRACE = 20.0
REFRESH_EVERY = 1.0
OTHER_SOURCES = "its Dask worker has other sources of limen than the driver"


def run_tasks(
    sources: str, prepare: Callable[[], Any] | None, function: Callable[[Any], Any], tasks: Sequence[Any]
) -> tuple[list[tuple[bool, Any, float]], float]:
    """In a Dask worker: every task as (returned, value or reason, seconds), and the worker's memory."""
    if whole_digest() != sources:
        raise RuntimeError(OTHER_SOURCES)
    if prepare is not None:
        prepare()
    outcomes: list[tuple[bool, Any, float]] = []
    for task in tasks:
        began = time.perf_counter()
        try:
            outcomes.append((True, function(task), time.perf_counter() - began))
        except Exception as error:
            outcomes.append((False, reason(error), time.perf_counter() - began))
    return outcomes, peak_memory()


class DaskExecutor:
    """The workers of a Dask scheduler, one job per thread of theirs; the same interface as `LocalPool`.

    A job comes back as a whole, so a dead worker costs its job, and the engine narrows the guilty point down by
    halves. `time_limit`: seconds per task of a job, and 20 for the job, after which its worker is
    restarted.
    """

    def __init__(self, address: str, time_limit: float | None = None, cluster: Any = None) -> None:
        distributed = _distributed()
        self._address, self._time_limit, self._cluster = address, time_limit, cluster
        self._heard = time.monotonic()
        # A scheduler that cannot be reached is one sentence, not pages of retries.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            self._client = distributed.Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(
                f"the Dask scheduler {address} cannot be reached within {CONNECT_TIMEOUT:g} s ({type(error).__name__})."
            ) from None
        self._prefix = f"limen-{uuid.uuid4().hex[:8]}"
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._futures: dict[str, tuple[Job, Any]] = {}
        self._begun: dict[str, float] = {}
        self._orphans: list[int] = []
        self._slots, self._refreshed, self._complete = 1, 0.0, time.monotonic()
        self._wanted = 0 if cluster is None else len(cluster.worker_spec)
        self._refresh()

    @classmethod
    def local(cls, workers: int | None = None, time_limit: float | None = None) -> "DaskExecutor":
        """A cluster of processes on this machine, of one thread each."""
        distributed = _distributed()
        import dask.config

        # The engine itself tries again what a dead worker was at, and less of it each time.
        with dask.config.set({"distributed.scheduler.allowed-failures": 0}), spawning(one_thread_environment()):
            cluster = distributed.LocalCluster(
                n_workers=workers or available_cores(),
                threads_per_worker=1,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
                env=one_thread_environment(),
            )
        return cls(cluster.scheduler_address, time_limit, cluster)

    @property
    def slots(self) -> int:
        """Threads of all workers; at least one, so that a cluster whose workers are still to come has work waiting."""
        return self._slots

    def processes(self) -> list[int]:
        """The process ids of the workers, on whatever machines they are."""
        import os

        return list(self._client.run(os.getpid).values())

    def start(self, job: Job) -> None:
        """Submits a job."""
        key = f"{self._prefix}-{job.number}"
        arguments = (whole_digest(), job.prepare, job.function, job.tasks)
        future = self._client.submit(run_tasks, *arguments, key=key, pure=False)
        self._futures[key] = (job, future)
        future.add_done_callback(self._done.put)

    def cancel(self, job: int) -> None:
        """Ends a job; one that is being done goes on unheard."""
        for key, (other, future) in list(self._futures.items()):
            if other.number == job:
                del self._futures[key]
                future.cancel(force=True)

    def wait(self, timeout: float) -> Sequence[Event]:
        """What happened; returns at the first event, or empty after `timeout` seconds."""
        events = self._refresh()
        try:
            done = self._done.get(timeout=0.0 if events else timeout)
            events += self._events(done)
            while True:
                events += self._events(self._done.get_nowait())
        except queue.Empty:
            return events

    def _events(self, future: Any) -> list[Event]:
        if future.key not in self._futures:
            return []
        job, _ = self._futures.pop(future.key)
        self._begun.pop(future.key, None)
        try:
            outcomes, memory = future.result(timeout=FETCH_TIMEOUT)
        except Exception as error:
            if type(error).__name__ == "TimeoutError":
                # Its worker died before the result was fetched, and Dask computes it again.
                self._futures[future.key] = (job, future)
                future.add_done_callback(self._done.put)
                return []
            if self._client.status != "running":
                # The scheduler is gone, and with it the job; whether for good, `_check_scheduler` finds out.
                self._orphans.append(job.number)
                return []
            if type(error).__name__ in ("KilledWorker", "CancelledError", "FutureCancelledError"):
                future.cancel(force=True)
                return [Lost(job.number, None, "its Dask worker died")]
            raised = [Raised(job.number, i, reason(error), 0.0) for i in range(len(job.tasks))]
            return [*raised, Finished(job.number, 0.0)]
        return [
            *(
                Returned(job.number, i, value, seconds) if returned else Raised(job.number, i, value, seconds)
                for i, (returned, value, seconds) in enumerate(outcomes)
            ),
            Finished(job.number, memory),
        ]

    def _refresh(self) -> list[Event]:
        """Counts the workers, which come and go, and ends jobs that take too long."""
        if time.monotonic() - self._refreshed < REFRESH_EVERY:
            return []
        self._refreshed = time.monotonic()
        self._check_scheduler()
        if self._client.status != "running":
            return []
        events: list[Event] = [Lost(job, None, "its Dask scheduler was started again") for job in self._orphans]
        self._orphans.clear()
        with suppress(OSError):
            there = sum(self._client.nthreads().values())
            self._slots = max(1, there)
            self._replace(there)
            events += self._overdue() if self._time_limit is not None else []
        return events

    def _check_scheduler(self) -> None:
        """A scheduler that is gone and does not come back ends the sweep."""
        if self._client.status == "running":
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > SCHEDULER_PATIENCE:
            raise ExecutorLost(
                f"the Dask scheduler {self._address} was lost {time.monotonic() - self._heard:.0f} s ago: what was "
                "finished is kept, and the same command goes on from there."
            )

    def _replace(self, there: int) -> None:
        """Starts new workers of an own cluster for those whose nanny gave up, as it does when one dies very early."""
        if self._cluster is None or there >= self._wanted:
            self._complete = time.monotonic()
        elif time.monotonic() - self._complete > NANNY_PATIENCE:
            self._complete = time.monotonic()
            with spawning(one_thread_environment()):
                self._cluster.scale(len(self._cluster.worker_spec) + self._wanted - there)

    def _overdue(self) -> list[Event]:
        assert self._time_limit is not None
        events: list[Event] = []
        for worker, keys in self._client.processing().items():
            for key in map(str, keys):
                if key not in self._futures:
                    continue
                job, future = self._futures[key]
                allowed = self._time_limit * len(job.tasks) + IMPORT_GRACE
                if time.monotonic() - self._begun.setdefault(key, time.monotonic()) > allowed:
                    del self._futures[key]
                    future.cancel(force=True)
                    # Workers without a nanny cannot be restarted, and their task goes on unheard; one that has gone
                    # meanwhile needs no restart. Neither is a reason to stop.
                    with suppress(Exception):
                        self._client.restart_workers([worker], timeout=30.0, raise_for_error=False)
                    late = f"it took longer than the time limit of {self._time_limit:g} s"
                    events.append(Lost(job.number, None, late, final=True))
        return events

    def __enter__(self) -> "DaskExecutor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(Exception):
            self._client.cancel([future for _, future in self._futures.values()], force=True)
        self._futures.clear()
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError("Dask is not installed: pip install 'limen[distributed]'.") from None
    return distributed
