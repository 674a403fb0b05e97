r"""Committees of piecewise linear units with their kink at the origin, $\sigma(z)=\alpha z+\beta|z|$: ReLU, leaky
ReLU, $|z|$.

Two-point averages in closed form (Cho & Saul 2009): with $\rho$ the correlation,
$E|\lambda_i||\lambda_b|=\frac2\pi\sqrt{q_iq_b}(\sqrt{1-\rho^2}+\rho\arcsin\rho)$,
$E[\mathrm{sgn}_i\mathrm{sgn}_b]=\frac2\pi\arcsin\rho$, and the point mass of $\sigma''$ gives
$E[\sigma''_i\sigma_b]=\frac{2\beta^2}\pi\sqrt{q_b(1-\rho^2)/q_i}$. The noise term is an average over frozen points.
"""

import jax
import jax.numpy as jnp
import numpy as np

from limen.theory.one_pass.arcsine import arcsine
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.population import Population, signed_readout
from limen.theory.one_pass.populations.sampled_population import SampledPopulation

TINY = 1e-30


class HingePopulation(Population):
    r"""Students and teachers $\alpha z+\beta|z|$, square loss. $O(p(p+k)^2)$ beside the noise term."""

    teacher_gram: jax.Array
    teacher_weights: jax.Array
    label_noise: jax.Array
    odd: jax.Array
    even: jax.Array
    noise_free: SampledPopulation

    def _angles(self, overlaps: Overlaps, rows: int | None = None) -> tuple[jax.Array, ...]:
        r"""$C$, the standard deviations, $\arcsin\rho$ and $\sqrt{1-\rho^2}$ of the first `rows` units with all."""
        covariance = overlaps.covariance(self.teacher_gram)
        size = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), TINY))
        rho = jnp.clip(covariance[:rows] / (size[:rows, None] * size), -1.0, 1.0)
        rest = 1.0 - rho**2
        sine = jnp.where(rest > 0.0, jnp.sqrt(jnp.where(rest > 0.0, rest, 1.0)), 0.0)
        return covariance, size, arcsine(rho), sine

    def _values(self, overlaps: Overlaps) -> jax.Array:
        r"""$E[\sigma_a\sigma_b]$."""
        covariance, size, angle, sine = self._angles(overlaps)
        folded = 2.0 / np.pi * (size[:, None] * size * sine + covariance * angle)
        return self.odd**2 * covariance + self.even**2 * folded

    def drift(self, overlaps: Overlaps) -> jax.Array:
        p = overlaps.second_layer.size
        covariance, size, angle, sine = self._angles(overlaps, p)
        readout = signed_readout(overlaps.second_layer, self.teacher_weights)
        curved = 2.0 * self.even**2 / np.pi * (sine @ (size * readout)) / size[:p]
        return covariance[:p] * curved[:, None] + (self._slopes(angle) * readout) @ covariance

    def _slopes(self, angle: jax.Array) -> jax.Array:
        r"""$E[\sigma'_a\sigma'_b]$ from $\arcsin\rho$."""
        return self.odd**2 + self.even**2 * 2.0 / np.pi * angle

    def response(self, overlaps: Overlaps) -> jax.Array:
        readout = signed_readout(overlaps.second_layer, self.teacher_weights)
        return self._values(overlaps)[: overlaps.second_layer.size] @ readout

    def losses(self, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
        readout = signed_readout(overlaps.second_layer, self.teacher_weights)
        excess = 0.5 * readout @ self._values(overlaps) @ readout
        return excess, excess + 0.5 * self.label_noise

    def noise(self, overlaps: Overlaps, inverse_d: jax.Array | None = None) -> jax.Array:
        p = overlaps.second_layer.size
        # The slopes do not depend on the scale of C: no correction in 1/d.
        slopes = self._slopes(self._angles(overlaps, p)[2])[:, :p]
        return self.noise_free.noise(overlaps, inverse_d) + self.label_noise * slopes
