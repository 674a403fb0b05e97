r"""Algorithms: what is done with the samples, and the unit of time that goes with it.

**Scaled coordinates.** Weights of $d$ entries have entries of size $d^{-1/2}$, and so has the gradient of the risk.
Rules that act on every entry alone are written for $\Theta=\sqrt d\,\theta$ and $G=\sqrt d\,\nabla\hat R$, of order
one. A rule linear in the gradient looks the same in both; for the others a number copied from plain training is
converted:

| number | here | plain training of the first layer |
|---|---|---|
| `step` of `GradientDescent`, its `momentum`, `weight_decay` | $\eta,\beta,\lambda$ | $\eta,\beta,\lambda$ |
| `step` of `Adam`, `SignDescent`, `EntrywiseDescent` | $\eta$ | $\eta/\sqrt d$ |
| `epsilon` of `Adam`, `smoothing` of `SignDescent` | $\epsilon$ | $\epsilon/\sqrt d$ |
| `weight_decay` of `Adam` | $\lambda$ | $\lambda\sqrt d$ (the decay of a step, $\eta\lambda$, is the same) |

The entries and gradients of second layer and biases are of order one as they are: where they are trained the same rule
moves them, with the numbers as given here.

**Batches.** With `batch_fraction` $b<1$ a step sees $bn$ of the $n$ samples. `replacement=True`: every step draws its
samples anew, all different, independently of the steps before. `replacement=False`: epochs; each takes a new random
order and cuts $\lfloor1/b\rfloor$ batches from it, and what is left over sits out that epoch.
"""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from limen.problem.decays import MatrixDecay, Regularization, SecondDecay
from limen.problem.rates import Rate, Step, check_rate_until, is_schedule, rate_label, rate_values
from limen.problem.spec import InputError, Spec
from limen.problem.updates import (
    Move,
    adam,
    check_entrywise,
    heavy_ball,
    nesterov,
    own_move,
    plain_step,
    soft_sign,
)

Memory = Annotated[float, Field(ge=0.0, lt=1.0)]
# Adam divides by 1 - beta, which is a number of few digits in single precision beyond this.
LongMemory = Annotated[float, Field(ge=0.0, le=0.999999)]
Fraction = Annotated[float, Field(gt=0.0, le=1.0)]


class GradientDescent(Spec):
    r"""Gradient descent on a fixed sample, $\theta\leftarrow(1-\eta\lambda)\theta-\eta\nabla\hat R$ with
    $\hat R=\frac1n\sum_i\ell(y_i,f(x_i))$. Time is counted in steps.

    `step` is $\eta$, a number or a formula in `t`, the steps done before (`"0.5/(1 + t/20)"`); `weight_decay`
    $\lambda$, on the first layer; `spherical` puts every neuron back on its sphere after each step. A trained second
    layer takes the step $\epsilon_a\eta$, $\epsilon_a$ being `second_layer_ratio`; trained biases take $\eta$.

    `momentum` $\beta$ (heavy ball): $u\leftarrow\beta u-\eta(\nabla\hat R+\lambda\theta)$, $\theta\leftarrow\theta+u$;
    with `nesterov` $\theta\leftarrow\theta+\beta u-\eta(\nabla\hat R+\lambda\theta)$. `batch_fraction` and
    `replacement`: mini-batches, see this module.
    """

    step: Step = Field(description="learning rate: a number, or a formula in the number t of steps done")
    weight_decay: float = Field(0.0, ge=0.0, description="decay of the first layer")
    spherical: bool = Field(False, description="put every neuron back on its sphere after each step")
    second_layer_ratio: float = Field(1.0, ge=0.0, description="step of a trained second layer over that of the first")
    momentum: Memory = Field(0.0, description="heavy-ball momentum")
    nesterov: bool = Field(False, description="Nesterov's form of momentum")
    batch_fraction: Fraction = Field(1.0, description="part of the samples that a step sees")
    replacement: bool = Field(True, description="draw each batch anew; false: epochs")


