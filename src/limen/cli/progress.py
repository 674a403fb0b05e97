"""Progress of a run on standard error, with time left."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from limen.cli.interruption import stop_if_asked
from limen.result import Result


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
