"""SGD on spiked matrices and tensors with every entry of every sample drawn, many seeds side by side."""

from collections.abc import Sequence

import numpy as np

from limen.gaussian.keys import numpy_generators
from limen.gaussian.starts.sphere_start import check_dimension, orthogonal_directions
from limen.method import Method
from limen.precision import in_double
from limen.problem import InputError, SpikedTensor
from limen.result import Findings
from limen.simulation.effective.recorded_runs import recorded_runs, recorded_steps
from limen.simulation.effective.tensor_chain import CITATIONS, refuses, start_statistics
from limen.simulation.record import states_at

# Entries of one sample; above, the exact chain is used.
MOST_ENTRIES = 10**6
# Entries drawn in one run, over all steps and seeds: about an hour on one core.
MOST_DRAWN = 3e11
DRAWN = 2**21


def largest_dimension(problem: SpikedTensor) -> int:
    """The largest d at which a sample has at most a million entries."""
    return round(MOST_ENTRIES ** (1.0 / problem.order))


def solve(problem: SpikedTensor, times: np.ndarray, d: int, seed: int) -> Findings:
    r"""One run on explicit tensors, $O(N^k)$ per sample: `overlap` and `orthogonal_square` at `times`."""
    return solve_seeds(problem, times, d, (seed,))[0]


@in_double
def solve_seeds(problem: SpikedTensor, times: np.ndarray, d: int, seeds: Sequence[int]) -> list[Findings]:
    """`solve` for many seeds in one result; every seed's numbers are its own."""
    check_dimension(d)
    entries = d**problem.order
    steps = recorded_steps(problem.step, times, d)
    work = float(entries) * float(steps.whole[-1]) * len(seeds)
    if work > MOST_DRAWN or entries > 100 * MOST_ENTRIES:
        raise InputError(
            f'times must be shorter, seeds fewer or d smaller, or simulator "tensor-chain": {steps.whole[-1]:.3g} '
            f"steps with {entries:.3g} entries each for {len(seeds)} seeds are more than full SGD accepts."
        )
    most = max(1, DRAWN // entries)
    paths = [_paths(problem, steps.whole, d, seeds[begin : begin + most]) for begin in range(0, len(seeds), most)]
    overlap, rest = np.concatenate(paths, axis=1)
    status = f"full SGD on explicit tensors in d = {d}."
    return [recorded_runs(problem, {"overlap": overlap, "orthogonal_square": rest}, times, steps, d, seeds, status)]


def _paths(problem: SpikedTensor, steps: np.ndarray, d: int, seeds: Sequence[int]) -> np.ndarray:
    """Overlaps and squares of what is orthogonal, (2, seeds, times), of some seeds side by side."""
    m, r = start_statistics(problem, d, seeds)
    start = np.sqrt(r)[:, None] * orthogonal_directions(d, seeds)
    start[:, 0] = m
    generators = numpy_generators(seeds, d, "tensor noise")
    noise = np.empty((len(seeds), d**problem.order))

    def advance(x: np.ndarray, left: int) -> tuple[np.ndarray, int]:
        for _ in range(left):
            for row, generator in zip(noise, generators, strict=True):
                generator.standard_normal(out=row)
            x = x - problem.step / d * sample_gradient(x, noise, problem.order, problem.signal)
        return x, left

    # An exploding run goes on to infinity beside the others, and the status says so.
    with np.errstate(over="ignore", invalid="ignore"):
        path = [np.stack([x[:, 0], (x[:, 1:] ** 2).sum(axis=1)]) for x in states_at(steps, start, advance)]
    return np.stack(path, axis=-1)


def sample_gradient(x: np.ndarray, noise: np.ndarray, order: int, signal: float) -> np.ndarray:
    r"""$\nabla L$ of $L=\|\lambda v^{\otimes k}+W-x^{\otimes k}\|^2$, shape (seeds, d), with $v$ the first axis.

    `noise` (seeds, d**order) holds the entries of $W$. $W$ is contracted with $x$ over all modes but one, each
    mode in turn; the contractions over trailing modes are shared, so that the cost is about $2N^k$.
    """
    seeds, d = x.shape
    total = np.zeros_like(x)
    trailing = noise
    for mode in range(order - 1, -1, -1):
        # `trailing` has modes 0..mode left; contract the first `mode` of them to leave this one
        left = trailing
        for _ in range(mode):
            left = np.matmul(x[:, None, :], left.reshape(seeds, d, -1))[:, 0]
        total += left
        trailing = np.matmul(trailing.reshape(seeds, -1, d), x[:, :, None])[:, :, 0]
    square = (x**2).sum(axis=1, keepdims=True)
    gradient = -2.0 * total + 2.0 * order * square ** (order - 1) * x
    gradient[:, 0] -= 2.0 * order * signal * x[:, 0] ** (order - 1)
    return gradient


tensor_sgd = Method("tensor-sgd", "simulation", CITATIONS, refuses, solve, solve_seeds)
