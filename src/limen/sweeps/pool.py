"""A pool of local worker processes, each on its own: one that dies takes only its own task with it."""

import time
from collections.abc import Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from types import TracebackType

from limen.problem.spec import InputError
from limen.sweeps.job_loop import BEGUN, FINISHED, RAISED, RETURNED, serve
from limen.sweeps.protocol import Event, ExecutorLost, Finished, Job, Lost, Raised, Returned
from limen.workers.environment import one_thread_environment
from limen.workers.process import WorkerProcess, available_cores

# A worker that dies before it has begun anything has nothing to do with a task; so often in a row, and none will start.
STILLBIRTHS = 3
LONGEST_GOODBYE = 2.0


class _Worker(WorkerProcess):
    """A worker with the job and the task it is at."""

    def __init__(self) -> None:
        super().__init__(serve, (), one_thread_environment())
        self.job: int | None = None
        self.position: int | None = None
        self.since = time.monotonic()


class LocalPool:
    """Spawned processes on this machine, one job each at a time; the same interface as `DaskExecutor`.

    A dead worker is replaced when the next job comes. `time_limit`: seconds that one task may take; a worker that
    takes longer is killed. Tasks return one by one, so a death costs exactly the task that was being done.
    """

    def __init__(self, workers: int | None = None, time_limit: float | None = None) -> None:
        count = workers if workers is not None else available_cores()
        if count < 1:
            raise InputError(f"workers must be at least 1, got {count}.")
        if time_limit is not None and not time_limit > 0.0:
            raise InputError(f"time_limit must be positive, got {time_limit}.")
        self.slots = count
        self._time_limit = time_limit
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, _Worker] = {}
        self._stillbirths = 0

    def start(self, job: Job) -> None:
        """Gives a job to an idle worker, a new one if none is left."""
        message = (job.number, job.prepare, job.function, job.tasks)
        while self._idle:
            worker = self._idle.pop()
            try:
                worker.connection.send(message)
                break
            except (BrokenPipeError, ConnectionResetError):
                worker.end(0.0)
        else:
            worker = _Worker()
            worker.connection.send(message)
        worker.job, worker.position, worker.since = job.number, None, time.monotonic()
        self._busy[worker.connection] = worker

    def wait(self, timeout: float) -> Sequence[Event]:
        """What happened; returns at the first event, or empty after `timeout` seconds."""
        until = time.monotonic() + timeout
        while True:
            left = until - time.monotonic()
            events: list[Event] = []
            if self._busy:
                for ready in connection.wait(list(self._busy), max(0.0, min(left, self._to_next_deadline()))):
                    events += self._read(self._busy[ready])  # pyright: ignore[reportArgumentType]
                events += self._overdue()
            elif left > 0.0:
                time.sleep(left)
            if events or left <= 0.0:
                return events

    def cancel(self, job: int) -> None:
        """Ends a job by ending its worker; nothing more is heard of it."""
        for worker in list(self._busy.values()):
            if worker.job == job:
                worker.kill()
                self._remove(worker)

    def processes(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.identifier for worker in (*self._idle, *self._busy.values())]

    def _read(self, worker: _Worker) -> list[Event]:
        events: list[Event] = []
        try:
            # What lies ready is taken at once, but never more than a few: other workers wait too.
            for _ in range(64):
                kind, number, *rest = worker.connection.recv()
                worker.since, self._stillbirths = time.monotonic(), 0
                if kind == BEGUN:
                    worker.position = rest[0]
                elif kind == RETURNED:
                    events.append(Returned(number, *rest))
                elif kind == RAISED:
                    events.append(Raised(number, *rest))
                elif kind == FINISHED:
                    events.append(Finished(number, *rest))
                    del self._busy[worker.connection]
                    worker.job = None
                    self._idle.append(worker)
                    return events
                if not worker.connection.poll():
                    return events
        except (EOFError, ConnectionResetError):
            events.append(self._dead(worker))
        return events

    def _dead(self, worker: _Worker) -> Lost:
        job, position = worker.job or 0, worker.position
        how = self._remove(worker)
        if position is None:
            self._stillbirths += 1
            if self._stillbirths >= STILLBIRTHS:
                raise ExecutorLost(f"workers cannot be started: {how}, {STILLBIRTHS} times in a row.")
        return Lost(job, position, how, innocent=position is None)

    def _remove(self, worker: _Worker, goodbye: float = LONGEST_GOODBYE) -> str:
        del self._busy[worker.connection]
        return worker.end(goodbye)

    def _to_next_deadline(self) -> float:
        if self._time_limit is None:
            return float("inf")
        begun = [worker.since for worker in self._busy.values() if worker.position is not None]
        return min(begun, default=float("inf")) + self._time_limit - time.monotonic()

    def _overdue(self) -> list[Event]:
        events: list[Event] = []
        limit = self._time_limit
        for worker in list(self._busy.values()):
            # The time of starting the process is not the task's.
            if limit is not None and worker.position is not None and time.monotonic() - worker.since > limit:
                job, position = worker.job or 0, worker.position
                worker.kill()
                self._remove(worker)
                events.append(Lost(job, position, f"it took longer than the time limit of {limit:g} s", final=True))
        return events

    def __enter__(self) -> "LocalPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        workers = (*self._idle, *self._busy.values())
        for worker in self._busy.values():
            worker.kill()
        for worker in workers:
            worker.end(LONGEST_GOODBYE)
        self._idle, self._busy = [], {}
