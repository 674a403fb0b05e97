"""The campaign of random problems: draws, table, and twenty problems put through it with few seeds."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import campaign
import pytest

SEED = 16


def test_draws_depend_on_their_number_alone():
    assert campaign.draw(SEED, 3).problem == campaign.draw(SEED, 3).problem
    kinds = {type(getattr(campaign.draw(SEED, i).problem, "algorithm", None)).__name__ for i in range(60)}
    assert {"OnePassSGD", "SphericalSGD", "GradientDescent", "GradientFlow"} <= kinds


def test_the_table_counts_planted_errors_that_can_be_seen():
    outcomes = [
        campaign.Outcome("Ridge", "agrees", "", 1.0, 32, "agrees", 0.01, grown="disagrees"),
        campaign.Outcome("Ridge", "agrees", "", 2.0, 32, "disagrees", 0.2),
        campaign.Outcome("Ridge", "cannot tell", "", 3.0, 32, "cannot tell", 0.1),
        campaign.Outcome("Ridge", "refused", "d is too small.", 0.0),
    ]
    page = campaign.table(outcomes)
    assert "| agrees | 2 (50%) | 1 (33%) |  |" in page
    assert "| disagrees |  | 1 (33%) | 1 (100%) |" in page
    assert "moves the prediction by more than 4%: 2, found 1 (50%)" in page
    assert "1 x d is too small." in page


@pytest.mark.slow
def test_twenty_problems_nobody_tuned():
    """One size and 32 seeds: too few to tell a tenth, enough to see a theory that is wrong, or half as fast again."""
    outcomes = [campaign.judged(campaign.draw(SEED, number), planted=1.5, quick=True) for number in range(20)]
    said = {number: (one.verdict, one.sentence) for number, one in enumerate(outcomes)}
    assert not {n: why for n, why in said.items() if why[0] in ("disagrees", "crash", "hang", "refused")}
    assert sum(one.verdict in ("agrees", "cannot tell") for one in outcomes) >= 15
    twins = [one for one in outcomes if one.planted and one.moved > 0.1]
    assert len(twins) >= 10
    assert sum(one.planted == "disagrees" for one in twins) >= 0.6 * len(twins)
