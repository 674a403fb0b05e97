"""The index of a store on disk: one sqlite file in WAL mode, which several processes may write at once."""

import errno
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

# A new schema takes a new name; older results stay readable by older versions.
INDEX = "index-2.sqlite"
SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
    name TEXT PRIMARY KEY, bytes INTEGER NOT NULL, created REAL NOT NULL, sources TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY, file TEXT NOT NULL REFERENCES files (name), position INTEGER,
    kind TEXT NOT NULL, type TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS results_by_file ON results (file);
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, experiment TEXT NOT NULL, parameters TEXT NOT NULL, seeds TEXT NOT NULL,
    theory TEXT NOT NULL, simulations TEXT NOT NULL, created REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS verdicts (run TEXT PRIMARY KEY, verdict TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sweeps (
    id TEXT PRIMARY KEY, record TEXT NOT NULL, state TEXT NOT NULL, created REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS members (
    sweep TEXT NOT NULL, position INTEGER NOT NULL, key TEXT NOT NULL, point INTEGER NOT NULL,
    PRIMARY KEY (sweep, position)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (key TEXT PRIMARY KEY, reason TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS drivers (
    owner TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, beat REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS costs (
    structure TEXT NOT NULL, kind TEXT NOT NULL, seconds REAL NOT NULL, memory REAL NOT NULL,
    PRIMARY KEY (structure, kind)
);
"""
# sqlite takes a limited number of values per statement.
VALUES_AT_ONCE = 500
PATIENCE = 60.0


class Index:
    """Transactions on the index of the store under `root`."""

    def __init__(self, root: Path) -> None:
        self.path = root / INDEX
        until = time.monotonic() + PATIENCE
        with _disk_errors():
            while not self._prepared():
                # Several processes that make one index at once: sqlite does not wait by itself for a change of mode.
                if time.monotonic() > until:
                    raise sqlite3.OperationalError("database is locked")
                time.sleep(0.02)

    def _prepared(self) -> bool:
        """Makes the tables; whether nobody else was in the way."""
        try:
            with closing(self._connect()) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.executescript(SCHEMA)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            return False
        return True

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keeps the index open: whoever closes it last pays for a checkpoint, which many small writes should not."""
        with closing(self._connect()) as connection:
            connection.execute("SELECT count(*) FROM files").fetchone()
            yield

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Reading, in autocommit."""
        with _disk_errors(), closing(self._connect()) as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction, on disk when it ends."""
        with self._transaction("FULL") as connection:
            yield connection

    @contextmanager
    def note(self) -> Iterator[sqlite3.Connection]:
        """One transaction for what may be forgotten in a power cut: claims, costs, signs of life."""
        with self._transaction("NORMAL") as connection:
            yield connection

    @contextmanager
    def _transaction(self, synchronous: str) -> Iterator[sqlite3.Connection]:
        with _disk_errors(), closing(self._connect()) as connection:
            connection.execute(f"PRAGMA synchronous={synchronous}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.execute("COMMIT")


@contextmanager
def _disk_errors() -> Iterator[None]:
    """A full disk is the same error whoever meets it."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "disk is full" in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise


def select_in(connection: sqlite3.Connection, statement: str, values: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Rows of a statement that ends in `IN`, for any number of values."""
    for part in parts(list(values)):
        yield from connection.execute(f"{statement} ({','.join('?' * len(part))})", part)


def parts(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Values in groups that one statement takes."""
    for begin in range(0, len(values), VALUES_AT_ONCE):
        yield values[begin : begin + VALUES_AT_ONCE]
