"""Random numbers for chains of a few numbers a step: blocks of steps, every seed from its own NumPy generator."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import numpy_generators
from limen.simulation.record import states_at

# Steps drawn at a time; a seed's path does not depend on the times that are recorded.
BLOCK = 1024
# Seeds side by side: beyond, the random numbers of a block no longer fit a processor's caches.
GROUP = 512
State = TypeVar("State")


def groups(seeds: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The seeds, at most `GROUP` at a time."""
    for start in range(0, len(seeds), GROUP):
        yield tuple(seeds[start : start + GROUP])


class Supply:
    """Random numbers of many seeds in blocks, every seed from its own generator, drawn on all cores.

    `draw(generator, out)` fills one seed's `out` (channels, BLOCK). `take(count)` hands out the present block by steps,
    (BLOCK, channels, seeds), with the range of steps to do in it.
    """

    def __init__(
        self,
        draw: Callable[[np.random.Generator, np.ndarray], None],
        seeds: Sequence[int],
        d: int,
        stream: str,
        channels: int = 4,
    ) -> None:
        self._draw, self._used = draw, BLOCK
        self._generators = numpy_generators(seeds, d, stream)
        self._shape = (len(seeds), channels, BLOCK)
        self._on_device = jnp.zeros((0,))
        self._workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)

    @property
    def left(self) -> int:
        """How many steps `take` can give at once."""
        return BLOCK if self._used == BLOCK else BLOCK - self._used

    def take(self, count: int) -> tuple[jax.Array, int, int]:
        """The draws of the block, and the first and the last step (exclusive) to do with them."""
        if self._used == BLOCK:
            self._refill()
            self._used = 0
        first = self._used
        self._used += count
        return self._on_device, first, self._used

    def advanced(
        self, steps: Iterable[int], state: State, advance: Callable[[State, jax.Array, int, int], State]
    ) -> Iterator[State]:
        """The state after each of `steps`; `advance(state, draws, first, last)` does the steps of a part of a block."""

        def part(state: State, left: int) -> tuple[State, int]:
            count = min(left, self.left)
            return advance(state, *self.take(count)), count

        return states_at(steps, state, part)

    def _refill(self) -> None:
        # A new array every time: a computation on its predecessor, or its transfer, may still be going on.
        block = np.zeros(self._shape)
        pairs = list(zip(self._generators, block, strict=True))

        def some(part: int) -> None:
            for generator, out in pairs[part :: self._workers]:
                self._draw(generator, out)

        if len(pairs) < 2 * self._workers:
            for generator, out in pairs:
                self._draw(generator, out)
        else:
            with ThreadPoolExecutor(self._workers) as pool:
                list(pool.map(some, range(self._workers)))
        # Turned once per block: whoever advances may ask for it many times.
        self._on_device = _by_step(block)


@jax.jit
def _by_step(block: jax.Array) -> jax.Array:
    return jnp.transpose(block, (2, 1, 0))
