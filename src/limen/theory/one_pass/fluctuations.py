r"""Spread of the overlaps at finite $d$: the linear noise around the deterministic flow.

$\dot S=\mathcal AS+S\mathcal A^\top+\frac\gamma{dpB}\Sigma$, with $\mathcal A$ the Jacobian of the flow and $\Sigma$
the covariance of the increments of one sample in units of the step (`limen.theory.one_pass.increments`). Valid while
the spread is small against the overlaps: not on the way out of a saddle from a random start.
"""

import time
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from limen.precision import in_double
from limen.problem import InputError, TwoLayer
from limen.problem.times import time_grid
from limen.result import Result
from limen.theory.one_pass.flow import CITATIONS
from limen.theory.one_pass.frozen_points import POINTS
from limen.theory.one_pass.increments import increment_covariance, problem_increments
from limen.theory.one_pass.integration import MOST_STEPS, Motion
from limen.theory.one_pass.overlap_ode import given_overlaps, population_of, problem_motion, refuses
from limen.theory.one_pass.overlaps import Overlaps, pack, unpack
from limen.theory.one_pass.population import Population
from limen.theory.one_pass.sampled_population import SampledPopulation

TOLERANCE = 1e-7


@in_double
def fluctuations(
    problem: TwoLayer, times: Any, d: int, overlap: Any = None, gram: Any = None, points: int = POINTS
) -> Result:
    r"""Standard deviation over the samples of SGD of every overlap at dimension `d`, to leading order in $d^{-1/2}$.

    The problem is a `TwoLayer` with one-pass SGD; it starts from its `OverlapStart`, or from `overlap` (p, k) and
    `gram` (p, p) where given (those of one simulated start, say). Returns the flow (`overlap`, `gram`,
    `second_layer`) and `overlap_spread`, `gram_spread`, `second_layer_spread` of the same shapes. The state has $n^2$
    entries, $n=p(p+k+1)$, and each step costs $n$ right-hand sides: for $p$ up to about 10.
    """
    began = time.perf_counter()
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"fluctuations do not apply: {reason}")
    p, k = problem.network.width, problem.target.latents
    if d < p + k:
        raise InputError(f"d must be at least students + latent directions = {p + k}, got {d}.")
    grid = time_grid(times, counts_steps=False)
    if (overlap is None) != (gram is None):
        raise InputError("overlap and gram must be given together.")
    first, second = given_overlaps(problem) if overlap is None else (np.asarray(overlap), np.asarray(gram))
    start = Overlaps(*(jnp.asarray(x, float) for x in (second, first, problem.network.per_neuron("second_layer"))))
    population, _ = population_of(problem, points)
    motion = problem_motion(problem, grid)
    batch = getattr(problem.algorithm, "batch", 1)
    path, covariance, fine = _spread(
        population,
        problem_increments(problem, points),
        start,
        motion,
        jnp.asarray(grid),
        jnp.asarray(1.0 / d),
    )
    spread = unpack(jnp.sqrt(jnp.maximum(jnp.diagonal(covariance, axis1=1, axis2=2), 0.0)), p, k)
    names = {
        "overlap": ("time", "neuron", "latent"),
        "gram": ("time", "neuron", "neuron2"),
        "second_layer": ("time", "neuron"),
    }
    variables = {name: (dims, np.asarray(getattr(path, name))) for name, dims in names.items()}
    variables |= {f"{name}_spread": (dims, np.asarray(getattr(spread, name))) for name, dims in names.items()}
    dataset = xr.Dataset(variables, coords={"time": grid}, attrs={"d": d, "batch": batch})
    status = f"linear noise around the flow at d = {d}." if fine else "the flow diverges: take a smaller rate."
    statistics = {"seconds": time.perf_counter() - began}
    return Result(dataset, problem.describe(), "theory", bool(fine), status, statistics, (), CITATIONS)


@eqx.filter_jit
def _spread(
    population: Population,
    sampled: SampledPopulation,
    start: Overlaps,
    motion: Motion,
    times: jax.Array,
    inverse_d: jax.Array,
) -> tuple[Overlaps, jax.Array, jax.Array]:
    p, k = start.overlap.shape

    def slope(vector: jax.Array, t: jax.Array) -> jax.Array:
        return pack(motion.slope(population, unpack(vector, p, k), t))

    def field(t, state, args):
        vector, covariance = state
        jacobian = jax.jacfwd(slope)(vector, t)
        source = increment_covariance(sampled, unpack(vector, p, k), motion, t)
        # The noise weight is gamma/(pB): divided by d it is the source of the covariance.
        return slope(vector, t), jacobian @ covariance + covariance @ jacobian.T + motion.noise(t) * inverse_d * source

    vector = pack(start)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        0.0,
        times[-1],
        None,
        (vector, jnp.zeros((vector.size, vector.size))),
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=TOLERANCE, atol=1e-3 * TOLERANCE),
        max_steps=MOST_STEPS,
        throw=False,
        adjoint=diffrax.ForwardMode(),
    )
    assert solution.ys is not None
    path, covariance = solution.ys
    return unpack(path, p, k), covariance, diffrax.is_successful(solution.result)
