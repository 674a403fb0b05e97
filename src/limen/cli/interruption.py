"""Ctrl-C that cannot be lost: Python drops a KeyboardInterrupt raised inside a destructor of a file library."""

import signal
import threading
from types import FrameType

_asked = threading.Event()


def remember_interrupts() -> None:
    """Makes Ctrl-C raise KeyboardInterrupt as usual, and be remembered if that is dropped."""
    signal.signal(signal.SIGINT, _interrupt)


def stop_if_asked() -> None:
    """Raises KeyboardInterrupt if Ctrl-C was pressed before; for loops of long work."""
    if _asked.is_set():
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    _asked.set()
    raise KeyboardInterrupt
