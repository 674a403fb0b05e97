"""Theory, planted theory and training of one random problem, grown by blocks of seeds."""

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from random_problems import Draw

import limen
from limen.problem.spec import InputError, Spec
from limen.problem.times import time_grid
from limen.result import merge

BLOCK = 16  # seeds
LONGEST = 60  # seconds of processor time for one call; more is a hang
PLANTED = 1.1  # learning rate or speed of time, against the true one


class NotOkError(Exception):
    """A result that says of itself that it is not to be trusted."""


def faster(problem: Spec, factor: float) -> Spec | None:
    """The problem with a larger learning rate where time counts steps, else None: there time itself is sped."""
    if isinstance(problem, limen.PowerLawFeatures):
        assert isinstance(problem.rate, float)
        return problem.model_copy(update={"rate": factor * problem.rate})
    if isinstance(problem, limen.TwoLayer) and problem.counts_steps:
        algorithm: Any = problem.algorithm
        quick = algorithm.model_copy(update={"step": factor * algorithm.step})
        return problem.model_copy(update={"algorithm": quick})
    return None


class Witnesses:
    """Theory, planted theory and training of one draw, grown by blocks of seeds: nothing that was run is thrown away.

    A block is as long as any other, so that what was compiled for the first serves all.
    """

    def __init__(self, given: Draw, planted: float = PLANTED, sizes: tuple[int, ...] = ()):
        self.given, self.planted, self.sizes, self.paired = given, planted, sizes or given.sizes, False
        self.held: tuple[Any, Any] | None = None
        self.right: dict[int, list[Any]] = {size: [] for size in self.sizes}
        self.wrong: dict[int, list[Any]] = {size: [] for size in self.sizes}
        self.runs: dict[int, list[Any]] = {size: [] for size in self.sizes}

    @property
    def seeds(self) -> int:
        """Seeds at every size."""
        return BLOCK * min(map(len, self.runs.values()))

    def grow(self) -> None:
        """One block more at every size."""
        begin = self.seeds
        for size in self.sizes:
            seeds = range(begin, begin + BLOCK)
            right, wrong = self.predicted(size, seeds)
            self.runs[size].append(trained(self.given, size, seeds))
            self.right[size].append(right)
            self.wrong[size].append(wrong)

    def predicted(self, d: int, seeds: range) -> tuple[Any, Any]:
        """The prediction and the planted one (None where it is not ok), seed by seed where the start is random."""
        if self.held is None and not self.paired:
            try:
                self.held = predictions(self.given, self.planted)
            except InputError as error:
                if "d and seeds" not in str(error):
                    raise
                self.paired = True
        return self.held or predictions(self.given, self.planted, d=d, seeds=list(seeds))

    def together(self) -> tuple[list[Any], list[Any] | None, list[Any]]:
        """Theories, planted theories and trainings, one for each size."""
        right, wrong, runs = ([self._joined(part[s]) for s in self.sizes] for part in
                              (self.right, self.wrong, self.runs))  # fmt: skip
        return right, None if None in wrong else wrong, runs

    def _joined(self, parts: list[Any]) -> Any:
        if any(part is None for part in parts):
            return None
        return merge(parts) if "seed" in parts[0].dataset.dims else parts[0]


def predictions(given: Draw, planted: float, **pairing: Any) -> tuple[Any, Any]:
    """The prediction, and the one whose learning rate, or time, is `planted` times too large: None where that is not
    ok, or where nothing is planted. Where time itself is sped, both are read from one solution."""
    times = np.asarray(time_grid(given.times, getattr(given.problem, "counts_steps", False)), dtype=float)
    quick = faster(given.problem, planted) if planted != 1.0 else None
    if quick is None and planted != 1.0:
        with contextlib.suppress(NotOkError):
            whole = asked(given.problem, np.union1d(times, planted * times), **pairing)
            return read_at(whole, times, given), read_at(whole, planted * times, given)
    right, wrong = asked(given.problem, given.times, **pairing), None
    if quick is not None:
        with contextlib.suppress(NotOkError):
            wrong = replace(asked(quick, given.times, **pairing), spec=given.problem.describe())
    return right, wrong


def asked(problem: Spec, times: Any, **pairing: Any) -> Any:
    """A prediction that is ok."""
    with limited(LONGEST):
        found = limen.predict(problem, times, **pairing)
    if not found.ok:
        raise NotOkError(found.status)
    return found


def read_at(whole: Any, times: np.ndarray, given: Draw) -> Any:
    """A prediction at some of its times, which are then called by the times that were asked for."""
    asked_for = np.asarray(time_grid(given.times, False))
    dataset, places = whole.dataset, {name: times for name in ("time", "time2") if name in whole.dataset.dims}
    dataset = dataset.sel(places).assign_coords({name: asked_for for name in places})
    return replace(whole, dataset=dataset)


def trained(given: Draw, d: int, seeds: range) -> Any:
    """Training at size `d`."""
    own = isinstance(given.problem, limen.SelfAttention | limen.PowerLawFeatures)
    with limited(LONGEST):
        found = limen.simulate(given.problem, given.times, None if own else d, list(seeds))
    if not found.ok and not some_lost(found):
        raise NotOkError(found.status)
    return found


def some_lost(found: Any) -> bool:
    """Whether some runs of many leave the finite numbers: the comparison judges how many, and the others."""
    finite = [bool(np.isfinite(part).all()) for part in runs_of(found)]
    return any(finite) and not all(finite)


def runs_of(found: Any) -> Iterator[np.ndarray]:
    """All numbers of each run."""
    parts = [part.transpose("seed", ...).values for part in found.dataset.values() if "seed" in part.dims]
    for i in range(found.dataset.sizes["seed"]):
        yield np.concatenate([np.ravel(part[i]).astype(float) for part in parts])


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Ends what takes longer, with `TimeoutError`."""

    def ring(number: int, frame: Any) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
