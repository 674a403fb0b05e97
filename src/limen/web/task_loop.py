"""The loop inside a page's worker: it reads tasks from a pipe and answers with messages, each a kind and a body.

The server hands bodies on without reading them. Compiled functions stay warm from task to task.
"""

import json
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from limen.machine.collection import collect_seldom
from limen.workers.inside import bound_memory, follow_parent


def serve(connection: Connection, memory: int) -> None:
    """Answers tasks until the pipe closes; `memory` bounds the address space beyond what the imports take."""
    follow_parent()
    collect_seldom()
    from limen.web.answers import Cancelled
    from limen.web.page_tasks import perform

    bound_memory(memory)

    def send(kind: str, body: bytes) -> None:
        connection.send_bytes(kind.encode() + b"\n" + body)

    def stop_asked() -> bool:
        # While a task runs nothing but a wish to stop is sent.
        return connection.poll() and bool(connection.recv_bytes())

    while True:
        try:
            task = json.loads(connection.recv_bytes())
        except (EOFError, OSError):
            return
        if task["task"] == "cancel":
            # It came when the task was already over.
            continue
        send("began", b"")
        try:
            perform(task, send, stop_asked)
        except Cancelled:
            send("cancelled", b"{}")
        except Exception as error:
            send("failed", json.dumps({"message": _message(error, task)}).encode())


def _message(error: Exception, task: dict[str, Any]) -> str:
    """One sentence; what the visitor did not cause is said without inner details, which go to the server's log."""
    from limen.problem.spec import InputError

    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "This needs more memory than one computation may take: choose smaller sizes."
    print(f"limen web: {task.get('experiment', task.get('task'))} failed", file=sys.stderr)
    traceback.print_exc()
    return f"The computation failed ({type(error).__name__}); other parameters may work."
