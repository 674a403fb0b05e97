"""What every worker does from the inside: follow its parent, say what went wrong, keep to its memory."""

import os
import signal
import sys
import threading
import traceback
from multiprocessing import connection, parent_process

# Threads reserve address space that they never touch.
ROOM = 2**30


def follow_parent() -> None:
    """Leaves Ctrl-C to the parent, and ends when the parent is gone, however long the task would still take."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def reason(error: BaseException) -> str:
    """An exception in one line, with the place it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"


def peak_memory() -> float:
    """The most memory this process has had, in bytes; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else 1024 * peak)


def bound_memory(memory: int) -> None:
    """Bounds the address space to `memory` bytes beyond what is taken now; where that cannot be, nothing happens."""
    try:
        import resource

        with open("/proc/self/statm") as statm:
            now = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + memory + ROOM, resource.RLIM_INFINITY))
    except (ImportError, OSError, ValueError):
        return
