"""A store on disk: one netCDF file per result, indexed in sqlite; safe for several processes at once."""

import hashlib
import json
import os
import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs

from limen.problem.spec import InputError
from limen.result import Result, load, merge

_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, digest TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY, file TEXT NOT NULL REFERENCES files (name), position INTEGER,
    kind TEXT NOT NULL, type TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS results_by_file ON results (file);
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, experiment TEXT NOT NULL, parameters TEXT NOT NULL, seeds TEXT NOT NULL,
    theory TEXT NOT NULL, simulations TEXT NOT NULL, created REAL NOT NULL
);
"""
# sqlite takes a limited number of values per statement.
KEYS_AT_ONCE = 500
# A new schema takes a new name; older results stay readable by older versions.
INDEX = "index-1.sqlite"


def default_root() -> Path:
    """`LIMEN_STORE`, else the user's data folder."""
    return Path(os.environ.get("LIMEN_STORE") or platformdirs.user_data_path("limen"))


class FileStore:
    """Results by address under one folder.

    Results put together share a file (seeds of one simulation, stacked along `seed`). A file is written beside its
    place, flushed, renamed, and only then entered in the index with its SHA-256; a file whose content does not match
    is set aside in `quarantine/`, reported, and treated as absent.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self.root = Path(root) if root is not None else default_root()
        try:
            (self.root / "results").mkdir(parents=True, exist_ok=True)
            with self._index() as index:
                index.execute("PRAGMA journal_mode=WAL")
                index.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"the store {str(self.root)!r} cannot be used: {error}.") from None

    @contextmanager
    def _index(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.root / INDEX, timeout=30.0)) as connection, connection:
            yield connection

    def path(self, file: str) -> Path:
        """Where a file of results lies."""
        return self.root / "results" / file[:2] / f"{file}.nc"

    def get(self, keys: Iterable[str]) -> dict[str, Result]:
        """The results at these addresses; one that is not there, or whose file is damaged, is left out."""
        wanted = list(keys)
        rows: list[tuple[str, str, int | None, str]] = []
        with self._index() as index:
            for begin in range(0, len(wanted), KEYS_AT_ONCE):
                part = wanted[begin : begin + KEYS_AT_ONCE]
                rows += index.execute(
                    "SELECT key, file, position, digest FROM results JOIN files ON file = name "
                    f"WHERE key IN ({','.join('?' * len(part))})",
                    part,
                )
        loaded: dict[str, Result | None] = {}
        found: dict[str, Result] = {}
        for key, file, position, digest in rows:
            if file not in loaded:
                loaded[file] = self._load(file, digest)
            result = loaded[file]
            if result is not None:
                found[key] = result if position is None else _seed_of(result, position)
        return found

    def put(self, results: Mapping[str, Result]) -> None:
        """Keeps results durably; those already there are replaced."""
        together: dict[tuple[str, bool, str, bool], list[str]] = {}
        for key, result in results.items():
            stackable = result.kind == "simulation" and "seed" in result.dataset.dims
            group = (result.kind, result.ok, result.status, stackable)
            together.setdefault(group if stackable else (*group[:3], False), []).append(key)
        for (_, _, _, stackable), keys in together.items():
            if stackable:
                self._write(keys, merge([results[key] for key in keys]), list(range(len(keys))))
            else:
                for key in keys:
                    self._write([key], results[key], [None])

    def _write(self, keys: list[str], result: Result, positions: Sequence[int | None]) -> None:
        file = hashlib.sha256("".join(keys).encode()).hexdigest()
        path = self.path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        result.save(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        kind, type_name = result.kind, str(result.spec.get("type", ""))
        with self._index() as index:
            index.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (file, digest, time.time()))
            index.executemany(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)",
                [(key, file, position, kind, type_name) for key, position in zip(keys, positions, strict=True)],
            )

    def _load(self, file: str, digest: str) -> Result | None:
        path = self.path(file)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            self._forget(file)
            return None
        if hashlib.sha256(content).hexdigest() == digest:
            return load(path)
        aside = self.root / "quarantine" / path.name
        aside.parent.mkdir(exist_ok=True)
        os.replace(path, aside)
        self._forget(file)
        warnings.warn(
            f"a stored result was damaged, set aside as {aside.name} and will be computed again", stacklevel=3
        )
        return None

    def _forget(self, file: str) -> None:
        with self._index() as index:
            index.execute("DELETE FROM results WHERE file = ?", (file,))
            index.execute("DELETE FROM files WHERE name = ?", (file,))

    def keys(self) -> list[str]:
        """Every address, sorted."""
        with self._index() as index:
            return [key for (key,) in index.execute("SELECT key FROM results ORDER BY key")]

    def put_run(self, identifier: str, run: dict[str, Any]) -> None:
        """Remembers a run: experiment, parameters, seeds, and the addresses of its results."""
        names = ("experiment", "parameters", "seeds", "theory", "simulations")
        values = [run[name] if isinstance(run[name], str) else json.dumps(run[name]) for name in names]
        with self._index() as index:
            index.execute(
                "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", (identifier, *values, time.time())
            )

    def find_run(self, identifier: str) -> tuple[str, dict[str, Any]]:
        """A remembered run by its identifier or a unique beginning of it."""
        with self._index() as index:
            rows = index.execute(
                "SELECT * FROM runs WHERE substr(id, 1, ?) = ?", (len(identifier), identifier)
            ).fetchall()
        if len(rows) != 1:
            found = "no stored run" if not rows else f"{len(rows)} stored runs"
            raise InputError(f"{found} begins with {identifier!r}.")
        key, experiment, parameters, seeds, theory, simulations, created = rows[0]
        return key, {
            "experiment": experiment,
            "parameters": json.loads(parameters),
            "seeds": json.loads(seeds),
            "theory": theory,
            "simulations": json.loads(simulations),
            "created": created,
        }


def _seed_of(result: Result, position: int) -> Result:
    """One seed of a stacked simulation."""
    return replace(result, dataset=result.dataset.isel(seed=[position]), seeds=(result.seeds[position],))
