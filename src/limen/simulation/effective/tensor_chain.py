r"""The exact law of SGD on a spiked tensor at finite N through two numbers, at a cost independent of N.

With $R^2=\|x\|^2=m^2+r$ the noise of the gradient is, in law,
$\nabla H=-2\big[\sqrt k\,R^{k-1}g+\sqrt{k(k-1)}\,R^{k-2}\xi x\big]$, $g\sim N(0,I_N)$, $\xi\sim N(0,1)$, so that
$(m,r)$ is a Markov chain driven by three normals and one $\chi^2_{N-2}$:
$$m\leftarrow\alpha m+\tfrac cN2k\lambda m^{k-1}+\beta g_1,\qquad
r\leftarrow\alpha^2r+2\alpha\beta\sqrt r\,g_2+\beta^2(g_2^2+\chi^2_{N-2}),$$
$\alpha=1-\frac{2c}N\big(kR^{2(k-1)}-\sqrt{k(k-1)}R^{k-2}\xi\big)$, $\beta=\frac{2c}N\sqrt kR^{k-1}$. For $k\ge3$ the
explicit step is unstable: a run that reaches $R^{2(k-1)}\sim N/c$ explodes, which the limit $N\to\infty$ cannot show.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.starts.sphere_start import check_dimension, sphere_start_overlaps
from limen.method import Method
from limen.precision import in_double
from limen.problem import OverlapStart, SpikedTensor
from limen.problem.families.effective_models import tensor_start
from limen.result import Findings
from limen.simulation.effective.block_supply import Supply, groups
from limen.simulation.effective.recorded_runs import recorded_runs, recorded_steps
from limen.simulation.work import check_chain_work

CITATIONS = ("benarous2022",)


def refuses(problem: object) -> str | None:
    """Why this simulator cannot run the problem, or None."""
    return None if isinstance(problem, SpikedTensor) else "it runs SpikedTensor."


def solve(problem: SpikedTensor, times: np.ndarray, d: int, seed: int) -> Findings:
    r"""One run of the chain: `overlap` $m$ and `orthogonal_square` $r$ at `times` $t=\text{steps}\cdot c/N$."""
    return solve_seeds(problem, times, d, (seed,))[0]


@in_double
def solve_seeds(problem: SpikedTensor, times: np.ndarray, d: int, seeds: Sequence[int]) -> list[Findings]:
    """`solve` for many seeds side by side in one result, far cheaper per seed; every seed's numbers are its own."""
    check_dimension(d)
    steps = recorded_steps(problem.step, times, d)
    check_chain_work(d, int(steps.whole[-1]), len(seeds), 1)
    advance = partial(_advance, problem.order, problem.signal, problem.step / d)
    paths = []
    for group in groups(seeds):
        m, r = start_statistics(problem, d, group)
        start = jnp.asarray(m), jnp.asarray(r)
        supply = Supply(partial(tensor_block, d), group, d, "tensor chain")
        states = supply.advanced(steps.whole, start, advance)
        paths.append(np.stack([np.stack([np.asarray(part) for part in state]) for state in states], axis=-1))
    overlap, rest = np.concatenate(paths, axis=1)
    status = f"exact chain of SGD on a spiked tensor in d = {d}."
    variables = {"overlap": overlap, "orthogonal_square": rest}
    return [recorded_runs(problem, variables, times, steps, d, seeds, status)]


def start_statistics(problem: SpikedTensor, d: int, seeds: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    r"""$m$ and $r$ at the start, each (seeds,)."""
    if isinstance(problem.start, OverlapStart):
        overlap, rest = tensor_start(problem.start)
        return np.full(len(seeds), overlap), np.full(len(seeds), rest)
    overlaps = sphere_start_overlaps(problem.start, d, seeds)
    return overlaps, 1.0 - overlaps**2


def tensor_block(d: int, generator: np.random.Generator, out: np.ndarray) -> None:
    r"""Fills $g_1$, $g_2$, $\xi$ and $\chi^2_{N-2}$ of a block of steps of one seed, `out` (4, BLOCK)."""
    generator.standard_normal(out=out[:3])
    generator.standard_gamma(0.5 * (d - 2), out=out[3])
    out[3] *= 2.0


def tensor_step(
    order: int, state: tuple[jax.Array, jax.Array], signal: Any, rate: Any, draws: jax.Array
) -> tuple[jax.Array, jax.Array]:
    r"""One step of all seeds; `draws` (4, seeds) holds $g_1$, $g_2$, $\xi$ and $\chi^2_{N-2}$."""
    m, r = state
    along, own, radial, remaining = draws
    k, square = order, m * m + r
    # R^{k-2} is 1 for matrices even at R = 0.
    inner = jnp.ones_like(square) if k == 2 else square ** (0.5 * (k - 2))
    shrink = 1.0 - 2.0 * rate * (k * square ** (k - 1) - (k * (k - 1)) ** 0.5 * inner * radial)
    spread = 2.0 * rate * k**0.5 * inner * jnp.sqrt(square)
    moved = shrink * m + 2.0 * k * rate * signal * m ** (k - 1) + spread * along
    root = shrink * jnp.sqrt(r)
    return moved, root * root + 2.0 * root * spread * own + spread * spread * (own * own + remaining)


@partial(jax.jit, static_argnums=0)
def _advance(
    order: int, signal: Any, rate: Any, state: tuple[jax.Array, jax.Array], draws: jax.Array, first: Any, last: Any
) -> tuple[jax.Array, jax.Array]:
    return jax.lax.fori_loop(first, last, lambda i, now: tensor_step(order, now, signal, rate, draws[i]), state)


tensor_chain = Method("tensor-chain", "simulation", CITATIONS, refuses, solve, solve_seeds)
