"""Algorithms: what is done with the samples, and the unit of time that goes with it."""

from pydantic import Field

from limen.problem.rates import Rate
from limen.problem.spec import Spec


class GradientDescent(Spec):
    r"""Full-batch gradient descent, $\theta\leftarrow(1-\eta\lambda)\theta-\eta\nabla\hat R$ with
    $\hat R=\frac1n\sum_i\ell(y_i,f(x_i))$. Time is counted in steps.

    `step` is $\eta$, `weight_decay` $\lambda$; `spherical` puts every neuron back on its sphere after
    each step. A trained second layer takes the same step.
    """

    step: float = Field(gt=0.0)
    weight_decay: float = Field(0.0, ge=0.0)
    spherical: bool = False


class GradientFlow(Spec):
    r"""Gradient flow $\frac{d}{dt}=-\frac nd\nabla\hat R$ with the first layer on the sphere."""


class OnePassSGD(Spec):
    r"""A fresh batch at each step: $\theta_j\leftarrow\theta_j-\frac{\gamma}{d}\nabla_{\theta_j}\ell$,
    $a_j\leftarrow a_j-\epsilon_a\frac\gamma d\nabla_{a_j}\ell$, averaged over the batch.

    `rate` is $\gamma$, a number or a formula in `t` such as `"0.5/(1 + t)"`; `second_layer_ratio` $\epsilon_a$. Time is
    $t=\text{steps}\cdot\gamma/(d\,m)$; with a formula every step advances it by $\gamma(t)/(d\,m)$.
    """

    rate: Rate
    batch: int = Field(1, ge=1)
    second_layer_ratio: float = Field(1.0, ge=0.0)


class SphericalSGD(Spec):
    r"""`OnePassSGD` with one sample a step, every neuron put back on its sphere after each step."""

    rate: Rate


Algorithm = GradientDescent | GradientFlow | OnePassSGD | SphericalSGD
