"""A process that computes: it reads tasks from a pipe and answers with messages, each a kind and a body.

The server hands bodies on without reading them. Compiled functions stay warm from task to task.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

FOLLOW_EVERY = 1.0
ROOM = 2**30


def serve(connection: Connection, memory: int) -> None:
    """Answers tasks until the pipe closes; `memory` bounds the address space beyond what the imports take."""
    # Read before jax and equinox are imported: lets jax cache compiled solves, whose status limen reads itself.
    os.environ.setdefault("EQX_ON_ERROR", "nan")
    # Threads of the linear algebra wait for each other longer than the small matrices of a theory take.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    # Ctrl-C reaches the whole group of processes; the server ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    from limen.web.tasks import Cancelled, perform

    _bound_memory(memory)

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


def _end_with_parent(parent: int) -> None:
    """A worker whose server is gone must not go on computing."""
    while os.getppid() == parent:
        time.sleep(FOLLOW_EVERY)
    os._exit(1)


def _bound_memory(memory: int) -> None:
    try:
        import resource

        with open("/proc/self/statm") as statm:
            now = int(statm.read().split()[0]) * resource.getpagesize()
        # Threads reserve address space that they never touch, hence some room.
        resource.setrlimit(resource.RLIMIT_AS, (now + memory + ROOM, resource.RLIM_INFINITY))
    except (ImportError, OSError, ValueError):
        # Not Linux: the time limit remains.
        return
