"""Python's search for cycles of objects, in processes that are limen's own: its workers and the command line.

Importing and tracing make many objects that stay, and looking through them again and again takes .2 to .3 s of a first
answer, and .3 to .5 s when the process ends. Arrays are freed when nothing names them, whatever is set here. A user's
own process is left as it is.
"""

import gc

# Objects made before Python looks for cycles among the young ones; its own number is 700 (2,000 in newer versions).
NEW_OBJECTS = 50_000


def collect_seldom() -> None:
    """Looks for cycles less often from now on."""
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


def leave_without_collecting() -> None:
    """Before the process ends: Python would look through all its objects, the system takes them at once."""
    gc.freeze()
