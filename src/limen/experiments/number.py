"""A number with the words that say what it is."""

from typing import Self, SupportsFloat, TypeVar

import xarray as xr


class Number(float):
    """A float that knows what it is called: `Number(0.53, "test loss after training, δ = 4")`.

    `words` name it for tables, the page and docs; `unit` stands behind the value where it has one ("steps", "samples").
    """

    words: str
    unit: str

    def __new__(cls, value: SupportsFloat, words: str, unit: str = "") -> Self:
        number = super().__new__(cls, value)
        number.words, number.unit = words, unit
        return number

    def __reduce__(self) -> tuple[type, tuple[float, str, str]]:
        return type(self), (float(self), self.words, self.unit)


Labelled = TypeVar("Labelled", xr.Dataset, xr.DataArray)


def over_seeds(dataset: Labelled) -> Labelled:
    """Means over the seeds, where there are any; nan in one seed is nan in the mean."""
    return dataset.mean("seed", skipna=False) if "seed" in dataset.dims else dataset
