"""When training stays close to its linearisation: bounds with constants, from measured quantities."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from limen import checks
from limen.gaussian.functions import as_function
from limen.precision import in_double
from limen.problem.spec import InputError

_REACH = 40.0  # where the second derivative is searched


@dataclass(frozen=True)
class LazyBounds:
    r"""What holds for all times if `condition` $=4\Lambda r_0/\sigma_{\min}^2<1$; infinite where it does not.

    `rate`: the loss $\hat R_t=\frac1{2n}\|y-f_t\|^2$ is at most $\hat R_0e^{-\text{rate}\,t}$. `distance` bounds
    $\|\theta_t-\theta_0\|$, `output_deviation` $\|f_t-\bar f_t\|$ and `parameter_deviation`
    $\|\theta_t-\bar\theta_t\|$, the bar being the network linearised at its start; `kernel_change` bounds
    $\|K_t-K_0\|$ in operator norm.
    """

    condition: float
    rate: float
    distance: float
    output_deviation: float
    parameter_deviation: float
    kernel_change: float

    @property
    def holds(self) -> bool:
        """Whether the hypothesis is met and the bounds say anything."""
        return self.condition < 1

    def loss_factor(self, times: ArrayLike) -> NDArray[np.float64]:
        r"""The bound on $\hat R_t/\hat R_0$ at each time of the flow."""
        return np.exp(-self.rate * checks.non_negatives("times", times))


def lazy_bounds(residual: float, sigma_min: float, sigma_max: float, lipschitz: float, samples: int) -> LazyBounds:
    r"""Gradient flow of $\frac1{2n}\|y-f(\theta)\|^2$ against the flow linearised at $\theta_0$.

    With $r_0=\|y-f_0\|$, the extreme singular values $\sigma_{\min},\sigma_{\max}$ of the Jacobian $J_0$ ($n$ rows) and
    the Lipschitz constant $\Lambda$ of $\theta\mapsto J$: if $\Lambda r_0<\frac14\sigma_{\min}^2$, then for all $t$
    $$\hat R_t\le\hat R_0e^{-\sigma_{\min}^2t/2n},\quad\|\theta_t-\theta_0\|\le\frac{2r_0}{\sigma_{\min}},\quad
      \|f_t-\bar f_t\|\le\frac{20}3\frac{\Lambda\sigma_{\max}r_0^2}{\sigma_{\min}^3},\quad
      \|\theta_t-\bar\theta_t\|\le\min\Big(\frac{3r_0}{\sigma_{\min}},
      \frac{104}3\frac{\Lambda\sigma_{\max}^2r_0^2}{\sigma_{\min}^5}\Big)$$
    and $\|K_t-K_0\|\le5\Lambda r_0\sigma_{\max}/\sigma_{\min}$. Arguments are
    $r_0,\sigma_{\min},\sigma_{\max},\Lambda,n$. The bounds are far from sharp (measured deviations are often
    thousands of times smaller) and training is lazy long before the hypothesis holds. For $\alpha f$ with $f_0=0$:
    $\Lambda,\sigma\propto\alpha$, the condition $\propto\alpha^{-1}$. Sources: Chizat, Oyallon & Bach 2019; Bartlett,
    Montanari & Rakhlin 2021.
    """
    start = checks.non_negative("residual", residual)
    least = checks.positive("sigma_min", sigma_min)
    most = checks.positive("sigma_max", sigma_max)
    curvature = checks.non_negative("lipschitz", lipschitz)
    if most < least:
        raise InputError(f"sigma_max must be at least sigma_min = {least}, got {most}.")
    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}.")
    condition = 4 * curvature * start / least**2
    if condition >= 1:
        return LazyBounds(condition, 0.0, *[float("inf")] * 4)
    return LazyBounds(
        condition=condition,
        rate=least**2 / (2 * samples),
        distance=2 * start / least,
        output_deviation=20 / 3 * curvature * most * start**2 / least**3,
        parameter_deviation=min(3 * start / least, 104 / 3 * curvature * most**2 * start**2 / least**5),
        kernel_change=5 * curvature * start * most / least,
    )


def two_layer_lipschitz(
    inputs: ArrayLike, activation: Any, width: int, alpha: float = 1.0, largest_output_weight: float = 1.0
) -> float:
    r"""A bound on $\Lambda$ for $f=\frac\alpha{\sqrt m}\sum_jb_j\sigma(\langle w_j,x\rangle)$, the $w_j$ being trained:
    $$\Lambda\le\frac\alpha{\sqrt m}\,\max_j|b_j|\,\|\sigma''\|_\infty\,\|X\|_{op}\,\max_i\|x_i\|.$$

    `inputs` $X$ is (n, d), `width` $m$. Activations with a kink or an unbounded second derivative are refused.
    """
    x = checks.reals("inputs", inputs)
    if x.ndim != 2 or x.size == 0:
        raise InputError(f"inputs must be a matrix with one input per row, got shape {x.shape}.")
    if width < 1:
        raise InputError(f"width must be at least 1, got {width}.")
    scale = checks.positive("alpha", alpha)
    weight = checks.positive("largest_output_weight", largest_output_weight)
    size = float(np.linalg.norm(x, 2)) * float(np.linalg.norm(x, axis=1).max())
    return scale * weight / np.sqrt(width) * largest_second_derivative(activation) * size


@in_double
def largest_second_derivative(activation: Any) -> float:
    r"""$\|\sigma''\|_\infty$ by a search on $|z|\le40$, refined around the best point of a grid of step 0.01."""
    function = as_function(activation)
    slope = function.derivative()
    curvature = None if slope is None else slope.derivative()
    kinks = np.array(function.breakpoints)
    if slope is None or curvature is None or slope.jumps_at(tuple(kinks)) or function.jumps_at(tuple(kinks)):
        raise InputError(f"activation must have a continuous derivative that JAX can take, got {function.label}.")
    grid = np.linspace(-_REACH, _REACH, 8001)
    sizes = np.abs(curvature.values(grid))
    best = int(np.argmax(sizes))
    inside = float(sizes[np.abs(grid) <= 0.75 * _REACH].max())
    if not np.isfinite(sizes).all() or sizes[best] > inside * (1 + 1e-9) + 1e-12:
        raise InputError(f"activation must have a bounded second derivative, got {function.label}.")
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found: Any = minimize_scalar(
        lambda z: -abs(float(curvature.values(np.array([z]))[0])), bounds=bounds, method="bounded"
    )
    return float(max(sizes[best], -found.fun))
