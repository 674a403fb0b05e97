"""The gallery: one class per phenomenon, each with theory, simulation, figure and headline numbers.

`limen.experiments()` lists them.
"""

import sys
from types import ModuleType


class _Gallery(ModuleType):
    """The package answers a call: the list of experiments bears the name of the folder they stand in."""

    def __call__(self) -> dict[str, str]:
        """Every experiment by name, with one line on what it shows."""
        from limen.experiments.index import entry
        from limen.experiments.registry import PLACES

        return {name: entry(name).summary for name in PLACES}


sys.modules[__name__].__class__ = _Gallery
