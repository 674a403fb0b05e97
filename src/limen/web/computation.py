"""A computation that several visitors may share: what was told of it so far, and who is listening."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

LAST = frozenset({"done", "failed", "cancelled", "file"})
HEARTBEAT = 10.0


@dataclass(frozen=True)
class Event:
    """One message, numbered, so that a listener who was away can ask for what came since."""

    number: int
    kind: str
    body: bytes


def key_of(task: dict[str, Any]) -> str:
    """The same for identical requests."""
    return hashlib.sha256(json.dumps(task, sort_keys=True).encode()).hexdigest()


@dataclass(eq=False)
class Computation:
    """A task, its events, and the tickets of those who want it."""

    key: str
    task: dict[str, Any]
    lane: str
    tickets: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    state: str = "queued"
    abandoned_at: float | None = None
    dismissed: bool = False
    _count: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def over(self) -> bool:
        """Whether the last event has been told."""
        return bool(self.events) and self.events[-1].kind in LAST

    @property
    def size(self) -> int:
        """Bytes of everything told."""
        return sum(len(event.body) for event in self.events)

    def tell(self, kind: str, body: bytes = b"{}") -> None:
        """Adds an event. Progress that a newer one replaces is forgotten, and a first look when the theory is there."""
        if self.over:
            return
        if kind in ("theory", *LAST):
            self.events = [event for event in self.events if event.kind != "preliminary"]
        if kind in ("queued", "seeds", *LAST):
            # A newer progress without a picture must not take away the last picture.
            keep = kind == "seeds" and b'"figure"' not in body
            self.events = [
                event
                for event in self.events
                if event.kind not in ("queued", "seeds") or (keep and b'"figure"' in event.body)
            ]
        self._count += 1
        self.events.append(Event(self._count, kind, body))
        if kind in LAST:
            self.state = kind
        self._changed.set()
        self._changed = asyncio.Event()

    def dismiss(self) -> None:
        """Lets everybody who listens go, without a last event: they may ask again elsewhere or later."""
        self.dismissed = True
        self._changed.set()

    async def follow(self, after: int = 0) -> AsyncIterator[Event | None]:
        """Every event numbered above `after`, as they come; None now and then, to notice listeners who left."""
        while True:
            changed = self._changed
            for event in [event for event in self.events if event.number > after]:
                after = event.number
                yield event
            if self.over or self.dismissed:
                return
            try:
                await asyncio.wait_for(changed.wait(), HEARTBEAT)
            except TimeoutError:
                yield None


@dataclass(eq=False)
class Ticket:
    """One visitor's interest in a computation; without an open stream it lapses after a while."""

    identifier: str
    computation: Computation
    streams: int = 0
    listened: bool = False
    seen: float = field(default_factory=time.monotonic)
