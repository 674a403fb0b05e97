"""Who computes what: several drivers on one store take work without doing any of it twice."""

import os
import socket
import time
import uuid
from collections.abc import Sequence
from types import TracebackType

from limen.storage.index import Index, parts, select_in

BEAT_EVERY = 2.0
# A driver on another machine that has not been heard of for so long is taken to be dead.
SILENCE = 30.0
# One whose clock says another time than ours is watched for so long: it lives if it is heard of meanwhile.
WATCHED = 5.0 * BEAT_EVERY


class Claims:
    """The claims of one driver, given back when the block ends; those of a dead driver count for nothing."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.owner = uuid.uuid4().hex
        self._beaten_at = float("-inf")
        # What was last heard of each other driver, and when by our own clock that only goes forward.
        self._heard: dict[str, tuple[float, float]] = {}
        self._strange: set[str] = set()

    def __enter__(self) -> "Claims":
        self.beat()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._index.note() as index:
            index.execute("DELETE FROM claims WHERE owner = ?", (self.owner,))
            index.execute("DELETE FROM drivers WHERE owner = ?", (self.owner,))

    def beat(self) -> None:
        """Says that this driver is alive; cheap enough for every turn of a loop."""
        now = time.monotonic()
        if now - self._beaten_at < BEAT_EVERY:
            return
        self._beaten_at = now
        with self._index.note() as index:
            row = (self.owner, socket.gethostname(), os.getpid(), time.time())
            index.execute("INSERT OR REPLACE INTO drivers VALUES (?, ?, ?, ?)", row)

    def take(self, keys: Sequence[str]) -> tuple[set[str], set[str], set[str]]:
        """Claims what nobody has; returns what is ours now, what is already stored, and what others are at."""
        with self._index.note() as index:
            stored = {key for (key,) in select_in(index, "SELECT key FROM results WHERE key IN", keys)}
            held = dict(select_in(index, "SELECT key, owner FROM claims WHERE key IN", keys))
            alive = self._alive(list(index.execute("SELECT owner, host, pid, beat FROM drivers")))
            others = {key for key, owner in held.items() if owner != self.owner and owner in alive} - stored
            ours = [key for key in keys if key not in stored and key not in others]
            index.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?)", [(key, self.owner) for key in ours])
        return set(ours), stored, others

    def _alive(self, drivers: list[tuple[str, str, int, float]]) -> set[str]:
        """Drivers that are at work, as far as can be told without trusting anybody's clock.

        One of this machine is asked for its process. One elsewhere must be heard of again and again; one that says
        another time than ours, past or future, soon.
        """
        now, clock, alive = time.monotonic(), time.time(), set[str]()
        for owner, host, pid, beat in drivers:
            before, since = self._heard.get(owner, (None, now))
            if beat != before:
                self._heard[owner], since = (beat, now), now
                if before is None and abs(clock - beat) >= SILENCE:
                    self._strange.add(owner)
                elif before is not None:
                    self._strange.discard(owner)
            patience = WATCHED if owner in self._strange else SILENCE
            if (host != socket.gethostname() or _runs(pid)) and (owner == self.owner or now - since < patience):
                alive.add(owner)
        return alive

    def release(self, keys: Sequence[str]) -> None:
        """Gives claims back."""
        with self._index.note() as index:
            for part in parts(list(keys)):
                marks = ",".join("?" * len(part))
                index.execute(f"DELETE FROM claims WHERE owner = ? AND key IN ({marks})", (self.owner, *part))


def living_drivers(index: Index) -> int:
    """How many drivers are at work on the store."""
    with index.read() as connection:
        drivers = list(connection.execute("SELECT host, pid, beat FROM drivers"))
    now, here = time.time(), socket.gethostname()
    return sum(abs(now - beat) < SILENCE and (host != here or _runs(pid)) for host, pid, beat in drivers)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
