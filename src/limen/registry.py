"""Methods in the order in which they are tried, each imported when a problem may need it."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from limen.method import Method


class Registry:
    """Methods by their places; `for_problem` imports only those whose kind of problem it is.

    A place is `module:name` and the class names of what the method answers: the problem's own, or its algorithm's.
    """

    def __init__(self, *places: tuple[str, tuple[str, ...]]) -> None:
        self._places = places

    def __iter__(self) -> Iterator[Method]:
        return (method_at(place) for place, _ in self._places)

    def __len__(self) -> int:
        return len(self._places)

    def for_problem(self, problem: Any) -> tuple[Method, ...]:
        """The methods that may answer a problem; all of them if there is none."""
        kinds = {kind.__name__ for one in (problem, getattr(problem, "algorithm", None)) for kind in type(one).__mro__}
        near = tuple(method_at(place) for place, answered in self._places if kinds & set(answered))
        return near or tuple(self)

    def named(self, name: str | Method | None, problem: Any) -> tuple[Method, ...]:
        """All methods where one is asked for by name, else those that may answer the problem."""
        return self.for_problem(problem) if name is None else tuple(self)


@cache
def method_at(place: str) -> Method:
    """The method at `module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
