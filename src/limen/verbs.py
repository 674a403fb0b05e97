"""The first two of the four verbs, predict and simulate, and what applies to a problem."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from limen.checks import dimension, seed_list
from limen.citations import bibtex
from limen.machine.memory_maps import make_room
from limen.method import Method, choose
from limen.problem import InputError, Spec, TwoLayer
from limen.problem.times import time_grid
from limen.result import Result
from limen.simulation.registry import REDUCTIONS, SIMULATORS
from limen.theory.registry import THEORIES

__all__ = ["cite", "predict", "seed_list", "simulate", "theories"]


def predict(problem: Spec, times: Any, theory: str | Method | None = None, **options: Any) -> Result:
    """What training will do as the sizes go to infinity, at `times`.

    Args:
        problem: any problem of `limen.problem`.
        times: an increasing array in the algorithm's own unit, or a number T for 0..T.
        theory: the name of a limit (see `limen.theories`), or a `limen.Method` of one's own; by default the first that
            applies.
        options: the theory's own. One that leaves a saddle takes `d` and `seeds` and answers seed by seed.
    """
    make_room()
    check_problem(problem)
    _check_functions(problem, for_limit=True)
    method = choose(THEORIES.named(theory, problem), problem, theory, "theory")
    method.check_options(options)
    if np.ndim(options.get("d", 0)):
        raise InputError(f"d must be one size for a prediction, got {options['d']!r}: predict each by itself.")
    if options.get("d") is not None:
        options["d"] = dimension(options["d"])
    if options.get("seeds") is not None:
        options["seeds"] = seed_list(options["seeds"])
    return _universal(problem, method.run(problem, time_grid(times, _counts_steps(problem)), **options))


@overload
def simulate(
    problem: Spec,
    times: Any,
    d: int | None = None,
    seeds: int | Sequence[int] = 8,
    simulator: str | Method | None = None,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
    **options: Any,
) -> Result: ...


@overload
def simulate(
    problem: Spec,
    times: Any,
    d: Sequence[int],
    seeds: int | Sequence[int] = 8,
    simulator: str | Method | None = None,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
    **options: Any,
) -> list[Result]: ...


def simulate(
    problem: Spec,
    times: Any,
    d: int | Sequence[int] | None = None,
    seeds: int | Sequence[int] = 8,
    simulator: str | Method | None = None,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
    **options: Any,
) -> Result | list[Result]:
    """The same training at finite size, once per seed.

    Args:
        d: the dimension; left out where the problem has one of its own (`SelfAttention`). A list of sizes gives one
            result for each, as `compare` takes them.
        seeds: `8` means seeds 0..7; or a list of seeds.
        simulator: the name of a simulator, or a `limen.Method`; by default the first that applies. One-pass problems
            above d = 20,000 are run by the exact chain of their overlaps, unless an option only d-dimensional training
            has is given (spiked tensors above a million entries of one sample).
        progress: wraps the seeds to show progress, e.g. `rich.progress.track`.
        options: the simulator's own; `keep="weights"` keeps what two-layer networks have become.
    """
    if d is not None and np.ndim(d):
        return [simulate(problem, times, size, seeds, simulator, progress, **options) for size in _sizes(d)]
    check_problem(problem)
    d = dimension(getattr(problem, "d", None) if d is None else d)
    make_room()
    _check_functions(problem)
    method = choose(SIMULATORS.named(simulator, problem), problem, simulator, "simulator")
    reduction = REDUCTIONS.get(method.name)
    if simulator is None and reduction is not None and not options and d > reduction.largest(problem):
        method = choose((reduction.chain,), problem, reduction.chain.name, "simulator")
    method.check_options(options)
    grid = time_grid(times, _counts_steps(problem))
    return method.run_seeds(problem, grid, d, seed_list(seeds), progress, **options)


def theories(problem: Spec) -> dict[str, str]:
    """Every theory by name: "applies", or why it does not."""
    check_problem(problem)
    try:
        _check_functions(problem, for_limit=True)
    except InputError as error:
        return {method.name: str(error) for method in THEORIES}
    return {method.name: method.refuses(problem) or "applies" for method in THEORIES}


def cite(problem: Spec) -> str:
    """BibTeX of what `predict` and `simulate` use for this problem."""
    check_problem(problem)
    used: tuple[str, ...] = ()
    for methods in (THEORIES, SIMULATORS):
        applicable = [method for method in methods if method.refuses(problem) is None]
        used += applicable[0].citations if applicable else ()
    return bibtex(used)


def check_problem(problem: Any) -> None:
    """Refuses what is not a problem: the class of one, its formula, nothing."""
    if isinstance(problem, type) and issubclass(problem, Spec):
        raise InputError(f"problem must be made from its class: write {problem.__name__}(...).")
    if not isinstance(problem, Spec):
        raise InputError(f"problem must be a problem such as limen.TwoLayer(...), got {problem!r}.")


def _check_functions(problem: Any, for_limit: bool = False) -> None:
    """One sentence for every algorithm where labels or outputs do not exist, or gradients have no limit."""
    if isinstance(problem, TwoLayer):
        from limen.link.label_points import check_labels
        from limen.link.mean_square import check_activation

        check_labels(problem.target)
        check_activation(problem.network.activation, max(problem.start_lengths), for_limit)


def _universal(problem: Spec, found: Result) -> Result:
    """The prediction, which says what it stands on where the entries of the inputs are not Gaussian."""
    said = problem.inputs.universality() if isinstance(problem, TwoLayer) else None
    if said is None:
        return found
    caveat = " ".join(part for part in (found.dataset.attrs.get("caveat"), said) if part)
    status = f"{found.status} {said}" if found.ok else found.status
    return replace(found, status=status, dataset=found.dataset.assign_attrs(caveat=caveat))


def _sizes(d: Any) -> list[int]:
    sizes = [dimension(size) for size in d]
    if not sizes or len(set(sizes)) != len(sizes):
        raise InputError(f"d must be one size or several different ones, got {list(d)!r}.")
    return sizes


def _counts_steps(problem: Any) -> bool:
    return bool(getattr(problem, "counts_steps", False))
