"""Two-layer networks."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from limen.problem.activations import Activation, as_activation
from limen.problem.spec import InputError, Spec, nested_tuple

PerNeuron = Annotated[float | tuple[float, ...], BeforeValidator(nested_tuple)]


class Network(Spec):
    r"""$f(x)=\frac1m\sum_{j\le m}a_j\,\sigma(\langle\theta_j,x\rangle+b_j)$, always with $1/m$.

    `second_layer` ($a$) and `bias` ($b$) are one number or one per neuron, where training starts; `initial_norm` is
    $|\theta_j(0)|$. `train_second_layer` and `train_bias` (descent on a fixed sample only) say whether they move. Lazy
    initialisation is `second_layer=gamma*sqrt(width)`.
    """

    width: int = Field(gt=0, le=1_000_000, description="number m of neurons")
    activation: Annotated[Activation, BeforeValidator(as_activation)] = Field(
        description="activation: a name or a formula in z"
    )
    second_layer: PerNeuron = Field(1.0, description="weights a of the second layer: one number, or one per neuron")
    bias: PerNeuron = Field(0.0, description="biases b: one number, or one per neuron")
    initial_norm: float = Field(1.0, gt=0.0, description="length of every neuron at the start")
    train_second_layer: bool = Field(False, description="whether the second layer is trained")
    train_bias: bool = Field(False, description="whether the biases are trained, by descent on a fixed sample")

    @model_validator(mode="after")
    def _check(self) -> "Network":
        for name in ("second_layer", "bias"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != self.width:
                raise InputError(f"{name} must be one number or {self.width} (one per neuron), got {len(value)}.")
        return self

    def per_neuron(self, name: str) -> tuple[float, ...]:
        """`second_layer` or `bias` as one number per neuron."""
        value = getattr(self, name)
        return value if isinstance(value, tuple) else (value,) * self.width


def network(
    width: int,
    activation: str | Activation,
    second_layer: Any = 1.0,
    bias: Any = 0.0,
    initial_norm: float = 1.0,
    train_second_layer: bool = False,
    train_bias: bool = False,
) -> Network:
    r"""A two-layer network $\frac1m\sum_ja_j\sigma(\langle\theta_j,x\rangle+b_j)$; see `Network`."""
    return Network(
        width=width,
        activation=activation,  # pyright: ignore[reportArgumentType]
        second_layer=second_layer,
        bias=bias,
        initial_norm=initial_norm,
        train_second_layer=train_second_layer,
        train_bias=train_bias,
    )
