r"""Committees of any smooth activation: two-point averages by Hermite series, the noise term by frozen points.

With $c_m(q)=E[\sigma(\sqrt q\xi)he_m(\xi)]$, and $c'_m,c''_m$ the same of $\sigma',\sigma''$, Mehler's formula gives
$E[\sigma'_i\sigma'_b]=\sum_mc'_m(q_i)c'_m(q_b)\rho^m$ and $E[\sigma''_i\sigma_b]=\sum_mc''_m(q_i)c_m(q_b)\rho^m$, and
Stein's identity $E[\sigma'_i\lambda_c\sigma_b]=C_{ci}E[\sigma''_i\sigma_b]+C_{cb}E[\sigma'_i\sigma'_b]$: the
population-gradient part of the flow.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limen.theory.fresh_inputs.hermite_rule import DEGREE
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.population import Population, radial, signed_readout
from limen.theory.one_pass.populations.sampled_population import SampledPopulation

TINY = 1e-30


class SmoothPopulation(Population):
    r"""Students and teachers of one smooth activation, square loss.

    The coefficients are recomputed at every variance $q_i$, so that all is differentiable in the overlaps. They fall
    like $e^{-b\sqrt{2m/q}}$ when the nearest singularity of $\sigma$ is at height $b$ ($\pi/2$ for tanh): 100 terms
    give $10^{-12}$ at $q=1$ and $10^{-6}$ at $q=10$ (see `truncation`). Costs $O((p+k)\cdot500\cdot100)$ beside the
    noise term.
    """

    teacher_gram: jax.Array
    teacher_weights: jax.Array
    label_noise: jax.Array
    nodes: jax.Array
    transform: jax.Array
    noise_free: SampledPopulation
    activation: Callable = eqx.field(static=True)

    def _series(self, overlaps: Overlaps) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """The covariance, and the coefficients (p + k, degree + 1) of the activation and its two derivatives."""
        covariance = overlaps.covariance(self.teacher_gram)
        arguments = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), TINY))[:, None] * self.nodes

        def slope(z: jax.Array) -> jax.Array:
            return jax.jvp(self.activation, (z,), (jnp.ones_like(z),))[1]

        first, second = jax.jvp(slope, (arguments,), (jnp.ones_like(arguments),))
        stacked = jnp.concatenate([self.activation(arguments), first, second]) @ self.transform
        value, slopes, curvatures = jnp.split(stacked, 3)
        return covariance, value, slopes, curvatures

    def _pairs(self, covariance: jax.Array, left: jax.Array, right: jax.Array, rows: int) -> jax.Array:
        r"""$\sum_ml_m(q_i)r_m(q_b)\rho_{ib}^m$ for the first `rows` units against all, by Horner's rule."""
        size = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), TINY))
        rho = jnp.clip(covariance[:rows] / (size[:rows, None] * size), -1.0, 1.0)

        def horner(total: jax.Array, pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            return total * rho + pair[0][:rows, None] * pair[1], None

        return jax.lax.scan(horner, jnp.zeros_like(rho), (left.T, right.T), reverse=True)[0]

    def drift(self, overlaps: Overlaps) -> jax.Array:
        p = overlaps.second_layer.size
        covariance, value, first, second = self._series(overlaps)
        readout = signed_readout(overlaps.second_layer, self.teacher_weights)
        curved = self._pairs(covariance, second, value, p) @ readout
        sloped = self._pairs(covariance, first, first, p) * readout
        return covariance[:p] * curved[:, None] + sloped @ covariance

    def response(self, overlaps: Overlaps) -> jax.Array:
        p = overlaps.second_layer.size
        covariance, value, _, _ = self._series(overlaps)
        return self._pairs(covariance, value, value, p) @ signed_readout(overlaps.second_layer, self.teacher_weights)

    def losses(self, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
        covariance, value, _, _ = self._series(overlaps)
        readout = signed_readout(overlaps.second_layer, self.teacher_weights)
        excess = 0.5 * readout @ self._pairs(covariance, value, value, len(covariance)) @ readout
        return excess, excess + 0.5 * self.label_noise

    def noise(self, overlaps: Overlaps, inverse_d: jax.Array | None = None) -> jax.Array:
        p = overlaps.second_layer.size

        def slope_pairs(covariance: jax.Array) -> jax.Array:
            scaled = Overlaps(covariance[:p, :p], covariance[:p, p:], overlaps.second_layer)
            teachers = eqx.tree_at(lambda population: population.teacher_gram, self, covariance[p:, p:])
            joint, _, first, _ = teachers._series(scaled)
            return self._pairs(joint[:p, :p], first[:p], first[:p], p)

        error = self.noise_free.noise(overlaps, inverse_d)
        return error + self.label_noise * radial(slope_pairs, overlaps.covariance(self.teacher_gram), inverse_d)

    def truncation(self, overlaps: Overlaps) -> float:
        r"""Size of the last ten terms of $E\sigma'^2=\sum_mc_m'^2$ relative to the sum, for the worst unit.

        $c'_m=\sqrt{(m+1)/q}\,c_{m+1}$, and values are enough: in NumPy, for which nothing is compiled."""
        gram, teachers = np.asarray(overlaps.gram), np.asarray(self.teacher_gram)
        variances = np.concatenate([np.diagonal(gram), np.diagonal(teachers)])
        arguments = np.sqrt(np.maximum(variances, TINY))[:, None] * np.asarray(self.nodes)
        values = np.asarray(self.activation(arguments)) @ np.asarray(self.transform)
        slopes = np.sqrt(np.arange(1.0, DEGREE + 1.0)) * values[:, 1:]
        return float(np.max(np.sum(slopes[:, -10:] ** 2, axis=1) / np.maximum(np.sum(slopes**2, axis=1), TINY)))
