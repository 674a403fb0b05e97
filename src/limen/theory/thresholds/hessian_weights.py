r"""The weights $G$ of a two-layer network's Hessian, $m\nabla^2\mathrm{Risk}=\frac1n\sum_iG_i\otimes x_ix_i^\top$."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from limen.precision import in_double
from limen.problem.activations import Activation, as_activation
from limen.problem.losses import Loss, as_loss
from limen.problem.spec import InputError
from limen.theory.thresholds.known_directions import OwnRows

ALLOWED_JUMP = 1e-3


def neuron_weights(
    activation: Activation | str,
    loss: Loss | str,
    second_layer: ArrayLike,
    bias: ArrayLike,
    fields: ArrayLike,
    labels: ArrayLike,
    neuron: int = 0,
) -> np.ndarray:
    r"""Weights of the diagonal block of one neuron $j$, shape `(N,)`.

    $$G_{jj}=\frac{a_j^2}m\,\ell''(y,f)\,\sigma'(V_j+b_j)^2+a_j\,\ell'(y,f)\,\sigma''(V_j+b_j),\qquad
    f=\frac1m\sum_ia_i\sigma(V_i+b_i).$$
    At width one this is the whole Hessian. The first term is $O(1/m)$: in the wide limit of Montanari & Wang 2026 only
    the second is left. `fields` are $V=\Theta^\top x$, shape `(N, m)`, without the bias; `labels` `(N,)`;
    `second_layer` and `bias` one number or one per neuron. The activation must have a second derivative.
    """
    terms = _terms(activation, loss, second_layer, bias, fields, labels)
    width = terms.slopes.shape[1]
    if not (isinstance(neuron, (int, np.integer)) and 0 <= neuron < width):
        raise InputError(f"neuron must be a whole number from 0 to {width - 1}, got {neuron!r}.")
    return terms.curvature * terms.slopes[:, neuron] ** 2 + terms.bends[:, neuron]


def network_weights(
    activation: Activation | str,
    loss: Loss | str,
    second_layer: ArrayLike,
    bias: ArrayLike,
    fields: ArrayLike,
    labels: ArrayLike,
) -> np.ndarray:
    r"""Matrix weights of the whole Hessian, shape `(N, m, m)`; arguments as for `neuron_weights`.

    $$G_{ij}=\frac{a_ia_j}m\,\ell''(y,f)\,\sigma'(V_i+b_i)\,\sigma'(V_j+b_j)+\delta_{ij}\,a_j\,\ell'(y,f)\,\sigma''(V_j+b_j).$$
    """
    terms = _terms(activation, loss, second_layer, bias, fields, labels)
    weights = terms.curvature[:, None, None] * terms.slopes[:, :, None] * terms.slopes[:, None, :]
    diagonal = np.arange(terms.slopes.shape[1])
    weights[:, diagonal, diagonal] += terms.bends
    return weights


def second_layer_rows(
    activation: Activation | str,
    loss: Loss | str,
    second_layer: ArrayLike,
    bias: ArrayLike,
    fields: ArrayLike,
    labels: ArrayLike,
) -> OwnRows:
    r"""Second derivatives of $m\ell$ that involve the second layer; arguments as for `neuron_weights`.

    $$c_{ij}=\frac{\partial^2m\ell}{\partial V_i\partial a_j}
    =\frac{a_i}m\,\ell''\sigma'_i\sigma_j+\delta_{ij}\,\ell'\sigma'_i,\qquad e_{ij}=\frac1mE[\ell''\sigma_i\sigma_j].$$
    """
    terms = _terms(activation, loss, second_layer, bias, fields, labels)
    mixed = terms.curvature[:, None, None] * terms.slopes[:, :, None] * terms.values[:, None, :]
    diagonal = np.arange(terms.slopes.shape[1])
    mixed[:, diagonal, diagonal] += terms.pulls
    own = (terms.curvature[:, None] * terms.values).T @ terms.values / len(mixed)
    return OwnRows(mixed, own)


class _Terms(NamedTuple):
    r"""$\ell''/m$ `(N,)`; $a_j\sigma'_j$, $a_j\ell'\sigma''_j$, $\sigma_j$ and $\ell'\sigma'_j$, each `(N, m)`."""

    curvature: np.ndarray
    slopes: np.ndarray
    bends: np.ndarray
    values: np.ndarray
    pulls: np.ndarray


@in_double
def _terms(
    activation: Activation | str,
    loss: Loss | str,
    second_layer: ArrayLike,
    bias: ArrayLike,
    fields: ArrayLike,
    labels: ArrayLike,
) -> _Terms:
    smooth, ell = _named(activation, loss)
    v, y = np.asarray(fields, dtype=float), np.asarray(labels, dtype=float)
    v = v[:, None] if v.ndim == 1 else v
    if v.ndim != 2 or v.size == 0 or not np.isfinite(v).all():
        raise InputError(f"fields must be finite with shape (N, m), got shape {v.shape}.")
    if y.shape != v.shape[:1] or not np.isfinite(y).all():
        raise InputError(f"labels must be finite with shape ({len(v)},), got shape {y.shape}.")
    a, b = (_per_neuron(part, name, v.shape[1]) for part, name in ((second_layer, "second_layer"), (bias, "bias")))
    refuse_kinks(smooth)
    return _Terms(*(np.asarray(part) for part in _derived((smooth, ell), v + b, y, a)))


@partial(jax.jit, static_argnums=0)
def _derived(functions: tuple[Activation, Loss], places: Any, labels: Any, second_layer: Any) -> tuple[Any, ...]:
    activation, loss = functions
    values, slopes, bends = _derivatives(activation, places)
    width = places.shape[1]
    output = values @ second_layer / width
    slope, curvature = loss.slope(labels, output), loss.curvature(labels, output)
    bent, pulls = slope[:, None] * second_layer * bends, slope[:, None] * slopes
    return curvature / width, second_layer * slopes, bent, values, pulls


@in_double
def refuse_kinks(activation: Activation) -> None:
    """Refuses an activation whose slope jumps: its second derivative, and so the Hessian, is not a function."""
    for place in activation.breakpoints:
        sides = jnp.asarray([place - 1e-6, place + 1e-6])
        values, slopes, _ = _derivatives(activation, sides)
        jump = max(abs(float(values[1] - values[0])), abs(float(slopes[1] - slopes[0])))
        if jump > ALLOWED_JUMP * (1.0 + float(jnp.abs(slopes).max())):
            raise InputError(
                f"activation must have a second derivative for a Hessian, got {activation.label!r}, which has a kink "
                f"at {place:g}: use a smooth one such as 'gelu' or 'softplus'."
            )


def _named(activation: Activation | str, loss: Loss | str) -> tuple[Activation, Loss]:
    return as_activation(activation), as_loss(loss)


def _derivatives(activation: Activation, places: Any) -> tuple[Any, Any, Any]:
    one = jnp.ones_like(places)

    def with_slope(z: Any) -> Any:
        return jax.jvp(activation.function, (z,), (one,))

    (values, slopes), (_, bends) = jax.jvp(with_slope, (places,), (one,))
    return values, slopes, bends


def _per_neuron(values: ArrayLike, name: str, width: int) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.shape not in ((), (width,)) or not np.isfinite(array).all():
        raise InputError(f"{name} must be one number or {width} (one per neuron), got shape {array.shape}.")
    return np.broadcast_to(array, (width,))
