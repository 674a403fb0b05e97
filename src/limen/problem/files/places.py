"""Where files are read from and written to, as users say it."""

from pathlib import Path
from typing import Any

from limen.problem.spec import InputError


def file_path(value: Any) -> Path:
    """The place of a file."""
    try:
        return Path(value)
    except TypeError:
        raise InputError(f"path must be the name of a file, got {value!r}.") from None


def new_file(value: Any) -> Path:
    """The place of a file to be written, in a folder that is there."""
    path = file_path(value)
    if path.is_dir():
        raise InputError(f"path must be the name of a file, got the folder {str(path)!r}.")
    if not path.parent.is_dir():
        raise InputError(f"path must be in a folder that exists, got {str(path)!r}.")
    return path
