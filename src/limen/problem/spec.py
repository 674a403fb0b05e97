"""Frozen specifications: what a problem or an experiment *is*, checked when it is made."""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError


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
        for name in values.keys() & _without_truth(type(self)):
            _refuse_truth(name, values[name])
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
        from limen.problem.files.places import new_file
        from limen.problem.files.template import problem_text

        path = new_file(path)
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
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        try:
            np.asarray(value)
        except ValueError:
            raise PydanticCustomError("ragged", "be a number, or numbers in rows of one length") from None
        return tuple(nested_tuple(item) for item in value)
    return value


@cache
def _without_truth(kind: type[Spec]) -> frozenset[str]:
    """The fields of numbers, which Python would also let be True or False; formulas have a check of their own."""
    inside = {name: set(_parts(field.annotation)) for name, field in kind.model_fields.items()}
    return frozenset(name for name, parts in inside.items() if parts & {int, float} and not parts & {bool, str})


def _parts(annotation: Any) -> Iterator[Any]:
    """The types an annotation is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def _refuse_truth(name: str, value: Any) -> None:
    """Refuses True and False where numbers are wanted, alone or in a list."""
    for item in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(item, (bool, np.bool_)):
            refused = InputError(f"{name} must be a number, got {value!r}.")
            refused.place = (name,)
            raise refused


def complaint(error: ValidationError) -> InputError:
    """The first complaint of pydantic, as one sentence that knows which argument it is about."""
    first = _first(error)
    held = first.get("ctx", {}).get("error")
    made = held if isinstance(held, InputError) else InputError(sentence(error))
    made.place = made.place or _path(first["loc"])
    return made


def _first(error: ValidationError) -> Any:
    """The complaint to tell: a name that is no argument goes before the one that is missing, which it was meant for."""
    return next((one for one in error.errors() if one["type"] == "extra_forbidden"), error.errors()[0])


def _path(places: tuple[int | str, ...]) -> tuple[str, ...]:
    """Names of fields; members of a union and validators have their own in between."""
    return tuple(part for part in _named(places) if part.isidentifier())


def _named(places: tuple[int | str, ...]) -> tuple[str, ...]:
    """The same with paths into a problem (`algorithm.step`) as they were given."""
    between = {kind.__name__ for kind in _all_specs(Spec)} | UNNAMED
    return tuple(part for part in places if isinstance(part, str) and part not in between and not set("[(") & set(part))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, or all of them."""
    names = list(known)
    near = [one for one in OTHERWISE.get(name, ()) if one in names] or difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"allowed: {', '.join(names) or 'nothing'}."


# What arguments are called elsewhere.
OTHERWISE = {
    **dict.fromkeys(("lr", "learning_rate", "eta", "step", "rate"), ("step", "rate")),
    "batch_size": ("batch", "batch_fraction"),
}
# What pydantic calls the members of a union.
UNNAMED = {"float", "int", "str", "bool", "tuple", "list", "dict"}
# What may stand for a specification, in the words of who gives it.
KINDS = {name: "a name, a formula or a function" for name in ("Activation", "Target", "Loss")}


def sentence(error: ValidationError) -> str:
    """The first complaint of pydantic as one sentence: argument, what is allowed, what was found.

    What no member of a union takes is one complaint of each: they are told together.
    """
    first = _first(error)
    path = _named(first["loc"])
    name, together = ".".join(path), [one for one in error.errors() if _named(one["loc"]) == path]
    kind, context, given = first["type"], first.get("ctx", {}), first["input"]
    if kind == "value_error":
        return str(context["error"])
    if kind == "missing":
        return f"{name} is required."
    if kind == "extra_forbidden":
        return f"{name} is not an argument of {error.title}: {did_you_mean(name, _field_names(error))}"
    classes = [one.get("ctx", {})["class_name"] for one in together if one["type"] == "model_type"]
    if classes and isinstance(given, type) and issubclass(given, Spec):
        return f"{name} must be made from its class: write {given.__name__}(...)."
    lists = any("tuple" in str(part) for one in together for part in (one["type"], *one["loc"]))
    numbers = any(one["type"] in NUMBERS for one in together)
    allowed = {
        "greater_than": lambda: f"be greater than {context['gt']}",
        "greater_than_equal": lambda: f"be at least {context['ge']}",
        "less_than": lambda: f"be less than {context['lt']}",
        "less_than_equal": lambda: f"be at most {context['le']}",
        "finite_number": lambda: "be a finite number",
        "literal_error": lambda: f"be one of {context['expected']}",
        "string_type": lambda: "be a name or a formula" if _takes_formula(error, path) else "be a text",
        "model_type": lambda: f"be {_one_of(classes)}",
        "bool_type": lambda: "be True or False",
        "bool_parsing": lambda: "be True or False",
        "tuple_type": lambda: "be a list of numbers",
        **{one: lambda: "be a number or a list of numbers" if lists and numbers else NUMBERS[kind] for one in NUMBERS},
    }.get(kind, lambda: first["msg"].removeprefix("Input should ").rstrip("."))()
    return f"{name} must {allowed}, got {given!r}."


NUMBERS = {
    "float_type": "be a number",
    "float_parsing": "be a number",
    "int_type": "be a whole number",
    "int_parsing": "be a whole number",
    "int_from_float": "be a whole number",
}


def _one_of(classes: list[str]) -> str:
    """What may stand for one of these specifications."""
    if len(classes) == 1:
        return KINDS.get(classes[0], f"a limen.{classes[0]}")
    return f"one of {', '.join(f'limen.{name}' for name in classes)}"


def _takes_formula(error: ValidationError, path: tuple[str, ...]) -> bool:
    """Whether a text in this place is read as a formula."""
    fields = next((spec.model_fields for spec in _all_specs(Spec) if spec.__name__ == error.title), {})
    return len(path) == 1 and path[0] in fields and "formula" in (fields[path[0]].description or "")


def _field_names(error: ValidationError) -> list[str]:
    for spec in _all_specs(Spec):
        if spec.__name__ == error.title:
            return list(spec.model_fields)
    return []


def _all_specs(parent: type[Spec]) -> list[type[Spec]]:
    return [spec for child in parent.__subclasses__() for spec in (child, *_all_specs(child))]
