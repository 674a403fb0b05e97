"""The index of a store on disk: one sqlite file in WAL mode, which several processes may write at once."""

import errno
import os
import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from limen.problem.spec import InputError
from limen.storage.self_description import fill

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
# The user_version of an index that knows all files that were there when it was made.
FILLED = 1
LARGEST_CHECKED = 64e6
DAMAGE = ("malformed", "not a database", "decode to UTF-8", "no such table", "no such column", "file is encrypted")


class DamagedIndex(InputError):
    """The index cannot be read; the files of results can, and say what they are."""

    def __init__(self, root: Path) -> None:
        super().__init__(
            f"the index of the store {str(root)!r} is damaged: `limen store repair` makes it again from the files, "
            "which are untouched."
        )


class Index:
    """Transactions on the index of the store under `root`.

    An index that is not there is made from the files of the store, which say what they hold; one that is damaged is set
    aside first, with a warning. Where the store cannot be written, its index is opened for reading alone.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.path = root, root / INDEX
        self.read_only = False
        try:
            self._prepare()
        except (OSError, sqlite3.OperationalError) as error:
            if not (self.path.is_file() and _forbids_writing(error)):
                raise
            self.read_only = True
            self._look()

    def _prepare(self) -> None:
        (self.root / "results").mkdir(parents=True, exist_ok=True)
        with _errors(self.root):
            if self._damaged():
                self.rebuild("was damaged")
            self._make()

    def _make(self) -> None:
        until = time.monotonic() + PATIENCE
        while not self._prepared():
            # Several processes that make one index at once: sqlite does not wait by itself for a change of mode.
            if time.monotonic() > until:
                raise sqlite3.OperationalError("database is locked")
            time.sleep(0.02)

    def _prepared(self) -> bool:
        """Makes the tables and fills them from the files, once; whether nobody else was in the way."""
        try:
            with closing(self._open()) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                if connection.execute("PRAGMA user_version").fetchone()[0] == FILLED:
                    return True
                connection.execute("BEGIN IMMEDIATE")
                if connection.execute("PRAGMA user_version").fetchone()[0] != FILLED:
                    for statement in SCHEMA.split(";"):
                        connection.execute(statement)
                    fill(connection, self.root)
                    connection.execute(f"PRAGMA user_version={FILLED}")
                connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            return False
        return True

    def rebuild(self, why: str = "") -> None:
        """Sets the index aside and makes it again from the files of the store; one process at a time.

        With a reason `why`, only if it is still damaged, and with a warning.
        """
        with _alone(self.root):
            if why and not self._damaged():
                # Another process was faster.
                return
            aside = self.root / f"{INDEX}.{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.damaged"
            for ending in ("", "-wal", "-shm"):
                if Path(f"{self.path}{ending}").exists():
                    os.replace(f"{self.path}{ending}", f"{aside}{ending}")
            self._make()
        if why:
            warnings.warn(
                f"the index of the store {why}; it was set aside as {aside.name} and made again from the files",
                stacklevel=6,
            )

    def _damaged(self) -> bool:
        """Whether sqlite finds something wrong with the index; a large one is found out when it is read."""
        if not self.path.is_file() or self.path.stat().st_size > LARGEST_CHECKED:
            return False
        try:
            with closing(self._open()) as connection:
                return connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok"
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if _is_damage(error):
                return True
            raise

    def _look(self) -> None:
        with self.read() as connection:
            connection.execute("SELECT count(*) FROM files").fetchone()

    def _open(self) -> sqlite3.Connection:
        if self.read_only:
            # Nothing but reading: sqlite cannot make its own files beside the index here.
            return sqlite3.connect(f"{self.path.resolve().as_uri()}?immutable=1", uri=True, isolation_level=None)
        return sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)

    def _connect(self) -> sqlite3.Connection:
        if not self.path.exists():
            self._prepare()
        return self._open()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keeps the index open: whoever closes it last pays for a checkpoint, which many small writes should not."""
        with _errors(self.root), closing(self._connect()) as connection:
            connection.execute("SELECT count(*) FROM files").fetchone()
            yield

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Reading, in autocommit."""
        with _errors(self.root), closing(self._connect()) as connection:
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
        if self.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self.path))
        with _errors(self.root), closing(self._connect()) as connection:
            connection.execute(f"PRAGMA synchronous={synchronous}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.execute("COMMIT")


@contextmanager
def _errors(root: Path) -> Iterator[None]:
    """A full disk is the same error whoever meets it, and a damaged index one sentence."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if "disk is full" in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        if "disk I/O error" in str(error):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(root / INDEX)) from error
        if _is_damage(error):
            raise DamagedIndex(root) from error
        raise


def _is_damage(error: Exception) -> bool:
    return isinstance(error, UnicodeDecodeError) or any(words in str(error) for words in DAMAGE)


def _forbids_writing(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
    return "readonly" in str(error) or "unable to open" in str(error)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """One process at a time, where the system has locks that end with their process."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(root / "repair.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def select_in(connection: sqlite3.Connection, statement: str, values: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Rows of a statement that ends in `IN`, for any number of values."""
    for part in parts(list(values)):
        yield from connection.execute(f"{statement} ({','.join('?' * len(part))})", part)


def parts(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Values in groups that one statement takes."""
    for begin in range(0, len(values), VALUES_AT_ONCE):
        yield values[begin : begin + VALUES_AT_ONCE]
