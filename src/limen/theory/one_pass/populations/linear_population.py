r"""Committees of linear units $\sigma(z)=sz$, for which even the finite-$d$ mean recursion closes."""

import jax
import jax.numpy as jnp

from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.population import Population, signed_readout


class LinearPopulation(Population):
    r"""Students and teachers $sz$, square loss: $E[\sigma'_i\lambda_c\varepsilon]=s^2(Cv)_c$,
    $E[\sigma'_i\sigma'_j\varepsilon^2]=s^4v^\top Cv$. Costs $O((p+k)^2)$."""

    teacher_gram: jax.Array
    teacher_weights: jax.Array
    label_noise: jax.Array
    slope: jax.Array

    def _error(self, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
        r"""$E[\lambda_c\varepsilon]$ and $E\varepsilon^2$."""
        readout = self.slope * signed_readout(overlaps.second_layer, self.teacher_weights)
        projected = overlaps.covariance(self.teacher_gram) @ readout
        return projected, readout @ projected

    def drift(self, overlaps: Overlaps) -> jax.Array:
        projected, _ = self._error(overlaps)
        return jnp.tile(self.slope * projected, (overlaps.second_layer.size, 1))

    def response(self, overlaps: Overlaps) -> jax.Array:
        return self.slope * self._error(overlaps)[0][: overlaps.second_layer.size]

    def losses(self, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
        excess = 0.5 * self._error(overlaps)[1]
        return excess, excess + 0.5 * self.label_noise

    def noise(self, overlaps: Overlaps, inverse_d: jax.Array | None = None) -> jax.Array:
        p = overlaps.second_layer.size
        small = 0.0 if inverse_d is None else inverse_d
        square = (1.0 + 2.0 * small) * self._error(overlaps)[1] + self.label_noise
        return jnp.full((p, p), self.slope**2 * square)
