r"""What one sample of SGD does to the overlaps: its increments and their covariance.

In units of the step, with $H_i=a_i\sigma'_ie$ and $|x|^2$ replaced by $d$: $\Delta M_{ir}=H_i\lambda^*_r$,
$\Delta Q_{ij}=H_i\lambda_j+H_j\lambda_i+\frac\gamma{pB}H_iH_j$, $\Delta a_i=\epsilon_a\sigma_ie$. The quadratic term is
of the same order as the others: it changes the norms, and on the sphere everything.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limen.machine.arrays import on_device
from limen.problem import Activation, TwoLayer
from limen.theory.one_pass.committee import (
    SQUARE,
    committee_weights,
    is_square,
    linear_sides,
    sampled_committee,
    sampled_problem,
)
from limen.theory.one_pass.overlap_equations.integration import Motion
from limen.theory.one_pass.overlap_equations.right_hand_side import projected
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.frozen_points import POINTS, enough_points, frozen_points, product_rule
from limen.theory.one_pass.populations.sampled_population import SampledPopulation

# Squared increments of z^2 have degree 12 in the fields and, for every activation, 4 in the label noise.
POLYNOMIAL_NODES, LABEL_NODES, MOST_FIELDS = 7, 3, 4
# Nodes per field for the two fields of other smooth activations; with more fields Sobol points are better.
SMOOTH_NODES = 32


def committee_increments(
    activation: Activation,
    p: int,
    teacher_gram: np.ndarray,
    teacher_weights: np.ndarray,
    noise: float,
    points: int = POINTS,
) -> SampledPopulation:
    r"""Points at which single samples of a committee are looked at, label noise among their coordinates.

    For $z^2$ and linear units with at most four fields a product Gauss–Hermite rule, exact; for two fields of another
    smooth activation one with an error of about $2\cdot10^{-4}$ (erf, variance 1). Otherwise `points` frozen Sobol
    points, good to $10^{-2}$ or better for bounded activations, while squared increments of fast growing ones are known
    to some percent only (5% for $z^2$ with $2^{14}$).
    """
    sampled = sampled_committee(activation, p, teacher_gram, teacher_weights, noise, points)
    return _with_rule(sampled, activation, p + len(teacher_weights), noise, points)


def problem_increments(problem: TwoLayer, points: int = POINTS) -> SampledPopulation:
    """`committee_increments` of a problem; frozen points, at least so many, unless its target is a committee of the
    same activation."""
    network, target = problem.network, problem.target
    points = enough_points(network.width + target.latents + 2, points)
    sampled = sampled_problem(network.activation, network.per_neuron("bias"), target, problem.loss, points)
    if problem.loss != SQUARE:
        return sampled
    fields = network.width + target.latents
    if committee_weights(target, network.activation) is not None:
        return _with_rule(sampled, network.activation, fields, target.noise, points)
    if target.noise == 0.0:
        return sampled
    # For square loss label noise is averaged by hand elsewhere; increments need it as a coordinate.
    return _replaced(sampled, *frozen_points(fields + int(target.uses_inner_noise) + 1, points), True)


class Steps(NamedTuple):
    """Draws (draw, n) of what chance adds to the packed overlaps and Gram matrix, and what whole steps add to their
    mean beyond the slope of the limit (n,), both in units of the step."""

    noise: Any
    shift: Any


def increment_covariance(sampled: SampledPopulation, overlaps: Overlaps, motion: Motion, t: jax.Array) -> jax.Array:
    r"""$\Sigma$: covariance of the packed increments of one sample, in units of the step."""
    p = overlaps.second_layer.size
    sample = sampled.sample(overlaps)
    push = overlaps.second_layer[:, None] * sample.slopes * sample.residual
    inward = push[:, None] * sample.fields[:p]
    gram = inward + jnp.swapaxes(inward, 0, 1) + motion.noise(t) * push[:, None] * push
    toward = push[:, None] * sample.fields[p:]
    speed = 0.0 if motion.second_layer is None else motion.second_layer
    increments = Overlaps(gram, toward, speed * sample.values * sample.residual)
    if motion.spherical:
        increments = jax.vmap(lambda one: projected(overlaps, one), in_axes=-1, out_axes=-1)(increments)
    flat = jnp.concatenate([part.reshape(-1, sample.residual.size) for part in (increments.overlap, increments.gram)])
    flat = jnp.concatenate([flat, increments.second_layer])
    centred = flat - (flat @ sampled.weights)[:, None]
    return (centred * sampled.weights) @ centred.T


def whole_steps(
    sampled: SampledPopulation,
    overlaps: Overlaps,
    motion: Motion,
    t: jax.Array,
    inverse_d: jax.Array,
    normals: jax.Array,
) -> Steps:
    r"""What steps at finite $d$ do beside the slope of the limit, second layer apart; `normals` (draw, points).

    Exact for one sample a step but for the length of a sample beside the $n=k+p$ directions of neurons and target,
    $|x|^2=d-n+\sum_a^nx_a^2$; of batches the products of different samples, smaller by $B/d$, are left out. On the
    sphere neurons are put back after a whole step: that tames the rare large pushes
    which, where residual times slope grows fast, are most of the variance at $d$ of some hundreds. A normal vector of
    the increments' covariance is their sum over the points with $\sqrt{w_n}\,\xi_n$: cost and memory of matrix products
    over the points, at any width.
    """
    p, n, weights = overlaps.second_layer.size, sum(overlaps.overlap.shape), sampled.weights
    sample = sampled.sample(overlaps)
    push, own, latents = sample.slopes * sample.residual, sample.fields[:p], sample.fields[p:]
    push = overlaps.second_layer[:, None] * push
    length = 1.0 + inverse_d * (jnp.sum(sampled.points[:n] ** 2, axis=0) - n)
    speed = motion.noise(t)

    def limit(given: jax.Array) -> Overlaps:
        """The sum over the points, with these weights, of the increments as d grows."""
        inward = (push * given) @ own.T
        return Overlaps(
            inward + inward.T + speed * (push * given) @ push.T, (push * given) @ latents.T, overlaps.second_layer
        )

    def whole(given: jax.Array) -> jax.Array:
        """The same of whole steps at this d."""
        shrink, step = jnp.ones_like(push), speed * inverse_d
        if motion.spherical:
            growth = 2.0 * push * own + speed * length * push**2
            shrink = 1.0 / jnp.sqrt(1.0 + step * growth / jnp.diagonal(overlaps.gram)[:, None])
        moved = push * shrink * given
        inward = moved @ (own * shrink).T
        gram = inward + inward.T + speed * (moved * length) @ (push * shrink).T
        overlap = moved @ latents.T
        if motion.spherical:
            less = shrink - 1.0
            single = less @ given
            gram += overlaps.gram * ((less * given) @ less.T + single[:, None] + single) / step
            overlap += overlaps.overlap * single[:, None] / step
        return jnp.concatenate([overlap.ravel(), gram.ravel()])

    mean, slope = whole(weights), limit(weights)
    slope = projected(overlaps, slope) if motion.spherical else slope
    chances = jnp.sqrt(weights) * normals
    noise = jax.lax.map(lambda one: whole(one) - mean * one.sum(), chances)
    return Steps(noise, mean - jnp.concatenate([slope.overlap.ravel(), slope.gram.ravel()]))


def _with_rule(
    sampled: SampledPopulation, activation: Activation, fields: int, noise: float, points: int
) -> SampledPopulation:
    noisy = noise > 0.0
    polynomial = is_square(activation) or (linear_sides(activation) is not None and not activation.breakpoints)
    if polynomial and fields <= MOST_FIELDS:
        counts = (POLYNOMIAL_NODES,) * fields
    elif fields == 2 and not activation.breakpoints:
        counts = (SMOOTH_NODES,) * fields
    else:
        rule = frozen_points(fields + 1, points) if noisy else (sampled.points, sampled.weights)
        return _replaced(sampled, *rule, noisy)
    return _replaced(sampled, *product_rule(counts + (LABEL_NODES,) * noisy), noisy)


def _replaced(sampled: SampledPopulation, nodes: object, weights: object, noisy: bool) -> SampledPopulation:
    return eqx.tree_at(
        lambda one: (one.points, one.weights),
        SampledPopulation(**{**vars(sampled), "sampled_noise": noisy}),
        (on_device(nodes), on_device(weights)),
    )
