r"""Committees of $z^2$: every average is a polynomial in the covariance $C$ of the fields.

With $V=\mathrm{diag}(v)$, $B=CVC$, $t_1=\mathrm{tr}\,CV$, $t_2=\mathrm{tr}\,CVCV$ (Wick's theorem):
$E[\sigma'_i\lambda_c\varepsilon]=2(t_1C+2B)_{ic}$,
$E[\sigma'_i\sigma'_j\varepsilon^2]=4[(t_1^2+2t_2)C+4t_1B+8CVB]_{ij}$, $E[\sigma'_i\sigma'_j]=4C_{ij}$,
$E[\sigma_i\varepsilon]=t_1C_{ii}+2B_{ii}$, excess risk $\frac12(t_1^2+2t_2)$.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.population import Population, signed_readout


class _Powers(NamedTuple):
    covariance: jax.Array
    sandwich: jax.Array
    triple: jax.Array
    trace: jax.Array
    square: jax.Array


class SquarePopulation(Population):
    """Students and teachers $z^2$, square loss; exact, at any d. Costs $O((p+k)^3)$."""

    teacher_gram: jax.Array
    teacher_weights: jax.Array
    label_noise: jax.Array

    def _powers(self, overlaps: Overlaps) -> _Powers:
        covariance = overlaps.covariance(self.teacher_gram)
        readout = signed_readout(overlaps.second_layer, self.teacher_weights)
        sandwich = (covariance * readout) @ covariance
        trace = readout @ jnp.diagonal(covariance)
        square = readout @ jnp.diagonal(sandwich)
        return _Powers(covariance, sandwich, (covariance * readout) @ sandwich, trace, square)

    def drift(self, overlaps: Overlaps) -> jax.Array:
        powers = self._powers(overlaps)
        return 2.0 * (powers.trace * powers.covariance + 2.0 * powers.sandwich)[: overlaps.second_layer.size]

    def response(self, overlaps: Overlaps) -> jax.Array:
        powers = self._powers(overlaps)
        all_units = powers.trace * jnp.diagonal(powers.covariance) + 2.0 * jnp.diagonal(powers.sandwich)
        return all_units[: overlaps.second_layer.size]

    def losses(self, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
        powers = self._powers(overlaps)
        excess = 0.5 * (powers.trace**2 + 2.0 * powers.square)
        return excess, excess + 0.5 * self.label_noise

    def noise(self, overlaps: Overlaps, inverse_d: jax.Array | None = None) -> jax.Array:
        powers, p = self._powers(overlaps), overlaps.second_layer.size
        small = 0.0 if inverse_d is None else inverse_d
        error = (
            (powers.trace**2 + 2.0 * powers.square) * powers.covariance
            + 4.0 * powers.trace * powers.sandwich
            + 8.0 * powers.triple
        )
        # Homogeneous of degree 3 and 1 in C, which is what the factor |x|^2/d sees.
        slope = self.label_noise * (1.0 + 2.0 * small) * powers.covariance
        return 4.0 * ((1.0 + 6.0 * small) * error + slope)[:p, :p]
