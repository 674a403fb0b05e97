"""The spectrum of a data set: eigenvalues of the covariance of its standardised columns, with their noise."""

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from limen.data.arrays import checked_inputs
from limen.result import Result


def spectrum(X: ArrayLike) -> Result:
    r"""Eigenvalues of the covariance of the columns, each scaled to variance 1; descending, along `rank`.

    `eigenvalue_noise` is what $N$ samples leave open, $\lambda\sqrt{2/N}$ for Gaussian data; `participation` is
    $(\sum\lambda)^2/\sum\lambda^2$, the number of directions that matter; `exponent` the slope of
    $\log\lambda$ against $-\log$ rank over the ranks between 2 and half the rank of the data. $O(Nd\min(N,d))$.
    """
    inputs, dropped = checked_inputs(X)
    rows, columns = inputs.shape
    gram = inputs.T @ inputs / rows if columns <= rows else inputs @ inputs.T / rows
    values = np.linalg.eigvalsh(gram)[::-1]
    values = values[values > 1e-12 * values[0]]
    ranks = np.arange(1, values.size + 1)
    inner = slice(1, max(3, values.size // 2))
    exponent = -np.polyfit(np.log(ranks[inner]), np.log(values[inner]), 1)[0] if values.size > 3 else np.nan
    dataset = xr.Dataset(
        {
            "eigenvalue": ("rank", values),
            "eigenvalue_noise": ("rank", values * np.sqrt(2.0 / rows)),
            "participation": ((), values.sum() ** 2 / (values**2).sum()),
            "exponent": ((), exponent),
        },
        coords={"rank": ranks},
        attrs={"rows": rows, "columns": columns},
    )
    status = f"{rows} rows, {columns} columns" + (f" ({dropped} constant ones left out)." if dropped else ".")
    return Result(dataset, {"type": "data.spectrum"}, "theory", True, status)
