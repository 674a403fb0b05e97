"""A small draw of the campaign of random problems: nothing crashes or hangs, nothing disagrees that should not."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import campaign

SEED, COUNT = 16, 20


def test_draws_depend_on_their_number_alone():
    assert campaign.draw(SEED, 3).problem == campaign.draw(SEED, 3).problem
    kinds = {type(getattr(campaign.draw(SEED, i).problem, "algorithm", None)).__name__ for i in range(60)}
    assert {"OnePassSGD", "SphericalSGD", "GradientDescent", "GradientFlow"} <= kinds


@pytest.mark.slow
def test_twenty_problems_that_nobody_tuned():
    outcomes = campaign.campaign(COUNT, SEED, shrink=False)
    verdicts = [outcome.verdict for outcome in outcomes]
    assert not {"crash", "hang"} & set(verdicts)
    assert verdicts.count("disagrees") <= 1