class Adam(Spec):
    r"""Adam on a fixed sample, in the scaled coordinates $\Theta=\sqrt d\,\theta$, $G=\sqrt d\,\nabla\hat R$:

    $$m\leftarrow\beta_1m+(1-\beta_1)G,\quad v\leftarrow\beta_2v+(1-\beta_2)G^2,\quad
    \Theta\leftarrow(1-\eta\lambda)\Theta-\eta\frac{\hat m}{\sqrt{\hat v}+\epsilon},\qquad
    \hat m=\frac m{1-\beta_1^{t+1}},\ \hat v=\frac v{1-\beta_2^{t+1}}.$$

    | number | here | plain training, first layer |
    |---|---|---|
    | `step` | $\eta$, a number or a formula in `t` | learning rate $\eta/\sqrt d$ |
    | `beta1`, `beta2` | $\beta_1,\beta_2$ | the same |
    | `epsilon` | $\epsilon$ | $\epsilon/\sqrt d$ |
    | `weight_decay` (decoupled: AdamW) | $\lambda$, on the first layer | $\lambda\sqrt d$ |

    `batch_fraction` and `replacement`: mini-batches, see `limen.problem.algorithms`. Time is counted in steps. Source:
    Kingma & Ba 2015; Loshchilov & Hutter 2019.
    """

    step: Step = Field(description="learning rate: a number, or a formula in the number t of steps done")
    beta1: LongMemory = Field(0.9, description="memory of the mean gradient")
    beta2: LongMemory = Field(0.999, description="memory of the mean square")
    epsilon: float = Field(0.01, description="smoothing of the denominator, above 0")
    weight_decay: float = Field(0.0, ge=0.0, description="decay of the first layer")
    batch_fraction: Fraction = Field(1.0, description="part of the samples that a step sees")
    replacement: bool = Field(True, description="draw each batch anew; false: epochs")

    @field_validator("epsilon")
    @classmethod
    def _smooth(cls, value: float) -> float:
        return _smoothing("epsilon", value)


class SignDescent(Spec):
    r"""Descent by the soft sign of every entry of the gradient, in scaled coordinates:
    $\Theta\leftarrow\Theta-\eta\,G/(|G|+\epsilon)$, which is `Adam` with $\beta_1=\beta_2=0$.

    | number | here | plain training, first layer |
    |---|---|---|
    | `step` | $\eta$, a number or a formula in `t` | $\eta/\sqrt d$ |
    | `smoothing` | $\epsilon$ | $\epsilon/\sqrt d$ |

    `batch_fraction` and `replacement`: mini-batches, see `limen.problem.algorithms`. Time is counted in steps.
    """

    step: Step = Field(description="learning rate: a number, or a formula in the number t of steps done")
    smoothing: float = Field(0.01, description="width over which the sign turns, above 0")
    batch_fraction: Fraction = Field(1.0, description="part of the samples that a step sees")
    replacement: bool = Field(True, description="draw each batch anew; false: epochs")

    @field_validator("smoothing")
    @classmethod
    def _smooth(cls, value: float) -> float:
        return _smoothing("smoothing", value)


class EntrywiseDescent(Spec):
    r"""Descent by a rule of one's own that treats every entry alone, in scaled coordinates:
    $\Theta\leftarrow(1-\eta\lambda)\Theta-\eta\,\text{direction}$.

    `rule` is a JAX function: `rule(gradient)` gives the direction, `rule(gradient, memory)` the direction and the new
    memory (as for `limen.effective.derive`). `memories` is how many numbers it keeps per entry, all zero at first: with
    one, `memory` has the shape of `gradient`; with more, a leading axis of that length. A rule that needs the number of
    the step counts in a memory. It must be differentiable almost everywhere; one that mixes entries is refused.
    """

    step: Step = Field(description="learning rate: a number, or a formula in the number t of steps done")
    rule: Callable[..., Any] = Field(description="a JAX function of the gradient and its memory")
    memories: int = Field(0, ge=0, le=8, description="numbers the rule keeps per entry")
    weight_decay: float = Field(0.0, ge=0.0, description="decay of the first layer")
    batch_fraction: Fraction = Field(1.0, description="part of the samples that a step sees")
    replacement: bool = Field(True, description="draw each batch anew; false: epochs")

    @model_validator(mode="after")
    def _check(self) -> "EntrywiseDescent":
        check_entrywise(self.rule, self.memories)
        return self

    def describe(self) -> dict[str, Any]:
        """The spec as plain data; a function has no more than its name."""
        module, name = (getattr(self.rule, part, "?") for part in ("__module__", "__qualname__"))
        return {**super().describe(), "rule": f"{module}.{name}"}


