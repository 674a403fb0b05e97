r"""Bounds that hold for every network, evaluated beside what happens: how slowly the second layer can grow, and how
much it can overfit.

Let $|\sigma|\le S$ and $|\sigma'|\le L$. In mean-field time $\hat t=\alpha t$ the second layer moves by
$\frac{da_j}{d\hat t}=\frac1n\sum_ir_i\sigma(\langle w_j,x_i\rangle)$, and the training error never grows:

$$\lVert a(\hat t)\rVert_\infty\le a_0+a_1\hat t,\qquad a_1=S\sqrt{2\hat R_n(0)}.$$

Networks with $\frac1m\lVert a\rVert_1\le A$ and $\lVert w_j\rVert=1$ are $A$ times a symmetric convex hull of single
neurons. Symmetrisation, contraction of $\sigma$ and of $\frac12f^2$, which is $AS$-Lipschitz, and
$E\lVert\frac1n\sum\varepsilon_iy_ix_i\rVert$ give, as $n,d\to\infty$ with $n/d=\delta$,

$$E\sup_\theta\big[R(\theta)-\hat R_n(\theta)\big]\le\frac{4AL}{\sqrt\delta}\big(\sqrt{Ey^2}+AS\big).$$

Together they are the theorem of Montanari & Urbani 2025, gap $\le C_1L^3(a_0+a_1\hat t)^2\sqrt{d/n}$, with constants:
overfitting needs $\hat t$ to grow like $\delta^{1/4}$ at least. Without constants the second is Bartlett's
$\frac1m\lVert a\rVert_1/\sqrt{\alpha m}$ (Bartlett 1996; Bartlett & Mendelson 2002).
"""

from typing import Any

import numpy as np

from limen.gaussian.functions import as_function
from limen.labelled import labelled
from limen.method import answers
from limen.problem.activations import Activation
from limen.problem.algorithms import GradientFlow
from limen.problem.families.two_layer import TwoLayer
from limen.problem.groups import neuron_groups
from limen.problem.spec import InputError
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.flow.history import History
from limen.theory.flow.model import model_of_groups, refuses

CITATIONS = ("bartlett1996", "bartlett2002", "montanari2025")
POINTS = 65536
NEAR, FAR = 30.0, 3000.0


def second_layer_bound(mean_field_time: Any, start: float, size: float, train_loss: float) -> Any:
    r"""$a_0+S\sqrt{2\hat R_n(0)}\,\hat t$: no $|a_j|$ is larger.

    Args:
        mean_field_time: $\hat t=\alpha t$, a number or an array.
        start: $a_0=\max_j|a_j(0)|$.
        size: $S=\sup|\sigma|$.
        train_loss: $\hat R_n(0)=\frac1{2n}\sum r_i^2$ at the start.
    """
    _not_negative(start=start, size=size, train_loss=train_loss)
    return start + size * np.sqrt(2.0 * train_loss) * np.asarray(mean_field_time, dtype=float)


def bartlett_bound(second_layer: Any, samples_per_dim: float) -> float:
    r"""$\frac1m\lVert a\rVert_1\big/\sqrt{n/d}$, the scale of the largest gap of train and test error, without its
    constant.

    `second_layer` is $a$, one number or one per neuron. With $n/d=\alpha m$ it is of order $m^{-1/2}$ while $a=O(1)$,
    and of order one when $a\sim\sqrt m$.
    """
    _positive(samples_per_dim=samples_per_dim)
    return float(np.mean(np.abs(np.asarray(second_layer, dtype=float))) / samples_per_dim**0.5)


def generalization_bound(complexity: Any, samples_per_dim: float, size: float, slope: float, label_power: float) -> Any:
    r"""$\frac{4AL}{\sqrt\delta}(\sqrt{Ey^2}+AS)$: how far test can exceed training error, in expectation,
    $n,d\to\infty$.

    Args:
        complexity: $A=\frac1m\lVert a\rVert_1$ or a bound on it, a number or an array.
        samples_per_dim: $\delta=n/d$.
        size, slope: $S=\sup|\sigma|$ and $L=\sup|\sigma'|$.
        label_power: $Ey^2$, noise included.
    """
    _positive(samples_per_dim=samples_per_dim)
    _not_negative(size=size, slope=slope, label_power=label_power)
    norm = np.asarray(complexity, dtype=float)
    return 4.0 * norm * slope / samples_per_dim**0.5 * (label_power**0.5 + norm * size)


