"""Grids: what can be asked for, and what is refused before anything is made."""

import numpy as np
import pytest

from limen.problem import InputError
from limen.sweeps.grid import make_grid


@pytest.fixture(scope="module")
def toy():
    from limen_toy import Toy

    return Toy


def values(toy, *grid, **options):
    return [axis.values for axis in make_grid(toy, grid, **options).axes]


def test_ranges_and_lists(toy):
    assert values(toy, "slope=2:20:19") == [tuple(float(i) for i in range(2, 21))]
    assert values(toy, "slope=0:0.3:4") == [(0.0, 0.1, 0.2, 0.3)], "labels are the numbers one would write"
    assert values(toy, "delta=log:1:100:3") == [(1.0, 10.0, 100.0)], "an alias of slope"
    assert values(toy, "d=log:10:40:4") == [(10, 16, 25, 40)], "whole numbers are rounded"
    assert values(toy, "d=log:1:4:9")[0] == (1, 2, 3, 4), "and the same number comes once"
    assert values(toy, "shape=line, square") == [("line", "square")]
    assert values(toy, sizes="200,800") == [(200, 800)]
    assert values(toy, sizes=[200, 800]) == [(200, 800)]
    assert [axis.values for axis in make_grid(toy, {"slope": np.array([1, 2]), "shape": "line"}).axes] == [
        (1.0, 2.0),
        ("line",),
    ]


def test_commas_of_a_formula_do_not_separate_values():
    from limen.experiments.thresholds.learning_transition import LearningTransition

    assert values(LearningTransition, "target=z**2,max(z, 0)") == [("z**2", "max(z, 0)")]
    assert values(LearningTransition, "delta=3,5", sizes="40") == [((3.0,), (5.0,)), ((40.0,),)]


def test_product_and_zip(toy):
    product = make_grid(toy, ["slope=1:2:2", "d=10,20,30"])
    assert (len(product), product.shape) == (6, (2, 3))
    assert list(product)[1] == {"slope": 1.0, "d": 20}
    zipped = make_grid(toy, ["slope=1:3:3", "d=10,20,30"], zipped=True)
    assert list(zipped) == [{"slope": float(i), "d": 10 * i} for i in (1, 2, 3)]


@pytest.mark.parametrize(
    ("grid", "options", "words"),
    [
        ([], {}, "the grid is empty"),
        (["slope="], {}, "the grid of slope is empty"),
        (["slope=1:2:0"], {}, "empty or endless"),
        (["slope=1:inf:3"], {}, "empty or endless"),
        ({"slope": []}, {}, "the grid of slope is empty"),
        (["slope=1,,2"], {}, "has an empty value"),
        (["slope"], {}, "a grid looks like"),
        (["slop=1:2:3"], {}, "slop is not a parameter of toy: did you mean slope"),
        (["zzz=1:2:3"], {}, "its parameters are slope"),
        (["slope=1:2:1000000000"], {}, "1,000,000,000 points"),
        (["slope=1:2:100000", "d=1:100000:100000"], {}, "10,000,000,000 points"),
        (["slope=1:2:100000"], {"seeds": 1000}, "at most"),
        (["slope=1,1"], {}, "a value twice"),
        (["slope=1,2", "delta=3"], {}, "on the grid twice"),
        (["slope=one,two"], {}, "slope must be a number, got 'one'"),
        (["slope=log:0:1:5"], {}, "positive ends"),
        (["d=1:2:3"], {}, "d must be whole numbers, got 1.5"),
        (["shape=1:2:3"], {}, "shape is not a number"),
        (["slope=1,2", "d=1,2,3"], {"zipped": True}, "as many values"),
    ],
)
def test_a_mistake_is_one_sentence(toy, grid, options, words):
    with pytest.raises(InputError, match=words) as caught:
        make_grid(toy, grid, **options)
    assert "\n" not in str(caught.value)
