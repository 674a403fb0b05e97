"""Frozen specifications: what a problem or an experiment *is*, checked when it is made."""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo


class InputError(ValueError):
    """A user's mistake, said in one sentence that names the argument, its value and what is allowed.

    `place` is the path of the argument inside the spec that refused it, where that is known.
    """

    place: tuple[str, ...] = ()


if TYPE_CHECKING:
    import os

    class Model:
        """What limen uses of a pydantic model; type checkers would otherwise insist on pydantic's own `__init__`."""

        model_config: ClassVar[ConfigDict]
        model_fields: ClassVar[dict[str, FieldInfo]]

        def __init__(self, **values: Any) -> None: ...

        def model_dump(self, *, mode: str) -> dict[str, Any]: ...

        def model_copy(self, *, update: dict[str, Any]) -> Self: ...

        @classmethod
        def model_construct(cls) -> Self: ...

else:
    Model = BaseModel


class Held(ABC):
    """Something a spec holds that its description only names."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What names it, as plain JSON data."""


class Spec(Model):
    """A frozen, hashable description; arguments may be given by position, in the order of the fields.

    A wrong argument raises `InputError` with one sentence. `describe` gives the canonical JSON form
    from which stored results take their address.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, *args: Any, **values: Any) -> None:
        names = list(type(self).model_fields)
        if len(args) > len(names):
            raise InputError(f"{type(self).__name__} takes at most {len(names)} arguments, got {len(args)}.")
        for name, value in zip(names, args, strict=False):
            if name in values:
                raise InputError(f"{name} was given twice to {type(self).__name__}.")
            values[name] = value
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise complaint(error) from None

    def model_copy(self, *, update: dict[str, Any] | None = None, deep: bool = False) -> Self:
        """The spec with some fields changed, checked like a new one."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**{**fields, **(update or {})})

    def describe(self) -> dict[str, Any]:
        """The spec as plain JSON data, every nested spec tagged with its type."""
        fields = {name: _describe(getattr(self, name)) for name in type(self).model_fields}
        return {"type": type(self).__name__, **fields}

    def save(self, path: "str | os.PathLike[str]") -> Path:
        """Writes the problem as a file that `limen.load_problem` and the command line read."""
        from limen.problem.files.template import problem_text

        path = Path(path)
        path.write_text(problem_text(self), encoding="utf-8")
        return path


def from_description(description: dict[str, Any]) -> Spec:
    """The spec that `describe` described: a problem back from `Result.spec`. A function of the user's own, of which
    only the name is kept, cannot be had back."""
    if not isinstance(description, dict) or "type" not in description:
        raise InputError("description must be a dict with the key 'type', as Spec.describe gives it.")
    kinds = {kind.__name__: kind for kind in _all_specs(Spec)}
    kind = kinds.get(description["type"])
    if kind is None:
        raise InputError(f"description must be of a problem, got the type {description['type']!r}.")
    return kind(**{name: _undescribed(value) for name, value in description.items() if name != "type"})


def _undescribed(value: Any) -> Any:
    if isinstance(value, dict) and "type" in value:
        return from_description(value)
    if isinstance(value, list):
        return tuple(_undescribed(item) for item in value)
    return value


def _describe(value: Any) -> Any:
    if isinstance(value, (Spec, Held)):
        return value.describe()
    if isinstance(value, tuple):
        return [_describe(item) for item in value]
    return value


def nested_tuple(value: Any) -> Any:
    """Lists and arrays as nested tuples of numbers, so that a spec that holds them stays hashable."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(nested_tuple(item) for item in np.asarray(value).tolist())
    return value


def complaint(error: ValidationError) -> InputError:
    """The first complaint of pydantic, as one sentence that knows which argument it is about."""
    first = error.errors()[0]
    held = first.get("ctx", {}).get("error")
    made = held if isinstance(held, InputError) else InputError(sentence(error))
    made.place = made.place or _path(first["loc"])
    return made


def _path(places: tuple[int | str, ...]) -> tuple[str, ...]:
    """Names of fields; members of a union and validators have their own in between."""
    kinds = {kind.__name__ for kind in _all_specs(Spec)}
    return tuple(part for part in places if isinstance(part, str) and part.isidentifier() and part not in kinds)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"allowed: {', '.join(names) or 'nothing'}."


def sentence(error: ValidationError) -> str:
    """The first complaint of pydantic as one sentence: argument, what is allowed, what was found."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"] if isinstance(part, str) and not part.startswith("function"))
    kind, context = first["type"], first.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "missing":
        return f"{name} is required."
    if kind == "extra_forbidden":
        return f"{name} is not an argument of {error.title}: {did_you_mean(name, _field_names(error))}"
    allowed = {
        "greater_than": lambda: f"be greater than {context['gt']}",
        "greater_than_equal": lambda: f"be at least {context['ge']}",
        "less_than": lambda: f"be less than {context['lt']}",
        "less_than_equal": lambda: f"be at most {context['le']}",
        "finite_number": lambda: "be a finite number",
        "literal_error": lambda: f"be one of {context['expected']}",
    }.get(kind, lambda: first["msg"].removeprefix("Input should ").rstrip("."))()
    return f"{name} must {allowed}, got {first['input']!r}."


def _field_names(error: ValidationError) -> list[str]:
    for spec in _all_specs(Spec):
        if spec.__name__ == error.title:
            return list(spec.model_fields)
    return []


def _all_specs(parent: type[Spec]) -> list[type[Spec]]:
    return [spec for child in parent.__subclasses__() for spec in (child, *_all_specs(child))]
