"""A store on disk: netCDF files named by their content, indexed in sqlite; safe for several processes at once."""

import hashlib
import json
import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import platformdirs
import xarray as xr

from limen.problem.spec import InputError
from limen.result import Result, load, netcdf, write_file
from limen.sources import source_digest
from limen.storage.index import DamagedIndex, Index, parts, select_in
from limen.storage.pack import pack, signature, unpack
from limen.storage.self_description import ENTRY, RUN, Entry, write_record

RUNS = (
    "SELECT id, experiment, parameters, seeds, theory, simulations, created, verdict "
    "FROM runs LEFT JOIN verdicts ON run = id"
)


def default_root() -> Path:
    """`LIMEN_STORE`, else the user's data folder."""
    return Path(os.environ.get("LIMEN_STORE") or platformdirs.user_data_path("limen"))


class FileStore:
    """Results by address under one folder.

    Results put together share a file. A file is written beside its place, flushed, renamed to the SHA-256 of its
    content, and only then entered in the index; a file whose content does not match its name is set aside in
    `quarantine/`, reported, and treated as absent.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self.root = Path(root) if root is not None else default_root()
        try:
            self.index = Index(self.root)
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"the store {str(self.root)!r} cannot be used: {error}.") from None
        self._told = False

    def path(self, file: str) -> Path:
        """Where a file of results lies."""
        return self.root / "results" / file[:2] / f"{file}.nc"

    def has(self, keys: Iterable[str]) -> set[str]:
        """Those of the addresses that the index knows."""
        with self.index.read() as index:
            return {key for (key,) in select_in(index, "SELECT key FROM results WHERE key IN", keys)}

    def get(self, keys: Iterable[str]) -> dict[str, Result]:
        """The results at these addresses; one that is not there, or whose file is damaged, is left out."""
        with self.index.read() as index:
            rows = list(select_in(index, "SELECT key, file, position FROM results WHERE key IN", keys))
        opened: dict[str, Callable[[int | None], Result] | None] = {}
        found: dict[str, Result] = {}
        for key, file, position in rows:
            if file not in opened:
                opened[file] = self._open(file, position is not None)
            take = opened[file]
            if take is not None:
                found[key] = take(position)
        return found

    def put(self, results: Mapping[str, Result]) -> None:
        """Keeps results durably; those already there are replaced. A store that cannot be written says so once."""
        if self.index.read_only:
            if not self._told:
                warnings.warn(f"the store {str(self.root)!r} is read-only: new results are not kept", stacklevel=3)
            self._told = True
            return
        together: dict[tuple[Any, ...], list[str]] = {}
        for key, result in results.items():
            together.setdefault(signature(result), []).append(key)
        entries: list[tuple[str, str, int | None, str, str]] = []
        files: list[tuple[str, int, float, str]] = []
        for keys in together.values():
            first = results[keys[0]]
            kind, packed = str(first.spec.get("type", "")), len(keys) > 1
            entry = Entry(tuple(keys), first.kind, kind, source_digest(kind), packed)
            if packed:
                whole = pack([results[key] for key in keys], entry.describe())
            else:
                whole = first.as_dataset().assign_attrs({ENTRY: json.dumps(entry.describe())})
            file, size = self._write(whole)
            files.append((file, size, time.time(), entry.sources))
            entries += entry.rows(file)
        keys = list(results)
        with self.index.write() as index:
            replaced = {file for (file,) in select_in(index, "SELECT file FROM results WHERE key IN", keys)}
            index.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", files)
            index.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)", entries)
            for part in parts(keys):
                marks = ",".join("?" * len(part))
                index.execute(f"DELETE FROM failures WHERE key IN ({marks})", part)
                index.execute(f"DELETE FROM claims WHERE key IN ({marks})", part)
        if replaced:
            self._drop_unused(replaced)

    def _write(self, dataset: xr.Dataset) -> tuple[str, int]:
        """Writes, flushes and renames a file; returns its name, the SHA-256 of its content, and its size."""
        content = netcdf(dataset)
        file = hashlib.sha256(content).hexdigest()
        path = self.path(file)
        path.parent.mkdir(exist_ok=True)
        write_file(content, path)
        _flush_folder(path.parent)
        return file, len(content)

    def _open(self, file: str, packed: bool) -> Callable[[int | None], Result] | None:
        if not self.check(file):
            return None
        if not packed:
            whole = load(self.path(file))
            whole.dataset.attrs.pop(ENTRY, None)
            return lambda position: whole
        with xr.open_dataset(self.path(file), engine="h5netcdf") as opened:
            at = unpack(opened.load())
        return lambda position: at(position or 0)

    def check(self, file: str) -> bool:
        """Whether a file is as it was written; a damaged one is set aside, and a lost one forgotten."""
        path = self.path(file)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            self._forget(file)
            return False
        if hashlib.sha256(content).hexdigest() == file:
            return True
        if self.index.read_only:
            warnings.warn(f"the stored result {path.name} is damaged, and left as it is: read-only", stacklevel=4)
            return False
        aside = self.root / "quarantine" / path.name
        try:
            aside.parent.mkdir(exist_ok=True)
        except FileExistsError:
            # Somebody else's file has that name.
            aside = path.with_suffix(".damaged")
        os.replace(path, aside)
        self._forget(file)
        warnings.warn(
            f"a stored result was damaged, set aside as {aside.name} and will be computed again", stacklevel=4
        )
        return False

    def files_of(self, keys: Iterable[str]) -> list[str]:
        """The files that hold these addresses."""
        with self.index.read() as index:
            return sorted({file for (file,) in select_in(index, "SELECT file FROM results WHERE key IN", keys)})

    def _forget(self, file: str) -> None:
        if self.index.read_only:
            return
        with self.index.write() as index:
            index.execute("DELETE FROM results WHERE file = ?", (file,))
            index.execute("DELETE FROM files WHERE name = ?", (file,))

    def _drop_unused(self, files: Iterable[str]) -> None:
        """Removes files whose results have all been replaced."""
        with self.index.write() as index:
            used = {file for (file,) in select_in(index, "SELECT file FROM results WHERE file IN", files)}
            unused = [file for file in files if file not in used]
            index.executemany("DELETE FROM files WHERE name = ?", [(file,) for file in unused])
        for file in unused:
            self.path(file).unlink(missing_ok=True)

    def keys(self) -> list[str]:
        """Every address, sorted."""
        with self.index.read() as index:
            return [key for (key,) in index.execute("SELECT key FROM results ORDER BY key")]

    def put_run(self, identifier: str, run: dict[str, Any], verdict: str | None = None) -> None:
        """Remembers a run: experiment, parameters, seeds, the addresses of its results, and its verdict if any."""
        if self.index.read_only:
            return
        created = time.time()
        values = [run[name] if isinstance(run[name], str) else json.dumps(run[name]) for name in RUN]
        with self.index.write() as index:
            index.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", (identifier, *values, created))
            if verdict is not None:
                index.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", (identifier, verdict))
        write_record(self.root / "runs", identifier, {**run, "created": created, "verdict": verdict})

    def find_run(self, identifier: str) -> tuple[str, dict[str, Any]]:
        """A remembered run by its identifier or a unique beginning of it."""
        if not identifier:
            raise InputError("the identifier of a run is empty: give the first letters of one.")
        with self.index.read() as index:
            rows = index.execute(f"{RUNS} WHERE substr(id, 1, ?) = ?", (len(identifier), identifier)).fetchall()
        if len(rows) != 1:
            found = "no stored run" if not rows else f"{len(rows)} stored runs"
            begin = "begins" if len(rows) < 2 else "begin"
            raise InputError(f"{found} {begin} with {identifier!r}.")
        return self._run(rows[0])

    def latest_runs(self, experiments: Iterable[str], most: int) -> list[tuple[str, dict[str, Any]]]:
        """The newest runs of these experiments whose theory is still there, newest first."""
        names = list(experiments)
        among = f"experiment IN ({','.join('?' * len(names))}) AND theory IN (SELECT key FROM results)"
        with self.index.read() as index:
            rows = index.execute(f"{RUNS} WHERE {among} ORDER BY created DESC LIMIT ?", (*names, most)).fetchall()
        return [self._run(row) for row in rows]

    def _run(self, row: tuple[Any, ...]) -> tuple[str, dict[str, Any]]:
        identifier, experiment, parameters, seeds, theory, simulations, created, verdict = row
        try:
            return identifier, {
                "experiment": experiment,
                "parameters": json.loads(parameters),
                "seeds": json.loads(seeds),
                "theory": theory,
                "simulations": json.loads(simulations),
                "created": created,
                "verdict": verdict,
            }
        except (ValueError, TypeError):
            raise DamagedIndex(self.root) from None


def _flush_folder(folder: Path) -> None:
    """Makes a renaming durable, where folders can be flushed."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
