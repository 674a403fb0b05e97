r"""Which samples a step of mini-batch descent sees, along the paths of the theory.

A batch of $bn$ of the $n$ samples makes the force of one sample $F\cdot\mathrm{sel}(t)$, $E\,\mathrm{sel}=1$. Drawn
anew at every step: $\mathrm{sel}(t)\in\{0,1/b\}$, independent. By epochs: every path has a place in each epoch's order,
and is seen once in $\lfloor1/b\rfloor$ steps. Source: Mignacco, Krzakala, Urbani & Zdeborová 2020.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from limen.problem import InputError
from limen.problem.algorithms import Descent


class Batches(NamedTuple):
    r"""Along (run, step, path): `seen`, $\mathrm{sel}(t)$; `expected`, its mean given the path's past, which means over
    paths may use in its place with less noise. None stands for the whole sample at each step."""

    seen: np.ndarray
    expected: np.ndarray

    def row(self, i: int) -> "Batches":
        """Those of one run, without its axis."""
        return Batches(self.seen[i], self.expected[i])


def draw_batches(algorithm: Descent, steps: int, paths: int, randoms: Sequence[np.random.Generator]) -> Batches | None:
    """The batches of all steps, a generator for every run; arrays of shape (runs, steps, paths), float32.

    Refused where a step would see less than one path on average: its force would be zero, or one path's alone.
    """
    if algorithm.batch_fraction == 1.0:
        return None
    if algorithm.batch_fraction * paths < 1.0:
        raise InputError(
            f"batch_fraction must be at least 1 / paths = {1.0 / paths:.3g}, or a step of the theory sees no path, "
            f"got {algorithm.batch_fraction:g}."
        )
    drawn = [_draw(algorithm, steps, paths, random) for random in randoms]
    return Batches(*(np.stack(parts) for parts in zip(*drawn, strict=True)))


def _draw(algorithm: Descent, steps: int, paths: int, random: np.random.Generator) -> Batches:
    """The batches of one run, (steps, paths)."""
    fraction = algorithm.batch_fraction
    if algorithm.replacement:
        seen = (random.random((steps, paths)) < fraction) / np.float32(fraction)
        return Batches(seen.astype(np.float32), np.ones((steps, paths), np.float32))
    count = int(1.0 / fraction + 1e-9)
    epochs = -(-steps // count)
    # Samples beyond `count` whole batches sit the epoch out: their place is `count`.
    places = np.minimum((random.random((epochs, paths)) / fraction).astype(int), count)
    turn = np.arange(steps)
    place, now = places[turn // count], (turn % count)[:, None]
    seen = (place == now) / fraction
    expected = (place >= now) / (1.0 - now * fraction)
    return Batches(seen.astype(np.float32), expected.astype(np.float32))
