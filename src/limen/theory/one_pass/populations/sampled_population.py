r"""Any activation, target and loss, by averages over frozen Sobol points.

With the residual $e=-\ell'(y,f)$: drift $E[\sigma'_i\lambda_ce]$ and noise $E[\sigma'_i\sigma'_je^2]$ are two matrix
products over the points, $O(N(p+k)^2)$. Relative error with the default $2^{14}$ points: below $2\cdot10^{-3}$ for
smooth activations, below $10^{-2}$ for those with kinks, whose points cross them one by one; it falls nearly like
$1/N$ and $N^{-3/4}$.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.frozen_points import covariance_factor
from limen.theory.one_pass.populations.population import Population


class CommitteeLink(eqx.Module):
    r"""$h(z)=\frac1k\sum_ra^*_r\sigma(z_r)$."""

    weights: jax.Array
    activation: Callable = eqx.field(static=True)

    def __call__(self, z: jax.Array, e: jax.Array) -> jax.Array:
        """Labels without additive noise, for `z` of shape (..., k)."""
        return self.activation(z) @ self.weights / self.weights.size


class FormulaLink(eqx.Module):
    r"""A link $h(z,e)$ given as a function."""

    function: Callable = eqx.field(static=True)

    def __call__(self, z: jax.Array, e: jax.Array) -> jax.Array:
        """Labels without additive noise, for `z` of shape (..., k)."""
        return self.function(z, e)


class Sample(NamedTuple):
    r"""Fields $\lambda$ (p + k, N), students first, $\sigma(\lambda_i)$ and $\sigma'(\lambda_i)$ (p, N), the residual
    $e=-\ell'(y,f)$ (N,), and the losses without and with label noise (N,)."""

    fields: jax.Array
    values: jax.Array
    slopes: jax.Array
    residual: jax.Array
    clean_loss: jax.Array
    noisy_loss: jax.Array


class SampledPopulation(Population):
    """Any activation (differentiable almost everywhere), link and loss; biases are fixed.

    Rows of `points` are the teachers' coordinates, the students' own, the link's own noise, the label noise. For square
    loss label noise is averaged by hand and `sampled_noise` is False.
    """

    teacher_gram: jax.Array
    label_noise: jax.Array
    bias: jax.Array
    points: jax.Array
    weights: jax.Array
    link: CommitteeLink | FormulaLink
    activation: Callable = eqx.field(static=True)
    loss: Callable = eqx.field(static=True)
    loss_slope: Callable = eqx.field(static=True)
    sampled_noise: bool = eqx.field(static=True)

    def sample(self, overlaps: Overlaps) -> Sample:
        """What SGD sees at each of the points."""
        p, k = overlaps.overlap.shape
        order = jnp.concatenate([jnp.arange(p, p + k), jnp.arange(p)])
        factor = covariance_factor(overlaps.covariance(self.teacher_gram)[order][:, order])
        reordered = factor @ self.points[: p + k]
        latent, own = reordered[:k], reordered[k:]
        shifted = own + self.bias[:, None]
        values, slopes = jax.jvp(self.activation, (shifted,), (jnp.ones_like(shifted),))
        output = overlaps.second_layer @ values / p
        clean = self.link(latent.T, self.points[p + k] if len(self.points) > p + k else jnp.zeros_like(output))
        label = clean + jnp.sqrt(self.label_noise) * self.points[-1] if self.sampled_noise else clean
        return Sample(
            jnp.concatenate([own, latent]),
            values,
            slopes,
            -self.loss_slope(label, output),
            self.loss(clean, output),
            self.loss(label, output),
        )

    def drift(self, overlaps: Overlaps) -> jax.Array:
        sample = self.sample(overlaps)
        return (sample.slopes * (sample.residual * self.weights)) @ sample.fields.T

    def response(self, overlaps: Overlaps) -> jax.Array:
        sample = self.sample(overlaps)
        return sample.values @ (sample.residual * self.weights)

    def losses(self, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
        sample = self.sample(overlaps)
        additive = 0.0 if self.sampled_noise else 0.5 * self.label_noise
        return sample.clean_loss @ self.weights, sample.noisy_loss @ self.weights + additive

    def noise(self, overlaps: Overlaps, inverse_d: jax.Array | None = None) -> jax.Array:
        sample = self.sample(overlaps)
        n = sum(overlaps.overlap.shape)
        weights = self.weights
        if inverse_d is not None:
            weights = weights * (1.0 + inverse_d * (jnp.sum(self.points[:n] ** 2, axis=0) - n))
        square = sample.residual**2 + (0.0 if self.sampled_noise else self.label_noise)
        return (sample.slopes * (square * weights)) @ sample.slopes.T
