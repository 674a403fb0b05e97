"""How much memory there is: what is asked for is refused before it is taken, with both numbers."""

import os
from pathlib import Path

from limen.problem.spec import InputError

# Where the system does not say.
ASSUMED = 8e9
# Less is given without asking the system, which takes longer than a small training.
UNASKED = 3e7
CONTROL_GROUP = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")
MACHINE = Path("/proc/meminfo")


def available_memory() -> float:
    """Bytes that this process may still take: what the machine has left, or its control group if that is less."""
    return min([_of_machine(), *_of_control_groups()])


def check_memory(what: str, needed: float, remedy: str) -> None:
    """Refuses what needs more bytes than there are, in one sentence with both numbers."""
    if needed <= UNASKED:
        return
    there = available_memory()
    if needed > there:
        raise InputError(f"{what} needs {needed / 1e9:.3g} GB of memory, and {there / 1e9:.3g} GB are free: {remedy}.")


def _of_machine() -> float:
    try:
        for line in MACHINE.read_text().splitlines() if MACHINE.exists() else ():
            if line.startswith("MemAvailable:"):
                return 1024.0 * float(line.split()[1])
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError, AttributeError):
        return ASSUMED


def _of_control_groups() -> list[float]:
    """What is left in each control group above this process, in version 2 and in version 1 of their files."""
    try:
        places = [line.split(":", 2) for line in OWN_GROUP.read_text().splitlines()]
    except OSError:
        return []
    left: list[float] = []
    for place in places:
        if len(place) != 3 or place[1] not in ("", "memory"):
            continue
        first, limit, used = (
            (CONTROL_GROUP / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            if place[1]
            else (CONTROL_GROUP, "memory.max", "memory.current")
        )
        folder = first / place[2].strip("/")
        for group in (folder, *folder.parents):
            if not group.is_relative_to(first):
                break
            left += _left(group, limit, used)
    return left


def _left(group: Path, limit: str, used: str) -> list[float]:
    try:
        # Pages of files are given back when they are needed.
        fields = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        files = float(fields.get("total_inactive_file", fields.get("inactive_file", 0)))
        return [float((group / limit).read_text()) - float((group / used).read_text()) + files]
    except (OSError, ValueError):
        return []
