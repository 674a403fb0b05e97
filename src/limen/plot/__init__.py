"""Drawing figures with matplotlib, in one style."""

from limen.plot.draw import draw, save_figure

__all__ = ["draw", "save_figure"]
