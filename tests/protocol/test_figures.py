"""Figures: default panels, the key that tells theory from simulation, formulas in titles, words that stand free."""

from typing import ClassVar

import numpy as np
import pytest
import xarray as xr
from pydantic import Field

from limen.experiments.curve import Curve
from limen.experiments.descent.batch_size import BatchSize
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Histogram, Line, Map, Panel, Points, Threshold, witnesses
from limen.experiments.kernel.interpolation.benign_overfitting import BenignOverfitting
from limen.experiments.kernel.uniform_gap import UniformConvergence
from limen.experiments.typeset import typeset
from limen.plot import draw
from limen.plot.placing import Drawn
from limen.result import Findings, Result, merge


class Walk(Experiment):
    """Two random walks."""

    name: ClassVar[str] = "walk"
    source: ClassVar[str] = "tests"
    summary: ClassVar[str] = "Two walks."

    d: int = Field(3, description="steps")

    def predict(self, seeds=()):
        return Findings(
            xr.Dataset({"place": (("time", "walk"), np.outer(np.arange(4.0), [0.1, -0.1]))}, {"time": np.arange(4.0)})
        )

    def train(self, seed):
        steps = np.random.default_rng(seed).normal(size=(1, 4, 2)).cumsum(axis=1)
        return Findings(
            xr.Dataset({"place": (("seed", "time", "walk"), steps)}, {"time": np.arange(4.0), "seed": [seed]})
        )


class Named(Walk):
    """The same, with its panel said."""

    panels: ClassVar[tuple[Curve, ...]] = (Curve("place", "walk", "walk", "place $x$", y_scale="symlog"),)


def test_an_experiment_without_a_picture_draws_what_is_compared():
    walk = Walk()
    simulation = merge([walk.simulate(seed) for seed in range(5)])
    figure = walk.figure(walk.theory(), simulation)
    (panel,) = figure.panels
    assert panel.y_label == "place"
    assert [type(mark) for mark in panel.marks] == [Line, Points] * 2
    assert [mark.label for mark in panel.marks] == ["walk 1", "", "walk 2", ""]
    mean, error = simulation.dataset.place.values.mean(axis=0), simulation.dataset.place.values.std(axis=0, ddof=1)
    np.testing.assert_allclose(panel.marks[3].y, mean[:, 1])
    np.testing.assert_allclose(panel.marks[3].error, error[:, 1] / 5**0.5)
    assert figure.key == "Lines: theory. Points: simulation, mean and standard error over 5 seeds."
    assert walk.figure(walk.theory()).key == "Lines: theory."


def test_a_panel_without_a_curve_is_left_out_and_no_curve_leaves_its_panel():
    """A ball that holds no fit leaves nothing to overshoot; its gap to least squares is the highest."""
    ball = UniformConvergence(radius=0.1, noise=3.0)
    (gaps,) = ball.picture(ball.theory()).panels
    assert gaps.y_range[1] > max(np.max(mark.y) for mark in gaps.marks if isinstance(mark, Line))
    assert len(UniformConvergence().picture(UniformConvergence().theory()).panels) == 2


def test_every_dashed_line_is_named():
    spectra = BenignOverfitting(samples=100)
    for panel in spectra.picture(spectra.theory()).panels:
        assert all(mark.label for mark in panel.marks if isinstance(mark, Line) and mark.dashed)


@pytest.mark.parametrize("largest", [0.9, 400.0, np.inf])
def test_a_map_of_losses_shows_them_all(largest):
    batches = BatchSize(fractions=(1.0, 0.5), rates=(0.1, 0.2))
    losses = xr.DataArray([[0.5, 0.4], [0.5, 0.3], [0.5, 0.35], [0.5, largest]], dims=("setting", "time"))
    (chart,) = batches.picture(Result(xr.Dataset({"test_loss": losses}), {}, "theory")).panels[1].marks
    shown = 10.0**chart.values if "log" in chart.label else chart.values
    np.testing.assert_allclose(shown, [[0.35, largest if np.isfinite(largest) else np.nan], [0.4, 0.3]])
    assert (chart.low, chart.high) == (None, None)


def test_panels_are_said_in_a_line():
    walk = Named()
    (panel,) = walk.figure(walk.theory()).panels
    assert (panel.x_label, panel.y_label, panel.y_scale) == ("walk", "place $x$", "symlog")
    assert len(panel.marks) == 4
    with pytest.raises(KeyError, match="neither witness has a variable 'speed'"):
        Curve("speed").panel(walk.theory().dataset)


def test_the_key_names_what_is_there():
    spots = Panel("", "", [Line([0, 1], [0, 1], spots=True), Points([0], [0])])
    assert "Squares: theory" in witnesses([spots], 1)
    assert "Points: simulation, one seed." in witnesses([spots], 1)
    assert witnesses([Panel("", "", [Histogram([0, 1], [1])])], 3) == "Histograms: simulation, 3 seeds."


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("z**2", "$z^{2}$"),
        ("z1*z2+0.3*z1", r"$z_{1}\,z_{2}+0.3\,z_{1}$"),
        ("(z1-z2)**3/6", "$(z_{1}-z_{2})^{3}/6$"),
        ("4*tanh(z**2/4)", r"$4\,\mathrm{tanh}(z^{2}/4)$"),
        ("z-(1-z)", "$z-(1-z)$"),
        ("-z**2", "$-z^{2}$"),
        ("relu", "ReLU"),
        ("huber:1", "Huber ($k=1$)"),
        ("hermite:3", "$he_{3}$"),
        ("z +", "z +"),
    ],
)
def test_formulas_in_titles_are_typeset(text, written):
    assert typeset(text) == written


def words_on_marks(figure: Figure) -> list[str]:
    """Names of thresholds and legends of a drawn figure through which something passes."""
    canvas = draw(figure)
    canvas.draw_without_rendering()
    found = []
    for axes in canvas.axes:
        drawn = Drawn(axes)
        if drawn.covered:
            continue
        boxes = {text.get_text(): text.get_window_extent() for text in axes.texts}
        if axes.get_legend() is not None:
            boxes["legend"] = axes.get_legend().get_window_extent()
        found += [name for name, box in boxes.items() if drawn.crosses(box)]
    return found


def test_words_stand_free_of_lines():
    x = np.linspace(0.0, 1.0, 50)
    lines = [Line(x, np.sin(k * x), f"line {k}", k) for k in range(1, 7)]
    marks = [*lines, Threshold("level", y=0.5), Threshold("near", x=0.5), Threshold("nearer", x=0.51)]
    kinds = Map(x, x, np.ones((50, 50)), names=("no", "yes"))
    figure = Figure(
        [Panel("x", "y", marks, "title"), Panel("x", "y", [kinds, Threshold("m", y=0.2)])], "two", key="Key."
    )
    assert words_on_marks(figure) == []
    near, nearer = (text for text in draw(figure).axes[0].texts if text.get_text().startswith("near"))
    assert not near.get_window_extent().overlaps(nearer.get_window_extent())