class GradientFlow(Spec):
    r"""Gradient flow with the first layer on the sphere, or free and regularised:

    $$\dot\theta_j=-\frac nd\Big[\nabla_{\theta_j}\hat R+\sum_l\Lambda_{t,jl}\theta_l\Big],\qquad
    \dot a_j=-\frac nd\big[\partial_{a_j}\hat R+\lambda_ta_j\big],$$

    the limit of `GradientDescent` with small steps at $t=\text{steps}\cdot\eta\,d/n$. `weight_decay` is $\Lambda_t$: a
    number (times the identity), a formula in `t`, or a matrix over the neurons whose entries are numbers or formulas.
    `second_layer_decay` is $\lambda_t$ of a trained second layer. With `spherical` the velocity of each neuron is
    projected on its sphere, where the diagonal of $\Lambda_t$ does nothing: only a matrix is accepted. For a penalty
    that keeps its weight as the width $m$ grows, take numbers in proportion to $1/m$. Source: Montanari & Urbani 2025,
    Celentano, Cheng & Montanari 2021.
    """

    weight_decay: MatrixDecay = Field(0.0, description="decay of the first layer: number, formula in t, or matrix")
    second_layer_decay: SecondDecay = Field(0.0, description="decay of a trained second layer: number or formula in t")
    spherical: bool = Field(True, description="keep every neuron on its sphere")

    @model_validator(mode="after")
    def _acts(self) -> "GradientFlow":
        if self.spherical and not isinstance(self.weight_decay, tuple) and self.weight_decay != 0.0:
            raise InputError(
                f"weight_decay must be a matrix on the sphere, where {self.weight_decay} times the identity does "
                "nothing: give spherical=False for a free first layer, or second_layer_decay."
            )
        return self

    @property
    def regularized(self) -> bool:
        """Whether there is any decay."""
        return isinstance(self.weight_decay, tuple) or self.weight_decay != 0.0 or self.second_layer_decay != 0.0

    def regularization(self, width: int) -> Regularization | None:
        r"""$\Lambda_t$ and $\lambda_t$ for `width` neurons; None where both are zero."""
        return Regularization(self.weight_decay, self.second_layer_decay, width) if self.regularized else None


class OnePassSGD(Spec):
    r"""A fresh batch at each step: $\theta_j\leftarrow\theta_j-\frac{\gamma}{d}\nabla_{\theta_j}\ell$,
    $a_j\leftarrow a_j-\epsilon_a\frac\gamma d\nabla_{a_j}\ell$, averaged over the batch.

    `rate` is $\gamma$, a number or a formula in `t` such as `"0.5/(1 + t)"`; `second_layer_ratio` $\epsilon_a$. Time is
    $t=\text{steps}\cdot\gamma/(d\,m)$; with a formula every step advances it by $\gamma(t)/(d\,m)$. `momentum` $\beta$
    (heavy ball): $u\leftarrow\beta u-\frac\gamma d\nabla\ell$, $\theta\leftarrow\theta+u$, the same clock.
    """

    rate: Rate = Field(description="learning rate: a number, or a formula in the time t")
    batch: int = Field(1, ge=1, description="samples a step")
    second_layer_ratio: float = Field(
        1.0, ge=0.0, description="learning rate of the second layer over that of the first"
    )
    momentum: Memory = Field(0.0, description="heavy-ball momentum")


