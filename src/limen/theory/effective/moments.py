r"""Drift, corrector and volatility at a point of parameter space from fresh samples, without forming a Hessian.

With directions $h_s$ (gradients, or what the update rule makes of them), $J=\nabla u$ and groups of $B$ samples with
mean $\bar h$: $f=J\bar h$, $g/\delta=\frac12\frac1{B-1}\sum_s\nabla^2u[h_s-\bar h,h_s-\bar h]$ and
$\Sigma/\delta=\frac1{B-1}\sum_sJ(h_s-\bar h)(J(h_s-\bar h))^\top$ are unbiased in every group, and groups are
independent: their spread is the standard error. One gradient and two nested Jacobian-vector products a sample.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from limen.problem.families.user_model import UserModel

GROUP = 32
# Numbers of all samples drawn at once.
MOST_NUMBERS = 2**22


class Moments(NamedTuple):
    r"""Group estimates, each with leading axes (lift, group): $f$ (k), $g$ (k), $\Sigma$ (k, k), and the three moments
    of localizability $E\|\nabla H\|^8$ (), $E\langle\nabla H,\nabla u_i\rangle^4$ (k),
    $\mathrm{Var}\langle\nabla^2u_i,\nabla H\otimes\nabla H\rangle$ (k)."""

    population_drift: Any
    corrector: Any
    volatility: Any
    noise_norm: Any
    projected_noise: Any
    curvature_noise: Any

    def with_step(self, delta: Any) -> "Moments":
        r"""Corrector and volatility of the step $\delta$ from those of a unit step, as which they are sampled."""
        return self._replace(corrector=delta * self.corrector, volatility=delta * self.volatility)


def group_size(model: UserModel, samples_per_lift: int, lifts: int) -> int:
    """At most 32, fewer where samples are large or so few that less than four groups would be left."""
    numbers = _sample_numbers(model)
    return max(2, min(GROUP, samples_per_lift // 4, MOST_NUMBERS // max(1, numbers * lifts)))


@partial(jax.jit, static_argnums=0)
def sampled_moments(model: UserModel, points: jax.Array, keys: jax.Array) -> Moments:
    """Moments at `points` (lift, N) from fresh samples, one for each of `keys` (group, lift, sample)."""

    def one_group(own: jax.Array) -> Moments:
        return jax.vmap(lambda x, keys: group_moments(model, x, drawn(model, keys)))(points, own)

    return jax.tree.map(lambda part: jnp.swapaxes(part, 0, 1), jax.lax.map(one_group, keys))


def drawn(model: UserModel, keys: jax.Array) -> Any:
    """Samples, one per key."""
    return jax.vmap(model.sample)(keys)


def group_moments(model: UserModel, x: jax.Array, samples: Any) -> Moments:
    """The estimates of one group of samples at one point."""
    gradients = jax.vmap(jax.grad(model.loss), in_axes=(None, 0))(x, samples)
    directions = jax.vmap(model.direction)(gradients)
    mean = directions.mean(axis=0)
    centred = directions - mean
    freedom = directions.shape[0] - 1.0
    slopes, curvatures = jax.vmap(lambda along: bilinear(model, x, along, along))(centred)
    spread = curvatures - curvatures.mean(axis=0)
    return Moments(
        population_drift=jax.jvp(model.measure, (x,), (mean,))[1],
        corrector=0.5 * curvatures.sum(axis=0) / freedom,
        volatility=slopes.T @ slopes / freedom,
        noise_norm=jnp.mean(jnp.sum(centred**2, axis=1) ** 4),
        projected_noise=jnp.mean(slopes**4, axis=0),
        curvature_noise=jnp.sum(spread**2, axis=0) / freedom,
    )


def bilinear(model: UserModel, x: jax.Array, along: jax.Array, other: jax.Array) -> tuple[jax.Array, jax.Array]:
    r"""$J\,$`along` and $\nabla^2u[$`along`, `other`$]$, both (k,)."""
    return jax.jvp(lambda z: jax.jvp(model.measure, (z,), (along,))[1], (x,), (other,))


def _sample_numbers(model: UserModel) -> int:
    sample = jax.eval_shape(model.sample, jax.eval_shape(lambda: jax.random.key(0)))
    return model.dimension + sum(leaf.size for leaf in jax.tree.leaves(sample))
