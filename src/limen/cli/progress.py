"""Progress of a run or a sweep on standard error, with time left."""

import os
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as RichProgress

from limen.machine.interruption import stop_if_asked
from limen.machine.pace import Pace, in_words
from limen.result import Result

if TYPE_CHECKING:
    from limen.sweeps.engine import Progress as SweepState

SAY_EVERY = 30.0


class Progress:
    """A bar over the seeds of a run; silent where standard error is not a terminal."""

    def __init__(self, name: str, seeds: int) -> None:
        self._console = Console(stderr=True)
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task(f"{name}: theory", total=max(seeds, 1), left="")
        self._name, self._pace, self._done = name, Pace(os.cpu_count() or 1), None

    def __enter__(self) -> "Progress":
        # Without a terminal a bar that stops leaves an empty line.
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def theory(self, result: Result) -> None:
        """The theory is there."""
        self._bar.update(self._task, description=f"{self._name}: simulation")

    def seed(self, done: int, total: int) -> None:
        """So many seeds are there."""
        stop_if_asked()
        if self._done is not None:
            self._pace.arrived(done - self._done)
        self._done = done
        left = self._pace.seconds_left(total - done)
        words = "compiling" if left is None and done == 0 else "" if left is None else f"{in_words(left)} left"
        self._bar.update(self._task, completed=done, total=total, left=words)


class SweepProgress:
    """A bar over the results of a sweep, failures counted live; a line now and then where there is no terminal."""

    def __init__(self, name: str, total: int) -> None:
        self._name, self._console = name, Console(stderr=True)
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task(name, total=total, left="")
        self._said = self._shown = time.monotonic()

    def __enter__(self) -> "SweepProgress":
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def update(self, state: "SweepState") -> None:
        """So far is the sweep."""
        now = time.monotonic()
        if now - self._shown < 0.2 and state.finished < state.total:
            return
        self._shown = now
        failed = f", {len(state.failed)} failed" if state.failed else ""
        left = _time_left(state)
        self._bar.update(self._task, description=f"{self._name}{failed}", completed=state.finished, left=left)
        if not self._console.is_terminal and now - self._said > SAY_EVERY:
            self._said = now
            self._console.print(
                f"{self._name}: {state.finished} of {state.total} results{failed}; {left}", soft_wrap=True
            )


def _time_left(state: "SweepState") -> str:
    if state.seconds_left is None:
        return f"waiting for {state.awaited} results of another driver" if state.awaited else "time left unknown"
    others = f", {state.awaited} at another driver" if state.awaited else ""
    return f"{in_words(state.seconds_left)} left{others}"
