"""Being stopped: Ctrl-C, a request to terminate, a terminal that closes; none of them can be lost."""

import signal
import threading
from types import FrameType

# Where the system has them: a closed terminal is SIGHUP.
STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_asked = threading.Event()


class Stopped(KeyboardInterrupt):
    """Somebody wants the process to stop; `signal` says how."""

    def __init__(self, number: int, message: str = "") -> None:
        super().__init__(message)
        self.signal = number


def listen() -> None:
    """Makes every wish to stop raise `Stopped`, and be remembered.

    Python drops an exception that is raised inside a destructor of a file library.
    """
    for number in STOPPING:
        # What nohup ignores stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def stop_if_asked() -> None:
    """Raises KeyboardInterrupt if a wish to stop was heard before; for loops of long work."""
    if _asked.is_set():
        raise KeyboardInterrupt


def _stop(number: int, frame: FrameType | None) -> None:
    _asked.set()
    raise Stopped(number)
