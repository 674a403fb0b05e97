"""An executor without processes of its own: a sweep inside a process that already is a worker."""

import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from limen.sweeps.protocol import Event, Finished, Job, Raised, Returned
from limen.workers.inside import peak_memory, reason


class InProcess:
    """One task per call of `wait`, so that who drives the sweep is heard between any two."""

    slots = 1

    def __init__(self) -> None:
        self._jobs: deque[tuple[Job, int]] = deque()

    def start(self, job: Job) -> None:
        """Puts a job in line."""
        self._jobs.append((job, 0))

    def wait(self, timeout: float) -> Sequence[Event]:
        """Does the next task."""
        if not self._jobs:
            time.sleep(timeout)
            return ()
        job, position = self._jobs.popleft()
        began = time.perf_counter()
        event: Event
        try:
            if position == 0 and job.prepare is not None:
                job.prepare()
            value = job.function(job.tasks[position])
            event = Returned(job.number, position, value, time.perf_counter() - began)
        except Exception as error:
            event = Raised(job.number, position, reason(error), time.perf_counter() - began)
        if position + 1 < len(job.tasks):
            self._jobs.appendleft((job, position + 1))
            return (event,)
        return (event, Finished(job.number, peak_memory()))

    def cancel(self, job: int) -> None:
        """Takes a job out of the line."""
        self._jobs = deque(entry for entry in self._jobs if entry[0].number != job)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._jobs.clear()
