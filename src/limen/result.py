"""Results: one labelled dataset, what it answers, and whether it can be trusted."""

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

from limen.problem.spec import InputError

Kind = Literal["theory", "simulation"]


@lru_cache(maxsize=1)
def _own_version() -> str:
    return version("limen")


@dataclass(frozen=True)
class Result:
    """What a theory or a simulation found.

    `dataset` holds every variable with its coordinates; `spec` is the JSON form of the problem,
    experiment or call that was answered; `ok` and `status` say whether to trust it and, if not, what to do;
    `statistics` are iterations, residuals, seconds, memory; `seeds` the seeds of a simulation.
    """

    dataset: xr.Dataset
    spec: dict[str, Any]
    kind: Kind
    ok: bool = True
    status: str = "converged."
    statistics: dict[str, float] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    citations: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=lambda: {"limen": _own_version()})

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes one netCDF file that any xarray can open; written beside, flushed, then renamed."""
        return write_file(netcdf(self.as_dataset()), path)

    def as_dataset(self) -> xr.Dataset:
        """The dataset that is saved: everything else about the result is JSON in its attribute `limen`."""
        names = ("spec", "kind", "ok", "status", "statistics", "seeds", "citations", "versions")
        return self.dataset.assign_attrs(limen=json.dumps({name: getattr(self, name) for name in names}))

    def _repr_html_(self) -> str:
        return f"<p>{self._title()}</p>" + self.dataset._repr_html_()

    def _title(self) -> str:
        name = self.spec.get("type", "call")
        seeds = f", {len(self.seeds)} seeds" if self.seeds else ""
        return f"{self.kind} of {name}{seeds}: {'ok' if self.ok else 'NOT OK'}, {self.status}"

    def __repr__(self) -> str:
        lines = [self._title()]
        for name, variable in self.dataset.data_vars.items():
            shape = ", ".join(f"{dim}: {size}" for dim, size in variable.sizes.items())
            values = variable.values
            if values.dtype.kind == "f" and np.isfinite(values).any():
                lines.append(f"  {name}({shape})  {np.nanmin(values):.6g} .. {np.nanmax(values):.6g}")
            else:
                lines.append(f"  {name}({shape})")
        return "\n".join(lines)


def netcdf(dataset: xr.Dataset) -> memoryview:
    """A dataset as the bytes of a netCDF file.

    Made in memory: HDF5 that meets a full disk in the middle of a file fails without an errno and then crashes.
    """
    content = BytesIO()
    dataset.to_netcdf(content, engine="h5netcdf")
    return content.getbuffer()


def write_file(content: bytes | memoryview, path: str | os.PathLike[str]) -> Path:
    """Writes a file that is there whole or not at all: written beside, flushed, then renamed."""
    path = Path(path)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".limen-", suffix=path.suffix)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def load(path: str | os.PathLike[str]) -> Result:
    """Reads a result saved by `Result.save`, whole, into memory."""
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            dataset = opened.load()
        header = json.loads(dataset.attrs.pop("limen"))
    except FileNotFoundError:
        raise InputError(f"there is no result at {str(path)!r}.") from None
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{str(path)!r} is not a readable limen result ({type(error).__name__}).") from None
    for name in ("seeds", "citations"):
        header[name] = tuple(header[name])
    return Result(dataset=dataset, **header)


def merge(results: Sequence[Result]) -> Result:
    """Simulations of one problem, seed by seed, as one result along `seed`.

    Seconds add up, other statistics keep their largest value; the status is the first that is not ok.
    """
    if not results:
        raise InputError("there are no results to merge.")
    if len(results) == 1:
        return results[0]
    first = results[0]
    worst = next((result for result in results if not result.ok), first)
    dataset = xr.concat(
        [result.dataset for result in results],
        dim="seed",
        data_vars="minimal",
        coords="minimal",
        compat="override",
        join="exact",
        combine_attrs="override",
    )
    statistics = {name: max(r.statistics.get(name, 0.0) for r in results) for name in first.statistics}
    if "seconds" in statistics:
        statistics["seconds"] = sum(r.statistics.get("seconds", 0.0) for r in results)
    seeds = tuple(seed for result in results for seed in result.seeds)
    return replace(first, dataset=dataset, ok=worst.ok, status=worst.status, statistics=statistics, seeds=seeds)
