"""Where words stand in a panel: never on lines, points or other words."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection, QuadMesh
from matplotlib.legend import Legend
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Bbox, ScaledTranslation

# Between words and marks, in points.
GAP = 2.0
# Places for the name of a horizontal line: part of the width, alignment, above or below it.
PLACES = tuple(
    (x, side, va) for va in ("bottom", "top") for x, side in ((0.02, "left"), (0.98, "right"), (0.5, "center"))
)


CORNERS = (
    "upper right", "upper left", "lower right", "lower left", "center right", "center left", "upper center",
    "lower center",
)  # fmt: skip


class Drawn:
    """What is drawn in a panel, in pixels."""

    def __init__(self, axes: Axes) -> None:
        self.window = axes.get_window_extent()
        self.paths: list[Path] = []
        self.dots: list[np.ndarray] = []
        self.covered = any(isinstance(part, QuadMesh) for part in axes.collections)
        for line in axes.lines:
            path = line.get_transform().transform_path(line.get_path())
            if line.get_linestyle() not in ("None", "none"):
                self.paths.append(path)
            if line.get_marker() not in ("None", "none", None, ""):
                self.dots.append(np.asarray(path.vertices))
        for part in axes.collections:
            # Bands by their outlines: words may stand on their ground.
            if isinstance(part, LineCollection | PolyCollection):
                self.paths += [part.get_transform().transform_path(path) for path in part.get_paths()]
        self.paths += [patch.get_transform().transform_path(patch.get_path()) for patch in axes.patches]
        self.words: list[Bbox] = []

    def crosses(self, box: Bbox) -> bool:
        """Whether anything that is drawn passes through a box; beyond the axes nothing is."""
        if box.count_overlaps(self.words) > 0:
            return True
        inside = Bbox.intersection(box, self.window)
        if inside is None:
            return False
        if any(inside.count_contains(dots[np.isfinite(dots).all(axis=1)]) for dots in self.dots):
            return True
        return any(path.intersects_bbox(inside, filled=False) for path in self.paths)


def place_beside(axes: Axes, drawn: Drawn, text: Text, height: float) -> None:
    """The name of a horizontal line: along it where nothing else is drawn, else outside at its end."""
    inside = axes.get_window_extent().padded(-1.0)
    lift = GAP / 72.0
    # The line itself is no obstacle: the words stand GAP above or below it.
    for x, side, vertical in PLACES:
        shift = ScaledTranslation(0.0, lift if vertical == "bottom" else -lift, axes.figure.dpi_scale_trans)
        text.set(x=x, y=height, ha=side, va=vertical, transform=axes.get_yaxis_transform() + shift)
        box = text.get_window_extent()
        within = inside.y0 <= box.y0 and box.y1 <= inside.y1
        if within and not drawn.covered and not drawn.crosses(box):
            break
    else:
        text.set(x=1.015, y=height, ha="left", va="center", transform=axes.get_yaxis_transform())
        if drawn.covered:
            text.set(x=0.02, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.0})
    drawn.words.append(text.get_window_extent())


def place_above(axes: Axes, texts: Sequence[Text]) -> float:
    """Names of vertical lines stand above the axes; of two that would touch, one is lifted. Height taken, in points."""
    taken: list[Bbox] = []
    highest = 0.0
    for text in sorted(texts, key=lambda text: text.get_window_extent().x0):
        lift = GAP
        while True:
            shift = ScaledTranslation(0.0, lift / 72.0, axes.figure.dpi_scale_trans)
            text.set_transform(axes.get_xaxis_transform() + shift)
            box = text.get_window_extent()
            if not box.padded(GAP).count_overlaps(taken):
                break
            lift += 1.25 * float(text.get_fontsize())
        taken.append(box)
        highest = max(highest, (box.y1 - axes.get_window_extent().y1) / axes.figure.dpi * 72.0)
    return highest


def place_legend(axes: Axes, drawn: Drawn, legend: Legend) -> float:
    """A legend stands in a corner where nothing passes behind it, else below the axes. Height there in inches."""
    for corner in () if drawn.covered else CORNERS:
        legend.set_loc(corner)
        if not drawn.crosses(legend.get_window_extent().padded(2.0 * GAP)):
            return 0.0
    box, dpi = legend.get_window_extent(), axes.figure.dpi
    labels_of_axis = axes.xaxis.get_tightbbox() or axes.get_window_extent()
    below = (axes.get_window_extent().y0 - labels_of_axis.y0) / dpi + 0.03
    move = ScaledTranslation(0.0, -below, axes.figure.dpi_scale_trans)
    handles, labels = axes.get_legend_handles_labels()
    columns = 1 if len(labels) == 1 or box.width > 0.62 * axes.get_window_extent().width else 2
    axes.legend(
        handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=axes.transAxes + move,
        ncols=columns, columnspacing=1.2, handlelength=1.6, borderaxespad=0.0,
    )  # fmt: skip
    return box.height / dpi * -(-len(labels) // columns) / len(labels) + 0.05
