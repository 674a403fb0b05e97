"""The numbers of seeds of the presets: made from spreads by a rule."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import calibration

from limen.experiments.registry import PLACES, experiment_class


@pytest.mark.parametrize("name", sorted(PLACES))
def test_presets_name_seeds_that_can_be_judged(name):
    kind = experiment_class(name)
    assert 8 <= kind.quick_seeds <= 1000
    assert kind.default_seeds >= 6


def test_seeds_are_computed_from_the_spread_of_a_pilot():
    experiment = experiment_class("marchenko-pastur")(d=60)
    found, cost = calibration.needed(experiment, seconds=5.0)
    assert set(found) == {"distribution", "edge_eigenvalue"}
    assert all(count in calibration.COUNTS for count in found.values())
    assert cost < 1.0
    simulation = [experiment.simulate(seed) for seed in range(2)]
    few = calibration.merge(simulation)
    theory, many = calibration.resampled(experiment.theory(), few, 12, np.random.default_rng(0))
    assert many.seeds == tuple(range(12))
    assert many.dataset.sizes["seed"] == 12
    assert experiment.compare(theory, many).seeds == 12
