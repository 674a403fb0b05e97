"""Mini-batch SGD on the clock of gradient flow: trained networks agree with both theories, and neither stands for the
other."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from limen.comparison import Comparison
from limen.experiments.flow.sgd_beside_flow import LOSSES, SGDBesideFlow
from limen.result import Result, merge

pytestmark = pytest.mark.slow

# Noise of the batches of order one: rate / (batch_fraction * samples_per_dim) = 2.
SMALL: dict[str, Any] = {
    "width": 1, "samples_per_dim": 2.0, "rates": "1", "batch_fraction": 0.25, "horizon": 2.0, "d": 60,
}  # fmt: skip
SEEDS = 256


@lru_cache(maxsize=1)
def runs() -> Result:
    return merge([SGDBesideFlow(**SMALL).simulate(seed) for seed in range(SEEDS)])


@lru_cache(maxsize=8)
def theory(**planted: Any) -> Result:
    return replace(SGDBesideFlow(**SMALL | planted).theory(), spec=runs().spec)


def judged(wrong: Result) -> Comparison:
    # Within a tenth of the range, band included: what this dimension can show.
    return SGDBesideFlow(**SMALL).compare(wrong, runs()).judged(0.01, 0.1)


def test_both_theories_agree_with_training():
    comparison = judged(theory())
    assert theory().ok, theory().status
    assert comparison.verdict == "agrees", str(comparison)


@pytest.mark.parametrize("planted", [{"batch_fraction": 1.0}, {"noise": 0.4}], ids=str)
def test_planted_errors_are_caught(planted):
    comparison = judged(theory(**planted))
    assert comparison.verdict == "disagrees", str(comparison)


def test_the_flow_does_not_stand_for_noisy_sgd():
    right = theory()
    flow = {name: (("rate", "moment"), right.dataset[f"flow_{name}"].values[None]) for name in LOSSES}
    comparison = judged(replace(right, dataset=right.dataset.assign(flow)))
    assert comparison.verdict == "disagrees", str(comparison)


def test_small_steps_lie_on_the_flow():
    quiet = SGDBesideFlow(**SMALL | {"rates": "0.05 0.1", "batch_fraction": 1.0}).theory().dataset
    for name in LOSSES:
        apart = [np.abs(quiet[name].values[i] - quiet[f"flow_{name}"].values).max() for i in range(2)]
        # First order in the step: halving it halves the distance.
        assert apart[0] < 0.6 * apart[1]
        assert apart[0] < 0.01
