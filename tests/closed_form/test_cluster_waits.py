"""Clusters of any weights on the circle: closed forms and symmetries of their merging times, and when they form."""

import numpy as np
import pytest

import limen
from limen.problem import InputError
from limen.theory.attention import polygon_rates, two_cluster_time

merging_times = limen.attention.merging_times
ANGLES, WEIGHTS = np.array([0.1, 1.3, 2.9, 4.6]), np.array([0.4, 0.2, 0.3, 0.1])


@pytest.mark.parametrize("beta, angle", [(0.0, 2.0), (4.0, 0.7), (9.0, 2.4)])
def test_two_clusters_merge_in_closed_form(beta, angle):
    expected = two_cluster_time([0.7, 0.3], beta, float(np.cos(angle)))
    for turn in (0.0, 3.0, 6.0):
        assert merging_times([turn, turn + angle], [7, 3], beta, 1e9)[0] == pytest.approx(expected, rel=1e-5)


def test_only_the_figure_counts_not_its_place():
    expected = merging_times(ANGLES, WEIGHTS, 5.0, 1e6)
    assert (np.diff(expected) > 0.0).all()
    order = [2, 0, 3, 1]
    for angles, weights in ((ANGLES + 2.0, 3.0 * WEIGHTS), (-ANGLES, WEIGHTS), (ANGLES[order], WEIGHTS[order])):
        assert merging_times(angles, weights, 5.0, 1e6) == pytest.approx(expected, rel=1e-5)


def test_parts_of_one_cluster_have_met_at_once():
    parts = merging_times([*ANGLES, ANGLES[2] + 1e-9], [*WEIGHTS[:2], 0.1, WEIGHTS[3], 0.2], 5.0, 1e6)
    assert parts[0] == 0.0
    assert parts[1:] == pytest.approx(merging_times(ANGLES, WEIGHTS, 5.0, 1e6), rel=1e-5)


def test_a_triangle_is_left_at_its_growth_rate():
    third, beta = 2.0 * np.pi / 3.0, 3.0
    first, later = (merging_times([0.0, third + bend, -third], [1, 1, 1], beta, 1e6)[0] for bend in (1e-4, 1e-6))
    assert later - first == pytest.approx(np.log(100.0) / polygon_rates(3, beta)[0].max(), rel=1e-3)


def test_what_comes_after_the_horizon_is_infinite():
    whole = merging_times(ANGLES, WEIGHTS, 5.0, 1e6)
    cut = merging_times(ANGLES, WEIGHTS, 5.0, 0.5 * (whole[0] + whole[1]))
    assert cut[0] == pytest.approx(whole[0], rel=1e-6) and np.isinf(cut[1:]).all()
    assert merging_times([1.0], [1.0], 5.0, 10.0).size == 0


def test_clusters_form_after_half_the_logarithm_of_the_tokens():
    # The rates of wave numbers 1, 2, 3 at beta = 5 on the circle are .178677, .514117, .682678, the last the largest.
    assert limen.attention.forming_time(5.0, 200) == pytest.approx(np.log(200.0) / (2.0 * 0.682678), rel=1e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        ([0.0, 1.0], [1.0], 1.0, 1.0),
        ([0.0, 1.0], [1.0, -1.0], 1.0, 1.0),
        ([0.0, 1.0], [1.0, 1.0], -1.0, 1.0),
        ([0.0, 1.0], [1.0, 1.0], 1.0, 0.0),
        ([0.0, 1.0], [1.0, 1.0], 1.0, 1.0, 2.0),
    ],
)
def test_odd_clusters_are_refused(arguments):
    with pytest.raises(InputError):
        merging_times(*arguments)
