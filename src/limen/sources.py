"""What of limen's sources can change a number: a digest that comments, docstrings, layout and the page leave alone."""

import ast
import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import platformdirs

from limen.experiments.registry import OWN, PLACES

PACKAGE = Path(__file__).parent
# These show, keep, compare and hand out what others compute. A room that is not named here counts.
CHANGES_NO_NUMBER = frozenset(
    {
        "cli",
        "web",
        "plot",
        "storage",
        "sweeps",
        "comparison",
        "citations.py",
        "sources.py",
        "machine",
    }
)
GALLERY = "experiments"
SHOWN = frozenset({f"{GALLERY}/{name}.py" for name in ("figure", "number", "default_panels", "curve", "typeset")})
MOST_REMEMBERED = 2000


def source_digest(experiment: str = "", package: Path = PACKAGE) -> str:
    """SHA-256 of the statements that results of an experiment rest on.

    These are every room that computes, and of the gallery the experiment's own file with those it imports there.

    Args:
        experiment: the name of a class of the gallery; any other has its file elsewhere, see `module_digest`.
        package: the folder of limen's sources.
    """
    return _digest(_own_files(experiment, package), package)


def whole_digest(package: Path = PACKAGE) -> str:
    """SHA-256 of the statements of every room that computes and of the whole gallery."""
    gallery = (path.relative_to(package).as_posix() for path in (package / GALLERY).rglob("*.py"))
    return _digest(tuple(sorted(gallery)), package)


def module_digest(module: str) -> str:
    """SHA-256 of the statements of an imported module; empty where its source cannot be read."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return statements_digest(Path(file).read_bytes()) if file and Path(file).is_file() else ""


def statements_digest(source: bytes) -> str:
    """SHA-256 of the syntax tree without docstrings; the same on every version of Python that limen runs on."""
    return hashlib.sha256("".join(_statements(ast.parse(source))).encode()).hexdigest()


@lru_cache
def _own_files(experiment: str, package: Path) -> tuple[str, ...]:
    """The file of an experiment and, through their imports, others of the gallery; figures change no number."""
    place = next((place for place in (PLACES | OWN).values() if place.partition(":")[2] == experiment), None)
    if place is None:
        return ()
    waiting, seen = [f"{GALLERY}/{place.partition(':')[0].replace('.', '/')}.py"], set[str]()
    while waiting:
        file = waiting.pop()
        if file in seen or file in SHOWN or not (package / file).is_file():
            continue
        seen.add(file)
        waiting += _imported(ast.parse((package / file).read_bytes()))
    return tuple(sorted(seen))


def _imported(tree: ast.Module) -> Iterator[str]:
    """Files of the gallery that a module may be importing, by absolute names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"limen.{GALLERY}"):
            folder = node.module.removeprefix("limen.").replace(".", "/")
            yield f"{folder}.py"
            yield from (f"{folder}/{alias.name}.py" for alias in node.names)


@lru_cache
def _digest(own: tuple[str, ...], package: Path) -> str:
    files = {**_computing(package), **{file: (package / file).read_bytes() for file in own}}
    digest = hashlib.sha256()
    for file, statements in sorted(_remembered(files).items()):
        digest.update(f"{file}\n{statements}\n".encode())
    return digest.hexdigest()


@lru_cache(maxsize=4)
def _computing(package: Path) -> dict[str, bytes]:
    """The sources of every room that computes, by their place in the package."""
    outside = CHANGES_NO_NUMBER | {GALLERY}
    paths = (path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in outside)
    return {path.relative_to(package).as_posix(): path.read_bytes() for path in paths}


def _remembered(files: dict[str, bytes]) -> dict[str, str]:
    """`statements_digest` of each file; parsing all of limen takes seconds, so that it is kept in the user's cache."""
    cache = platformdirs.user_cache_path("limen") / "statements.json"
    known: dict[str, str] = {}
    with suppress(OSError, ValueError):
        read = json.loads(cache.read_text())
        known = {str(key): str(value) for key, value in read.items()} if isinstance(read, dict) else {}
    contents = {file: hashlib.sha256(source).hexdigest() for file, source in files.items()}
    new = {contents[file]: statements_digest(files[file]) for file in files if contents[file] not in known}
    if new:
        from limen.result import write_file

        with suppress(OSError):
            cache.parent.mkdir(parents=True, exist_ok=True)
            kept = dict(list(known.items())[-MOST_REMEMBERED:])
            write_file(json.dumps({**kept, **new}).encode(), cache)
    return {file: known.get(content) or new[content] for file, content in contents.items()}


def _statements(node: Any) -> Iterator[str]:
    """A syntax tree as text: names of nodes and their fields, empty ones left out, which differ between Pythons."""
    if isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name in node._fields:
            value = getattr(node, name, None)
            if name == "body" and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                value = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            if value is not None and value != []:
                yield f" {name}="
                yield from _statements(value)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for item in node:
            yield from _statements(item)
            yield ","
        yield "]"
    else:
        yield f"{type(node).__name__}:{node!r}"
