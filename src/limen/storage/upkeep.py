"""Keeping a store healthy: what it holds, whether it is intact, and throwing away what no one can reach."""

import sqlite3
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from limen.sources import source_digest
from limen.storage.claims import SILENCE, living_drivers
from limen.storage.file_store import FileStore
from limen.storage.self_description import adopt, read_entry, result_files

# A file newer than this may be on its way into the index.
SETTLED = 3600.0


@dataclass(frozen=True)
class StoreInfo:
    """What a store holds; `outdated` results were made by other versions of limen's sources."""

    path: str
    results: int
    outdated: int
    files: int
    bytes: int
    runs: int
    sweeps: int
    failures: int
    quarantined: int
    drivers: int

    def describe(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Verification:
    """How many files were read, how many results their damage or loss costs, and the names of the damaged.

    `found_results` were in files that the index did not know; `unknown` files do not say what they are.
    """

    files: int
    lost_results: int
    damaged: tuple[str, ...]
    found_results: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class Repair:
    """What an index that was made again knows; `unknown` files do not say what they are, and are left alone."""

    results: int
    files: int
    runs: int
    sweeps: int
    unknown: int


@dataclass(frozen=True)
class Removal:
    """What was, or would be, thrown away; `unknown` files do not say what they are, and are left where they lie."""

    results: int
    files: int
    bytes: int
    unknown: int = 0


def info(store: FileStore) -> StoreInfo:
    """Counts of everything in the store."""
    with store.index.read() as index:

        def count(statement: str, *values: str) -> int:
            return int(index.execute(f"SELECT {statement}", values).fetchone()[0] or 0)

        outdated = sum(number for _, number in _outdated(index))
        return StoreInfo(
            path=str(store.root),
            results=count("count(*) FROM results"),
            outdated=outdated,
            files=count("count(*) FROM files"),
            bytes=count("sum(bytes) FROM files"),
            runs=count("count(*) FROM runs"),
            sweeps=count("count(*) FROM sweeps"),
            failures=count("count(*) FROM failures"),
            quarantined=len(_quarantined(store)),
            drivers=living_drivers(store.index),
        )


def verify(store: FileStore) -> Verification:
    """Reads every file; damaged ones are set aside and lost ones forgotten, to be computed again when wanted."""
    before = len(store.keys())
    with store.index.read() as index:
        files = [file for (file,) in index.execute("SELECT name FROM files ORDER BY name")]
    damaged = tuple(file for file in files if not store.check(file))
    left = len(store.keys())
    unknown = _adopt(store, [path for path in _strays(store) if store.check(path.stem)])
    return Verification(len(files), before - left, damaged, len(store.keys()) - left, len(unknown))


def repair(store: FileStore) -> Repair:
    """Makes the index again from the files of the store, which say what they hold; the old one is set aside."""
    store.index.rebuild()
    found = info(store)
    unknown = sum(read_entry(path) is None for path in result_files(store.root))
    return Repair(found.results, found.files, found.runs, found.sweeps, unknown)


def collect_garbage(store: FileStore, keep_outdated: bool = False, dry_run: bool = False) -> Removal:
    """Removes results of other versions of limen's sources, files that others have replaced, and the quarantine.

    A file that the index does not know is entered if it says what it holds, and otherwise left where it lies. One
    younger than an hour may be on its way into the index.
    """
    strays = _strays(store)
    replaced = [path for path in strays if _replaced(store, path)]
    rest = [path for path in strays if path not in replaced]
    unknown = [path for path in rest if read_entry(path) is None] if dry_run else _adopt(store, rest)
    with store.index.read() as index:
        old = [] if keep_outdated else _outdated(index)
    outdated, results = [file for file, _ in old], sum(number for _, number in old)
    halves = [path for path in (store.root / "results").rglob(".limen-*") if _settled(path)]
    there = [path for path in map(store.path, outdated) if path.exists()]
    doomed = [*there, *replaced, *halves, *_quarantined(store)]
    removal = Removal(results, len(doomed), sum(path.stat().st_size for path in doomed), len(unknown))
    if dry_run:
        return removal
    with store.index.write() as index:
        index.executemany("DELETE FROM results WHERE file = ?", [(file,) for file in outdated])
        index.executemany("DELETE FROM files WHERE name = ?", [(file,) for file in outdated])
        index.execute("DELETE FROM drivers WHERE abs(beat - ?) > ?", (time.time(), 10.0 * SILENCE))
        index.execute("DELETE FROM claims WHERE owner NOT IN (SELECT owner FROM drivers)")
        if not keep_outdated:
            wanted = "SELECT key FROM members"
            index.execute(f"DELETE FROM failures WHERE key NOT IN ({wanted})")
    for path in doomed:
        path.unlink(missing_ok=True)
    with store.index.read() as index:
        index.execute("VACUUM")
    return removal


def _outdated(index: sqlite3.Connection) -> list[tuple[str, int]]:
    """Files whose sources are not the present ones of their experiment, each with the number of its results."""
    rows = index.execute(
        "SELECT name, sources, coalesce(type, ''), count(key) FROM files LEFT JOIN results ON file = name GROUP BY name"
    )
    return [(file, number) for file, sources, kind, number in rows if sources != source_digest(kind)]


def _strays(store: FileStore) -> list[Path]:
    """Files of results that the index does not know, and that are not just on their way into it."""
    with store.index.read() as index:
        known = {file for (file,) in index.execute("SELECT name FROM files")}
    return [path for path in result_files(store.root) if path.stem not in known and _settled(path)]


def _replaced(store: FileStore, path: Path) -> bool:
    """Whether every result of a file is known to lie in another."""
    entry = read_entry(path)
    return entry is not None and store.has(entry.keys) == set(entry.keys)


def _adopt(store: FileStore, paths: list[Path]) -> list[Path]:
    """Enters files into the index; returns those that do not say what they are."""
    wanted = [path for path in paths if not _replaced(store, path)]
    if not wanted or store.index.read_only:
        return [path for path in wanted if read_entry(path) is None]
    with store.index.write() as index:
        return adopt(index, wanted)


def _quarantined(store: FileStore) -> list[Path]:
    aside = [*(store.root / "quarantine").glob("*.nc"), *(store.root / "results").glob("*/*.damaged")]
    return sorted([*aside, *store.root.glob("index-*.damaged*")])


def _settled(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > SETTLED
