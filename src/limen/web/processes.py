"""Worker processes seen from the server: tasks go out, messages come in."""

import asyncio
import json
import threading
from contextlib import suppress
from typing import Any

from limen.web.task_loop import serve
from limen.workers.environment import SHARED
from limen.workers.process import WorkerProcess


class Worker(WorkerProcess):
    """One process; `messages` yields (kind, body), or None when the process has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, memory: int) -> None:
        super().__init__(serve, (memory,), SHARED)
        self._loop = loop
        self.messages: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def send(self, task: dict[str, Any]) -> bool:
        """Hands over a task; False if the process has ended."""
        try:
            self.connection.send_bytes(json.dumps(task).encode())
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """Ends the process at once. What it had stored stays."""
        self.kill()
        # A pipe is not closed under the hands of who reads it.
        self._listener.join(5.0)
        self.end(5.0)

    def _listen(self) -> None:
        """In a thread of its own, since reading a pipe blocks."""
        # The loop may be closed when the last words arrive.
        with suppress(RuntimeError):
            try:
                while True:
                    kind, _, body = self.connection.recv_bytes().partition(b"\n")
                    self._loop.call_soon_threadsafe(self.messages.put_nowait, (kind.decode(), body))
            except (EOFError, OSError):
                self._loop.call_soon_threadsafe(self.messages.put_nowait, None)
