"""Datasets from named arrays, without what xarray imports on the way."""

import warnings
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import xarray as xr


def labelled(
    variables: Mapping[str, Any], coords: Mapping[str, Any] | None = None, attrs: Mapping[str, Any] | None = None
) -> xr.Dataset:
    """`xarray.Dataset(variables, coords, attrs)` of NumPy arrays: the same dataset.

    Values are (dims, array) or (dims, array, attributes); coordinates also plain arrays along the axis of their name.
    xarray asks of every array whether it is one of Dask's, and imports Dask for that where it is installed: a third of
    a second of the first prediction. Arrays that are NumPy's already need not be asked.
    """
    coordinates = {name: _variable(name, value) for name, value in (coords or {}).items()}
    return xr.Dataset({name: _variable(name, value) for name, value in variables.items()}, coordinates, attrs)


def with_variables(dataset: xr.Dataset, variables: Mapping[str, Any]) -> xr.Dataset:
    """`dataset.assign(variables)` of NumPy arrays, with values as for `labelled`: the same dataset, without Dask."""
    return dataset.assign({name: _variable(name, value) for name, value in variables.items()})


def with_coordinates(dataset: xr.Dataset, coordinates: Mapping[str, Any]) -> xr.Dataset:
    """`dataset.assign_coords(coordinates)` of NumPy arrays, with values as for `labelled`: the same, without Dask."""
    return dataset.assign_coords({name: _variable(name, value) for name, value in coordinates.items()})


def _variable(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        dims, data, *attributes = value
    elif isinstance(value, (xr.Variable, xr.DataArray)):
        return value
    else:
        dims, data, attributes = (name,) if np.ndim(value) else (), value, []
    dims, array = (dims,) if isinstance(dims, str) else tuple(dims), np.asarray(data)
    # Objects, dates and names are converted by xarray itself.
    if array.dtype.kind not in "biufc":
        return value
    if dims == (name,):
        import pandas as pd

        return xr.IndexVariable(dims, cast(Any, pd.Index(array)), *attributes, fastpath=True)
    return xr.Variable(dims, array, *attributes, fastpath=True)


def mean_over_runs(variable: xr.DataArray) -> np.ndarray:
    """Means over every axis but `time`, NaN left out, shape (time,)."""
    others = tuple(i for i, dim in enumerate(variable.dims) if dim != "time")
    with warnings.catch_warnings():
        # Times that no run has reached stay NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(variable.values, axis=others) if others else variable.values
