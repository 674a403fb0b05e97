"""Results: one labelled dataset, what it answers, and whether it can be trusted."""

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from platform import python_version
from typing import Any, Literal

import numpy as np
import xarray as xr

from limen.problem.files.places import file_path, new_file
from limen.problem.spec import InputError, Spec

Kind = Literal["theory", "simulation"]


# What a result is made of besides its dataset: JSON in every file.
HEADER = (
    "spec", "kind", "ok", "status", "statistics", "seeds", "citations", "method", "options", "seconds", "versions",
)  # fmt: skip


@lru_cache(maxsize=1)
def _versions() -> tuple[tuple[str, str], ...]:
    packages = tuple((name, version(name)) for name in ("limen", "jax", "numpy", "scipy"))
    return (*packages, ("python", python_version()))


@dataclass(frozen=True)
class Findings:
    """All that a solver returns: the dataset, whether to trust it, a sentence, and what it counted on the way."""

    dataset: xr.Dataset
    ok: bool = True
    status: str = "converged."
    statistics: dict[str, float] = field(default_factory=dict)


def checked(found: Findings) -> Findings:
    """Findings that are not ok where a value is not finite and none was announced, with variable and place named.

    A variable that may hold NaN or infinities says what they mean: `attrs["undefined"] = "it was never reached"`.
    """
    place = first_not_finite(found.dataset) if found.ok else None
    return found if place is None else replace(found, ok=False, status=f"{place}; elsewhere: {found.status}")


def first_not_finite(dataset: xr.Dataset) -> str | None:
    """`train_loss is not finite at time 3`, or None; variables with the attribute `undefined` are not looked at."""
    for name, variable in dataset.data_vars.items():
        if variable.dtype.kind not in "fc" or "undefined" in variable.attrs:
            continue
        finite = np.isfinite(variable.values)
        if not finite.all():
            index = np.unravel_index(int(np.argmin(finite)), finite.shape)
            labels = [
                f"{dim} {variable[dim].values[i] if dim in variable.coords else i}"
                for dim, i in zip(variable.dims, index, strict=True)
            ]
            return f"{name} is not finite{' at ' if labels else ''}{', '.join(labels)}"
    return None


