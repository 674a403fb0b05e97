"""Experiments at the ends of their fields: a number or one sentence, never a traceback."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import field_ends

from limen.experiments.registry import experiment_class
from limen.problem import InputError

# Closed forms; `benchmarks/field_ends.py` walks through all experiments, for a quarter of an hour.
LIGHT = ("marchenko-pastur", "ridge-early-stopping", "uniform-gap", "double-descent")


@pytest.mark.parametrize("name", LIGHT)
def test_every_end_of_every_field_is_answered(name):
    said = field_ends.walk(name, seconds=2.0)
    assert said
    assert {place: words for place, words in said.items() if words.startswith("error")} == {}


def test_arithmetic_that_breaks_down_names_the_field():
    experiment = experiment_class("ridge-early-stopping")(d=60, noise=1e-9)

    with pytest.raises(InputError, match=r"ridge-early-stopping .* noise = 1e-09 \(default 0.5\)"):
        experiment._answered("theory", lambda: 1 / 0, ())
