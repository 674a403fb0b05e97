r"""The overlap equations on inputs of several variances: one copy of every overlap per eigenspace.

Inputs $x\sim N(0,\Sigma)$, eigenvalue $s_b$ on a fraction $w_b$ of the dimensions. $C^b$ is the Gram matrix of students
and target directions inside eigenspace $b$; the fields have the covariance $C=\sum_bs_bC^b$. With
$H_i=a_i\sigma'(\lambda_i)e$, $D=E[H\lambda^\top]C^{-1}=E[\nabla H]$ (Stein) and $t=\text{steps}\cdot\gamma/(dp)$, as
$d\to\infty$

$$\dot C^b=s_b(DC^b)\text{ on the rows of students, its transpose on their columns, and }
\frac\gamma{pB}s_bw_bE[HH^\top]\text{ on their block.}$$

The averages are those of isotropic inputs at the covariance $C$. $C$ becomes singular as students align, but then every
$C^b\le C/s_b$ is too, in the same directions: $C^{-1}C^b$ stays bounded and is taken with a ridge of $10^{-13}$.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from limen.theory.one_pass.overlap_equations.integration import Motion, Outcome, Rules, Solver, trajectory
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.population import Population

RIDGE = 1e-13
LARGEST_GROWTH = 1e4


class BlockOverlaps(NamedTuple):
    r"""Inside each of the S eigenspaces: Gram matrices (S, p, p) and overlaps (S, p, k); second layer (p,)."""

    gram: jax.Array
    overlap: jax.Array
    second_layer: jax.Array

    def weighted(self, weights: jax.Array) -> Overlaps:
        r"""Sums over eigenspaces: plain overlaps with weights 1, covariances of the fields with $s_b$.
        Leading axes are batches."""
        return Overlaps(
            jnp.einsum("b,...bij->...ij", weights, self.gram),
            jnp.einsum("b,...bir->...ir", weights, self.overlap),
            self.second_layer,
        )


class Spectrum(eqx.Module):
    r"""$s_b$, $w_b$ (S,) and the squared lengths of the target's directions in each eigenspace (S, k)."""

    variances: jax.Array
    fractions: jax.Array
    latent_blocks: jax.Array


def pack_blocks(state: BlockOverlaps) -> jax.Array:
    """One flat vector."""
    return jnp.concatenate([state.overlap.ravel(), state.gram.ravel(), state.second_layer])


def unpack_blocks(vector: jax.Array, blocks: int, p: int, k: int) -> BlockOverlaps:
    """The inverse of `pack_blocks`; leading axes are batches."""
    lead, ends = vector.shape[:-1], (blocks * p * k, blocks * p * (k + p))
    return BlockOverlaps(
        vector[..., ends[0] : ends[1]].reshape(*lead, blocks, p, p),
        vector[..., : ends[0]].reshape(*lead, blocks, p, k),
        vector[..., ends[1] :],
    )


def block_slope(
    population: Population, spectrum: Spectrum, motion: Motion, state: BlockOverlaps, t: jax.Array
) -> BlockOverlaps:
    """Time derivative of the overlaps inside each eigenspace."""
    s, second = spectrum.variances, state.second_layer
    fields, p = state.weighted(s), second.size
    covariance = fields.covariance(population.teacher_gram)
    blocks = block_covariances(state, spectrum)
    drift = motion.drift * second[:, None] * population.drift(fields)
    size = covariance.shape[0]
    safe = covariance + RIDGE * jnp.trace(covariance) * jnp.eye(size)
    slopes = jax.scipy.linalg.solve(safe, drift.T, assume_a="pos").T
    rows = s[:, None, None] * (slopes @ blocks)
    gram = rows[:, :, :p] + jnp.swapaxes(rows[:, :, :p], 1, 2)
    if motion.noisy:
        noise = population.noise(fields) * (second[:, None] * second)
        gram = gram + motion.noise(t) * (s * spectrum.fractions)[:, None, None] * noise
    moved = jnp.zeros_like(second)
    if motion.second_layer is not None:
        moved = motion.second_layer * population.response(fields)
    slope = BlockOverlaps(gram, rows[:, :, p:], moved)
    return on_sphere(state, slope) if motion.spherical else slope


def on_sphere(state: BlockOverlaps, slope: BlockOverlaps) -> BlockOverlaps:
    r"""The derivative when every neuron is put back on its sphere after each step: conserves $\sum_bQ^b_{ii}$."""
    norms, growths = (jnp.einsum("bii->i", part.gram) for part in (state, slope))
    growth = 0.5 * growths / norms
    return BlockOverlaps(
        slope.gram - (growth[:, None] + growth) * state.gram,
        slope.overlap - growth[:, None] * state.overlap,
        slope.second_layer,
    )


def block_covariances(state: BlockOverlaps, spectrum: Spectrum) -> jax.Array:
    """$C^b$, students first, shape (S, p + k, p + k)."""
    target = jax.vmap(jnp.diag)(spectrum.latent_blocks)
    return jnp.concatenate(
        [
            jnp.concatenate([state.gram, state.overlap], axis=2),
            jnp.concatenate([jnp.swapaxes(state.overlap, 1, 2), target], axis=2),
        ],
        axis=1,
    )


class BlockPath(NamedTuple):
    """States along the requested times, losses, and how the integration went."""

    states: BlockOverlaps
    excess_risk: jax.Array
    test_loss: jax.Array
    outcome: Outcome


@eqx.filter_jit
def integrate_blocks(
    population: Population,
    spectrum: Spectrum,
    starts: BlockOverlaps,
    motion: Motion,
    times: jax.Array,
    tolerance: jax.Array,
    solver: Solver,
    rules: Rules | None,
) -> BlockPath:
    """Paths at `times` over a leading axis of the starts and, where given, of rules, one after another."""

    def one(parts: tuple[BlockOverlaps, jax.Array | None]) -> BlockPath:
        start, taken = parts
        own = population if rules is None or taken is None else rules.of(population, taken)
        states, outcome = follow_blocks(own, spectrum, start, motion, times, tolerance, solver)
        excess, test = jax.lax.map(lambda state: own.losses(state.weighted(spectrum.variances)), states)
        return BlockPath(states, excess, test, outcome)

    return jax.lax.map(one, (starts, None if rules is None else rules.taken))


def follow_blocks(
    population: Population,
    spectrum: Spectrum,
    start: BlockOverlaps,
    motion: Motion,
    times: jax.Array,
    tolerance: jax.Array,
    solver: Solver,
) -> tuple[BlockOverlaps, Outcome]:
    """The states of one start at `times`, and how the integration went."""
    blocks, p, k = start.overlap.shape

    def field(t, vector):
        return pack_blocks(block_slope(population, spectrum, motion, unpack_blocks(vector, blocks, p, k), t))

    def size(vector):
        state = unpack_blocks(vector, blocks, p, k)
        return jnp.einsum("bii->", state.gram) + jnp.sum(state.second_layer**2)

    vector = pack_blocks(start)
    bound = LARGEST_GROWTH * (1.0 + k + size(vector))
    vectors, outcome = trajectory(field, size, bound, vector, times, tolerance, solver)
    return unpack_blocks(vectors, blocks, p, k), outcome
