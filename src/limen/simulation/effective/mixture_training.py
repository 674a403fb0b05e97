"""SGD on the XOR and Gaussian mixtures at finite size: in d dimensions, and as exact chains of summary statistics."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from limen.gaussian.starts.mixture_starts import StartStatistics, drawn_start, given_start
from limen.method import Method
from limen.precision import in_double
from limen.problem import GaussianMixture, InputError, OverlapStart, XorMixture
from limen.result import Findings
from limen.simulation.effective.block_supply import Supply
from limen.simulation.effective.mixture_steps import (
    Rates,
    Sample,
    Statistics,
    Weights,
    advance,
    advance_chain,
    mixture_chain_step,
    mixture_step,
    xor_chain_step,
    xor_step,
)
from limen.simulation.effective.recorded_runs import RecordedSteps, recorded_steps
from limen.simulation.generators import numpy_generator
from limen.simulation.record import diverged, states_at
from limen.simulation.work import MOST_CHAIN_WORK, MOST_SGD_WORK, STEP_OVERHEAD

Mixture = XorMixture | GaussianMixture

CITATIONS = ("benarous2022", "benarous2023")
# Seeds side by side: their Gram matrices and a block of random numbers stay in cache.
GROUP = 128
# Numbers drawn at once by training in d dimensions.
BLOCK_NUMBERS = 1 << 19


def refuses_xor(problem: object) -> str | None:
    """Why this simulator cannot run the problem, or None."""
    return None if isinstance(problem, XorMixture) else "it trains networks on XorMixture problems."


def refuses_mixture(problem: object) -> str | None:
    """Why this simulator cannot run the problem, or None."""
    return None if isinstance(problem, GaussianMixture) else "it trains classifiers on GaussianMixture problems."


@in_double
def solve(problem: Mixture, times: np.ndarray, d: int, seed: int) -> Findings:
    r"""Trains in $d$ dimensions, $O(Kd)$ a step of time $c/d$; summary statistics at `times`.

    Starts from $x\sim N(0,I_d/d)$ (second layer of the XOR network $N(0,1)$), or from weights with exactly the
    overlaps, Gram matrix and second layer of the problem's `OverlapStart`. Variables as in the theory: `overlap`,
    `orthogonal_gram`, and `second_layer` for XOR.
    """
    steps = recorded_steps(problem.step, times, d)
    rows, second = trained_weights(problem, start_of(problem, d, seed, *given_start_of(problem)), d, seed, steps.whole)
    directions = _directions(problem)
    aligned, rest = rows[..., :directions], rows[..., directions:]
    recorded = tuple(part[None] for part in (aligned, rest @ np.swapaxes(rest, -1, -2), second))
    status = f"full SGD in d = {d}."
    return _findings(problem, recorded, times, steps, d, (seed,), status)


@in_double
def solve_chain(problem: Mixture, times: np.ndarray, d: int, seed: int) -> Findings:
    r"""The exact chain of the statistics, $O(K^3)$ a step whatever $d$; otherwise as training in $d$ dimensions."""
    return solve_chains(problem, times, d, (seed,))[0]


@in_double
def solve_chains(problem: Mixture, times: np.ndarray, d: int, seeds: Sequence[int]) -> list[Findings]:
    """`solve_chain` for many seeds in one compiled loop and few results; every seed's numbers are its own."""
    steps = recorded_steps(problem.step, times, d)
    rows, directions = _rows(problem), _directions(problem)
    work = float(steps.whole[-1]) * len(seeds) * (rows + directions) / MOST_CHAIN_WORK
    if work > 1.0:
        raise InputError(
            f"times must be shorter, seeds fewer or d smaller: {steps.whole[-1]:.3g} steps for {len(seeds)} seeds are "
            f"{work:.2g} times the work the chain accepts."
        )
    groups = [seeds[first : first + GROUP] for first in range(0, len(seeds), GROUP)]
    return [_solve_group(problem, times, steps, d, group) for group in groups]


def _solve_group(problem: Mixture, times: np.ndarray, steps: RecordedSteps, d: int, seeds: Sequence[int]) -> Findings:
    begin = _start(problem, d, seeds, *given_start_of(problem))
    rows, directions = begin.aligned.shape[1:]
    state = Statistics(
        *(jnp.asarray(np.moveaxis(p, 0, -1)) for p in (begin.aligned, begin.orthogonal_gram, begin.second_layer))
    )
    freedom, channels = d - directions - rows, directions + rows + 2

    def draw(generator: np.random.Generator, out: np.ndarray) -> None:
        generator.standard_normal(out=out[:-2])
        out[-2] = generator.chisquare(freedom, out.shape[1])
        out[-1] = draw_clouds(problem, generator, out.shape[1])

    supply = Supply(draw, seeds, d, "mixture chain", channels)
    step = xor_chain_step if isinstance(problem, XorMixture) else mixture_chain_step
    path = supply.advanced(steps.whole, state, partial(advance_chain, step, rates_of(problem, d)))
    path = [jax.tree.map(np.asarray, state) for state in path]
    recorded = tuple(np.moveaxis(np.stack(parts), -1, 0) for parts in zip(*path, strict=True))
    status = f"exact chain of the summary statistics of SGD in d = {d}."
    return _findings(problem, recorded, times, steps, d, seeds, status)


