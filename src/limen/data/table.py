"""Tables of numbers from files: read, checked, the target set apart."""

import os
import zipfile
import zlib
from collections.abc import Iterator
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

    def __repr__(self) -> str:
        rows, columns = self.X.shape
        return f"Table of {rows} rows, {columns} columns ({_listed(list(self.names))}), target {self.target!r}"


def load(path: str | os.PathLike[str], target: str | int | None = None) -> Table:
    """Reads a table from `.csv`, `.npz` or `.parquet`, at most 1 GB, arrays unpacked.

    `target` names the column to be learnt (or its number, from 0). A `.npz` with arrays `X` and `y` needs none. Other
    columns must be numbers: one that holds text is refused by name.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise InputError(f"{file.name} has {size / 1e9:.2f} GB, at most {MOST_BYTES / 1e9:g} GB are read: take a part.")
    return read(file.name, file, target)


def read(name: str, source: Path | BytesIO, target: str | int | None = None, most_bytes: int | None = None) -> Table:
    """The table of an open file or a path; what it is, its `name` says. Arrays may unpack to `most_bytes` (1 GB)."""
    kind = Path(name).suffix.lower()
    if kind == ".npz":
        return _from_arrays(name, source, target, most_bytes or MOST_BYTES)
    if kind not in (".csv", ".parquet"):
        raise InputError(f"{name} must be a .csv, .npz or .parquet file, got {kind or 'no ending'}.")
    frame = _frame(name, source, kind)
    names = [str(name).strip() for name in frame.columns]
    chosen = _column(names, target)
    if len(frame) < FEWEST_ROWS:
        raise InputError(f"{name} must have at least {FEWEST_ROWS} rows, got {len(frame)}.")
    columns = []
    for place, column in enumerate(names):
        if place == chosen:
            continue
        values = frame.iloc[:, place]
        if values.dtype.kind not in "biuf":
            raise InputError(f"column {column!r} holds text: leave it out, or make numbers of it.")
        columns.append(np.asarray(values, dtype=float))
    for place, column in enumerate(names):
        values = frame.iloc[:, place]
        bad = np.asarray(values.isna()) | (np.isinf(values) if values.dtype.kind == "f" else False)
        if bad.any():
            first = _where(source, kind, int(bad.argmax()), len(frame))
            raise InputError(
                f"column {column!r} of {name} must have no missing or infinite entries, got {bad.sum()}, "
                f"first in {first}."
            )
    if not columns:
        raise InputError(f"{name} must have columns beside the target {names[chosen]!r}, got none.")
    rest = tuple(column for place, column in enumerate(names) if place != chosen)
    return Table(np.column_stack(columns), np.asarray(frame.iloc[:, chosen]), rest, names[chosen])


def _frame(name: str, source: Path | BytesIO, kind: str) -> Any:
    import pandas

    try:
        if kind == ".parquet":
            return pandas.read_parquet(source)
        header, first = _first_lines(source)
        separator = max(",;\t", key=header.count)
        _check_header(name, header.split(separator))
        # Where numbers have a decimal comma, columns are set apart by semicolons.
        decimal = "," if separator == ";" and "," in first else "."
        return pandas.read_csv(source, sep=separator, decimal=decimal, skipinitialspace=True)
    except InputError:
        raise
    except ImportError:
        raise InputError("parquet files need the package pyarrow: pip install pyarrow, or save as .csv.") from None
    except (ValueError, OSError, pandas.errors.ParserError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"{name} is not a readable {kind} table ({reason}).") from None


def _lines(source: Path | BytesIO) -> Iterator[str]:
    """The lines of a CSV file as they stand there."""
    lines = BytesIO(source.getvalue()) if isinstance(source, BytesIO) else source.open("rb")
    with lines:
        for line in lines:
            yield line.decode("utf-8-sig", errors="replace").strip("\r\n")


def _first_lines(source: Path | BytesIO) -> tuple[str, str]:
    """The header and the first line of numbers."""
    there = (line for line in _lines(source) if line.strip())
    return next(there, ""), next(there, "")


def _check_header(name: str, cells: list[str]) -> None:
    try:
        numbers = [float(cell.strip().strip("\"'")) for cell in cells]
    except ValueError:
        return
    # Counted columns (0, 1, 2, ... or years) are names.
    if not all(number == numbers[0] + place and number.is_integer() for place, number in enumerate(numbers)):
        raise InputError(f"the first line of {name} must name the columns, got numbers ({_listed(cells)}).")


def _where(source: Path | BytesIO, kind: str, row: int, rows: int) -> str:
    """Where a row stands in its file: its line, unless lines and rows are not the same there."""
    if kind == ".csv":
        numbers = [number for number, line in enumerate(_lines(source), 1) if line.strip()]
        if len(numbers) == rows + 1:
            return f"line {numbers[row + 1]}"
    return f"row {row + 1}"


def _from_arrays(name: str, source: Path | BytesIO, target: str | int | None, most_bytes: int) -> Table:
    wanted = "y" if target is None else str(target)
    try:
        # A small file may unpack to any size: its own list says to which.
        with zipfile.ZipFile(source) as packed:
            size = sum(entry.file_size for entry in packed.infolist())
        if size > most_bytes:
            raise InputError(
                f"{name} has {size / 1e9:.2g} GB unpacked, at most {most_bytes / 1e9:.2g} GB are read: take a part."
            )
        if isinstance(source, BytesIO):
            source.seek(0)
        with np.load(source, allow_pickle=False) as stored:
            for array in ("X", wanted):
                if array not in stored.files:
                    found = ", ".join(stored.files) or "none"
                    raise InputError(f"{name} must hold an array {array!r}, it has {found}.")
            inputs, labels = np.atleast_2d(stored["X"]), stored[wanted]
    except InputError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{name} is not a readable .npz file ({type(error).__name__}).") from None
    if inputs.dtype.kind not in "biuf":
        raise InputError(f"X in {name} must hold numbers, got {inputs.dtype}.")
    names = tuple(f"x{column}" for column in range(inputs.shape[1]))
    return Table(np.asarray(inputs, dtype=float), labels, names, wanted)


def _column(names: list[str], target: str | int | None) -> int:
    if target is None:
        raise InputError(f"target must name the column to be learnt, one of {_listed(names)}.")
    if str(target) in names:
        return names.index(str(target))
    if str(target).isdigit() and int(target) < len(names):
        return int(target)
    raise InputError(f"target must be one of the columns {_listed(names)}, got {target!r}.")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
