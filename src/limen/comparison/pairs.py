"""What is held against what: theories and simulations of one problem, at the same points."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limen.problem.spec import InputError
from limen.result import Result

Pair = tuple[Result, Result]


def matched(theory: Result | Sequence[Result], simulation: Result | Sequence[Result]) -> list[Pair]:
    """Theory and simulation side by side, sizes increasing; one theory serves all sizes."""
    theories, simulations = _results(theory), _results(simulation)
    if len(theories) == 1:
        theories *= len(simulations)
    if not simulations or len(theories) != len(simulations):
        raise InputError(
            f"compare takes one theory, or one per simulation: got {len(theories)} and {len(simulations)}."
        )
    for one, other in zip(theories, simulations, strict=True):
        if one.kind != "theory" or other.kind != "simulation":
            raise InputError("compare takes first the theory, then the simulation.")
    order = np.argsort([size_of(result) for result in simulations], kind="stable")
    return [(theories[i], simulations[i]) for i in order]


def _results(given: Any) -> list[Result]:
    """One result, or several, as a list."""
    held = [given] if isinstance(given, Result) else list(given) if isinstance(given, list | tuple) else [given]
    for one in held:
        if not isinstance(one, Result):
            raise InputError(
                f"compare takes results of predict and simulate, or lists of them, got {type(one).__name__}."
            )
    if not held:
        raise InputError("compare takes results of predict and simulate, or lists of them, got an empty list.")
    return held


def size_of(simulation: Result) -> int:
    """The size of a simulation, 0 where it has none."""
    return int(simulation.dataset.attrs.get("d", 0))


def check_specs(pairs: Sequence[Pair], differing: Sequence[str]) -> None:
    """Refuses results of different problems, with the first difference in words; one made by hand may have no spec.

    Calls of functions (named in small letters) pose no problem that could differ.
    """
    if isinstance(differing, str):
        raise InputError(f'differing must be a list of names, like ("{differing}",), got {differing!r}.')
    for theory, simulation in pairs:
        if not theory.spec or not simulation.spec or _is_call(theory.spec) or _is_call(simulation.spec):
            continue
        difference = first_difference(theory.spec, simulation.spec, differing)
        if difference is not None:
            raise InputError(f"theory and simulation answer different problems ({difference}).")


def _is_call(spec: Mapping[str, Any]) -> bool:
    return str(spec.get("type", ""))[:1].islower()


def first_difference(one: Mapping[str, Any], other: Mapping[str, Any], differing: Sequence[str] = ()) -> str | None:
    """`target: z against z**3`, or None; fields in `differing` are not looked at.

    A field is named by its path; a part that is one text (a formula, a name) stands for the whole.
    """
    for name in dict.fromkeys([*one, *other]):
        if name in differing:
            continue
        left, right = one.get(name), other.get(name)
        if left == right:
            continue
        if isinstance(left, Mapping) and isinstance(right, Mapping) and left.get("type") == right.get("type"):
            inner = first_difference(left, right, differing)
            if inner is None:
                continue
            field, _, values = inner.partition(": ")
            return f"{name}: {values}" if field in ("formula", "name") else f"{name}.{field}: {values}"
        return f"{name}: {_words(left)} against {_words(right)}"
    return None


def _words(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return str(value.get("name") or value.get("formula") or value.get("type") or dict(value))
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_seeds(pairs: Sequence[Pair]) -> None:
    """Refuses a seed that stands twice, and a theory made seed by seed for other seeds."""
    for theory, simulation in pairs:
        seeds = simulation.seeds
        twice = next((seed for i, seed in enumerate(seeds) if seed in seeds[:i]), None)
        if twice is not None:
            raise InputError(f"seeds must be distinct: seed {twice} stands twice in the simulation.")
        if "seed" in theory.dataset.coords and "seed" in simulation.dataset.coords:
            known = set(theory.dataset.seed.values.tolist())
            missing = [seed for seed in simulation.dataset.seed.values.tolist() if seed not in known]
            if missing:
                raise InputError(
                    f"the theory has a row per seed and none for seed {missing[0]}: give both the same seeds."
                )


def shared_variables(pairs: Sequence[Pair], wanted: Sequence[str] | None) -> list[str]:
    """Names to compare: `wanted`, or all that both have; their coordinates must be equal."""
    theory, simulation = pairs[-1]
    shared = [str(name) for name in simulation.dataset.data_vars if name in theory.dataset.data_vars]
    if isinstance(wanted, str):
        raise InputError(f"variables must be a list of names, like [{wanted!r}], got {wanted!r}.")
    for name in wanted or ():
        if name not in shared:
            raise InputError(f"variables must be among {', '.join(shared)}, got {name!r}.")
    shared = list(wanted) if wanted else shared
    if not shared:
        raise InputError("theory and simulation share no variable.")
    for theory, simulation in pairs:
        for name in shared:
            _check_coordinates(name, theory, simulation)
    return shared


def _check_coordinates(name: str, theory: Result, simulation: Result) -> None:
    ours, theirs = theory.dataset[name], simulation.dataset[name]
    for dim in ours.dims:
        if dim == "seed":
            continue
        if dim not in theirs.dims or ours.sizes[dim] != theirs.sizes[dim]:
            raise InputError(
                f"theory and simulation have different {dim}s of {name} ({ours.sizes[dim]} against "
                f"{theirs.sizes.get(dim, 'none')}): ask both for the same."
            )
        if dim in ours.coords and not np.array_equal(ours[dim].values, theirs[dim].values):
            raise InputError(f"theory and simulation have different {dim}s: ask both for the same.")
