"""Being stopped: Ctrl-C, a request to terminate, a terminal that closes; none of them can be lost."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

# Where the system has them: a closed terminal is SIGHUP.
STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_asked = threading.Event()
# Seconds after which a wish that was lost is said again.
AGAIN = 0.05


class Stopped(KeyboardInterrupt):
    """Somebody wants the process to stop; `signal` says how."""

    def __init__(self, number: int, message: str = "") -> None:
        super().__init__(message)
        self.signal = number


def listen() -> None:
    """Makes every wish to stop raise `Stopped`, and be remembered.

    Python drops an exception that is raised inside a destructor or a callback of the garbage collector: then the signal
    is sent again.
    """
    sys.unraisablehook = _unraised
    sys.excepthook = _uncaught
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


def _uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """What compiled code drops is printed first, as if nobody had caught it: of a wish to stop nothing is."""
    if not isinstance(error, Stopped):
        sys.__excepthook__(kind, error, trace)


def _unraised(dropped: Any) -> None:
    """What Python could not raise: a wish to stop comes again, all else is printed as ever."""
    if not isinstance(dropped.exc_value, Stopped):
        sys.__unraisablehook__(dropped)
        return
    again = threading.Timer(AGAIN, os.kill, (os.getpid(), dropped.exc_value.signal))
    again.daemon = True
    again.start()
