r"""Gaussian averages that drive the overlaps of one-pass SGD: what every route to them provides."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from limen.theory.one_pass.overlaps import Overlaps


class Population(eqx.Module):
    r"""Averages over a fresh sample, as functions of the overlaps.

    $\lambda\sim N(0,C)$ are the fields of all $n=p+k$ units, students first; $e=-\ell'(y,f)$ is the residual ($y-f$ for
    square loss, label noise included). Fields of a subclass are arrays, and traced, except its functions.
    """

    teacher_gram: eqx.AbstractVar[jax.Array]

    @abc.abstractmethod
    def drift(self, overlaps: Overlaps) -> jax.Array:
        r"""$E[\sigma'(\lambda_i)\,\lambda_c\,e]$, shape (p, p + k)."""

    @abc.abstractmethod
    def response(self, overlaps: Overlaps) -> jax.Array:
        r"""$E[\sigma(\lambda_i)\,e]$, shape (p,)."""

    @abc.abstractmethod
    def noise(self, overlaps: Overlaps, inverse_d: jax.Array | None = None) -> jax.Array:
        r"""$E[\sigma'(\lambda_i)\sigma'(\lambda_j)\,e^2\,|x|^2/d]$, shape (p, p); `inverse_d` is $1/d$, None in the
        limit."""

    @abc.abstractmethod
    def losses(self, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
        """Excess risk and test loss: without and with the additive label noise."""


def signed_readout(second_layer: jax.Array, teacher_weights: jax.Array) -> jax.Array:
    r"""$v=(-a/p,\;a^*/k)$, with which $f^*-f=\sum_cv_c\sigma(\lambda_c)$."""
    return jnp.concatenate([-second_layer / second_layer.size, teacher_weights / teacher_weights.size])


def radial(function: Callable[[jax.Array], jax.Array], covariance: jax.Array, inverse_d: jax.Array | None) -> jax.Array:
    r"""$E[g\,|x|^2/d]=E[g]+\frac2d\,\partial_sE_{sC}[g]\big|_{s=1}$ from the function $C\mapsto E_C[g]$.

    Exact for every $d\ge n$: the part of $x$ orthogonal to all units is independent of $g$, and Stein's identity
    turns $E[g(|z|^2-n)]$ into a derivative in the scale of $C$.
    """
    if inverse_d is None:
        return function(covariance)
    value, slope = jax.jvp(function, (covariance,), (covariance,))
    return value + 2.0 * inverse_d * slope
