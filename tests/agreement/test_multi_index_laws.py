"""Random frames find two directions: rates and noise in closed form, the chain against SGD, the law and its twins."""

from dataclasses import replace

import numpy as np
import pytest

import limen
from limen.experiments.effective.multi_index import MultiIndexLosses
from limen.problem import InputError
from limen.result import merge
from limen.simulation.effective.frame_chain import chain_lengths
from limen.simulation.effective.stiefel_sgd import solve_seeds
from limen.theory.effective import stiefel_hitting
from limen.theory.effective.stiefel_hitting import frame_hitting_times, growing_modes

STEP, NOISE = 0.1, 0.1
RATE = 2.0 - 2.0 * STEP * (4.0 + NOISE)


def product(**changes) -> limen.MultiIndex:
    return limen.MultiIndex(**{"target": limen.target("z1*z2", noise=NOISE), "step": STEP} | changes)


def test_what_grows_in_a_product_of_two_directions():
    """Of z1 z2: the sums of both pairs of overlaps grow at 2 - 2 step (4 + noise), kicked by 16 + 4 noise."""
    rates, modes, spread = growing_modes(product())
    assert rates == pytest.approx([RATE, RATE], rel=0.01)
    patterns = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]) / np.sqrt(2.0)
    assert np.linalg.norm(patterns @ modes) == pytest.approx(np.sqrt(2.0), rel=1e-3)
    assert spread == pytest.approx((1.0 + STEP * (16.0 + 4.0 * NOISE) / (2.0 * RATE)) * np.eye(2), abs=0.04)


def test_four_times_the_dimension_takes_a_logarithm_longer():
    near, far = (frame_hitting_times(product(), d, 0.5, 8.0, 8).mean() for d in (4_000, 16_000))
    assert far - near == pytest.approx(np.log(4.0) / (2.0 * RATE), rel=0.02)


def test_the_chain_of_overlaps_is_that_of_all_dimensions():
    times, d = np.array([0.0, 0.4, 0.8]), 24
    found = chain_lengths(product(), times, d, seed=0, runs=1024)
    overlaps = solve_seeds(product(), times, d, tuple(range(256)))[0].dataset.overlap.values
    full = np.sqrt((overlaps**2).sum(axis=(2, 3)) / 2.0)
    for power in (1, 2):
        one, other = found**power, full**power
        error = np.sqrt(one.var(axis=0) / len(one) + other.var(axis=0) / len(other))
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4.0 * error).all()


@pytest.mark.parametrize(
    "posed, arguments, word",
    [
        (product(target=limen.target("z1 + z2")), (500, 0.5, 1.0), "exponent"),
        (product(step=0.5), (500, 0.5, 1.0), "step"),
        (product(), (20, 0.5, 1.0), "level"),
    ],
)
def test_laws_that_do_not_hold_are_refused(posed, arguments, word):
    with pytest.raises(InputError, match=word):
        frame_hitting_times(posed, *arguments)
    with pytest.raises(InputError, match="link"):
        MultiIndexLosses(link="z1**2")


@pytest.mark.slow
def test_overlaps_and_hitting_times_agree_and_twins_do_not(monkeypatch):
    experiment = MultiIndexLosses(**MultiIndexLosses.quick)
    theory, runs = experiment.theory(), merge([experiment.simulate(seed) for seed in range(experiment.quick_seeds)])
    comparison = experiment.compare(theory, runs)
    assert comparison.verdict == "agrees", str(comparison)
    # The noise of the steps left out of the start, then the corrector left out of the equations.
    rates, modes, spread = growing_modes(experiment.problem("square"))
    monkeypatch.setattr(stiefel_hitting, "growing_modes", lambda problem: (rates, modes, np.eye(len(spread))))
    quiet = experiment.theory()
    monkeypatch.undo()
    plain = theory.dataset.assign(overlap=experiment.model_copy(update={"step": 1e-3}).theory().dataset.overlap)
    for wrong in (quiet, replace(theory, dataset=plain)):
        twin = experiment.compare(wrong, runs)
        assert twin.verdict == "disagrees", str(twin)
