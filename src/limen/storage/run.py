"""One experiment, run: theory, simulations seed by seed, comparison; each result kept as soon as it is there."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.result import Result, merge
from limen.storage.address import address, spec_of

SAVE_EVERY = 2.0


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
    workers: int | None = None,
) -> Run:
    """Computes what the store does not have yet (`fresh`: everything), and compares.

    Seeds run in threads, since compiled code holds no lock. Finished seeds are stored every two seconds and when the
    run ends for whatever reason, so an interruption loses only the seeds under way. No seeds: theory alone.
    """
    spec, seeds = spec_of(experiment), tuple(seeds)
    theory_key = address(spec, "theory", seeds if experiment.paired else ())
    theory = None if fresh else store.get([theory_key]).get(theory_key)
    if theory is None:
        theory = experiment.theory(seeds)
        store.put({theory_key: theory})
    on_theory(theory)
    if not seeds:
        return Run(experiment, theory, None, None, seeds, theory_key)
    keys = {seed: address(spec, "simulation", (seed,)) for seed in seeds}
    stored = {} if fresh else store.get(keys.values())
    results = {seed: stored[key] for seed, key in keys.items() if key in stored}
    on_seed(len(results), len(seeds))
    _simulate_missing(experiment, keys, results, store, on_seed, workers or os.cpu_count() or 1)
    simulation = merge([results[seed] for seed in seeds])
    comparison = experiment.compare(theory, simulation)
    return Run(experiment, theory, simulation, comparison, seeds, theory_key, tuple(keys[seed] for seed in seeds))


def _simulate_missing(
    experiment: Experiment,
    keys: dict[int, str],
    results: dict[int, Result],
    store: Store,
    on_seed: Callable[[int, int], None],
    workers: int,
) -> None:
    """Fills `results` with the seeds of `keys` that it lacks."""
    unsaved: dict[str, Result] = {}
    saved_at = time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        seed_of = {pool.submit(experiment.simulate, seed): seed for seed in keys if seed not in results}
        try:
            for future in as_completed(seed_of):
                seed = seed_of[future]
                results[seed] = unsaved[keys[seed]] = future.result()
                if time.monotonic() - saved_at > SAVE_EVERY:
                    store.put(unsaved)
                    # Emptied only now: an interruption inside `put` leaves them to be saved below.
                    unsaved, saved_at = {}, time.monotonic()
                on_seed(len(results), len(keys))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if unsaved:
                store.put(unsaved)
