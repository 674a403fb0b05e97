"""What files of results say about themselves, and the index that can be made from nothing else."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limen.result import write_file

# The attribute of a file that holds one result; a packed one says the same among its headers.
ENTRY = "limen_entry"
# The fields of a run; everything in them but text is kept as JSON.
RUN = ("experiment", "parameters", "seeds", "theory", "simulations")


@dataclass(frozen=True)
class Entry:
    """What a file holds: the addresses of its results in order, their kind and type, and the sources they rest on."""

    keys: tuple[str, ...]
    kind: str
    type: str
    sources: str
    packed: bool

    def describe(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"keys": list(self.keys), "kind": self.kind, "type": self.type, "sources": self.sources}

    def rows(self, file: str) -> list[tuple[str, str, int | None, str, str]]:
        """The rows of the index for the results of this file."""
        positions: Sequence[int | None] = range(len(self.keys)) if self.packed else [None]
        return [(key, file, at, self.kind, self.type) for key, at in zip(self.keys, positions, strict=True)]


def read_entry(path: Path) -> Entry | None:
    """What a file says of itself; None if it says nothing or cannot be read."""
    import h5py

    from limen.storage.pack import HEADERS

    try:
        with h5py.File(path, "r") as file:
            packed = HEADERS in file
            text = bytes(file[HEADERS][()]).decode() if packed else file.attrs[ENTRY]  # pyright: ignore
        said = json.loads(str(text))
        said = said["entry"] if packed else said
        return Entry(tuple(said["keys"]), said["kind"], said["type"], said["sources"], packed)
    except (OSError, KeyError, ValueError, TypeError, RuntimeError):
        return None


def result_files(root: Path) -> list[Path]:
    """Every file of results, oldest first: where two hold one address, the newer counts."""
    paths = (path for path in (root / "results").glob("*/*.nc") if not path.name.startswith("."))
    stamped = ((path.stat().st_mtime, path) for path in paths)
    return [path for _, path in sorted(stamped)]


def fill(index: sqlite3.Connection, root: Path) -> None:
    """Enters every file, run and sweep that says what it is into an index that has the tables."""
    adopt(index, result_files(root))
    for identifier, run in _records(root / "runs"):
        values = [run[name] if isinstance(run[name], str) else json.dumps(run[name]) for name in RUN]
        index.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", (identifier, *values, run["created"]))
        if run.get("verdict") is not None:
            index.execute("INSERT OR IGNORE INTO verdicts VALUES (?, ?)", (identifier, run["verdict"]))
    for identifier, sweep in _records(root / "sweeps"):
        row = (identifier, json.dumps(sweep["record"], sort_keys=True), "running", sweep["created"])
        index.execute("INSERT OR IGNORE INTO sweeps VALUES (?, ?, ?, ?)", row)


def adopt(index: sqlite3.Connection, paths: Iterable[Path]) -> list[Path]:
    """Enters files into the index as far as they say what they are; returns those that do not."""
    unknown = []
    for path in paths:
        entry = read_entry(path)
        if entry is None:
            unknown.append(path)
            continue
        stat = path.stat()
        row = (path.stem, stat.st_size, stat.st_mtime, entry.sources)
        index.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", row)
        index.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)", entry.rows(path.stem))
    return unknown


def write_record(folder: Path, identifier: str, record: dict[str, Any]) -> None:
    """Keeps what a run or a sweep was beside the results, for an index that has to be made again."""
    folder.mkdir(exist_ok=True)
    write_file(json.dumps(record).encode(), folder / f"{identifier}.json")


def _records(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(folder.glob("*.json")):
        try:
            record = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and "created" in record and ("record" in record or set(RUN) <= set(record)):
            yield path.stem, record
