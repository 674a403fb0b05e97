"""A store that lives as long as the process."""

from collections.abc import Iterable, Mapping

from limen.result import Result


class MemoryStore:
    """Results by address, in memory; the same interface as `FileStore`."""

    def __init__(self) -> None:
        self._results: dict[str, Result] = {}

    def get(self, keys: Iterable[str]) -> dict[str, Result]:
        """The results at these addresses; an address that is not there is left out."""
        return {key: self._results[key] for key in keys if key in self._results}

    def put(self, results: Mapping[str, Result]) -> None:
        """Keeps results; those already there are replaced."""
        self._results.update(results)

    def keys(self) -> list[str]:
        """Every address, sorted."""
        return sorted(self._results)
