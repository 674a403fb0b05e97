"""A panel said in one line: a variable of both witnesses, theory as a line, simulation as points with error bars."""

import itertools
from dataclasses import dataclass

import numpy as np
import xarray as xr

from limen.experiments.figure import Line, Mark, Panel, Points, Scale, mean_and_error, thin
from limen.experiments.number import over_seeds

# Colours that can be told apart.
MOST_SERIES = 6


@dataclass(frozen=True)
class Curve:
    r"""`variable` against its first dimension, or `over` another; a colour for each value along the others.

    Labels not given are the names themselves; `series` writes the value of a colour (`"$\beta={:g}$"`). What is scalar
    is one point.
    """

    variable: str
    over: str | None = None
    x_label: str = ""
    y_label: str = ""
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    series: str = ""

    def panel(self, theory: xr.Dataset, simulation: xr.Dataset | None = None) -> Panel:
        """The panel, from the datasets of the two witnesses; `simulation` has the dimension `seed`."""
        predicted = over_seeds(theory[self.variable]) if self.variable in theory else None
        measured = None if simulation is None or self.variable not in simulation else simulation[self.variable]
        one = predicted if predicted is not None else measured
        if one is None:
            raise KeyError(f"neither witness has a variable {self.variable!r}.")
        dims = [str(dim) for dim in one.dims if dim != "seed"]
        over = self.over or (dims[0] if dims else None)
        x = np.zeros(1) if over is None else _numbers(one, over)
        others = [dim for dim in dims if dim != over]
        marks: list[Mark] = []
        cells = itertools.product(*(range(one.sizes[dim]) for dim in others))
        for colour, cell in enumerate(itertools.islice(cells, MOST_SERIES)):
            at = dict(zip(others, cell, strict=True))
            label = ", ".join(self._named(dim, one[dim].values[i]) for dim, i in at.items())
            if predicted is not None:
                marks.append(Line(x, np.atleast_1d(predicted.isel(at).values), label or "theory", colour))
            if measured is not None:
                mean, error = mean_and_error(measured.isel(at).transpose("seed", ...).values)
                some = thin(x.size)
                named = "" if predicted is not None and label else label or "simulation"
                marks.append(Points(x[some], np.atleast_1d(mean)[some], np.atleast_1d(error)[some], named, colour))
        words = self.x_label or (over or "").replace("_", " "), self.y_label or self.variable.replace("_", " ")
        return Panel(*words, marks, x_scale=self.x_scale, y_scale=self.y_scale)

    def _named(self, dim: str, value: object) -> str:
        return self.series.format(value) if self.series else f"{dim.replace('_', ' ')} {value}"


def _numbers(array: xr.DataArray, dim: str) -> np.ndarray:
    """The coordinate along a dimension, or places in order where it has none that is a number."""
    values = array[dim].values
    return values.astype(float) if values.dtype.kind in "iuf" else np.arange(float(values.size))
