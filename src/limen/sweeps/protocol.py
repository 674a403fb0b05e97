"""What executors are given and what they say: jobs of tasks, and events."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self


class ExecutorLost(RuntimeError):
    """Nothing computes any more: a scheduler is gone, workers cannot be started. Finished results are kept."""


@dataclass(frozen=True)
class Job:
    """Tasks for one worker, one after another; `function` is importable by name, each task plain data.

    `prepare` is called first (imports, say), outside any time limit.
    """

    number: int
    function: Callable[[Any], Any]
    tasks: tuple[Any, ...]
    prepare: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Returned:
    """A task came to its end."""

    job: int
    position: int
    value: Any
    seconds: float


@dataclass(frozen=True)
class Raised:
    """A task ended in an exception."""

    job: int
    position: int
    reason: str
    seconds: float


@dataclass(frozen=True)
class Lost:
    """The worker is gone, and with it what the job had not returned; `position` is the task it was at, if known.

    `final`: trying again is no use (a time limit). `innocent`: the worker had not begun anything.
    """

    job: int
    position: int | None
    reason: str
    final: bool = False
    innocent: bool = False


@dataclass(frozen=True)
class Finished:
    """All tasks of a job were tried; `memory` is the largest the worker has been, in bytes."""

    job: int
    memory: float


Event = Returned | Raised | Lost | Finished


class Executor(Protocol):
    """Where jobs run. Used as a context manager: leaving it ends the workers, and what they are at."""

    @property
    def slots(self) -> int:
        """How many jobs can run at once."""
        ...

    def start(self, job: Job) -> None:
        """Runs a job; at most `slots` at once."""
        ...

    def wait(self, timeout: float) -> Sequence[Event]:
        """What happened; returns at the first event, or empty after `timeout` seconds."""
        ...

    def cancel(self, job: int) -> None:
        """Ends a job that was started; nothing more is heard of it."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
