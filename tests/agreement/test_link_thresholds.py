"""Witnesses of the algorithmic threshold on drawn data: the spectral estimator and message passing.

Each prediction is held to four standard errors over seeds plus a finite-size allowance, and a prediction with a planted
error must fall outside the same band.
"""

import numpy as np
import pytest

from limen.problem.spec import InputError
from limen.problem.targets import target
from limen.simulation.thresholds.amp import message_passing
from limen.simulation.thresholds.label_spectral import spectral_overlaps
from limen.simulation.thresholds.several_amp import matrix_message_passing
from limen.simulation.thresholds.single_index import draw_single_index
from limen.theory.thresholds.algorithmic import algorithmic
from limen.theory.thresholds.bayes import bayes_overlap
from limen.theory.thresholds.overlap_matrices import evolved
from limen.theory.thresholds.spectral_estimator import spectral_overlap, spectral_weight

LINK = target("z**2", noise=0.25)


def agrees(draws: np.ndarray, prediction: float, allowance: float) -> bool:
    error = np.std(draws, ddof=1) / np.sqrt(len(draws))
    return bool(abs(np.mean(draws) - prediction) <= 4.0 * error + allowance)


def test_spectral_overlap_above_the_threshold_agrees_and_its_planted_twin_does_not() -> None:
    draws = spectral_overlaps(LINK, spectral_weight(LINK), 3.0, 600, range(8))
    assert agrees(draws, spectral_overlap(LINK, 3.0), 0.01)
    # The same estimator for labels without noise, and with a third fewer samples.
    assert not agrees(draws, spectral_overlap(target("z**2"), 3.0), 0.01)
    assert not agrees(draws, spectral_overlap(LINK, 2.0), 0.01)


def test_spectral_overlap_is_lost_below_the_threshold() -> None:
    below, above = 0.6 * algorithmic(LINK), 2.5 * algorithmic(LINK)
    weight = spectral_weight(LINK)
    lost, found = (spectral_overlaps(LINK, weight, delta, 1000, range(6)) for delta in (below, above))
    assert agrees(lost, 0.0, 0.03)
    assert not agrees(found, 0.0, 0.03)
    assert agrees(found, spectral_overlap(LINK, above), 0.03)


@pytest.fixture(scope="module")
def passed():
    return message_passing(LINK, 2.5, 1200, range(6), steps=20)


def test_message_passing_reaches_the_algorithmic_overlap_and_its_planted_twin_does_not(passed) -> None:
    draws = passed.overlaps[:, -1]
    assert agrees(draws, bayes_overlap(LINK, 2.5).algorithmic, 0.005)
    assert not agrees(draws, bayes_overlap(LINK, 2.0).algorithmic, 0.005)


def test_message_passing_knows_its_error(passed) -> None:
    assert agrees(passed.overlaps[:, -1] + passed.variances[:, -1], 1.0, 0.005)


def test_message_passing_forgets_its_start_below_the_threshold() -> None:
    below = message_passing(LINK, 0.6 * algorithmic(LINK), 1500, range(4), steps=12, start=0.1)
    assert agrees(below.overlaps[:, -1], 0.0, 0.01)
    assert below.overlaps[:, 0].mean() > 0.09


def test_draws_repeat_and_bad_input_is_refused() -> None:
    rows, labels = draw_single_index(LINK, 2.0, 10, 3)
    again = draw_single_index(LINK, 2.0, 10, 3)
    assert rows.shape == (20, 10) and labels.shape == (20,)
    np.testing.assert_array_equal(rows, again[0])
    np.testing.assert_array_equal(labels, again[1])
    with pytest.raises(InputError, match="samples_per_dim must be positive, got 0"):
        draw_single_index(LINK, 0.0, 10, 0)
    with pytest.raises(InputError, match="must have one latent direction here"):
        draw_single_index(target("z1*z2"), 1.0, 10, 0)
    with pytest.raises(InputError, match="must have additive noise and no e inside"):
        message_passing(target("z**2"), 1.0, 10, [0])
    with pytest.raises(InputError, match="start must lie between 0 and 1, got 1"):
        message_passing(LINK, 1.0, 10, [0], start=1.0)
    with pytest.raises(InputError, match="steps must be at least 1, got 0"):
        message_passing(LINK, 1.0, 10, [0], steps=0)
    with pytest.raises(InputError, match="dimension must be at least 3, got 2"):
        spectral_overlaps(LINK, np.abs, 1.0, 2, [0])


@pytest.mark.slow
def test_message_passing_of_two_directions_follows_its_state_evolution() -> None:
    """z1 z2 from a start that knows a fifth, step by step; a state evolution with a quarter fewer samples does not."""
    link, delta, steps = target("z1*z2", noise=0.25), 3.0, 6
    draws = np.trace(matrix_message_passing(link, delta, 600, range(12), steps, 0.2), axis1=2, axis2=3)

    def predicted(samples_per_dim: float) -> list[float]:
        overlap, traces = 0.2 * np.eye(2), []
        for _ in range(steps):
            overlap = evolved(link, samples_per_dim, overlap)
            traces.append(float(np.trace(overlap)))
        return traces

    right, wrong = (
        [agrees(draws[:, 1 + t], value, 0.01) for t, value in enumerate(predicted(ratio))]
        for ratio in (delta, 0.75 * delta)
    )
    assert all(right) and not all(wrong)
