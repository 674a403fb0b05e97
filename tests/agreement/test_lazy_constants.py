"""Constants of lazy training: measured starts agree with the theory, planted errors do not; the bounds bound."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

import limen
from limen.experiments.kernel.tangent.lazy_constants import LazyConstantsExperiment
from limen.result import Result, merge
from limen.simulation.kernel.networks.lazy_training import lazy_training

pytestmark = pytest.mark.slow

SMALL = {"d": 200, "width": 400, "ratios": "0.1 0.3 0.7"}
SEEDS = 160


@lru_cache(maxsize=1)
def runs() -> Result:
    return merge([LazyConstantsExperiment(**SMALL).simulate(seed) for seed in range(SEEDS)])


def judged(**planted):
    theory = LazyConstantsExperiment(**SMALL | planted).theory()
    return LazyConstantsExperiment(**SMALL).compare(replace(theory, spec=runs().spec), runs())


def test_measured_starts_agree():
    comparison = judged()
    assert comparison.verdict == "agrees", str(comparison)


@pytest.mark.parametrize("planted", [{"activation": "erf"}, {"width": 40}], ids=str)
def test_planted_errors_are_caught(planted):
    comparison = judged(**planted)
    assert comparison.verdict == "disagrees", str(comparison)


def test_bounds_and_truth_of_one_training():
    n, d, m, alpha = 20, 100, 200, 32.0
    expected = limen.kernel.lazy_constants("tanh", n, d, m, alpha)
    found = lazy_training(alpha, np.geomspace(1.0, 300.0, 6), samples=n, dimension=d, width=m)
    assert expected.bounds.holds
    # The linear network is the truth to a part of 1/alpha; the bound is above it by two to four.
    assert found.distance[-1] == pytest.approx(expected.distance, rel=0.1)
    assert 2.0 < expected.bounds.distance / found.distance[-1] < 4.0
    # The deviation is bounded too, by a thousand times too much.
    assert found.parameter_deviation.max() < 1e-2 * expected.bounds.parameter_deviation
