"""Phase diagrams of small datasets written down by hand: which axis is which, where a level is crossed, which error."""

import numpy as np
import pytest
import xarray as xr

from limen.experiments.figure import Line, Map, Points, Threshold
from limen.sweeps.phase_diagram import _level, _mean_over_runs, _scale, level_lines, phase_diagram

SLOPES, SIZES = np.array([0.0, 1.0, 2.0, 4.0]), np.array([10, 20, 30, 40, 50])


def toy():
    from limen_toy import Toy

    return Toy


def test_a_crossing_is_interpolated_along_rows_or_else_along_columns():
    x, y = np.array([0.0, 1.0, 4.0]), np.array([10.0, 20.0])
    ((a, b),) = level_lines(x, y, np.array([[0.0, 1.0, 5.0], [0.0, 4.0, 5.0]]), 2.0)
    np.testing.assert_allclose(a, [1.75, 0.5])
    np.testing.assert_allclose(b, [10.0, 20.0])
    ((a, b),) = level_lines(x, y, np.array([[0.0, 1.0, 0.0], [8.0, 5.0, 4.0]]), 2.0)
    np.testing.assert_allclose(a, [0.0, 1.0, 4.0], err_msg="no row crosses it")
    np.testing.assert_allclose(b, [12.5, 12.5, 15.0])
    assert level_lines(x, y, np.array([[0.0, 1.0, 0.0], [np.nan, 1.0, 0.0]]), 2.0) == []


def test_a_map_has_its_first_parameter_across_and_thresholds_on_their_own_axes():
    """Values that rise with the size alone: theory's line is horizontal, and so is a threshold of the size."""
    theory = np.broadcast_to(SIZES / 10.0, (4, 5))
    runs = theory[:, :, None] + np.array([-0.25, 0.25]) + 10.0 * SLOPES[:, None, None]
    dims = ("slope", "d")
    data = xr.Dataset(
        {"level": ((*dims, "seed"), runs), "level_theory": (dims, theory)},
        {"slope": SLOPES, "d": SIZES, "seed": [0, 1]},
    )
    thresholds = {"slope": {"a": 3.0, "far away": 100.0}, "d": {"b": 35.0}}
    panel = phase_diagram(toy(), data, dims, thresholds).panels[0]
    (diagram,) = [mark for mark in panel.marks if isinstance(mark, Map)]
    np.testing.assert_allclose(diagram.x, SLOPES)
    np.testing.assert_allclose(diagram.y, SIZES)
    np.testing.assert_allclose(diagram.values, SIZES[:, None] / 10.0 + 10.0 * SLOPES)
    (line,) = [mark for mark in panel.marks if isinstance(mark, Line)]
    np.testing.assert_allclose(line.y, 30.0, err_msg="the middle of 1..5")
    np.testing.assert_allclose(line.x, SLOPES)
    # At sizes 10 and 20 the runs pass 3 between the slopes 0 and 1; at the others they begin there.
    (points,) = [mark for mark in panel.marks if isinstance(mark, Points)]
    np.testing.assert_allclose(points.y, [10.0, 20.0])
    np.testing.assert_allclose(points.x, [0.2, 0.1])
    marks = {mark.label: (mark.x, mark.y) for mark in panel.marks if isinstance(mark, Threshold)}
    assert marks == {"a": (3.0, None), "b": (None, 35.0)}
    assert panel.x_label == toy().model_fields["slope"].description
    assert panel.y_label == toy().model_fields["d"].description


def test_mean_and_standard_error_over_the_runs_that_are_there():
    runs = np.array([[1.0, np.nan, np.nan], [3.0, np.nan, 5.0], [np.nan, np.nan, 7.0], [5.0, np.nan, np.nan]])
    mean, error = _mean_over_runs(runs)
    np.testing.assert_allclose(mean, [3.0, np.nan, 6.0])
    np.testing.assert_allclose(error, [np.sqrt(8.0 / (3 * 2)), 0.0, 1.0])
    whole, of_whole = _mean_over_runs(np.array([[1.0], [3.0], [5.0]]))
    np.testing.assert_allclose([whole[0], of_whole[0]], [3.0, np.sqrt(8.0 / (3 * 2))])


def test_levels_and_scales():
    assert _level(np.array([0.1, np.nan, 0.8])) == 0.5, "a probability passes one half"
    assert _level(np.array([0.1, 2.1])) == pytest.approx(1.1)
    assert _scale(np.array([10.0, 20.0, 40.0, 80.0])) == "log"
    assert _scale(np.array([10.0, 40.0, 70.0, 100.0])) == "linear"
    assert _scale(np.array([0.0, 1.0, 10.0])) == "linear"


def test_a_headline_tells_how_many_runs_it_is_made_of_and_has_no_error_bar():
    data = xr.Dataset({"headline_level": ("slope", SLOPES), "headline_level_theory": ("slope", SLOPES)})
    figure = phase_diagram(toy(), data.assign_coords(slope=SLOPES), ["slope"], averaged=6)
    assert figure.key == "Lines: theory. Points: simulation, 6 seeds."
    (points,) = [mark for mark in figure.panels[0].marks if isinstance(mark, Points)]
    assert points.error is None
