"""The tangent kernel on the sphere, a function of the cosine between two inputs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen import checks
from limen.precision import in_double
from limen.problem.spec import InputError
from limen.theory.kernel.tangent.layer_duals import LayerDual, layer_dual
from limen.theory.kernel.tangent.neural_tangent import check_architecture
from limen.theory.kernel.tangent.tabulated_dual import BlockMoments

_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class SphereKernel:
    r"""$h(u)$, the tangent kernel of two inputs with $|x|^2=|x'|^2=d$ and $x^\top x'=ud$.

    `at_zero` $=h(0)$, `slope` $=h'(0)$, `at_one` $=h(1)$. In the regime $n\asymp d$ only these matter: the kernel has
    the eigenvalue $h'(0)/d$, $d$ times, and a flat remainder `tail` $=h(1)-h(0)-h'(0)$ that acts as a ridge.
    """

    at_zero: float
    slope: float
    at_one: float
    _hidden: tuple[BlockMoments, ...]
    _strength: float
    _offset: float
    _layers: str

    @property
    def tail(self) -> float:
        """$h(1)-h(0)-h'(0)$."""
        return self.at_one - self.at_zero - self.slope

    @in_double
    def __call__(self, cosine: ArrayLike) -> NDArray[np.float64]:
        """$h(u)$ for cosines in [-1, 1], in their shape."""
        u = checks.reals("cosine", cosine)
        if np.any(np.abs(u) > 1 + 1e-12):
            raise InputError(f"cosine must be between -1 and 1, got {float(u.flat[np.argmax(np.abs(u))])}.")
        covariance = (self._strength * np.clip(u, -1.0, 1.0) + self._offset).reshape(1, -1)
        last = len(self._hidden) - 1
        theta = np.zeros_like(covariance) if self._layers == "last" and self._hidden else covariance.copy()
        for level, moments in enumerate(self._hidden):
            value, prime = moments(covariance.copy(), _ALL, slice(0, 1))
            covariance = self._strength * value + self._offset
            theta = theta * self._strength * prime
            if self._layers == "all" or (self._layers == "last" and level == last):
                theta = theta + covariance
        return theta.reshape(u.shape)


@in_double
def sphere_kernel(
    activation: Any, depth: int, weight_variance: float = 1.0, bias: float = 0.0, layers: str = "all"
) -> SphereKernel:
    r"""The kernel $\Theta$ of `ntk` on the sphere $|x|^2=d$; arguments as there.

    $h'(0)$ by the chain rule through the layers:
    $\dot\Theta\leftarrow\sigma_w^2(\dot\Theta\,E[\sigma'\sigma']+\Theta\,\dot\Sigma\,E[\sigma''\sigma''])+\dot\Sigma$,
    $\dot\Sigma\leftarrow\sigma_w^2\dot\Sigma\,E[\sigma'\sigma']$. ReLU with $\sigma_w^2=2$, $\beta=0$: $h(0)=2/\pi$,
    $h'(0)=2$, $h(1)=4$ for two layers. Milliseconds in closed form, about 1 s per layer otherwise.
    """
    check_architecture(depth, layers)
    strength = checks.positive("weight_variance", weight_variance)
    offset = checks.non_negative("bias", bias) ** 2
    variance, covariance, rate = strength + offset, offset, strength
    on_diagonal, theta, theta_rate = variance, covariance, rate
    if layers == "last" and depth > 1:
        on_diagonal = theta = theta_rate = 0.0
    duals: LayerDual | None = layer_dual(activation) if depth > 1 else None
    hidden: list[BlockMoments] = []
    for level in range(depth - 1):
        assert duals is not None
        width = np.array([variance])
        moments = duals.pairs(width, width)
        hidden.append(moments)
        value, prime = (float(part[0, 0]) for part in moments(np.array([[covariance]]), _ALL, _ALL))
        curvature = float(duals.curvature(variance, np.array([covariance]))[0])
        own, own_prime = (float(part[0]) for part in duals.own(width))
        theta_rate = strength * (theta_rate * prime + theta * curvature * rate)
        theta, on_diagonal = strength * theta * prime, strength * on_diagonal * own_prime
        rate = strength * rate * prime
        variance, covariance = strength * own + offset, strength * value + offset
        if layers == "all" or (layers == "last" and level == depth - 2):
            theta, theta_rate, on_diagonal = theta + covariance, theta_rate + rate, on_diagonal + variance
    return SphereKernel(theta, theta_rate, on_diagonal, tuple(hidden), strength, offset, layers)