def trained_weights(
    problem: Mixture, begin: StartStatistics, d: int, seed: int, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of weights (time, rows, d) and second layers (time, rows) after `steps`, in double precision.

    The first axes span the means; the start occupies as many more axes as there are rows.
    """
    rows, directions = begin.aligned.shape
    work = float(steps[-1]) * (d * rows + STEP_OVERHEAD) / MOST_SGD_WORK
    if work > 1.0:
        raise InputError(
            f"times must be shorter, d smaller, or simulator an exact chain: {steps[-1]:.3g} steps at d = {d} are "
            f"{work:.2g} times the work full SGD accepts."
        )
    weights = np.zeros((rows, d))
    weights[:, :directions] = begin.aligned
    weights[:, directions : directions + rows] = begin.factor
    generator = numpy_generator(seed, d, "mixture samples")
    block = max(1, min(1024, BLOCK_NUMBERS // d))

    def draw() -> Sample:
        noise = generator.standard_normal((block, d))
        return Sample(noise, np.zeros(block), draw_clouds(problem, generator, block))

    step = xor_step if isinstance(problem, XorMixture) else mixture_step
    state = Weights(jnp.asarray(weights), jnp.asarray(begin.second_layer))
    rates, samples, used = rates_of(problem, d), Sample(*(np.empty(0),) * 3), block

    def part(state: Weights, left: int) -> tuple[Weights, int]:
        nonlocal samples, used
        if used == block:
            # Blocks of fixed size: the path does not depend on the times that are recorded.
            samples, used = jax.tree.map(jnp.asarray, draw()), 0
        first, used = used, min(block, used + left)
        return advance(step, rates, state, samples, first, used), used - first

    path = [jax.tree.map(np.asarray, state) for state in states_at(steps, state, part)]
    return np.stack([state.rows for state in path]), np.stack([state.second_layer for state in path])


def draw_clouds(problem: Mixture, generator: np.random.Generator, count: int) -> np.ndarray:
    """Clouds of fresh samples: 0..3 for XOR, the class for a mixture."""
    if isinstance(problem, XorMixture):
        return generator.integers(0, 4, count)
    ends = np.cumsum(problem.weights)[:-1]
    return np.searchsorted(ends, generator.random(count), side="right")


def nearest_steps(problem: Mixture, times: np.ndarray, d: int) -> np.ndarray:
    """Whole steps nearest to `times`."""
    return np.rint(np.asarray(times) * d / problem.step).astype(np.int64)


def rates_of(problem: Mixture, d: int) -> Rates:
    """The numbers of a step."""
    means = np.eye(2) if isinstance(problem, XorMixture) else problem.means
    step = problem.step / d
    numbers = (step, 1.0 - step * problem.penalty, problem.sharpness**-0.5, means)
    return Rates(*(jnp.asarray(part) for part in numbers))


def given_start_of(problem: Mixture) -> tuple[OverlapStart | None, Any]:
    """The start and the second layer that a problem fixes, or None for each."""
    second = problem.second_layer if isinstance(problem, XorMixture) else None
    return (problem.start, second) if isinstance(problem.start, OverlapStart) else (None, None)


def start_of(problem: Mixture, d: int, seed: int, start: OverlapStart | None, second_layer: Any) -> StartStatistics:
    """The statistics of one start."""
    return StartStatistics(*(part[0] for part in _start(problem, d, (seed,), start, second_layer)))


def _start(
    problem: Mixture, d: int, seeds: Sequence[int], start: OverlapStart | None, second_layer: Any
) -> StartStatistics:
    rows, directions = _rows(problem), _directions(problem)
    if second_layer is not None and (start is None or isinstance(problem, GaussianMixture)):
        raise InputError("second_layer must be left out without a start, and for a GaussianMixture.")
    if start is None:
        return drawn_start(rows, directions, d, seeds)
    if d <= rows + directions:
        raise InputError(f"d must exceed {rows + directions} (rows of weights plus means), got {d}.")
    means = np.eye(2) if isinstance(problem, XorMixture) else problem.means
    given = given_start(start, means, rows, second_layer)
    return StartStatistics(*(np.repeat(part[None], len(seeds), axis=0) for part in given))


def _rows(problem: Mixture) -> int:
    return problem.width if isinstance(problem, XorMixture) else problem.classes


def _directions(problem: Mixture) -> int:
    return 2 if isinstance(problem, XorMixture) else problem.classes


def _findings(
    problem: Mixture,
    recorded: tuple[np.ndarray, ...],
    times: np.ndarray,
    steps: RecordedSteps,
    d: int,
    seeds: Sequence[int],
    status: str,
) -> Findings:
    """From coordinates on the means, orthogonal Gram matrices and second layers, each (seed, whole step, ...)."""
    recorded = tuple(steps.at_times(part, axis=1) for part in recorded)
    aligned, rest, second = recorded
    at = ("time", steps.exact)
    coords: dict[str, Any] = {"time": times, "seed": list(seeds), "step": at, "samples": at}
    if isinstance(problem, XorMixture):
        variables = {
            "second_layer": (("seed", "time", "neuron"), second),
            "overlap": (("seed", "time", "neuron", "mean"), aligned),
            "orthogonal_gram": (("seed", "time", "neuron", "neuron2"), rest),
        }
        coords["mean"] = ["mu", "nu"]
    else:
        variables = {
            "overlap": (("seed", "time", "class", "mean"), aligned @ problem.means.T),
            "orthogonal_gram": (("seed", "time", "class", "class2"), rest),
        }
    finite = all(bool(np.isfinite(part).all()) for part in recorded)
    said = status if finite else diverged(d)
    dataset = xr.Dataset(variables, coords, attrs={"d": d})
    return Findings(dataset, finite, said)


xor_sgd = Method("xor-sgd", "simulation", CITATIONS, refuses_xor, solve)
xor_chain = Method("xor-chain", "simulation", CITATIONS, refuses_xor, solve_chain, solve_chains)
mixture_sgd = Method("mixture-sgd", "simulation", CITATIONS, refuses_mixture, solve)
mixture_chain = Method("mixture-chain", "simulation", CITATIONS, refuses_mixture, solve_chain, solve_chains)
