"""Tables of numbers from files: read, checked, the target set apart."""

import os
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limen.problem.spec import InputError

MOST_BYTES = 1_000_000_000
FEWEST_ROWS = 20
# A target of whole numbers or text with at most this many different values, each seen at least twice, is a class.
MOST_CLASSES = 50


@dataclass(frozen=True, eq=False)
class Table:
    """Inputs `X` (N, d) with the `names` of their columns; `y` (N,), numbers or classes; the name of the `target`."""

    X: NDArray[np.float64]
    y: NDArray[Any]
    names: tuple[str, ...]
    target: str


def load(path: str | os.PathLike[str], target: str | int | None = None) -> Table:
    """Reads a table from `.csv`, `.npz` or `.parquet`, at most 1 GB.

    `target` names the column to be learned (or its number, from 0). A `.npz` with arrays `X` and `y` needs none. Other
    columns must be numbers: one that holds text is refused by name.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise InputError(f"{file.name} has {size / 1e9:.2f} GB, at most {MOST_BYTES / 1e9:g} GB are read: take a part.")
    return read(file.name, file, target)


def read(name: str, source: Path | BytesIO, target: str | int | None = None) -> Table:
    """The table of an open file or a path; what it is, its `name` says."""
    kind = Path(name).suffix.lower()
    if kind == ".npz":
        return _from_arrays(name, source, target)
    if kind not in (".csv", ".parquet"):
        raise InputError(f"{name} must be a .csv, .npz or .parquet file, got {kind or 'no ending'}.")
    frame = _frame(name, source, kind)
    names = [str(name) for name in frame.columns]
    chosen = _column(names, target)
    columns = []
    for place, column in enumerate(names):
        if place == chosen:
            continue
        values = frame.iloc[:, place]
        if values.dtype.kind not in "biuf":
            raise InputError(f"column {column!r} holds text: leave it out, or make numbers of it.")
        columns.append(np.asarray(values, dtype=float))
    if not columns:
        raise InputError(f"{name} must have columns beside the target {names[chosen]!r}, got none.")
    rest = tuple(column for place, column in enumerate(names) if place != chosen)
    return Table(np.column_stack(columns), np.asarray(frame.iloc[:, chosen]), rest, names[chosen])


def _frame(name: str, source: Path | BytesIO, kind: str) -> Any:
    import pandas

    try:
        return pandas.read_csv(source) if kind == ".csv" else pandas.read_parquet(source)
    except ImportError:
        raise InputError("parquet files need the package pyarrow: pip install pyarrow, or save as .csv.") from None
    except (ValueError, OSError, pandas.errors.ParserError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"{name} is not a readable {kind} table ({reason}).") from None


def _from_arrays(name: str, source: Path | BytesIO, target: str | int | None) -> Table:
    try:
        with np.load(source, allow_pickle=False) as stored:
            arrays = {array: stored[array] for array in stored.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{name} is not a readable .npz file ({type(error).__name__}).") from None
    wanted = "y" if target is None else str(target)
    for array in ("X", wanted):
        if array not in arrays:
            raise InputError(f"{name} must hold an array {array!r}, it has {', '.join(arrays) or 'none'}.")
    inputs = np.atleast_2d(arrays["X"])
    if inputs.dtype.kind not in "biuf":
        raise InputError(f"X in {name} must hold numbers, got {inputs.dtype}.")
    names = tuple(f"x{column}" for column in range(inputs.shape[1]))
    return Table(np.asarray(inputs, dtype=float), arrays[wanted], names, wanted)


def _column(names: list[str], target: str | int | None) -> int:
    if target is None:
        raise InputError(f"target must name the column to be learned, one of {_listed(names)}.")
    if str(target) in names:
        return names.index(str(target))
    if str(target).isdigit() and int(target) < len(names):
        return int(target)
    raise InputError(f"target must be one of the columns {_listed(names)}, got {target!r}.")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
