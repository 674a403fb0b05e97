"""Least squares on random features of power-law data, learnt by one-pass SGD: a model of scaling laws."""

from pydantic import Field, model_validator

from limen.problem.rates import Rate
from limen.problem.spec import InputError, Spec


class PowerLawFeatures(Spec):
    r"""Inputs $x_j\sim N(0,j^{-2\alpha})$, $j\le v$, target $y=\sum_jj^{-\beta}x_j+\sqrt{\text{noise}}\,\varepsilon$.

    $\theta\in\mathbb R^d$ learns on the features $W^\top x$, $W$ of shape $(v,d)$ with $N(0,1/d)$ entries, by
    $$\theta\leftarrow\theta-\gamma\sum_{b\le B}(\theta\cdot W^\top x_b-y_b)\,W^\top x_b,\qquad\theta_0=0,$$
    on $B$ fresh samples a step (Paquette, Paquette, Xiao & Pennington 2024). Time counts steps; a step costs $dB$.

    `features` is $d$, `ambient` $v>d$, `rate` $\gamma$, a number or a formula in `t`, the steps done before
    (`"0.2/(1 + t)**0.3"`), `batch` $B$. The risk stays finite for rates up to about $2/(\sum_jj^{-2\alpha}+B+1)$,
    less for few features.
    """

    alpha: float = Field(gt=0.0, le=5.0, description="decay of the inputs")
    beta: float = Field(ge=0.0, le=10.0, description="decay of the target")
    features: int = Field(ge=1, description="number of features")
    ambient: int = Field(ge=2, description="number of inputs, more than features")
    noise: float = Field(0.0, ge=0.0, description="variance of the label noise")
    rate: Rate = Field(description="learning rate: a number, or a formula in the number t of steps done")
    batch: int = Field(1, ge=1, description="samples a step")

    @model_validator(mode="after")
    def _check(self) -> "PowerLawFeatures":
        if self.ambient <= self.features:
            raise InputError(f"ambient must exceed features = {self.features}, got {self.ambient}.")
        return self

    @property
    def d(self) -> int:
        """The size of the model."""
        return self.features

    @property
    def counts_steps(self) -> bool:
        """Time is a whole number of steps."""
        return True
