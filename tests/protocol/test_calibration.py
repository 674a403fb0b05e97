"""The numbers of seeds of the presets: made from spreads by a rule."""

import argparse
import sys
from itertools import islice
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


def test_repeats_are_lines_that_add_up(tmp_path):
    lines, page = tmp_path / "lines.jsonl", tmp_path / "page.md"
    for wanted in (1, 2):
        asked = argparse.Namespace(default=False, seeds=8, repeats=wanted, seconds=60.0, lines=lines)
        calibration.measure("universality", asked)
    kept = calibration.read(lines)
    assert len(kept) == 2
    assert len({line["first_seed"] for line in kept}) == 2, "seeds are fresh"
    assert all(len(line["verdicts"]) == len(calibration.ERRORS) for line in kept)
    # Another number of seeds is another measurement.
    assert calibration.counted(kept, calibration.label("universality", False, 9)) == []
    made = calibration.table(kept, ["universality", "perceptron"], False, 8)
    assert "| universality | 8 |" in made
    assert "| **all** | | | 2 |" in made
    assert "Without a row: `perceptron`." in made
    page.write_text("before\n<!-- table: ten -->\nold\n<!-- end -->\nafter\n")
    calibration.write_page(page, kept)
    assert page.read_text() == "before\n<!-- table: ten -->\nNo lines.\n<!-- end -->\nafter\n"


def test_a_paired_theory_is_made_for_many_repeats_and_keeps_its_rows():
    experiment = experiment_class("phase-retrieval-sgd")(d=20, rate=0.08)
    first, second = islice(calibration.repeats(experiment, 6, missing=2), 2)
    assert second["first_seed"] == first["first_seed"] + 6


def test_planted_errors_are_large_and_keep_what_the_theory_says_of_itself():
    experiment = experiment_class("universality")(d=60)
    theory = experiment.theory()
    name = next(iter(theory.dataset.data_vars))
    theory.dataset[name].attrs["error"] = 0.1
    wrong = calibration.planted(theory, [name, "nothing"], 0.05)
    np.testing.assert_allclose(wrong.dataset[name], 1.05 * theory.dataset[name])
    assert wrong.dataset[name].attrs == theory.dataset[name].attrs
