"""Problem files: TOML in, problems out; a mistake is one sentence with its line and column."""

import os
import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from limen.problem.files.places import file_path
from limen.problem.files.template import FAMILIES, IN_PYTHON, spec_kinds
from limen.problem.formula import FormulaError
from limen.problem.own_functions import OwnFunction
from limen.problem.spec import InputError, Spec, did_you_mean

RUN = ("times", "d", "seeds", "theory", "simulator", "at_size", "theory_options", "simulator_options")
LARGEST_FILE = 1_000_000
Place = tuple[str, ...]


@dataclass(frozen=True)
class ProblemFile:
    """What a file holds: the problem, and how it asks to be run (the table `[run]`)."""

    problem: Spec
    run: dict[str, Any] = field(default_factory=dict)


def load_problem(path: str | os.PathLike[str]) -> Spec:
    """The problem of a file written by `limen new`, `problem.save(path)` or by hand."""
    return read_problem_file(path).problem


def read_problem_file(path: str | os.PathLike[str]) -> ProblemFile:
    """The problem of a file and its settings for runs."""
    path = file_path(path)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path.name} is no problem file: it has more than {LARGEST_FILE:,} bytes.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is no problem file: it is not text.") from None
    return parse_problem(text, path.name)


def parse_problem(text: str, name: str = "problem") -> ProblemFile:
    """The problem of a text; complaints call it by `name`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"(.*) \(at (line \d+, column \d+|end of document)\)", str(error))
        what, where = (found[1], found[2]) if found else (str(error), "")
        raise InputError(f"{name}, {where}: {what[:1].lower()}{what[1:]}." if where else f"{name}: {what}.") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply.") from None
    return _Reader(text, name).read(data)


class _Reader:
    """One file: builds specs from tables, and knows where everything stands."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.lines = text.splitlines()
        self.places = places(self.lines)

    def read(self, data: dict[str, Any]) -> ProblemFile:
        run = data.pop("run", {})
        if not isinstance(run, dict):
            raise self.complaint(("run",), "run must be a table: [run].")
        for key in run:
            if key not in RUN:
                raise self.complaint(("run", key), f"{key} is not a setting of [run]: {did_you_mean(key, RUN)}")
        return ProblemFile(self.spec(data, list(FAMILIES), ()), run)

    def spec(self, table: dict[str, Any], kinds: list[type[Spec]], path: Place) -> Spec:
        """The spec of a table, which is one of these kinds."""
        values = dict(table)
        kind = self.kind(values.pop("type", None), kinds, path)
        for key, value in values.items():
            held = kind.model_fields.get(key)
            if held is None or key in IN_PYTHON:
                known = list(kind.model_fields)
                raise self.complaint(
                    (*path, key), f"{key} is not a field of {kind.__name__}: {did_you_mean(key, known)}"
                )
            inner = spec_kinds(held.annotation)
            if isinstance(value, dict):
                if not inner:
                    raise self.complaint((*path, key), f"{key} must be a value, not a table.")
                values[key] = self.spec(value, inner, (*path, key))
        try:
            return kind(**values)
        except InputError as error:
            raise self.located(error, kind, values, path) from None

    def kind(self, named: Any, kinds: list[type[Spec]], path: Place) -> type[Spec]:
        known = {kind.__name__: kind for kind in kinds}
        if named is None:
            if len(kinds) == 1:
                return kinds[0]
            where = f"[{'.'.join(path)}]" if path else "the file"
            raise self.complaint(path, f'{where} needs type = "...", one of {", ".join(known)}.')
        if not isinstance(named, str) or named not in known:
            raise self.complaint((*path, "type"), f"there is no type {named!r} here: {did_you_mean(str(named), known)}")
        return known[named]

    def located(self, error: InputError, kind: type[Spec], values: dict[str, Any], path: Place) -> InputError:
        """A complaint of a spec, with the place of the field it is about."""
        said = str(error)
        if isinstance(error, FormulaError):
            at = next((key for key, value in values.items() if value == error.formula), None)
            said = f"formula {error.shown!r}: {error.what}{'' if error.what.endswith('?') else '.'}"
            return self.complaint((*path, at) if at else path, said, inside=error.column)
        named = [*error.place, *re.findall(r"[A-Za-z_]\w*", said)[:1]]
        at = next((key for key in named if key in values), None)
        if at is not None:
            return self.complaint((*path, at), said)
        required = re.fullmatch(r"(\w+) is required\.", said)
        missing = kind.model_fields.get(required[1]) if required else None
        if required and missing and set(spec_kinds(missing.annotation)) - {OwnFunction}:
            said = f"{required[1]} is required: add the table [{'.'.join((*path, required[1]))}]."
        elif path:
            said = f"[{'.'.join(path)}] {said}"
        return self.complaint(path, said)

    def complaint(self, path: Place, said: str, inside: int = 0) -> InputError:
        """A sentence with the place of a field; `inside` is a column of the text that it holds."""
        while path and path not in self.places:
            path = path[:-1]
        if path not in self.places:
            return InputError(f"{self.name}: {said}")
        line, column = self.places[path]
        if inside and self.lines[line - 1][column - 1 : column] in "\"'":
            column += inside
        return InputError(f"{self.name}, line {line}, column {column}: {said}")


def places(lines: list[str]) -> dict[Place, tuple[int, int]]:
    """Line and column of every table's header and every key's value, both from 1; keys of inline tables too."""
    found: dict[Place, tuple[int, int]] = {}
    table: Place = ()
    for number, line in enumerate(lines, 1):
        header = re.match(r"\s*\[+\s*([\w.\"' -]+?)\s*\]+", line)
        if header and "=" not in line.partition("#")[0]:
            table = _keys(header[1])
            found.setdefault(table, (number, header.start(1) + 1))
            continue
        pair = re.match(r"\s*([\w.\"-]+)\s*=\s*", line)
        if pair:
            path = (*table, *_keys(pair[1]))
            found.setdefault(path, (number, pair.end() + 1))
            if line[pair.end() : pair.end() + 1] == "{":
                for inner in re.finditer(r"[{,]\s*([\w.\"-]+)\s*=\s*", line):
                    found.setdefault((*path, *_keys(inner[1])), (number, inner.end() + 1))
    return found


def _keys(text: str) -> Place:
    return tuple(part.strip().strip("\"'") for part in text.split("."))
