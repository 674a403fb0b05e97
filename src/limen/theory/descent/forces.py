r"""What a sample's fields $V$ do to the neurons: output, losses, forces $F/\eta$ and their Jacobian $F'/\eta$.

$$f=\tfrac1m\textstyle\sum_ja_j\sigma(V_j+b_j),\qquad \frac{F_j}\eta=\frac{a_j}m\,\ell'(y,f)\,\sigma'(V_j+b_j),\qquad
\frac{F'_{ij}}\eta=\frac{a_i}m\Big[\ell''\frac{a_j}m\sigma'_i\sigma'_j+\delta_{ij}\,\ell'\sigma''_i\Big].$$
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from limen.problem import Activation, Loss, Network


class Forces(NamedTuple):
    r"""Mean loss; forces (m, paths); their Jacobian (m, m, paths), float32; gradient (m,) of the loss in $a$."""

    loss: np.ndarray
    force: np.ndarray
    jacobian: np.ndarray
    second_layer_gradient: np.ndarray


def forces(
    activation: Activation,
    loss: Loss,
    fields: np.ndarray,
    labels: np.ndarray,
    second_layer: np.ndarray,
    bias: np.ndarray,
) -> Forces:
    """Forces at fields of shape (paths, m)."""
    parts = _forces((activation.function, loss.function), fields, labels, second_layer, bias)
    return Forces(*(np.asarray(part) for part in parts))


class FirstForces(NamedTuple):
    r"""Losses (B, paths); forces (B, m, paths); $\sigma(V_j+b_j)\,\ell'/m$ (B, m, paths), whose mean is the gradient in
    $a$."""

    losses: np.ndarray
    force: np.ndarray
    second_layer_pull: np.ndarray


def first_forces(
    network: Network, loss: Loss, fields: np.ndarray, labels: np.ndarray, outer: tuple[np.ndarray, np.ndarray]
) -> FirstForces:
    """Forces at fields of shape (B, m, paths), without their Jacobian: kinked activations have them too.

    `labels` (B, paths), `outer`: second layer and biases, (B, m) each; computed in the precision of the fields.
    """
    numbers = (np.asarray(part, fields.dtype) for part in outer)
    parts = _first_forces((network.activation.function, loss.function), fields, labels, *numbers)
    return FirstForces(*(np.asarray(part) for part in parts))


def fresh_losses(
    network: Network,
    loss: Loss,
    fields: np.ndarray,
    labels: np.ndarray,
    clean_labels: np.ndarray,
    outer: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Mean losses (B, 2) at fields (B, m, paths), against labels with and without additive noise."""
    numbers = (np.asarray(part, fields.dtype) for part in outer)
    functions = (network.activation.function, loss.function)
    return np.asarray(_fresh_losses(functions, fields, labels, clean_labels, *numbers), dtype=float)


@partial(jax.jit, static_argnums=0)
def _forces(functions: Any, fields: Any, labels: Any, second_layer: Any, bias: Any) -> tuple[jax.Array, ...]:
    activation, loss = functions
    m = fields.shape[1]

    def slope_of(function: Any) -> Any:
        return lambda x: jax.jvp(function, (x,), (jnp.ones_like(x),))[1]

    at = fields.T + bias[:, None]
    value, slope = activation(at), slope_of(activation)(at)
    curvature = slope_of(slope_of(activation))(at)
    output = second_layer @ value / m

    def of_output(f: Any) -> Any:
        return loss(labels, f)

    loss_slope, loss_curvature = slope_of(of_output)(output), slope_of(slope_of(of_output))(output)
    scaled = second_layer[:, None] / m * slope
    jacobian = loss_curvature * scaled[:, None] * scaled[None]
    jacobian += jnp.eye(m)[:, :, None] * (second_layer[:, None] / m * loss_slope * curvature)[:, None]
    return (
        jnp.mean(of_output(output)),
        loss_slope * scaled,
        jacobian.astype(jnp.float32),
        value @ loss_slope / (m * labels.size),
    )


@partial(jax.jit, static_argnums=0)
def _first_forces(functions: Any, fields: Any, labels: Any, second_layer: Any, bias: Any) -> tuple[jax.Array, ...]:
    activation, loss = functions
    m, at = fields.shape[1], fields + bias[..., None]
    value, slope = jax.jvp(activation, (at,), (jnp.ones_like(at),))
    output = (second_layer[..., None] * value).sum(axis=1) / m
    losses, loss_slope = jax.jvp(lambda f: loss(labels, f), (output,), (jnp.ones_like(output),))
    pull = loss_slope[:, None] / m
    return losses, pull * slope * second_layer[..., None], pull * value


@partial(jax.jit, static_argnums=0)
def _fresh_losses(
    functions: Any, fields: Any, labels: Any, clean_labels: Any, second_layer: Any, bias: Any
) -> jax.Array:
    activation, loss = functions
    output = (second_layer[..., None] * activation(fields + bias[..., None])).sum(axis=1) / fields.shape[1]
    return jnp.stack([loss(some, output).mean(axis=1) for some in (labels, clean_labels)], axis=1)
