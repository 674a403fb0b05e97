"""Problems that are linear in what is trained: least squares, and random features; gradient flow from zero on both."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from limen.problem.activations import Activation, as_activation
from limen.problem.inputs import Inputs
from limen.problem.spec import InputError, Spec, nested_tuple

Numbers = Annotated[tuple[float, ...], BeforeValidator(nested_tuple)]


class Ridge(Spec):
    r"""Least squares $y=X\beta+\varepsilon$ in $p$ dimensions, trained by gradient flow with weight decay.

    $\dot b=\frac1nX^\top(y-Xb)-\lambda b$ from $b=0$; it ends at the ridge estimator of penalty `ridge` $=\lambda$,
    at the least-norm solution for $\lambda=0$. `signal` holds the squared norm of $\beta$ in each
    eigenspace of the covariance of the `inputs` (one number per variance). `ratio` is $\gamma=p/n$,
    `noise` the variance of $\varepsilon$. In simulations $d=p$, and $n$ is $p/\gamma$ rounded.
    """

    ratio: float = Field(gt=0.0, description="dimensions per sample p/n")
    noise: float = Field(0.0, ge=0.0, description="variance of the label noise")
    ridge: float = Field(0.0, ge=0.0, description="penalty")
    signal: Numbers = Field(
        (1.0,), description="squared norm of the coefficients in each eigenspace; by default 1, spread evenly"
    )
    inputs: Inputs = Field(Inputs(), description="law and covariance of the inputs")

    @model_validator(mode="before")
    @classmethod
    def _moved(cls, fields: Any) -> Any:
        for name, now in (("values", "variances"), ("weights", "fractions")):
            if isinstance(fields, dict) and name in fields:
                raise InputError(f"{name} stands in the inputs of Ridge: inputs=limen.Inputs({now}=...).")
        if isinstance(fields, dict) and "signal" not in fields and isinstance(fields.get("inputs"), Inputs):
            return {**fields, "signal": fields["inputs"].fractions}
        return fields

    @model_validator(mode="after")
    def _check(self) -> "Ridge":
        wanted = len(self.inputs.variances)
        if len(self.signal) != wanted:
            raise InputError(f"signal must have one entry per variance of inputs ({wanted}), got {len(self.signal)}.")
        if self.inputs.target_shares is not None:
            raise InputError("target_shares must be left out with Ridge: signal says where the target lives.")
        if min(self.signal) < 0.0:
            raise InputError(f"signal must be numbers that are at least 0, got {self.signal}.")
        return self

    @property
    def d(self) -> int | None:
        """The dimension, where the inputs are rows of data."""
        return self.inputs.d

    @property
    def population(self) -> dict[str, tuple[float, ...]]:
        """The law of inputs and coefficients, as `limen.kernel.ridge` takes it."""
        return {"values": self.inputs.variances, "weights": self.inputs.fractions, "signal": self.signal}


class RandomFeatures(Spec):
    r"""The second layer of $f(x)=\sum_{j\le N}a_j\sigma(\langle\theta_j,x\rangle/\sqrt d)$, trained by gradient flow.

    Weights $\theta_j$ and inputs are uniform on the sphere of radius $\sqrt d$. Flow of
    $\frac1{2n}\sum_i(y_i-f(x_i))^2+\frac{N\lambda}{2d}\|a\|^2$ from $a=0$ in the time in which the outputs on the
    training set follow $\dot f=-A(f-y)-\lambda f$, $A=\frac dn\frac1N\Phi\Phi^\top$ ($\Phi$ the features of the
    training set). `features_per_dim` is $N/d$, `samples_per_dim` $n/d$, `ridge` $\lambda$. The target is a linear
    function of norm `linear`, plus a centred non-linear part of variance `nonlinear`, plus label noise of variance
    `noise`.
    """

    features_per_dim: float = Field(gt=0.0, description="features per dimension N/d")
    samples_per_dim: float = Field(gt=0.0, description="samples per dimension n/d")
    activation: Annotated[Activation, BeforeValidator(as_activation)] = Field(
        description="activation: a name or a formula in z"
    )
    ridge: float = Field(0.0, ge=0.0, description="penalty")
    linear: float = Field(1.0, ge=0.0, description="norm of the linear part of the target")
    nonlinear: float = Field(0.0, ge=0.0, description="variance of the non-linear part of the target")
    noise: float = Field(0.0, ge=0.0, description="variance of the label noise")

    @property
    def target(self) -> dict[str, float]:
        """The law of the labels, as `limen.kernel.random_features` takes it."""
        return {"linear": self.linear, "nonlinear": self.nonlinear, "noise": self.noise}
