r"""Multi-layer perceptrons in the tangent parametrisation: parameters, outputs, and the kernel of their gradients."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from limen.precision import in_double
from limen.problem.activations import Activation, as_activation
from limen.problem.spec import InputError
from limen.simulation.generators import numpy_generator

Parameters = tuple[tuple[jax.Array, jax.Array], ...]
LAYERS = ("all", "first", "last")


@dataclass(frozen=True)
class MLP:
    r"""$\tilde\alpha^{(k+1)}=\sqrt{\sigma_w^2/n_k}\,W^{(k)}\alpha^{(k)}+\beta b^{(k)}$,
    $\alpha^{(k)}=\sigma(\tilde\alpha^{(k)})$, $\alpha^{(0)}=x$, one output $f=\tilde\alpha^{(L)}$.

    `widths` are $n_0$ (the dimension of the inputs), $n_1,\dots,n_{L-1}$; `weight_variance` is $\sigma_w^2$, `bias`
    $\beta$.
    """

    widths: tuple[int, ...]
    activation: str | Activation
    weight_variance: float = 1.0
    bias: float = 0.0

    def __post_init__(self) -> None:
        if not self.widths or min(self.widths) < 1:
            raise InputError(f"widths must be positive whole numbers, at least one, got {self.widths}.")
        if not (self.weight_variance > 0 and self.bias >= 0):
            raise InputError(
                f"weight_variance must be positive and bias non-negative, got {self.weight_variance} and {self.bias}."
            )
        object.__setattr__(self, "activation", as_activation(self.activation))

    @property
    def depth(self) -> int:
        """The number of weight layers $L$."""
        return len(self.widths)


def _flatten(mlp: MLP) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    return (mlp.weight_variance, mlp.bias), (mlp.widths, mlp.activation)


def _unflatten(structure: tuple[Any, Any], numbers: Any) -> MLP:
    # Without the checks: inside a compiled program the numbers have no values.
    mlp = object.__new__(MLP)
    for name, value in zip(("widths", "activation", "weight_variance", "bias"), (*structure, *numbers), strict=True):
        object.__setattr__(mlp, name, value)
    return mlp


# One compilation for all variances and biases.
jax.tree_util.register_pytree_node(MLP, _flatten, _unflatten)


@in_double
def draw_parameters(mlp: MLP, seed: int) -> Parameters:
    r"""All weights and biases independent $N(0,1)$: a pair $(W^{(k)},b^{(k)})$ per layer, shapes $(n_{k+1},n_k)$ and
    $(n_{k+1},)$, in double precision."""
    parameters = []
    for level, (fan_in, fan_out) in enumerate(zip(mlp.widths, (*mlp.widths[1:], 1), strict=True)):
        weight = numpy_generator(seed, fan_in, f"weights {level}").standard_normal((fan_out, fan_in))
        offset = numpy_generator(seed, fan_in, f"biases {level}").standard_normal(fan_out)
        parameters.append((jnp.asarray(weight), jnp.asarray(offset)))
    return tuple(parameters)


def forward(mlp: MLP, parameters: Parameters, inputs: Any) -> jax.Array:
    """Outputs (n,) on inputs (n, d); traceable."""
    return _preactivations(mlp, parameters, inputs)[-1][:, 0]


@in_double
def outputs(mlp: MLP, parameters: Parameters, inputs: Any) -> NDArray[np.float64]:
    """`forward`, compiled, as a NumPy array."""
    return np.asarray(_forward(mlp, parameters, jnp.asarray(inputs)))


@in_double
def empirical_ntk(
    mlp: MLP, parameters: Parameters, x1: Any, x2: Any = None, layers: str = "all"
) -> NDArray[np.float64]:
    r"""$\sum_p\partial_pf(x)\,\partial_pf(x')$ over the parameters of the chosen layers, without the Jacobian:
    $$\sum_\ell\Big(\frac{\sigma_w^2}{n_\ell}A_\ell A_\ell'^\top+\beta^2\Big)\circ
      \big(B_{\ell+1}B_{\ell+1}'^\top\big),$$
    $A_\ell$ the activations $\alpha^{(\ell)}$ and $B_\ell=\partial f/\partial\tilde\alpha^{(\ell)}$ of all inputs as
    rows.

    `x1` (n1, d), `x2` (n2, d) or None for `x1`; `layers` is `all`, `first` or `last`. For n inputs and width m, time
    $O(L(n^2m+nm^2))$, memory $O(n^2+nmL)$.
    """
    if layers not in LAYERS:
        raise InputError(f"layers must be one of {', '.join(LAYERS)}, got {layers!r}.")
    first = jnp.asarray(x1, jnp.float64)
    return np.asarray(_kernel(mlp, layers, parameters, first, first if x2 is None else jnp.asarray(x2, jnp.float64)))


def _preactivations(mlp: MLP, parameters: Parameters, inputs: Any) -> list[jax.Array]:
    function = as_activation(mlp.activation).function
    values, hidden = [], jnp.asarray(inputs)
    for level, (weight, offset) in enumerate(parameters):
        if level:
            hidden = function(values[-1])
        values.append((mlp.weight_variance / mlp.widths[level]) ** 0.5 * (hidden @ weight.T) + mlp.bias * offset)
    return values


def _backward(mlp: MLP, parameters: Parameters, preactivations: list[jax.Array]) -> list[jax.Array]:
    """Derivatives of the output by every preactivation, one row per input."""
    function = as_activation(mlp.activation).function
    current = jnp.ones_like(preactivations[-1])
    derivatives = [current]
    for level in range(len(parameters) - 1, 0, -1):
        values = preactivations[level - 1]
        slope = jax.jvp(function, (values,), (jnp.ones_like(values),))[1]
        scale = (mlp.weight_variance / mlp.widths[level]) ** 0.5
        current = slope * (scale * (current @ parameters[level][0]))
        derivatives.append(current)
    return derivatives[::-1]


@jax.jit
def _forward(mlp: MLP, parameters: Parameters, inputs: jax.Array) -> jax.Array:
    return forward(mlp, parameters, inputs)


@partial(jax.jit, static_argnums=1)
def _kernel(mlp: MLP, layers: str, parameters: Parameters, x1: jax.Array, x2: jax.Array) -> jax.Array:
    function = as_activation(mlp.activation).function
    sides = []
    for inputs in (x1, x2):
        values = _preactivations(mlp, parameters, inputs)
        sides.append(([inputs, *(function(value) for value in values[:-1])], _backward(mlp, parameters, values)))
    (one, one_back), (two, two_back) = sides
    chosen = {"all": range(mlp.depth), "first": (0,), "last": (mlp.depth - 1,)}[layers]
    total = jnp.zeros((len(x1), len(x2)))
    for level in chosen:
        features = mlp.weight_variance / mlp.widths[level] * (one[level] @ two[level].T) + mlp.bias**2
        total = total + features * (one_back[level] @ two_back[level].T)
    return total