class SphericalSGD(Spec):
    r"""`OnePassSGD` with one sample a step, every neuron put back on its sphere after each step."""

    rate: Rate = Field(description="learning rate: a number, or a formula in the time t")


Algorithm = GradientDescent | Adam | SignDescent | EntrywiseDescent | GradientFlow | OnePassSGD | SphericalSGD

# Descent on a fixed sample, in whole steps; of these, the rules that are not linear in the gradient.
Descent = GradientDescent | Adam | SignDescent | EntrywiseDescent
Entrywise = Adam | SignDescent | EntrywiseDescent


def step_sizes(algorithm: Descent, steps: int) -> np.ndarray:
    r"""$\eta$ of steps 0..`steps`-1; a formula that is not positive at one of them is refused."""
    if is_schedule(algorithm.step):
        check_rate_until(algorithm.step, float(max(steps - 1, 0)), name="step")
    return rate_values(algorithm.step, np.arange(steps, dtype=float))


def constant_step(algorithm: Descent) -> float:
    r"""$\eta$ where it is a number; for methods that have refused a formula."""
    assert isinstance(algorithm.step, float)
    return algorithm.step


def move_of(algorithm: Descent) -> tuple[Move, tuple[float, ...]]:
    """The step of an algorithm, entry by entry, and the constants it takes."""
    if isinstance(algorithm, Adam):
        return Move(2, adam, linear=False), (algorithm.beta1, algorithm.beta2, algorithm.epsilon)
    if isinstance(algorithm, SignDescent):
        return Move(0, soft_sign, linear=False), (algorithm.smoothing,)
    if isinstance(algorithm, EntrywiseDescent):
        return own_move(algorithm.rule, algorithm.memories), ()
    if algorithm.momentum == 0.0:
        return Move(0, plain_step, linear=True), ()
    return Move(1, nesterov if algorithm.nesterov else heavy_ball, linear=True), (algorithm.momentum,)


def beyond_plain(algorithm: GradientDescent) -> str | None:
    """What a descent has beyond a constant step on the whole sample, as the end of a refusal, or None."""
    if is_schedule(algorithm.step):
        return f"it needs a constant step, got {rate_label(algorithm.step)!r}."
    if algorithm.momentum:
        return f"it needs momentum 0, got {algorithm.momentum:g}."
    if algorithm.second_layer_ratio != 1.0:
        return f"it needs second_layer_ratio 1, got {algorithm.second_layer_ratio:g}."
    if algorithm.batch_fraction < 1.0:
        return f"it needs the whole sample at each step, got batch_fraction {algorithm.batch_fraction:g}."
    return None


def plain_units(algorithm: Entrywise, d: int | None = None) -> str:
    """The numbers of plain training that a rule in scaled coordinates stands for, at one size or as formulas."""

    def written(value: float, power: int) -> str:
        if d is None:
            return f"{value:g}/√d" if power < 0 else f"{value:g}·√d"
        return f"{value * d ** (0.5 * power):.3g}"

    step = algorithm.step if isinstance(algorithm.step, float) else None
    words = [f"step {written(step, -1)}" if step is not None else f"step ({rate_label(algorithm.step)})/√d"]
    if isinstance(algorithm, Adam):
        words.append(f"epsilon {written(algorithm.epsilon, -1)}")
    if isinstance(algorithm, SignDescent):
        words.append(f"smoothing {written(algorithm.smoothing, -1)}")
    if not isinstance(algorithm, SignDescent) and algorithm.weight_decay:
        words.append(f"weight_decay {written(algorithm.weight_decay, 1)}")
    return f"in plain units {', '.join(words)}"


def _smoothing(name: str, value: float) -> float:
    if not value > 0.0:
        raise InputError(
            f"{name} must be greater than 0, got {value:g}: without it the rule jumps where a gradient changes sign, "
            f"and the response of the weights to their gradients does not exist."
        )
    return value
