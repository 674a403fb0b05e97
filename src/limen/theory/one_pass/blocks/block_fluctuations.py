r"""Spread of the overlaps at finite $d$ on inputs of several variances: the linear noise of `fluctuations`, in blocks.

Increments of one sample inside eigenspace $b$, in units of the step, with $H_i=a_i\sigma'_ie$ and $|x_b|^2/d$ replaced
by $s_bw_b$, are
$$\Delta M^b_{ir}=H_i\lambda^{*b}_r,\qquad\Delta Q^b_{ij}=H_i\lambda^b_j+H_j\lambda^b_i+\frac\gamma{pB}s_bw_bH_iH_j.$$
Given the fields $\lambda=\sum_b\lambda^b$, on which alone $H$ depends, their parts are Gaussian of mean $A_b\lambda$,
$A_b=s_bC^bC^{-1}$, and covariances $R^{bc}=\delta_{bc}s_bC^b-A_bs_cC^c$; what they add to the covariance of the
increments is a product of $E[HH^\top]$ and $R$.

An `OverlapStart` fixes sums over eigenspaces, not their parts, which differ from seed to seed. With $G$ the Gram matrix
of the neurons' parts orthogonal to the target, $\ell_{br}$ the target's lengths and $\alpha^b$ the neurons' coordinates
along it, they start with $\delta M^b_{ir}=\ell_{br}g_{ibr}$ and
$\delta Q^b_{ij}=A^b_{ij}+\sum_r(\alpha^b_{ir}g_{jbr}+\alpha^b_{jr}g_{ibr})$, where
$$\mathrm{Cov}(g_{ibr},g_{jcs})=\frac{G_{ij}\delta_{rs}}d\Big(\delta_{bc}-\frac{\ell_{br}\ell_{cr}}{|\ell_r|^2}\Big),\qquad
\mathrm{Cov}(A^b_{ij},A^c_{kl})=\frac{w_b\delta_{bc}-w_bw_c}d(G_{ik}G_{jl}+G_{il}G_{jk}).$$
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from limen.gaussian.eigenspaces import block_sizes
from limen.gaussian.starts.block_starts import limiting_start
from limen.labelled import labelled
from limen.machine.arrays import on_device
from limen.precision import in_double
from limen.problem import InputError, TwoLayer
from limen.result import Findings
from limen.theory.one_pass.blocks.block_ode import problem_spectrum, refuses
from limen.theory.one_pass.blocks.block_overlaps import (
    RIDGE,
    BlockOverlaps,
    Spectrum,
    block_covariances,
    block_slope,
    on_sphere,
    pack_blocks,
    unpack_blocks,
)
from limen.theory.one_pass.fluctuations import CANDIDATES, Spline, solved, source_along
from limen.theory.one_pass.increments import problem_increments
from limen.theory.one_pass.overlap_equations.integration import Motion
from limen.theory.one_pass.overlap_equations.overlap_ode import (
    momentum_of,
    population_of,
    problem_motion,
    without_momentum,
)
from limen.theory.one_pass.populations.population import Population
from limen.theory.one_pass.populations.sampled_population import SampledPopulation


@in_double
def block_fluctuations(problem: TwoLayer, grid: np.ndarray, d: int, points: int) -> Findings:
    """`fluctuations` of a problem whose inputs have several variances; also `block_overlap_spread` and
    `block_gram_spread`, of the parts inside each eigenspace."""
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"fluctuations do not apply: {reason}")
    p, k = problem.network.width, problem.target.latents
    if block_sizes(problem.inputs.spectrum, d).min() < p + k:
        raise InputError(f"d must give every variance at least students + latents = {p + k} dimensions, got d = {d}.")
    problem, clock = without_momentum(problem, grid) if momentum_of(problem) else (problem, grid)
    spectrum, motion = problem_spectrum(problem), problem_motion(problem, clock)
    population, _ = population_of(problem, points)
    sampled, given = problem_increments(problem, points), limiting_start(problem)
    second = jnp.asarray(problem.network.per_neuron("second_layer"), float)
    start = BlockOverlaps(jnp.asarray(given.gram), jnp.asarray(given.overlap(problem)), second)
    last = float(clock[-1])
    path = np.asarray(_path(population, spectrum, start, motion, jnp.asarray(last * CANDIDATES)))

    def source_at(vectors: np.ndarray, at: np.ndarray) -> jax.Array:
        return _source(
            sampled, spectrum, unpack_blocks(on_device(vectors), *start.overlap.shape), motion, on_device(at)
        )

    source = source_along(path, motion, source_at, last)
    initial = jnp.asarray(start_covariance(problem, given.aligned, given.gram) / d)
    states, covariance, fine = _spread(
        population, spectrum, start, motion, jnp.asarray(clock), source, jnp.asarray(1 / d), initial
    )
    dataset = _dataset(states, covariance, grid, d, getattr(problem.algorithm, "batch", 1))
    status = f"linear noise around the flow at d = {d}." if fine else "the flow diverges: take a smaller rate."
    return Findings(dataset, bool(fine), status)


def start_covariance(problem: TwoLayer, aligned: np.ndarray, gram: np.ndarray) -> np.ndarray:
    r"""$d$ times the covariance of the packed parts at an `OverlapStart`; `aligned` (S, p, k) are the coordinates along
    the target, `gram` (S, p, p) the mean."""
    blocks, p, k = aligned.shape
    w, lengths = problem.inputs.spectrum.fractions, np.sqrt(problem.inputs.latent_blocks(k))
    rest = (gram - aligned @ np.swapaxes(aligned, 1, 2)).sum(axis=0)
    one = np.eye(blocks)
    # Axes of the target inside eigenspaces: (S, p, k) on both sides.
    ratios = np.einsum("br,cr->bcr", lengths, lengths) / (lengths**2).sum(axis=0)
    drawn = np.einsum("ij,bcr,rs->bircjs", rest, one[:, :, None] - ratios, np.eye(k))
    toward = np.einsum("bc,br,ij,rs->bircjs", one, lengths, np.eye(p), np.eye(k))
    inward = np.einsum("bc,bir,jl->bijclr", one, aligned, np.eye(p))
    inward = inward + np.swapaxes(inward, 1, 2)
    size = blocks * p * k
    parts = np.concatenate([toward.reshape(size, size), inward.reshape(blocks * p * p, size)])
    shares = np.diag(w) - np.outer(w, w)
    own = np.einsum("bc,ik,jl->bijckl", shares, rest, rest)
    own = (own + np.swapaxes(own, 4, 5)).reshape(blocks * p * p, blocks * p * p)
    found = np.zeros((size + len(own) + p,) * 2)
    found[: len(parts), : len(parts)] = parts @ drawn.reshape(size, size) @ parts.T
    found[size : size + len(own), size : size + len(own)] += own
    return found


def block_increment_covariance(
    sampled: SampledPopulation, spectrum: Spectrum, state: BlockOverlaps, motion: Motion, t: jax.Array
) -> jax.Array:
    r"""$\Sigma$: covariance of the packed increments of one sample, in units of the step."""
    s, p = spectrum.variances, state.second_layer.size
    fields = state.weighted(s)
    sample = sampled.sample(fields)
    covariance = fields.covariance(sampled.teacher_gram)
    parts = s[:, None, None] * block_covariances(state, spectrum)
    safe = covariance + RIDGE * jnp.trace(covariance) * jnp.eye(len(covariance))
    shares = jnp.swapaxes(jax.vmap(lambda part: jnp.linalg.solve(safe, part))(parts), 1, 2)
    inside = jnp.einsum("buv,vn->bun", shares, sample.fields)
    push = state.second_layer[:, None] * sample.slopes * sample.residual
    inward = push[None, :, None] * inside[:, None, :p]
    weights = (motion.noise(t) * s * spectrum.fractions)[:, None, None, None]
    gram = inward + jnp.swapaxes(inward, 1, 2) + weights * push[:, None] * push
    toward = push[None, :, None] * inside[:, None, p:]
    speed = 0.0 if motion.second_layer is None else motion.second_layer
    count = sample.residual.size
    flat = [part.reshape(-1, count) for part in (toward, gram, speed * sample.values * sample.residual)]
    increments = jnp.concatenate(flat)
    centred = increments - (increments @ sampled.weights)[:, None]
    found = (centred * sampled.weights) @ centred.T
    found = found + _unresolved((push * sampled.weights) @ push.T, _remainders(parts, shares), p, found.shape[0])
    if not motion.spherical:
        return found
    projection = jax.jacfwd(lambda flat: pack_blocks(on_sphere(state, unpack_blocks(flat, *state.overlap.shape))))(
        jnp.zeros(found.shape[0])
    )
    return projection @ found @ projection.T


def _remainders(parts: jax.Array, shares: jax.Array) -> jax.Array:
    r"""$R^{bc}$, shape (S, S, p + k, p + k)."""
    joint = -jnp.einsum("buv,cvw->bcuw", shares, parts)
    places = jnp.arange(parts.shape[0])
    return joint.at[places, places].add(parts)


def _unresolved(pushes: jax.Array, rest: jax.Array, p: int, size: int) -> jax.Array:
    """What the parts of the fields, given the fields, add to the covariance of the increments."""
    blocks, k = rest.shape[0], rest.shape[2] - p
    toward, inward = blocks * p * k, blocks * p * p
    overlaps = jnp.einsum("ij,bcrs->bircjs", pushes, rest[:, :, p:, p:])
    mixed = jnp.einsum("ij,bcrl->bircjl", pushes, rest[:, :, p:, :p])
    mixed = mixed + jnp.swapaxes(mixed, 4, 5)
    grams = jnp.einsum("il,bcjm->bijclm", pushes, rest[:, :, :p, :p])
    grams = grams + jnp.swapaxes(grams, 4, 5)
    grams = grams + jnp.swapaxes(grams, 1, 2)
    found = jnp.zeros((size, size))
    found = found.at[:toward, :toward].set(overlaps.reshape(toward, toward))
    cross = mixed.reshape(toward, inward)
    found = found.at[:toward, toward : toward + inward].set(cross)
    found = found.at[toward : toward + inward, :toward].set(cross.T)
    return found.at[toward : toward + inward, toward : toward + inward].set(grams.reshape(inward, inward))


@eqx.filter_jit
def _path(
    population: Population, spectrum: Spectrum, start: BlockOverlaps, motion: Motion, times: jax.Array
) -> jax.Array:
    """The packed overlaps of the flow (time, n)."""

    def field(t, vector):
        return pack_blocks(block_slope(population, spectrum, motion, unpack_blocks(vector, *start.overlap.shape), t))

    return solved(field, pack_blocks(start), times)[0]


@eqx.filter_jit
def _source(
    sampled: SampledPopulation, spectrum: Spectrum, states: BlockOverlaps, motion: Motion, times: jax.Array
) -> jax.Array:
    """The covariance of the increments at each state and time, (time, n, n), one after the other."""
    return jax.lax.map(
        lambda pair: block_increment_covariance(sampled, spectrum, pair[0], motion, pair[1]), (states, times)
    )


@eqx.filter_jit
def _spread(
    population: Population,
    spectrum: Spectrum,
    start: BlockOverlaps,
    motion: Motion,
    times: jax.Array,
    source: Spline,
    inverse_d: jax.Array,
    initial: jax.Array,
) -> tuple[BlockOverlaps, jax.Array, jax.Array]:
    shape = start.overlap.shape

    def slope(vector: jax.Array, t: jax.Array) -> jax.Array:
        return pack_blocks(block_slope(population, spectrum, motion, unpack_blocks(vector, *shape), t))

    def field(t, state):
        vector, covariance = state
        jacobian = jax.jacfwd(slope)(vector, t)
        gained = motion.noise(t) * inverse_d * source(t)
        return slope(vector, t), jacobian @ covariance + covariance @ jacobian.T + gained

    vector = pack_blocks(start)
    (path, covariance), fine = solved(field, (vector, initial), times)
    return unpack_blocks(path, *shape), covariance, fine


def _dataset(states: BlockOverlaps, covariance: jax.Array, grid: np.ndarray, d: int, batch: int) -> xr.Dataset:
    """Sums over eigenspaces and their parts, with their standard deviations."""
    shape = states.overlap.shape[1:]

    def deviations(rows: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.maximum(rows, 0.0))

    parts = unpack_blocks(deviations(jnp.diagonal(covariance, axis1=1, axis2=2)), *shape)
    ones = jnp.ones(shape[0])
    # Sums of neighbouring coordinates: the same sum on both sides of the covariance.
    total = jax.jacfwd(lambda flat: _summed(unpack_blocks(flat, *shape), ones))(jnp.zeros(covariance.shape[1]))
    sums = deviations(jnp.einsum("nu,tuv,nv->tn", total, covariance, total))
    _, p, k = shape
    whole = states.weighted(ones)
    names = {"overlap": ("neuron", "latent"), "gram": ("neuron", "neuron2"), "second_layer": ("neuron",)}
    ends = np.cumsum([p * k, p * p])
    spreads = [part.reshape(len(grid), *form) for part, form in zip(
        np.split(np.asarray(sums), ends, axis=1), ((p, k), (p, p), (p,)), strict=True
    )]  # fmt: skip
    variables = {name: (("time", *dims), np.asarray(getattr(whole, name))) for name, dims in names.items()}
    for (name, dims), spread in zip(names.items(), spreads, strict=True):
        variables[f"{name}_spread"] = (("time", *dims), spread)
    for name in ("overlap", "gram"):
        dims = ("time", "block", *names[name])
        variables[f"block_{name}"] = (dims, np.asarray(getattr(states, name)))
        variables[f"block_{name}_spread"] = (dims, np.asarray(getattr(parts, name)))
    return labelled(variables, coords={"time": grid}, attrs={"d": d, "batch": batch})


def _summed(state: BlockOverlaps, ones: jax.Array) -> jax.Array:
    whole = state.weighted(ones)
    return jnp.concatenate([whole.overlap.ravel(), whole.gram.ravel(), whole.second_layer])
