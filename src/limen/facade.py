"""The public names of a chapter: read from its stub, imported when they are first used."""

import ast
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def facade(file: str, **renamed: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of the module `file` from the stub beside it.

    `renamed`: names of earlier versions and what they are called now; they still answer, with a warning. Not by
    `lazy_loader`, which keeps what it has found as an attribute of the package: `limen.attention.simulate` would take
    the place of `limen.simulate`.
    """
    chapter = f"limen.{Path(file).stem}"
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    places = {alias.asname or alias.name: (node.module, alias.name) for node in imports for alias in node.names}

    def attribute(name: str) -> Any:
        if name in renamed:
            warnings.warn(f"{chapter}.{name} is now {chapter}.{renamed[name]}.", DeprecationWarning, stacklevel=2)
            name = renamed[name]
        if name not in places:
            raise AttributeError(f"module {chapter!r} has no attribute {name!r}")
        module, own = places[name]
        found = getattr(import_module(f"limen.{module}"), own)
        vars(sys.modules[chapter])[name] = found
        return found

    return attribute, lambda: sorted(places), sorted(places)
