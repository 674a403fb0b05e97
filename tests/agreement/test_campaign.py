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


def test_the_table_counts_planted_errors_that_can_be_seen():
    outcomes = [
        campaign.Outcome("Ridge", "agrees", "", 1.0, 32, "agrees", 0.01),
        campaign.Outcome("Ridge", "agrees", "", 2.0, 32, "disagrees", 0.2),
        campaign.Outcome("Ridge", "cannot tell", "", 3.0, 32, "cannot tell", 0.1),
        campaign.Outcome("Ridge", "refused", "d is too small.", 0.0),
    ]
    page = campaign.table(outcomes)
    assert "| agrees | 2 | 50% | 1 (33%) |" in page
    assert "moves the prediction by more than 4%: 2, found 1 (50%)" in page
    assert "1 x d is too small." in page
