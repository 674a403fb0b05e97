"""`SelfAttention` problems at finite size: particles on the sphere."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from limen.gaussian.keys import stream_keys
from limen.machine.memory import check_memory
from limen.method import Method
from limen.precision import in_double
from limen.problem import InputError, SelfAttention
from limen.result import Findings
from limen.simulation.attention.ensemble import Matrices, Record, run_ensemble
from limen.simulation.attention.matrices import random_matrix, value_matrix
from limen.simulation.attention.particles import ENERGY
from limen.simulation.attention.starts import reduced_tokens, uniform_tokens

CITATIONS = ("geshkovski2023",)


def refuses(problem: object) -> str | None:
    """Why the particles cannot run the problem, or None."""
    return None if isinstance(problem, SelfAttention) else "it moves the tokens of SelfAttention problems."


@in_double
def solve(problem: SelfAttention, times: np.ndarray, d: int, seed: int, step: float | None = None) -> Findings:
    r"""One system of tokens from an independent uniform start, at `times`.

    `mean_cosine` over pairs $i\ne j$, `clustered_pairs` (the fraction with $\langle x_i,x_j\rangle\ge0.999$) and
    `energy`. With identity matrices the tokens live in $\min(n,d)$ coordinates: $O(n^2\min(n,d))$ a step, whatever
    $d$; other matrices add $O(nd^2)$. `step` is the longest time step (0.1 or what the matrices demand).
    """
    if d != problem.dim:
        raise InputError(f"d must be left out or equal dim = {problem.dim}, got {d}.")
    record = ensemble(problem, times, (seed,), step)
    names = ("mean_cosine", "clustered_pairs", "energy")
    dataset = xr.Dataset(
        {name: (("seed", "time"), np.asarray(getattr(record, name)).T) for name in names},
        coords={"time": times, "seed": [seed]},
        attrs={"d": d},
    )
    dataset["energy"].attrs.update(ENERGY)
    finite = bool(np.isfinite(dataset.mean_cosine.values).all())
    status = f"{problem.tokens} tokens on the sphere in {d} dimensions."
    if not finite:
        status = "the tokens did not stay finite: take a smaller step."
    return Findings(dataset, finite, status)


def ensemble(problem: SelfAttention, times: np.ndarray, seeds: Sequence[int], step: float | None = None) -> Record:
    """One system per seed, all at once; arrays along (time, seed)."""
    n, d = problem.tokens, problem.dim
    free = problem.isotropic and problem.noise == 0.0
    numbers = len(seeds) * (n * (n if free else d) + (0 if problem.isotropic else 2 * problem.heads * d * d) + n * n)
    check_memory("tokens x dim", 32.0 * numbers, "take fewer or smaller")
    tokens = reduced_tokens(n, d, seeds) if free else uniform_tokens(n, d, seeds)
    part = problem.feed_forward
    arrays = None if part is None else (np.asarray(part.outer), np.asarray(part.inner), np.asarray(part.bias))
    return run_ensemble(
        tokens,
        problem.beta,
        times,
        problem_matrices(problem, seeds),
        problem.heads,
        problem.normalized,
        arrays,
        None if part is None else part.activation.function,
        problem.noise,
        stream_keys(seeds, d, "attention noise"),
        step,
    )


def problem_matrices(problem: SelfAttention, seeds: Sequence[int]) -> Matrices:
    """Matrices of each seed and head, shape (seeds, heads, d, d); None where they are the identity."""
    d = problem.dim

    def stack(name: str, draw: object) -> np.ndarray | None:
        given = getattr(problem, name)
        if given is None:
            return None
        if isinstance(given, tuple):
            return np.broadcast_to(np.asarray(given), (len(seeds), problem.heads, d, d))
        return np.stack([[draw(given, d, seed, f"{name} {head}") for head in range(problem.heads)] for seed in seeds])  # pyright: ignore

    query_key = stack("query_key", random_matrix)
    if problem.value == "query-key":
        value = np.eye(d)[None, None] / np.sqrt(d) if query_key is None else query_key / np.sqrt(d)
        return Matrices(query_key, np.broadcast_to(value, (len(seeds), problem.heads, d, d)))
    return Matrices(query_key, stack("value", value_matrix))


attention_particles = Method("attention-particles", "simulation", CITATIONS, refuses, solve)
