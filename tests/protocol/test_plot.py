"""Results draw themselves: what is on the axes is what is in the dataset."""

from itertools import pairwise

import numpy as np
import pytest
import xarray as xr

import limen
from limen.experiments.default_panels import default_figure
from limen.experiments.figure import Band, Figure, Line, Map, Panel, Points
from limen.plot.draw import draw
from limen.result import Result

TIMES = np.arange(5.0)


def result(kind, rate=0.1, seeds=0, d=None):
    shape = (seeds,) if seeds else ()
    lead = ("seed",) if seeds else ()
    noise = np.arange(max(seeds, 1.0)).reshape(-1, 1)[: seeds or None]
    curve = np.exp(-rate * TIMES) + (0.01 * noise if seeds else 0.0)
    overlap = np.broadcast_to(curve[..., None, None] * np.array([[1.0, 2.0], [3.0, 4.0]]), (*shape, 5, 2, 2))
    two = np.broadcast_to(np.outer(TIMES, TIMES)[..., None], (*shape, 5, 5, 1))
    data = xr.Dataset(
        {
            "train_loss": ((*lead, "time"), np.broadcast_to(curve, (*shape, 5))),
            "test_loss": ((*lead, "time"), 2.0 * np.broadcast_to(curve, (*shape, 5))),
            "overlap": ((*lead, "time", "neuron", "latent"), overlap),
            "gram": ((*lead, "time", "neuron", "neuron2"), overlap),
            "correlation": ((*lead, "time", "time2", "component"), two),
        },
        {"time": TIMES, "time2": TIMES, **({"seed": np.arange(seeds)} if seeds else {})},
        {} if d is None else {"d": d},
    )
    if kind == "theory":
        data["train_loss"].attrs["error"] = "train_loss_spread"
        data["train_loss_spread"] = ("time", np.full(5, 0.1))
    return Result(data, {"type": "Toy", "rate": rate}, kind, seeds=tuple(range(seeds)))


def marks(panel, kind):
    return [mark for mark in panel.marks if isinstance(mark, kind)]


def test_losses_stand_together_overlaps_by_component_two_times_as_maps():
    theory, simulation = result("theory"), result("simulation", seeds=4)
    panels = default_figure([theory, simulation]).panels
    losses, overlaps, gram, *maps = panels
    assert [line.label for line in marks(losses, Line)] == ["train loss", "test loss"]
    assert len(marks(losses, Points)) == 2 and len(marks(losses, Band)) == 1
    np.testing.assert_allclose(marks(losses, Line)[1].y, theory.dataset.test_loss)
    mean = simulation.dataset.train_loss.mean("seed")
    np.testing.assert_allclose(marks(losses, Points)[0].y, mean)
    np.testing.assert_allclose(marks(losses, Points)[0].error, simulation.dataset.train_loss.std("seed", ddof=1) / 2)
    assert len(marks(overlaps, Line)) == 4 and len(marks(gram, Line)) == 3  # of a Gram matrix the upper triangle
    assert overlaps.y_label == "overlap $M$" and "neuron 2, latent 1" in [m.label for m in marks(overlaps, Line)]
    assert [len(marks(panel, Map)) for panel in maps] == [1, 1]
    assert (marks(maps[0], Map)[0].low, marks(maps[0], Map)[0].high) == (0.0, 16.0)


def test_several_problems_on_one_axis_are_told_apart_by_what_differs():
    slow, fast, run = result("theory", 0.1), result("theory", 0.5), result("simulation", 0.5, seeds=3)
    first, *_ = default_figure([slow, fast, run], variables=["test_loss"]).panels
    assert [line.label for line in marks(first, Line)] == ["rate = 0.1", "rate = 0.5"]
    assert marks(first, Points)[0].colour == marks(first, Line)[1].colour
    assert marks(first, Points)[0].label == ""  # the line of its colour says it
    named, *_ = default_figure([slow, fast], ["cautious", "bold"], ["test_loss"]).panels
    assert [line.label for line in marks(named, Line)] == ["cautious", "bold"]


def test_results_draw_themselves_in_python_and_notebooks():
    theory, simulation = result("theory"), result("simulation", seeds=4)
    assert len(theory.plot(simulation).axes) >= 4
    assert len(limen.plot(theory, simulation, variables=["overlap"]).axes) == 1
    assert "data:image/png;base64" in theory._repr_html_()
    alone = Result(xr.Dataset({"radius": 1.0}), {"type": "Toy"}, "theory")
    assert "img" not in alone._repr_html_() and "radius" in alone._repr_html_()


def test_tables_have_a_row_per_time_and_seed():
    table = result("simulation", seeds=4).to_dataframe()
    assert table.index.names == ["seed", "time"] and len(table) == 20
    assert {"train_loss", "overlap_1_0", "gram_0_1"} <= set(table.columns)
    assert not any(name.startswith("correlation") for name in table.columns)
    assert table.loc[(0, 0.0), "overlap_1_0"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda r: limen.plot(), "plot takes results"),
        (lambda r: limen.plot(r, variables=["lost"]), "'lost' is not a variable of these results"),
        (lambda r: limen.plot(r, labels=["a", "b"]), "labels must be one per result"),
    ],
)
def test_mistakes_are_sentences(call, said):
    with pytest.raises(limen.InputError, match=said):
        call(result("theory"))


def test_what_the_theory_cannot_tell_apart_is_one_line_and_the_mean_of_its_points():
    theory, simulation = result("theory"), result("simulation", seeds=4)
    alike = theory.dataset.overlap.values.copy()
    alike[:, 1] = alike[:, 0]
    theory = Result(theory.dataset.assign(overlap=(theory.dataset.overlap.dims, alike)), theory.spec, "theory")
    (panel,) = default_figure([theory, simulation], variables=["overlap"]).panels
    assert [line.label for line in marks(panel, Line)] == [
        "neuron 1, latent 1 and 1 more alike",
        "neuron 1, latent 2 and 1 more alike",
    ]
    expected = simulation.dataset.overlap.mean(["seed", "neuron"]).isel(latent=0)
    np.testing.assert_allclose(marks(panel, Points)[0].y, expected)


@pytest.mark.parametrize("ends", [(15.0, 450.0), (0.03, 0.5), (2.0, 40.0), (0.2, 0.4)])
def test_labels_of_a_short_logarithmic_axis_do_not_touch(ends):
    at = np.geomspace(*ends, 9)
    canvas = draw(Figure([Panel("x", "y", [Line(at, at)], x_scale="log")]))
    canvas.draw_without_rendering()
    axis = canvas.axes[0].xaxis
    shown = [t.label1 for t in (*axis.get_major_ticks(), *axis.get_minor_ticks()) if t.label1.get_text()]
    boxes = sorted((label.get_window_extent() for label in shown), key=lambda box: box.x0)
    assert len(boxes) >= 3
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))


def test_long_names_leave_room_for_the_axes():
    drawn = limen.plot(limen.predict(limen.Ridge(0.5), 4), limen.predict(limen.RandomFeatures(1.0, 2.0, "relu"), 4))
    for axes in drawn.axes:
        words = axes.get_legend()
        assert axes.get_window_extent().width > 0.2 * drawn.bbox.width
        assert words is None or words.get_window_extent().width < drawn.bbox.width / len(drawn.axes)
