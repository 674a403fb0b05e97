"""Drawing figures with matplotlib, in one style.

`limen.plot(theory, simulation)` draws results: the package answers a call, since its name is the verb.
"""

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from limen.plot.draw import draw, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from limen.result import Result

__all__ = ["draw", "save_figure"]


class _Plot(ModuleType):
    """The package as the function `limen.plot`."""

    def __call__(
        self, *results: "Result", labels: Sequence[str] | None = None, variables: Sequence[str] | None = None
    ) -> "Canvas":
        """Results on common axes, drawn by matplotlib: theory as lines, simulation as points with error bars.

        Args:
            results: of `predict` and `simulate`, as many as are to be seen together.
            labels: one per result; those of one label share a colour. By default what differs between their problems.
            variables: names of the variables to show; by default all that can be drawn.
        """
        from limen.experiments.default_panels import default_figure

        return draw(default_figure(results, labels, variables))


sys.modules[__name__].__class__ = _Plot
