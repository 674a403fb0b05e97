"""The neural tangent kernel and the Gaussian-process kernel of wide networks."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from limen import checks
from limen.precision import in_double
from limen.problem.spec import InputError
from limen.theory.kernel.tangent.layer_duals import LayerDual, layer_dual
from limen.theory.kernel.tangent.tabulated_dual import BlockMoments, Floats

LAYERS = ("all", "first", "last")
_BLOCK = 2**15  # entries: three arrays of this size stay in the second cache


@in_double
def ntk(
    x1: ArrayLike,
    x2: ArrayLike | None,
    activation: Any,
    depth: int,
    weight_variance: float = 1.0,
    bias: float = 0.0,
    layers: str = "all",
) -> tuple[Floats, Floats]:
    r"""Kernels $\Sigma^{(L)}$ (outputs at initialisation) and $\Theta^{(L)}$ (training) of a network of infinite width.

    The network is $\tilde\alpha^{(k+1)}=\sqrt{\sigma_w^2/n_k}\,W^{(k)}\alpha^{(k)}+\beta b^{(k)}$,
    $\alpha^{(k)}=\sigma(\tilde\alpha^{(k)})$, $\alpha^{(0)}=x$, $f=\tilde\alpha^{(L)}$, all parameters $N(0,1)$, and
    $\Theta=\lim\sum_p\partial_pf(x)\,\partial_pf(x')$ as $n_1,\dots,n_{L-1}\to\infty$, without prefactor:
    $$\Sigma^{(1)}=\Theta^{(1)}=\frac{\sigma_w^2}{n_0}x^\top x'+\beta^2,\quad
      \Sigma^{(k+1)}=\sigma_w^2E[\sigma(u)\sigma(v)]+\beta^2,\quad
      \Theta^{(k+1)}=\Theta^{(k)}\,\sigma_w^2E[\sigma'(u)\sigma'(v)]+\Sigma^{(k+1)},$$
    $(u,v)$ centred Gaussian with the covariance $\Sigma^{(k)}$ on the two inputs.

    `x1` is (n1, d), `x2` (n2, d), or None for `x1` (equal inputs take half the work, with an exact diagonal);
    `depth` is $L$, `weight_variance` $\sigma_w^2$, `bias` $\beta$. `layers` says whose weights and biases are
    trained: `all`; `first`, where $\Theta=\Sigma^{(1)}\prod_k\sigma_w^2E[\sigma'\sigma']$; `last`, where
    $\Theta=\Sigma^{(L)}$. Returns $(\Sigma^{(L)},\Theta)$, each (n1, n2).

    ReLU, $|z|$, erf and Hermite series (linear, square) in closed form. Other continuous activations from tables: in
    the angle, and in both norms if the norms differ; kinked activations with different norms cost about 5 ms per
    entry and layer. Errors of tables are about $10^{-10}$. The zero vector is refused for ReLU and $|z|$ without bias.
    Cost: one product and about 20 ns per entry and layer in closed form. Sources: Jacot, Gabriel & Hongler 2018;
    Lee et al. 2018.
    """
    first = _inputs("x1", x1)
    second = first if x2 is None or x2 is x1 else _inputs("x2", x2)
    symmetric = np.array_equal(first, second)
    if first.shape[1] != second.shape[1]:
        raise InputError(f"x2 must have the dimension of x1 ({first.shape[1]}), got {second.shape[1]}.")
    strength, offset = _scales(weight_variance, bias)
    check_architecture(depth, layers)
    scale = strength / first.shape[1]
    one = scale * np.einsum("ij,ij->i", first, first) + offset
    two = one if symmetric else scale * np.einsum("ij,ij->i", second, second) + offset
    duals = layer_dual(activation) if depth > 1 else None
    hidden: list[BlockMoments] = []
    diagonal = one if layers != "last" else np.zeros_like(one)
    for level in range(depth - 1):
        assert duals is not None
        hidden.append(duals.pairs(one, two))
        one, slope = _next(duals, one, strength, offset)
        two = one if symmetric else _next(duals, two, strength, offset)[0]
        diagonal = strength * slope * diagonal + (one if _trained(level, depth, layers) else 0.0)
    nngp, tangent = np.empty((len(first), len(second))), np.empty((len(first), len(second)))
    transposed = np.ascontiguousarray(second.T)
    rows = max(1, _BLOCK // len(second))
    for start in range(0, len(first), rows):
        here = slice(start, min(start + rows, len(first)))
        there = slice(start if symmetric else 0, len(second))
        covariance = (scale * first[here]) @ transposed[:, there]
        covariance += offset
        theta = covariance.copy() if layers != "last" or depth == 1 else np.zeros_like(covariance)
        for level, moments in enumerate(hidden):
            value, prime = moments(covariance, here, there)
            prime *= strength
            theta *= prime
            covariance = value
            covariance *= strength
            covariance += offset
            if _trained(level, depth, layers):
                theta += covariance
        if symmetric:
            corner = slice(0, here.stop - here.start)
            for part in (covariance, theta):
                part[:, corner] = 0.5 * (part[:, corner] + part[:, corner].T)
            nngp[here, there], tangent[here, there] = covariance, theta
            nngp[there, here], tangent[there, here] = covariance.T, theta.T
        else:
            nngp[here, there], tangent[here, there] = covariance, theta
    if symmetric:
        np.fill_diagonal(nngp, one)
        np.fill_diagonal(tangent, diagonal if depth > 1 else one)
    return nngp, tangent


def check_architecture(depth: int, layers: str) -> None:
    """Refuses a network without layers and an unknown choice of trained layers."""
    if depth != int(depth) or depth < 1:
        raise InputError(f"depth must be a whole number of at least 1, got {depth}.")
    if layers not in LAYERS:
        raise InputError(f"layers must be one of {', '.join(LAYERS)}, got {layers!r}.")


def _trained(level: int, depth: int, layers: str) -> bool:
    """Whether the layer after hidden layer `level` adds its own parameters' share."""
    return layers == "all" or (layers == "last" and level == depth - 2)


def _next(duals: LayerDual, variances: Floats, strength: float, offset: float) -> tuple[Floats, Floats]:
    value, slope = duals.own(variances)
    return strength * value + offset, slope


def _inputs(name: str, value: ArrayLike) -> Floats:
    array = checks.reals(name, value)
    if array.ndim != 2 or array.size == 0:
        raise InputError(f"{name} must be a matrix with one input per row, got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}.")
    return array


def _scales(weight_variance: float, bias: float) -> tuple[float, float]:
    strength = checks.positive("weight_variance", weight_variance)
    return strength, checks.non_negative("bias", bias) ** 2
