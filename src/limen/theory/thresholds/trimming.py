"""How many of the lowest weights a trimmed Hessian leaves out."""

from collections.abc import Callable

from limen.problem.spec import InputError


def trimmed_count(edge_without: Callable[[int], float], samples: int, trim: float, level: float) -> int:
    """At most the fraction `trim` of the samples, and the fewest that bring the edge to `level`.

    `edge_without(count)` is the left edge when the `count` lowest weights are left out; it rises with `count`, so that
    bisection finds where it passes `level`.
    """
    if not 0.0 <= trim < 1.0:
        raise InputError(f"trim must be at least 0 and less than 1, got {trim}.")
    most = int(trim * samples)
    if most == 0 or edge_without(most) < level:
        return most
    below, reached = -1, most
    while reached - below > 1:
        middle = (below + reached) // 2
        below, reached = (below, middle) if edge_without(middle) >= level else (middle, reached)
    return reached
