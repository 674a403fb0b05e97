r"""One-pass SGD of a committee as a diffusion of its order parameters, at large finite $d$.

$$d\Omega=b(\Omega)\,dt+\sqrt{\tfrac\gamma{dp}}\;\Sigma(\Omega)^{1/2}dB,$$
$b$ the right-hand side as $d\to\infty$ and $\Sigma$ the covariance of the increments of one sample in units of the step
(`limen.theory.one_pass.increments`). Unlike the linear noise of `fluctuations` it holds where the noise decides, as on
the way out of a saddle (Ben Arous, Gheissari & Jagannath 2022; Arnaboldi et al. 2023).
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.keys import stream_keys
from limen.labelled import labelled
from limen.method import answers
from limen.precision import in_double
from limen.problem.spec import InputError
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.one_pass.committee import checked_activation, committee_population
from limen.theory.one_pass.increments import committee_increments, increment_covariance
from limen.theory.one_pass.overlap_equations.integration import Motion
from limen.theory.one_pass.overlap_equations.overlap_flow import motion_of
from limen.theory.one_pass.overlap_equations.right_hand_side import check_rate_and_noise
from limen.theory.one_pass.overlaps import Overlaps, checked_overlaps, pack, unpack
from limen.theory.one_pass.populations.frozen_points import covariance_factor
from limen.theory.one_pass.populations.population import Population
from limen.theory.one_pass.populations.sampled_population import SampledPopulation

CITATIONS = ("arnaboldi2023escaping", "saad1995")
# Seeds that advance together; more would only need more memory.
TOGETHER = 64


@answers("theory", CITATIONS)
@in_double
def diffusion(
    Q0: Any,
    M0: Any,
    P: Any,
    a: Any,
    a_star: Any,
    activation: Any,
    rate: float,
    noise: float,
    d: int,
    times: Any,
    seeds: int | Sequence[int],
    spherical: bool = False,
    steps_per_time: int = 400,
    points: int = 4096,
) -> Findings:
    r"""Paths of the order parameters of a committee in $d$ dimensions, by Euler–Maruyama (module docstring).

    The mean of a path is right to $O(1)$ and its spread to $O(d^{-1/2})$: parts of the drift of order $1/d$ (of the
    exact mean of one step, and on the sphere of its second-order terms) are left out. Compare `chain`, the exact law.

    Args:
        Q0, M0, P, a, a_star, activation, rate, noise: as for `right_hand_side`, at $t=0$.
        d: the dimension, at least p + k.
        times: an increasing array, or a number T for 101 points in 0..T; $t=\text{steps}\cdot\gamma/(dp)$.
        seeds: `8` means seeds 0..7, or a list.
        spherical: every student is put back on its sphere after each step.
        steps_per_time: Euler steps per unit of time.
        points: frozen points where there is no product rule (`committee_increments`), and for the noise term.

    Returns `overlap` and `gram` (seed, time, ...) and `excess_risk` (seed, time). A step costs
    $O(N(p(p+k))^2)$ per seed, $N$ the number of points: 49 to 7,203 by the product rule. For one neuron on phase
    retrieval `sphere_diffusion` is faster by far.
    """
    start, teacher_gram, teacher_weights = checked_overlaps(Q0, M0, P, a, a_star)
    p, k = start.overlap.shape
    check_rate_and_noise(rate, noise)
    if not (isinstance(d, (int, np.integer)) and d >= p + k):
        raise InputError(f"d must be a whole number of at least students + teachers = {p + k}, got {d!r}.")
    if steps_per_time < 1:
        raise InputError(f"steps_per_time must be at least 1, got {steps_per_time}.")
    grid = time_grid(times, counts_steps=False)
    every = tuple(range(seeds)) if isinstance(seeds, (int, np.integer)) else tuple(int(seed) for seed in seeds)
    if not every:
        raise InputError("seeds must be at least one.")
    activation = checked_activation(activation)
    lengths = np.diff(grid, prepend=0.0)
    path, excess = _paths(
        max(1, int(np.ceil(lengths.max() * steps_per_time))),
        committee_population(activation, p, teacher_gram, teacher_weights, noise, points),
        committee_increments(activation, p, teacher_gram, teacher_weights, noise, points),
        start,
        motion_of(rate, p, 1, 0.0, spherical, grid),
        jnp.asarray(lengths),
        jnp.asarray(1.0 / d),
        stream_keys(every, d, "overlap diffusion"),
    )
    dataset = labelled(
        {
            "overlap": (("seed", "time", "neuron", "latent"), np.asarray(path.overlap)),
            "gram": (("seed", "time", "neuron", "neuron2"), np.asarray(path.gram)),
            "excess_risk": (("seed", "time"), np.asarray(excess)),
        },
        coords={"time": grid, "seed": list(every)},
        attrs={"d": int(d)},
    )
    finite = bool(np.isfinite(dataset.excess_risk.values).all())
    status = f"Euler–Maruyama, {len(every)} paths." if finite else "a path diverges: take a smaller rate."
    return Findings(dataset, finite, status)


@eqx.filter_jit
def _paths(
    steps: int,
    population: Population,
    sampled: SampledPopulation,
    start: Overlaps,
    motion: Motion,
    lengths: jax.Array,
    inverse_d: jax.Array,
    keys: jax.Array,
) -> tuple[Overlaps, jax.Array]:
    """States and excess risks (seed, time, ...); `steps` Euler steps between recorded times."""
    p, k = start.overlap.shape
    moving = p * (k + p)

    def one(key: jax.Array) -> tuple[Overlaps, jax.Array]:
        def interval(carry: tuple[jax.Array, jax.Array], length: jax.Array) -> Any:
            dt = length / steps
            key, own = jax.random.split(carry[1])
            normals = jax.random.normal(own, (steps, moving), jnp.float64)

            def step(vector: jax.Array, normal: jax.Array) -> tuple[jax.Array, None]:
                overlaps, t = unpack(vector, p, k), jnp.zeros(())
                covariance = increment_covariance(sampled, overlaps, motion, t)[:moving, :moving]
                kick = jnp.sqrt(motion.noise(t) * inverse_d * dt) * (covariance_factor(covariance) @ normal)
                slope = pack(motion.slope(population, overlaps, t))
                return vector + dt * slope + jnp.concatenate([kick, jnp.zeros(p)]), None

            vector = jax.lax.scan(step, carry[0], normals)[0]
            return (vector, key), vector

        path = unpack(jax.lax.scan(interval, (pack(start), key), lengths)[1], p, k)
        return path, jax.lax.map(population.losses, path)[0]

    return jax.lax.map(one, keys, batch_size=TOGETHER)
