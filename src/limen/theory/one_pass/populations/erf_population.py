r"""Committees of $\mathrm{erf}(cz)$ in closed form, at any scale $c$.

With $\sigma(z)=\mathrm{erf}(z/\sqrt2)$:
$E[\sigma_a\sigma_b]=\frac2\pi\arcsin\frac{C_{ab}}{\sqrt{(1+C_{aa})(1+C_{bb})}}$, and a product
$\sigma'_i\sigma'_j=\frac2\pi e^{-(\lambda_i^2+\lambda_j^2)/2}$ tilts the Gaussian into another one, $\tilde
C=C-C_{\cdot S}(I+C_{SS})^{-1}C_{S\cdot}$ with $S=(i,j)$, so that $E[\sigma'_i\sigma'_j\sigma_a\sigma_b]$ is
$E[\sigma'_i\sigma'_j]$ times the same arcsine at $\tilde C$: no loop over quadruples, singular $C$ and $i=j$
included. Equal to the formulas of Saad & Solla 1995.
"""

import jax
import jax.numpy as jnp
import numpy as np

from limen.theory.one_pass.arcsine import arcsine
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.population import Population, radial, signed_readout

# Above this many students the pairs are worked through in blocks, which bounds memory by p (p + k)^2 numbers.
MOST_AT_ONCE = 16


class ErfPopulation(Population):
    r"""Students and teachers $\mathrm{erf}(cz)$, square loss. The noise term costs $\frac12p(p+1)(p+k)^2$ arcsines, the
    rest $O(p(p+k)^2)$.

    Fields with $C\to2c^2C$ are those of $\mathrm{erf}(z/\sqrt2)$; the factor $\sqrt2c$ of a derivative and of a field
    cancel.
    """

    teacher_gram: jax.Array
    teacher_weights: jax.Array
    label_noise: jax.Array
    scale: jax.Array

    def _fields(self, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
        covariance = 2.0 * self.scale**2 * overlaps.covariance(self.teacher_gram)
        return covariance, signed_readout(overlaps.second_layer, self.teacher_weights)

    def drift(self, overlaps: Overlaps) -> jax.Array:
        return field_drift(*self._fields(overlaps), overlaps.second_layer.size)

    def response(self, overlaps: Overlaps) -> jax.Array:
        covariance, readout = self._fields(overlaps)
        return arcsine_kernel(covariance)[: overlaps.second_layer.size] @ readout

    def losses(self, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
        covariance, readout = self._fields(overlaps)
        excess = 0.5 * readout @ arcsine_kernel(covariance) @ readout
        return excess, excess + 0.5 * self.label_noise

    def noise(self, overlaps: Overlaps, inverse_d: jax.Array | None = None) -> jax.Array:
        covariance, readout = self._fields(overlaps)
        p = overlaps.second_layer.size
        average = radial(lambda C: pair_noise(C, readout, self.label_noise, p), covariance, inverse_d)
        return 2.0 * self.scale**2 * average


def arcsine_kernel(covariance: jax.Array) -> jax.Array:
    r"""$E[\sigma_a\sigma_b]$ for $\sigma(z)=\mathrm{erf}(z/\sqrt2)$ under $N(0,C)$."""
    root = jax.lax.rsqrt(1.0 + jnp.diagonal(covariance))
    return 2.0 / np.pi * arcsine(covariance * root[:, None] * root)


def field_drift(covariance: jax.Array, readout: jax.Array, p: int) -> jax.Array:
    r"""$E[\sigma'_i\lambda_c\varepsilon]$ of the first $p$ fields with all, for $\sigma(z)=\mathrm{erf}(z/\sqrt2)$ and
    $\varepsilon=\sum_bv_b\sigma_b$."""
    own = covariance[:p]
    width = 1.0 + jnp.diagonal(covariance)
    student = width[:p, None]
    kernel = readout * jax.lax.rsqrt(student * width - own**2)
    return 2.0 / np.pi * (kernel @ covariance - own * jnp.sum(kernel * own, axis=1, keepdims=True) / student)


def pair_noise(covariance: jax.Array, readout: jax.Array, label_noise: jax.Array, p: int) -> jax.Array:
    r"""$E[\sigma'_i\sigma'_j(\varepsilon^2+\Delta)]$ for $\sigma(z)=\mathrm{erf}(z/\sqrt2)$, shape (p, p), each pair
    computed once."""
    products = readout[:, None] * readout
    first, second = np.triu_indices(p)
    position = np.zeros((p, p), dtype=int)
    position[first, second] = position[second, first] = np.arange(first.size)
    if p <= MOST_AT_ONCE:
        values = tilted_squares(covariance, products, label_noise, first, second)
    else:
        blocks = -(-first.size // p)
        padded = [np.resize(index, (blocks, p)) for index in (first, second)]
        values = jax.lax.map(
            lambda pair: tilted_squares(covariance, products, label_noise, *pair), tuple(jnp.asarray(i) for i in padded)
        ).ravel()
    return values[position]


def tilted_squares(covariance: jax.Array, products: jax.Array, label_noise: jax.Array, i, j) -> jax.Array:
    r"""$E[\sigma'_i\sigma'_j(\sum_{ab}W_{ab}\sigma_a\sigma_b+\Delta)]$ at each pair $(i,j)$; $W$ are the
    `products` of weights, symmetric."""
    variance = jnp.diagonal(covariance)
    with_i, with_j, between = covariance[i], covariance[j], covariance[i, j]
    width_i, width_j = 1.0 + variance[i], 1.0 + variance[j]
    determinant = width_i * width_j - between**2
    # rows of (I + C_SS)^{-1} C_S.
    solved_i = (width_j[:, None] * with_i - between[:, None] * with_j) / determinant[:, None]
    solved_j = (width_i[:, None] * with_j - between[:, None] * with_i) / determinant[:, None]
    root = jax.lax.rsqrt(1.0 + variance - solved_i * with_i - solved_j * with_j)
    # The tilted covariance is symmetric: one arcsine for each pair of fields.
    a, b = np.triu_indices(len(products))
    tilted = covariance[a, b] - solved_i[:, a] * with_i[:, b] - solved_j[:, a] * with_j[:, b]
    angle = arcsine(tilted * root[:, a] * root[:, b])
    square = 2.0 / np.pi * angle @ (np.where(a == b, 1.0, 2.0) * products[a, b])
    return 2.0 / np.pi * jax.lax.rsqrt(determinant) * (square + label_noise)
