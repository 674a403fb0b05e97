"""The public names of a chapter: read from its stub, imported when they are first used."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lazy_loader


def facade(file: str, **renamed: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of the module `file` from the stub beside it.

    `renamed`: names of earlier versions and what they are called now; they still answer, with a warning.
    """
    get, names, public = lazy_loader.attach_stub("limen", file)
    chapter = f"limen.{Path(file).stem}"

    def attribute(name: str) -> Any:
        if name not in renamed:
            return get(name)
        warnings.warn(f"{chapter}.{name} is now {chapter}.{renamed[name]}.", DeprecationWarning, stacklevel=2)
        return get(renamed[name])

    return attribute, names, public
