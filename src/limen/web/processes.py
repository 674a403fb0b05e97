"""Worker processes seen from the server: started by spawn, spoken to through pipes, ended when they must."""

import asyncio
import json
import os
import threading
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from limen.web.worker import serve


class Worker:
    """One process; `messages` yields (kind, body), or None when the process has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, memory: int) -> None:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        self._connection: Connection = ours
        self._process = context.Process(target=serve, args=(theirs, memory), name="limen-web-worker", daemon=True)
        self._process.start()
        theirs.close()
        self._loop = loop
        self.messages: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def identifier(self) -> int | None:
        """The process's number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.is_alive()

    def send(self, task: dict[str, Any]) -> bool:
        """Hands over a task; False if the process has ended."""
        try:
            self._connection.send_bytes(json.dumps(task).encode())
        except OSError:
            return False
        return True

    def end(self) -> None:
        """Ends the process at once. What it had stored stays."""
        self._process.kill()
        self._process.join(5.0)

    def memory(self) -> int:
        """Bytes of memory the process holds, 0 where the system does not tell."""
        try:
            with open(f"/proc/{self.identifier}/statm") as statm:
                return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            return 0

    def _listen(self) -> None:
        """In a thread of its own, since reading a pipe blocks."""
        # The loop may be closed when the last words arrive.
        with suppress(RuntimeError):
            try:
                while True:
                    kind, _, body = self._connection.recv_bytes().partition(b"\n")
                    self._loop.call_soon_threadsafe(self.messages.put_nowait, (kind.decode(), body))
            except (EOFError, OSError):
                self._loop.call_soon_threadsafe(self.messages.put_nowait, None)
            finally:
                self._connection.close()
