"""The campaign of random problems: its draws depend on seed and number alone."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import campaign

SEED = 16


def test_draws_depend_on_their_number_alone():
    assert campaign.draw(SEED, 3).problem == campaign.draw(SEED, 3).problem
    kinds = {type(getattr(campaign.draw(SEED, i).problem, "algorithm", None)).__name__ for i in range(60)}
    assert {"OnePassSGD", "SphericalSGD", "GradientDescent", "GradientFlow"} <= kinds
