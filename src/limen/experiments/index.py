"""What is known of every experiment without importing it: its words and parameters, so that commands answer at once.

`index.json` is written from the classes by `python -m limen.experiments.index`. An experiment whose file has changed
since is imported instead, so that what is shown is never old.
"""

import hashlib
import json
import types
import typing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from limen.experiments.registry import PLACES, experiment_class

if TYPE_CHECKING:
    from limen.experiments.experiment import Experiment

FOLDER = Path(__file__).parent
INDEX = FOLDER / "index.json"


@dataclass(frozen=True)
class Parameter:
    """A field of an experiment; `kind` is integer, number, switch, choice or text, `bounds` and `default` are words."""

    name: str
    kind: str
    description: str
    bounds: str
    default: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """An experiment: its name and words, and its parameters in order; `size` is the one that holds the size."""

    name: str
    source: str
    summary: str
    text: str
    size: str
    seeds: int
    parameters: tuple[Parameter, ...]


def entry(name: str) -> Entry:
    """The entry of an experiment of the gallery."""
    known = _read().get(name)
    if known is None or known["file"] != _file_digest(name):
        return entry_of(experiment_class(name))
    return _entry(known["entry"])


def entry_of(experiment: "type[Experiment]") -> Entry:
    """The entry of any experiment, from its class."""
    return Entry(
        experiment.name,
        experiment.source,
        experiment.summary,
        (experiment.__doc__ or "").strip(),
        experiment.size_field,
        experiment.default_seeds,
        tuple(_parameter(name, field) for name, field in experiment.model_fields.items()),
    )


def write(path: Path = INDEX) -> None:
    """Writes the index of the whole gallery."""
    found = {
        name: {"file": _file_digest(name), "entry": asdict(entry_of(experiment_class(name)))} for name in sorted(PLACES)
    }
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def outdated() -> list[str]:
    """Experiments whose entry in the index is not what their class says."""
    known = _read()
    return [
        name for name in PLACES if name not in known or _entry(known[name]["entry"]) != entry_of(experiment_class(name))
    ]


@cache
def _read() -> dict[str, Any]:
    try:
        return json.loads(INDEX.read_text())
    except (OSError, ValueError):
        return {}


def _entry(data: dict[str, Any]) -> Entry:
    parameters = (Parameter(**{**item, "choices": tuple(item["choices"])}) for item in data["parameters"])
    return Entry(**{**data, "parameters": tuple(parameters)})


def _file_digest(name: str) -> str:
    path = FOLDER / (PLACES[name].partition(":")[0].replace(".", "/") + ".py")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def _parameter(name: str, field: Any) -> Parameter:
    annotation = field.annotation
    if isinstance(annotation, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    choices = tuple(map(str, typing.get_args(annotation))) if typing.get_origin(annotation) is Literal else ()
    kind = "choice" if choices else {int: "integer", float: "number", bool: "switch"}.get(annotation, "text")
    return Parameter(name, kind, field.description or "", _bounds(field), _default(field.default), choices)


def _default(value: Any) -> str:
    return ",".join(map(_default, value)) if isinstance(value, tuple) else f"{value}"


def _bounds(field: Any) -> str:
    symbols = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
    parts = [
        f"{symbol} {getattr(bound, name):g}"
        for bound in field.metadata
        for name, symbol in symbols.items()
        if isinstance(getattr(bound, name, None), (int, float))
    ]
    return ", ".join(parts)


if __name__ == "__main__":
    write()
