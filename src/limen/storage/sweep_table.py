"""Sweeps as the store knows them: what they ask for, how far they are, what failed and why."""

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limen.experiments.registry import PLACES
from limen.problem.spec import InputError
from limen.sources import source_digest
from limen.storage.index import DamagedIndex, Index, select_in
from limen.storage.self_description import write_record


@dataclass(frozen=True)
class StoredSweep:
    """A sweep in the store: its record, its state (`running`, `cancelled`, `finished`), and when it was first asked."""

    identifier: str
    record: dict[str, Any]
    state: str
    created: float


@dataclass(frozen=True)
class Counts:
    """How many there are, how many are done, failed, and neither."""

    total: int
    done: int
    failed: int

    @property
    def missing(self) -> int:
        """Neither done nor failed."""
        return self.total - self.done - self.failed

    def describe(self) -> dict[str, int]:
        """Plain data for JSON."""
        return {"total": self.total, "done": self.done, "failed": self.failed, "missing": self.missing}


def put_sweep(index: Index, identifier: str, record: Mapping[str, Any], members: Sequence[tuple[str, int]]) -> None:
    """Remembers a sweep and the addresses it wants, each with the number of its grid point."""
    created = time.time()
    with index.write() as connection:
        connection.execute(
            "INSERT INTO sweeps VALUES (?, ?, 'running', ?) "
            "ON CONFLICT (id) DO UPDATE SET state = 'running', record = excluded.record",
            (identifier, _with_sources(record), created),
        )
        _put_members(connection, identifier, members)
    write_record(index.root / "sweeps", identifier, {"record": {**record}, "created": created})


def renew_members(index: Index, identifier: str, members: Sequence[tuple[str, int]]) -> None:
    """The addresses of a sweep as they are now: other sources of limen have others, an index made again has none."""
    if index.read_only:
        return
    with index.write() as connection:
        first = connection.execute("SELECT key FROM members WHERE sweep = ? AND position = 0", (identifier,)).fetchone()
        if first is None or first[0] != members[0][0]:
            (record,) = connection.execute("SELECT record FROM sweeps WHERE id = ?", (identifier,)).fetchone()
            record = _with_sources(json.loads(record))
            connection.execute("UPDATE sweeps SET record = ? WHERE id = ?", (record, identifier))
            _put_members(connection, identifier, members)


def _with_sources(record: Mapping[str, Any]) -> str:
    """A record as it is kept: beside what is asked, the sources whose addresses the members are."""
    return json.dumps({**record, "sources": _sources(record)}, sort_keys=True)


def _sources(record: Mapping[str, Any]) -> str:
    reference: str = record["experiment"]
    return source_digest(PLACES.get(reference, reference).partition(":")[2])


def _put_members(connection: sqlite3.Connection, identifier: str, members: Sequence[tuple[str, int]]) -> None:
    connection.execute("DELETE FROM members WHERE sweep = ?", (identifier,))
    connection.executemany(
        "INSERT INTO members VALUES (?, ?, ?, ?)",
        ((identifier, position, key, point) for position, (key, point) in enumerate(members)),
    )


def set_state(index: Index, identifier: str, state: str) -> None:
    """Marks a sweep as running, cancelled or finished."""
    with index.write() as connection:
        connection.execute("UPDATE sweeps SET state = ? WHERE id = ?", (state, identifier))


def state_of(index: Index, identifier: str) -> str:
    """The state of a sweep; empty if there is no such sweep."""
    with index.read() as connection:
        row = connection.execute("SELECT state FROM sweeps WHERE id = ?", (identifier,)).fetchone()
    return row[0] if row else ""


def stored_sweeps(index: Index) -> list[StoredSweep]:
    """Every sweep, newest first."""
    with index.read() as connection:
        rows = connection.execute("SELECT id, record, state, created FROM sweeps ORDER BY created DESC").fetchall()
    try:
        return [
            StoredSweep(identifier, _read(record), state, float(created)) for identifier, record, state, created in rows
        ]
    except (ValueError, TypeError):
        raise DamagedIndex(index.root) from None


def _read(record: str) -> dict[str, Any]:
    read = json.loads(record)
    if not (isinstance(read, dict) and isinstance(read.get("grid"), dict) and isinstance(read.get("experiment"), str)):
        raise ValueError
    return read


def find_sweep(index: Index, identifier: str) -> StoredSweep:
    """A sweep by its identifier or a unique beginning of it."""
    if not identifier:
        raise InputError("the identifier of a sweep is empty: give the first letters of one.")
    found = [sweep for sweep in stored_sweeps(index) if sweep.identifier.startswith(identifier)]
    if len(found) != 1:
        raise InputError(f"{'no sweep begins' if not found else f'{len(found)} sweeps begin'} with {identifier!r}.")
    return found[0]


def counts(index: Index, identifier: str) -> tuple[Counts, Counts]:
    """Progress of a sweep: in grid points (done when all their results are there), and in results.

    Results of other versions of limen's sources do not count.
    """
    with index.read() as connection:
        record = _read(connection.execute("SELECT record FROM sweeps WHERE id = ?", (identifier,)).fetchone()[0])
        rows = connection.execute(
            "SELECT count(*), sum(file IS NOT NULL), sum(file IS NULL AND failures.key IS NOT NULL) "
            "FROM members LEFT JOIN results USING (key) "
            "LEFT JOIN failures ON failures.key = members.key WHERE sweep = ? GROUP BY point",
            (identifier,),
        ).fetchall()
    if record.get("sources") != _sources(record):
        rows = [(number, 0, 0) for number, *_ in rows]
    results = Counts(sum(row[0] for row in rows), sum(row[1] for row in rows), sum(row[2] for row in rows))
    return Counts(len(rows), sum(row[1] == row[0] for row in rows), sum(row[2] > 0 for row in rows)), results


def put_failures(index: Index, reasons: Mapping[str, str]) -> None:
    """Remembers why results could not be had; forgotten when they are."""
    now = time.time()
    with index.write() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", [(key, reason, now) for key, reason in reasons.items()]
        )


def failures(index: Index, keys: Iterable[str], since: float = 0.0) -> dict[str, str]:
    """Reasons by address, of failures not older than `since`."""
    with index.read() as connection:
        rows = list(select_in(connection, "SELECT key, reason, created FROM failures WHERE key IN", keys))
    return {key: reason for key, reason, created in rows if created >= since}


def put_costs(index: Index, costs: Mapping[tuple[str, str], tuple[float, float]]) -> None:
    """Remembers seconds per result and memory in bytes, by structure and kind, for estimates."""
    with index.note() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO costs VALUES (?, ?, ?, ?)",
            [(structure, kind, seconds, memory) for (structure, kind), (seconds, memory) in costs.items()],
        )


def costs(index: Index) -> dict[tuple[str, str], tuple[float, float]]:
    """Seconds per result and memory in bytes, by structure and kind."""
    with index.read() as connection:
        rows = connection.execute("SELECT structure, kind, seconds, memory FROM costs").fetchall()
    return {(structure, kind): (seconds, memory) for structure, kind, seconds, memory in rows}
