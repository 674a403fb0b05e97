"""Hermite tensors of a target in the ambient space, by quadrature."""

from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from limen.gaussian.hermite import hermite_polynomials
from limen.gaussian.quadrature import expectation
from limen.precision import in_double
from limen.problem import Target
from limen.simulation.effective.symmetric_tensors import symmetric_powers


def target_tensors(target: Target, d: int, degrees: tuple[int, ...]) -> tuple[dict[int, np.ndarray], float]:
    r"""The Hermite tensors $T_\ell$ of a target over $R^d$, by degree, and the variance of what they leave of a label.

    In the coordinates of symmetric tensors the entry of the multiset $\alpha$ of latent axes is
    $c_\alpha=E[h(z,e)\prod_rhe_{\alpha_r}(z_r)]$; entries off the latent axes (the first $k$ of $R^d$) are zero.
    The rest is $E\,h^2-\sum_{\ell}|T_\ell|^2$ over the given degrees, additive noise not counted.
    """
    k = target.latents
    coefficients, square = _coefficients(target, max(degrees, default=0))
    found = {}
    for degree in degrees:
        tensor = np.zeros((d,) * degree)
        for axes in combinations_with_replacement(range(k), degree):
            tensor[axes] = coefficients[axes]
        found[degree] = tensor.reshape(-1)[symmetric_powers(d, degree).position] if degree else tensor.reshape(1)
    used = sum(float(tensor @ tensor) for tensor in found.values())
    rest = square - used
    return found, rest if rest > 1e-9 * square else 0.0


@lru_cache(maxsize=32)
@in_double
def _coefficients(target: Target, degree: int) -> tuple[dict[tuple[int, ...], float], float]:
    r"""$c_\alpha$ by multiset of latent axes up to the degree, and $E\,h^2$."""
    k, inner = target.latents, int(target.uses_inner_noise)
    multisets = [axes for size in range(degree + 1) for axes in combinations_with_replacement(range(k), size)]
    if target.hermite is not None:
        series = (*target.hermite, *[0.0] * (degree + 1))
        return {axes: series[len(axes)] for axes in multisets}, float(np.square(target.hermite).sum())

    def products(points: np.ndarray) -> np.ndarray:
        z = points[:, :k]
        labels = np.asarray(target.function(z, points[:, k] if inner else np.zeros(len(points))), dtype=float)
        polynomials = hermite_polynomials(z, degree)
        columns = [labels**2]
        for axes in multisets:
            product = labels
            for r in set(axes):
                product = product * polynomials[:, r, axes.count(r)]
            columns.append(product)
        return np.stack(columns, axis=1)

    values = expectation(products, k + inner, target.breakpoints).value
    return dict(zip(multisets, values[1:].tolist(), strict=True)), float(values[0])
