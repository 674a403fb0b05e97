"""Progress of a run or a sweep on standard error, with time left."""

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from limen.cli.interruption import stop_if_asked
from limen.result import Result

if TYPE_CHECKING:
    from limen.sweeps.engine import Progress as SweepState

SAY_EVERY = 30.0


class Progress:
    """A bar over the seeds of a run; silent where standard error is not a terminal."""

    def __init__(self, name: str, seeds: int) -> None:
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(f"{name}: theory", total=max(seeds, 1))
        self._name = name

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def theory(self, result: Result) -> None:
        """The theory is there."""
        self._bar.update(self._task, description=f"{self._name}: simulation")

    def seed(self, done: int, total: int) -> None:
        """So many seeds are there."""
        stop_if_asked()
        self._bar.update(self._task, completed=done, total=total)


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
        self._began = self._said = self._shown = time.monotonic()
        self._before: int | None = None

    def __enter__(self) -> "SweepProgress":
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, state: "SweepState") -> None:
        """So far is the sweep."""
        now = time.monotonic()
        if now - self._shown < 0.2 and state.done < state.total:
            return
        self._shown = now
        failed = f", {len(state.failed)} failed" if state.failed else ""
        left = self._time_left(state, now)
        self._bar.update(self._task, description=f"{self._name}{failed}", completed=state.done, left=left)
        if not self._console.is_terminal and now - self._said > SAY_EVERY:
            self._said = now
            self._console.print(f"{self._name}: {state.done} of {state.total} results{failed}; {left}", soft_wrap=True)

    def _time_left(self, state: "SweepState", now: float) -> str:
        from limen.sweeps.estimate import in_words

        if self._before is None:
            self._before = state.done
        there = state.done - self._before
        seconds = state.seconds_left
        if seconds is None and there:
            # Some cost is not known yet: go by the pace so far.
            seconds = (now - self._began) * (state.total - state.done) / there
        return "time left unknown" if seconds is None else f"{in_words(seconds)} left"
