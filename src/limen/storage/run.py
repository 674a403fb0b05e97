"""One experiment, run: theory, simulations seed by seed, comparison; each result kept as soon as it is there."""

import hashlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.problem.spec import InputError
from limen.result import Result, merge
from limen.storage.address import address, spec_of

# No finished result is at risk for longer; saving takes some hundredths of a second.
SAVE_WITHIN = 1.0
# How soon a wish to stop is noticed while compiled code runs.
LISTEN_EVERY = 0.1
MOST_SEEDS = 1_000_000


@runtime_checkable
class Store(Protocol):
    """What a run needs of a store."""

    def get(self, keys: Iterable[str]) -> dict[str, Result]:
        """Those of the results that are there."""
        ...

    def put(self, results: Mapping[str, Result]) -> None:
        """Keeps results."""
        ...


@dataclass(frozen=True)
class Run:
    """What came of an experiment; `keys` are the addresses of theory and simulations."""

    experiment: Experiment
    theory: Result
    simulation: Result | None
    comparison: Comparison | None
    seeds: tuple[int, ...]
    theory_key: str
    simulation_keys: tuple[str, ...] = field(default=())

    @property
    def identifier(self) -> str:
        """A short name for the whole run, the same whenever the same is run."""
        return hashlib.sha256("".join((self.theory_key, *self.simulation_keys)).encode()).hexdigest()[:10]


def run(
    experiment: Experiment,
    seeds: Sequence[int],
    store: Store,
    fresh: bool = False,
    on_theory: Callable[[Result], None] = lambda result: None,
    on_seed: Callable[[int, int], None] = lambda done, total: None,
    on_result: Callable[[int, Result], None] = lambda seed, result: None,
    workers: int | None = None,
) -> Run:
    """Computes what the store does not have yet (`fresh`: everything), and compares. No seeds: theory alone.

    Everything is computed in threads, since compiled code holds no lock: the caller's thread listens, so that Ctrl-C is
    heard at once. A finished seed is stored within about a second, and when the run ends for whatever reason; an
    interruption loses only what was under way.

    Args:
        experiment: what to run.
        seeds: of the simulations.
        store: where results are looked up and kept.
        fresh: compute again what is there.
        on_theory: told of the prediction.
        on_seed: told how many seeds of how many are there.
        on_result: told of each seed's result, stored ones first, before `on_seed`.
        workers: seeds at once; by default one per core.
    """
    if len(seeds) > MOST_SEEDS:
        raise InputError(f"seeds must be at most {MOST_SEEDS:,}, got {len(seeds):,}.")
    spec, seeds = spec_of(experiment), tuple(seeds)
    theory_key = address(spec, "theory", seeds if experiment.paired else ())
    theory = None if fresh else store.get([theory_key]).get(theory_key)
    if theory is None:
        theory = _in_thread(experiment.theory, seeds)
        store.put({theory_key: theory})
    on_theory(theory)
    if not seeds:
        return Run(experiment, theory, None, None, seeds, theory_key)
    simulation, keys = simulated(experiment, seeds, store, fresh, on_seed, on_result, workers)
    comparison = experiment.compare(theory, simulation)
    return Run(experiment, theory, simulation, comparison, seeds, theory_key, keys)


def simulated(
    experiment: Experiment,
    seeds: Sequence[int],
    store: Store,
    fresh: bool = False,
    on_seed: Callable[[int, int], None] = lambda done, total: None,
    on_result: Callable[[int, Result], None] = lambda seed, result: None,
    workers: int | None = None,
) -> tuple[Result, tuple[str, ...]]:
    """The simulations alone, merged, and their addresses; arguments as those of `run`."""
    spec = spec_of(experiment)
    keys = {seed: address(spec, "simulation", (seed,)) for seed in seeds}
    stored = {} if fresh else store.get(keys.values())
    results = {seed: stored[key] for seed, key in keys.items() if key in stored}
    for seed, result in results.items():
        on_result(seed, result)
    on_seed(len(results), len(seeds))

    def arrived(seed: int, result: Result) -> None:
        results[seed] = result
        on_result(seed, result)
        on_seed(len(results), len(seeds))

    missing = {seed: key for seed, key in keys.items() if seed not in results}
    if missing:
        _simulate(experiment, missing, store, arrived, workers or os.cpu_count() or 1)
    return merge([results[seed] for seed in seeds]), tuple(keys[seed] for seed in seeds)


def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """A call in a thread of its own, which is left behind if the caller is interrupted."""
    future: Future[Any] = Future()

    def call() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    while not future.done():
        wait([future], LISTEN_EVERY)
    return future.result()


def _simulate(
    experiment: Experiment,
    keys: dict[int, str],
    store: Store,
    arrived: Callable[[int, Result], None],
    workers: int,
) -> None:
    """Simulates the seeds of `keys`, and stores each at the address beside it."""
    unsaved: dict[str, Result] = {}
    save_at = float("inf")
    pool = ThreadPoolExecutor(workers)
    finished: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
    try:
        seed_of = {pool.submit(experiment.simulate, seed): seed for seed in keys}
        for future in seed_of:
            future.add_done_callback(finished.put)
        while seed_of:
            with suppress(queue.Empty):
                future = finished.get(timeout=LISTEN_EVERY)
                seed, result = seed_of.pop(future), future.result()
                unsaved[keys[seed]] = result
                save_at = min(save_at, time.monotonic() + SAVE_WITHIN)
                arrived(seed, result)
            if time.monotonic() > save_at:
                store.put(unsaved)
                # Emptied only now: an interruption inside `put` leaves them to be saved below.
                unsaved, save_at = {}, float("inf")
    finally:
        # Not waited for: a seed under way cannot be stopped, and nobody wants it any more.
        pool.shutdown(wait=False, cancel_futures=True)
        if unsaved:
            store.put(unsaved)
