"""Many results in one file: results of one shape, stacked, each of which comes back exactly as it was put."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from limen.result import HEADER, Result, from_header

STACKED, HEADERS, HEADER_BYTE = "result", "limen_results", "byte"
# A coordinate that differs between results cannot keep its name: xarray reserves it for one dimension.
EACH = "_of_each"


def signature(result: Result) -> tuple[Any, ...]:
    """Results of equal signature can be packed together."""
    dataset = result.dataset
    variables = (
        (str(name), name in dataset.coords, variable.dims, variable.shape, variable.dtype.str, _json(variable.attrs))
        for name, variable in dataset.variables.items()
    )
    return (result.kind, str(result.spec.get("type", "")), *sorted(variables))


def pack(results: Sequence[Result], entry: dict[str, Any] | None = None) -> xr.Dataset:
    """One dataset with a leading dimension `result`; coordinates that are the same for all are kept once.

    `entry` is what the file says of itself, see `limen.storage.self_description`.
    """
    first = results[0].dataset
    variables: dict[str, Any] = {}
    for name, variable in first.variables.items():
        values = [result.dataset.variables[name].values for result in results]
        if name in first.coords and all(_same(values[0], other) for other in values[1:]):
            variables[str(name)] = (variable.dims, values[0], variable.attrs)
        else:
            stored = f"{name}{EACH}" if name in first.coords else str(name)
            variables[stored] = ((STACKED, *variable.dims), np.stack(values), variable.attrs)
    headers = [
        {"attrs": result.dataset.attrs, **{name: getattr(result, name) for name in HEADER}} for result in results
    ]
    text = _json({**_hoisted([json.loads(_json(header)) for header in headers]), "entry": entry or {}})
    variables[HEADERS] = (HEADER_BYTE, np.frombuffer(text.encode(), np.uint8))
    coordinates = {name: variables.pop(name) for name in map(str, first.coords) if name in variables}
    return xr.Dataset(variables, coordinates, {"coordinates_kept": _json([str(name) for name in first.coords])})


def unpack(packed: xr.Dataset) -> Callable[[int], Result]:
    """From a packed dataset, the result at each position."""
    coordinates = set(json.loads(packed.attrs["coordinates_kept"]))
    text = json.loads(packed[HEADERS].values.tobytes().decode())
    # Plain arrays: taking one result out of thousands must not go through xarray's indexing.
    arrays = {
        str(name): (variable.dims, variable.values, variable.attrs)
        for name, variable in packed.variables.items()
        if name != HEADERS
    }

    def result(position: int) -> Result:
        variables: dict[str, Any] = {}
        for stored, (dims, values, attributes) in arrays.items():
            stacked = dims[:1] == (STACKED,)
            name = stored.removesuffix(EACH) if stored.removesuffix(EACH) in coordinates else stored
            variables[name] = (dims[1:], values[position], attributes) if stacked else (dims, values, attributes)
        header = {**text["common"], **text["each"][position]}
        attributes = header.pop("attrs")
        coords = {name: variables.pop(name) for name in list(variables) if name in coordinates}
        return from_header(xr.Dataset(variables, coords, attributes), header)

    return result


def _hoisted(headers: list[dict[str, Any]]) -> dict[str, Any]:
    common = {name: value for name, value in headers[0].items() if all(other[name] == value for other in headers)}
    each = [{name: value for name, value in header.items() if name not in common} for header in headers]
    return {"common": common, "each": each}


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _json(value: Any) -> str:
    return json.dumps(value, default=lambda item: item.tolist(), sort_keys=True)