def overfitting_time_bound(
    gap: float, samples_per_dim: float, start: float, train_loss: float, size: float, slope: float, label_power: float
) -> float:
    r"""$\hat t$ before which the test error cannot exceed the training error by `gap` (0 if the start does not exclude
    it).

    Where `generalization_bound` of `second_layer_bound` reaches `gap`: a quadratic equation. Arguments as there. It
    grows like $\delta^{1/4}$, while overfitting takes $\hat t$ of order $m\propto\delta$ at fixed $\alpha$.
    """
    _positive(gap=gap, samples_per_dim=samples_per_dim, size=size, slope=slope)
    _not_negative(start=start, train_loss=train_loss, label_power=label_power)
    scaled = gap * samples_per_dim**0.5 / (4.0 * slope)
    reached = 2.0 * scaled / (label_power**0.5 + (label_power + 4.0 * size * scaled) ** 0.5)
    if reached <= start:
        return 0.0
    return float("inf") if train_loss == 0.0 else (reached - start) / (size * (2.0 * train_loss) ** 0.5)


@answers("theory", CITATIONS)
def overfitting_bounds(problem: TwoLayer, times: Any, gap: float = 0.1) -> Findings:
    r"""All bounds for a problem with `GradientFlow` and a bounded activation (tanh, erf, sigmoid, ...).

    Args:
        problem: a two-layer network with square loss.
        times: in $t$ of the flow; increasing, or the last one.
        gap: the excess of test over training error whose earliest time is asked for.

    Returns:
        `second_layer_bound`, `gap_bound` (time); `overfitting_time`, in $t$, before which the gap is below `gap`;
        `activation_bound` $S$, `activation_slope` $L$, `label_power` $Ey^2$. Put beside
        `solve`: $|a|$ and test minus train stay below.
    """
    reason = refuses(problem)
    if reason is not None or not isinstance(problem.algorithm, GradientFlow):
        raise InputError(f"problem must be a TwoLayer with GradientFlow: {reason or type(problem.algorithm).__name__}")
    if problem.algorithm.regularized:
        raise InputError("algorithm must have no decay for these bounds, which follow the training error alone.")
    size, slope = activation_bounds(problem.network.activation)
    model, grid = model_of_groups(problem, neuron_groups(problem)), time_grid(times, False)
    start, loss = float(np.abs(model.second_layer).max()), start_loss(problem)
    growth = size if model.trained else 0.0
    largest = second_layer_bound(model.samples_per_parameter * grid, start, growth, loss)
    bound = generalization_bound(largest, model.samples_per_dim, size, slope, model.label_power)
    reached = overfitting_time_bound(gap, model.samples_per_dim, start, loss, size, slope, model.label_power)
    if not model.trained and reached > 0.0:
        reached = float("inf")
    dataset = labelled(
        {
            "second_layer_bound": (("time",), largest),
            "gap_bound": (("time",), bound),
            "overfitting_time": reached / model.samples_per_parameter,
            "activation_bound": size,
            "activation_slope": slope,
            "label_power": model.label_power,
        },
        coords={"time": grid},
    )
    status = f"no overfitting by {gap:g} before t = {reached / model.samples_per_parameter:.4g}."
    if reached == 0.0:
        status = f"at n/d = {model.samples_per_dim:g} the bound does not exclude a gap of {gap:g} even at the start."
    return Findings(dataset, True, status)


def start_loss(problem: TwoLayer) -> float:
    r"""$\hat R_n(0)$ as $n,d\to\infty$; for neurons that start alike it is linear in $1/m$."""
    return float(History(model_of_groups(problem, neuron_groups(problem)), capacity=1).train_loss[0])


def activation_bounds(activation: Activation) -> tuple[float, float]:
    r"""$S=\sup|\sigma|$ and $L=\sup|\sigma'|$ on a grid of step $10^{-3}$; refuses an activation that is not
    bounded.
    """
    function = as_function(activation)
    size, far = (float(np.abs(function.values(np.linspace(-reach, reach, POINTS))).max()) for reach in (NEAR, FAR))
    polynomial = function.series is not None and any(function.series[1:])
    if polynomial or not np.isfinite(far) or far > (1.0 + 1e-6) * size:
        raise InputError(f"activation must be bounded for these bounds (tanh, erf, sigmoid), got {activation.label}.")
    z = np.linspace(-NEAR, NEAR, POINTS)
    derivative = function.derivative()
    slopes = np.gradient(function.values(z), z) if derivative is None else derivative.values(z)
    return size, float(np.abs(slopes).max())


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (np.isfinite(value) and value > 0.0):
            raise InputError(f"{name} must be positive and finite, got {value!r}.")


def _not_negative(**values: float) -> None:
    for name, value in values.items():
        if not (np.isfinite(value) and value >= 0.0):
            raise InputError(f"{name} must not be negative, got {value!r}.")
