"""A worker process seen from the one that started it."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from limen.workers.environment import spawning


class WorkerProcess:
    """A spawned process and our end of the pipe to it; it runs `target(connection, *arguments)`.

    `environment` holds the variables it is born with.
    """

    def __init__(self, target: Callable[..., None], arguments: tuple[Any, ...], environment: Mapping[str, str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection: Connection
        self.connection, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(target=target, args=(theirs, *arguments), daemon=True)
        with spawning(environment):
            self._process.start()
        # Only the worker holds its end now: when it dies, reading ours ends.
        theirs.close()

    @property
    def identifier(self) -> int:
        """The process's number."""
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.is_alive()

    def kill(self) -> None:
        """Stops the process at once; `end` tells how it went."""
        self._process.kill()

    def end(self, goodbye: float) -> str:
        """Ends the process, at the latest after `goodbye` seconds; returns how it ended."""
        self.connection.close()
        self._process.join(goodbye)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        code = self._process.exitcode or 0
        self._process.close()
        if code < 0:
            return f"its worker was killed by signal {-code} ({signal.Signals(-code).name})"
        return f"its worker ended with exit code {code}"

    def memory(self) -> int:
        """Bytes of memory the process holds, 0 where the system does not tell."""
        try:
            with open(f"/proc/{self.identifier}/statm") as statm:
                return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            return 0


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