@dataclass(frozen=True)
class Result:
    """What a theory or a simulation found, and how it was made.

    `dataset` holds every variable with its coordinates; `spec` is the JSON form of the problem,
    experiment or call that was answered; `ok` and `status` say whether to trust it and, if not, what to do;
    `statistics` are iterations, residuals, memory; `seeds` the seeds of a simulation. `method` names the theory or
    simulator, `options` what it was asked beyond the problem, `seconds` how long it took, `versions` with what.
    """

    dataset: xr.Dataset
    spec: dict[str, Any]
    kind: Kind
    ok: bool = True
    status: str = "converged."
    statistics: dict[str, float] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    citations: tuple[str, ...] = ()
    method: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=lambda: dict(_versions()))

    @property
    def problem(self) -> Spec:
        """The problem that was answered, made again from its description."""
        import limen.problem

        # An experiment made of a problem holds it.
        return limen.problem.from_description(self.spec.get("problem", self.spec))

    @property
    def findings(self) -> Findings:
        """What was found, without how: for a solver that stands on another."""
        return Findings(self.dataset, self.ok, self.status, self.statistics)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes one netCDF file that any xarray can open; written beside, flushed, then renamed."""
        return write_file(netcdf(self.as_dataset()), new_file(path))

    def as_dataset(self) -> xr.Dataset:
        """The dataset that is saved: everything else about the result is JSON in its attribute `limen`."""
        return self.dataset.assign_attrs(limen=json.dumps({name: getattr(self, name) for name in HEADER}))

    def plot(self, *others: "Result", labels: Sequence[str] | None = None, variables: Any = None) -> Any:
        """The result as a matplotlib figure, with others on the same axes; see `limen.plot`."""
        import limen

        # The package answers a call.
        plot: Any = limen.plot
        return plot(self, *others, labels=labels, variables=variables)

    def to_dataframe(self) -> Any:
        """A table: one row per time (and seed), one column per number; `overlap_0_1` is the overlap of neuron 0 with
        latent direction 1. Results without times have a row per point of their longest axis; what depends on two times
        is left out.
        """
        free = {
            str(n): v for n, v in self.dataset.data_vars.items() if v.dtype.kind in "iufb" and "time2" not in v.dims
        }
        lengths = {str(dim): size for dim, size in self.dataset.sizes.items() if dim != "seed"}
        row = "time" if "time" in lengths else max(lengths, key=lambda dim: lengths[dim], default="")
        columns: dict[str, xr.DataArray] = {}
        for name, variable in free.items():
            others = [str(dim) for dim in variable.dims if dim not in ("seed", row)]
            if row and row not in variable.dims:
                continue
            for indices in np.ndindex(*(variable.sizes[dim] for dim in others)):
                at = dict(zip(others, (int(i) for i in indices), strict=True))
                columns["_".join([name, *map(str, at.values())])] = variable.isel(at).drop_vars(others, errors="ignore")
        table = xr.Dataset(columns)
        return table.to_dataframe(dim_order=[dim for dim in ("seed", row) if dim in table.dims])

    def _repr_html_(self) -> str:
        import base64

        picture = BytesIO()
        try:
            self.plot().savefig(picture, format="png", dpi=110)
        except InputError:
            return f"<p>{self._title()}</p>" + self.dataset._repr_html_()
        data = base64.b64encode(picture.getvalue()).decode()
        return f'<p>{self._title()}</p><img src="data:image/png;base64,{data}">' + self.dataset._repr_html_()

    def _title(self) -> str:
        name = self.spec.get("type", "call")
        seeds = f", {len(self.seeds)} seeds" if self.seeds else ""
        method = f" by {self.method}" if self.method and self.method != name else ""
        return f"{self.kind} of {name}{method}{seeds}: {'ok' if self.ok else 'NOT OK'}, {self.status}"

    def _making(self) -> str:
        """How the result was made, as a line."""
        options = ", ".join(f"{name} = {value}" for name, value in self.options.items())
        return f"  {options + '; ' if options else ''}{self.seconds:.3g} s, limen {self.versions.get('limen', '?')}"

    def __repr__(self) -> str:
        lines = [self._title()]
        for name, variable in self.dataset.data_vars.items():
            shape = ", ".join(f"{dim}: {size}" for dim, size in variable.sizes.items())
            values = variable.values
            if values.dtype.kind == "f" and np.isfinite(values).any():
                lines.append(f"  {name}({shape})  {np.nanmin(values):.6g} .. {np.nanmax(values):.6g}")
            else:
                lines.append(f"  {name}({shape})")
        return "\n".join([*lines, self._making()])


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
    # Opened like any other file, so that others may read it as far as the user's umask says.
    temporary = path.parent / f".limen-{secrets.token_hex(8)}{path.suffix}"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def load(path: str | os.PathLike[str]) -> Result:
    """Reads a result saved by `Result.save`, whole, into memory."""
    file_path(path)
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            dataset = opened.load()
        header = json.loads(dataset.attrs.pop("limen"))
    except FileNotFoundError:
        raise InputError(f"there is no result at {str(path)!r}.") from None
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{str(path)!r} is not a readable limen result ({type(error).__name__}).") from None
    return from_header(dataset, header)


def from_header(dataset: xr.Dataset, header: dict[str, Any]) -> Result:
    """A result from its dataset and the JSON data of its `HEADER`."""
    tuples = {name: tuple(header[name]) for name in ("seeds", "citations")}
    return Result(dataset=dataset, **{**header, **tuples})


def merge(results: Sequence[Result]) -> Result:
    """Simulations of one problem, seed by seed, as one result along `seed`.

    Seconds add up, other statistics keep their largest value; the status is the first that is not ok, with how many.
    """
    if not results:
        raise InputError("there are no results to merge.")
    if len(results) == 1:
        return results[0]
    first = results[0]
    failed = [result for result in results if not result.ok]
    worst, status = first, first.status
    if failed:
        worst = failed[0]
        count, total = (sum(len(result.seeds) for result in part) for part in (failed, results))
        status = worst.status if count == total else f"{count} of {total} seeds: {worst.status}"
    dataset = xr.concat(
        [result.dataset for result in results],
        dim="seed",
        data_vars="minimal",
        coords="minimal",
        compat="override",
        join="exact",
        combine_attrs="override",
    )
    return replace(
        first,
        dataset=dataset,
        ok=worst.ok,
        status=status,
        statistics={name: max(r.statistics.get(name, 0.0) for r in results) for name in first.statistics},
        seeds=tuple(seed for result in results for seed in result.seeds),
        seconds=sum(result.seconds for result in results),
    )
