"""Bayes-optimal overlaps of several directions: slopes, one direction hidden among two, rotations, closed forms."""

import numpy as np
import pytest

from limen.problem.targets import target
from limen.theory.thresholds.algorithmic import algorithmic
from limen.theory.thresholds.bayes import bayes_overlap
from limen.theory.thresholds.information_theoretic import information_theoretic
from limen.theory.thresholds.label_channel import target_channel
from limen.theory.thresholds.overlap_curve import information_and_slope as of_one
from limen.theory.thresholds.overlap_matrices import entropy, evolved, information_and_slope

PRODUCT = target("z1*z2", noise=0.25)
HIDDEN, ALONE = target("(z1 + z2)**2/2", noise=0.25), target("z**2", noise=0.25)
ALONG = np.array([1.0, 1.0]) / 2.0**0.5


def test_the_slope_is_twice_the_gradient_of_information():
    at, step = np.array([[0.4, 0.2], [0.2, 0.3]]), 1e-3
    slope = information_and_slope(PRODUCT, at)[1]
    for move in (np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.array([[0.0, 1.0], [1.0, 0.0]])):
        above, below = (information_and_slope(PRODUCT, at + sign * step * move)[0] for sign in (1.0, -1.0))
        assert (above - below) / step == pytest.approx(np.sum(slope * move), rel=1e-3)


def test_one_direction_hidden_among_two_is_one_direction():
    channel = target_channel(ALONE, 1 << 11, 256)
    for q in (0.05, 0.4, 0.7):
        information, slope = information_and_slope(HIDDEN, q * np.outer(ALONG, ALONG))
        alone = of_one(channel, q)
        assert (information, ALONG @ slope @ ALONG) == pytest.approx(alone, rel=6e-3)
        np.testing.assert_allclose(slope @ [1.0, -1.0], 0.0, atol=1e-9)


def test_sums_of_two_linear_labels_know_their_sum_alone():
    """y = z1 + z2 + noise: the quadratic of a linear label of variance 1/2 of the noise, along the sum."""
    noise, delta = 1.0, 1.5
    found = bayes_overlap(target("z1 + z2", noise=noise), delta)
    half = 0.5 * (1.0 + 0.5 * noise + delta)
    exact = half - np.sqrt(half**2 - delta)
    assert found.ok
    np.testing.assert_allclose(found.algorithmic, exact * np.outer(ALONG, ALONG), atol=4e-3)
    np.testing.assert_allclose(found.information_theoretic, found.algorithmic)


def test_rotated_coordinates_rotate_the_overlap():
    """z1 z2 in the basis of sum and difference is half the difference of two squares."""
    turned, turn = target("(z1**2 - z2**2)/2", noise=0.25), np.array([[1.0, 1.0], [1.0, -1.0]]) / 2.0**0.5
    at = np.array([[0.5, 0.1], [0.1, 0.3]])
    ours, theirs = evolved(PRODUCT, 2.0, at), evolved(turned, 2.0, turn @ at @ turn.T)
    np.testing.assert_allclose(turn @ ours @ turn.T, theirs, atol=1e-3)


def test_faint_overlaps_grow_from_the_algorithmic_threshold_on():
    """Near zero the state evolution is linear, with factor delta/delta_alg along sum and difference."""
    faint = 1e-4 * np.outer(ALONG, ALONG)
    growth = ALONG @ evolved(PRODUCT, 1.0, faint) @ ALONG / 1e-4
    assert growth == pytest.approx(1.0 / algorithmic(PRODUCT), rel=1e-2)


@pytest.mark.slow
def test_thresholds_and_overlaps_of_a_product():
    efficient, possible = algorithmic(PRODUCT), information_theoretic(PRODUCT)
    assert 0.0 < possible <= efficient
    assert np.trace(bayes_overlap(PRODUCT, 0.97 * possible).information_theoretic) == 0.0
    above = bayes_overlap(PRODUCT, 1.1 * efficient)
    assert above.ok and np.trace(above.algorithmic) > 0.01
    # Both fixed points satisfy their own equation, and the best has not less to gain than nothing.
    gain = 1.1 * efficient * information_and_slope(PRODUCT, above.information_theoretic)[0]
    assert gain >= entropy(above.information_theoretic)
    for overlap in (above.algorithmic, above.information_theoretic):
        np.testing.assert_allclose(evolved(PRODUCT, 1.1 * efficient, overlap), overlap, atol=1e-4)


@pytest.mark.slow
def test_the_threshold_of_a_hidden_direction_is_that_of_one():
    link, alone = target("cos(3*(z1 + z2)/2**0.5)", noise=0.05), target("cos(3*z)", noise=0.05)
    assert information_theoretic(HIDDEN) == pytest.approx(information_theoretic(ALONE), rel=1e-2)
    assert information_theoretic(link) == pytest.approx(information_theoretic(alone), rel=2e-2)


@pytest.mark.slow
def test_one_linear_direction_of_three_has_a_closed_form():
    # y = z1 + noise of variance 1 at delta = 1.5: q = delta/(delta + 2 - q), so q = 1/2; the others stay unknown.
    found = bayes_overlap(target("z1 + 0*z2 + 0*z3", noise=1.0), samples_per_dim=1.5)
    assert found.ok and np.allclose(found.algorithmic, np.diag([0.5, 0.0, 0.0]), atol=0.005)
    other = bayes_overlap(target("z1 + 0*z2 + 0*z3", noise=1.0), samples_per_dim=1.6)
    assert other.algorithmic[0, 0] > 0.51
