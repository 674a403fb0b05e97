"""Experiments at the ends of their fields: a number or one sentence, never a traceback."""

import sys
from pathlib import Path

import numpy as np
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


@pytest.mark.parametrize(
    ("name", "changes", "variable"),
    [
        ("double-descent", {"noise": 2.0}, "second_minimum_ratio"),
        ("double-descent", {"signal": 1e-300}, "second_minimum_ratio"),
        ("benign-overfitting", {"growth": 1.2}, "rank_estimate"),
    ],
)
def test_what_is_infinite_for_a_reason_is_announced(name, changes, variable):
    """More noise than signal: the risk has no second minimum. A floor of few directions: no tail is wide enough."""
    kind = experiment_class(name)
    theory = kind(**{**kind.quick, **changes}).theory()
    assert theory.ok, theory.status
    assert np.isinf(theory.dataset[variable].values).any()


@pytest.mark.parametrize(
    ("name", "field", "least"),
    [
        ("marchenko-pastur", "ratio", 1e-6),
        ("bbp-transition", "ratio", 1e-6),
        ("max-margin", "step", 1e-5),
        ("spiked-tensor", "step", 1e-6),
    ],
)
def test_ends_that_were_lost_in_rounding_have_bounds(name, field, least):
    """At 1e-300 these had NaN in place of a number, or a sentence about a variable the user never named."""
    kind = experiment_class(name)
    with pytest.raises(InputError, match=rf"{field} .*1e-0{round(-np.log10(least))}"):
        kind(**{**kind.quick, field: 1e-300})
    assert field_ends.answer(kind, {field: least}, 10.0) == "number"


def test_a_level_below_every_start_is_named():
    with pytest.raises(InputError, match=r"level must be well above 0.025, the overlap of a random start at d = 1600"):
        experiment_class("online-pca")(d=1600, level=1e-3).theory()


def test_arithmetic_that_breaks_down_names_the_field():
    experiment = experiment_class("ridge-early-stopping")(d=60, noise=1e-9)

    with pytest.raises(InputError, match=r"ridge-early-stopping .* noise = 1e-09 \(default 0.5\)"):
        experiment._answered("theory", lambda: 1 / 0, ())
