"""Room for compiled programs: each takes some pieces of address space, of which Linux gives a process 65,530.

A process that poses hundreds of different problems would reach that number and die when it compiles the next.
"""

import itertools
import sys
from pathlib import Path

MAPS = Path("/proc/self/maps")
MOST = Path("/proc/sys/vm/max_map_count")
# Above this part of the most that is allowed compiled programs are dropped; those still needed are compiled again.
CROWDED = 0.6
# One problem takes about 500 maps, and counting those of a crowded process 10 ms.
EVERY = 16
_calls = itertools.count(1)


def make_room() -> None:
    """Called before each problem: every sixteenth time the maps are counted, and compiled programs dropped where they
    crowd. Does nothing where the system does not say, or before jax is imported."""
    if next(_calls) % EVERY == 0 and "jax" in sys.modules and crowded():
        sys.modules["jax"].clear_caches()


def crowded() -> bool:
    """Whether this process has more memory maps than the part `CROWDED` of what it may have."""
    try:
        with MAPS.open("rb") as maps:
            return sum(1 for _ in maps) > CROWDED * int(MOST.read_text())
    except (OSError, ValueError):
        return False
