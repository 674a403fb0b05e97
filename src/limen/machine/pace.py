"""How long the rest takes, judged by what has come: start-up and compilation are not pace."""

import time
from collections import deque
from collections.abc import Callable

LOOKED_BACK = 200


class Pace:
    """Arrivals of results; the first ones, as many as come at once, only start the clock."""

    def __init__(self, at_once: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once, self._clock = max(1, at_once), clock
        self._arrivals: deque[float] = deque(maxlen=LOOKED_BACK + self._at_once)

    def arrived(self, count: int = 1) -> None:
        """So many results have come just now."""
        self._arrivals.extend([self._clock()] * count)

    def seconds_left(self, results: int) -> float | None:
        """Wall time until so many more have come; None while too few have come to say."""
        counted = len(self._arrivals) - self._at_once
        if counted < 1:
            return None
        return (self._clock() - self._arrivals[self._at_once - 1]) / counted * results


def in_words(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 1.0:
        return "less than a second"
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.2g} {unit}" if seconds < 10.0 * length else f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
