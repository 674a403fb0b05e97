"""Datasets made without asking for Dask are those xarray makes."""

import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from limen.labelled import labelled


@pytest.mark.parametrize("coords", [None, {"time": np.arange(3.0), "step": ("time", np.arange(3)), "d": 7}])
def test_labelled_is_a_dataset_of_xarray(coords):
    variables = {
        "loss": (("time",), np.ones(3), {"error": "loss_spread"}),
        "gram": (("time", "neuron", "neuron2"), np.zeros((3, 2, 2))),
        "single": 1.5,
        "name": ("time", ["a", "b", "c"]),
        "taken": xr.DataArray(np.arange(2), dims="neuron"),
    }
    found, expected = labelled(variables, coords, {"d": 3}), xr.Dataset(variables, coords, {"d": 3})
    xr.testing.assert_identical(found, expected)
    xr.testing.assert_identical(found.isel(time=slice(1, None)), expected.isel(time=slice(1, None)))
    assert {name: type(index) for name, index in found.indexes.items()} == {
        name: type(index) for name, index in expected.indexes.items()
    }


@pytest.mark.parametrize(
    "rest", ["limen.OnePassSGD(0.5), start=limen.OverlapStart(0.3)", "limen.GradientDescent(0.5), 4.0"]
)
def test_first_predictions_import_no_more_than_they_need(rest):
    code = f"""
import sys, limen
limen.predict(limen.TwoLayer("tanh(z)", limen.network(1, "tanh"), {rest}), 2)
print(*(name for name in ("dask", "scipy.stats", "diffrax", "scipy.optimize") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_flow_of_series_and_closed_forms_asks_for_no_jax():
    code = """
import sys
from limen.experiments.registry import experiment_class
names = ("unlearning", "interpolation-threshold", "interpolation-diagram", "lazy-vs-feature", "complexity-growth")
for chosen in (experiment_class(name)() for name in names):
    assert (chosen.first_look() or (chosen, chosen.theory()))[1].ok
print(*(name for name in ("jax", "dask", "scipy.stats", "equinox") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
