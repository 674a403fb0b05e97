"""Large networks: the Gaussian model agrees with the theory from both starts, planted errors do not; what the map over
width, time and start says."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from limen.comparison import Comparison
from limen.experiments.flow.large_networks import LargeNetworks
from limen.result import Result, merge

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {
    "widths": "5 10", "exponents": "0 0.5", "horizon": 5.0, "witness_width": 4, "witness_horizon": 8.0, "d": 30,
    "tolerance": 0.05,
}  # fmt: skip
SEEDS = 48


@lru_cache(maxsize=1)
def runs() -> Result:
    return merge([LargeNetworks(**SMALL).simulate(seed) for seed in range(SEEDS)])


def judged(**planted: Any) -> Comparison:
    theory = LargeNetworks(**SMALL | planted).theory()
    # Within a tenth of the range, band included: what these dimensions and seeds can show.
    return LargeNetworks(**SMALL).compare(replace(theory, spec=runs().spec), runs()).judged(0.01, 0.1)


def test_the_gaussian_model_agrees_from_both_starts():
    comparison = judged()
    assert comparison.verdict == "agrees", str(comparison)


@pytest.mark.parametrize("planted", [{"noise": 0.15}, {"trained": False}, {"second_layer": 1.2}], ids=str)
def test_planted_errors_are_caught(planted):
    comparison = judged(**planted)
    assert comparison.verdict == "disagrees", str(comparison)


def test_size_does_no_harm_laziness_and_late_stopping_do():
    found = LargeNetworks(widths="10 40 160", exponents="0 0.5", tolerance=0.05).theory().dataset
    mean_field, lazy = found.isel(exponent=0), found.isel(exponent=-1)
    # Every width fits all labels in the end, from both starts.
    assert np.all(found.interpolates.values == 1.0)
    # Stopped in time, wider is better from the mean-field start; the lazy one is worse at every width and time.
    assert np.all(np.diff(mean_field.least_test_loss.values) < 0.0)
    assert np.all(lazy.least_test_loss.values > mean_field.least_test_loss.values)
    # Late stopping costs, though little here: one to five per cent of the best from the mean-field start.
    late = mean_field.test_loss.values[:, -1] / mean_field.least_test_loss.values
    assert np.all((late > 1.01) & (late < 1.05))


def test_without_signal_nothing_can_be_gained():
    found = LargeNetworks(widths="10 40", exponents="0 0.5", tolerance=0.05, signal=False).theory().dataset
    # The test loss of the function zero is half the noise; no time is better than that.
    assert np.all(found.test_loss.values >= 0.15 - 1e-9)
