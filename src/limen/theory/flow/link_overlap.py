r"""How a neuron with overlaps $v$ correlates with the target: $\hat\varphi(v)=E[\varphi(z)\,\sigma(G_v)]$."""

from functools import lru_cache
from itertools import product
from math import factorial

import numpy as np

from limen.gaussian.hermite import hermite_coefficients, hermite_polynomials
from limen.gaussian.quadrature import gaussian_rule
from limen.link.label_points import label_points, link_values
from limen.problem.targets import Target

# Total degree of the Hermite tensors kept for a target of 2, 3, ... latent directions.
HIGHEST = {2: 24, 3: 14, 4: 10}
BEYOND = 8
SOBOL_POINTS = 1 << 17
SOBOL_FLOOR = 1e-3  # of the error of a mean over that many points
MOST_AXES = 3
REACH = 9


class LinkOverlap:
    r"""$\hat\varphi(v)=\sum_\beta f_\beta\,s_{|\beta|}\sqrt{|\beta|!/\beta!}\;v^\beta$ and its gradient.

    $f_\beta=E[\varphi(z)\prod_rhe_{\beta_r}(z_r)]$ over multi-indices $\beta$ (rows of `powers`). `truncation` is the
    bound by Cauchy-Schwarz of what degrees that are left out can add at $|v|=1$, relative to
    $\lVert\varphi\rVert\lVert\sigma\rVert$. `vanishes`: no term is left, as for labels of pure noise.
    """

    def __init__(self, powers: np.ndarray, coefficients: np.ndarray, truncation: float = 0.0) -> None:
        kept = coefficients != 0.0
        self.truncation, self.vanishes = truncation, not kept.any()
        latents = powers.shape[1]
        # The function, then its derivative by every latent: all are sums of monomials.
        down = np.concatenate([np.zeros((1, latents), int), np.eye(latents, dtype=int)])[:, None, :]
        self._powers = np.maximum(powers[kept] - down, 0)
        self._coefficients = coefficients[kept] * np.where(down.any(-1), (powers[kept] * down).sum(-1), 1)

    def value(self, overlap: np.ndarray) -> np.ndarray:
        r"""$\hat\varphi(v_g)$ for `overlap` (G, k), shape (G,)."""
        return self.with_slope(overlap)[0]

    def slope(self, overlap: np.ndarray) -> np.ndarray:
        r"""$\nabla\hat\varphi(v_g)$, shape (G, k)."""
        return self.with_slope(overlap)[1]

    def with_slope(self, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both at once."""
        monomials = overlap[:, None, None, :] ** self._powers
        monomials = monomials[..., 0] if overlap.shape[1] == 1 else monomials.prod(axis=3)
        both = (monomials * self._coefficients).sum(axis=2)
        return both[:, 0], both[:, 1:]


def link_overlap(target: Target, activation: np.ndarray) -> LinkOverlap:
    """The overlap function of a target with an activation of these Hermite coefficients."""
    highest = activation.size - 1
    if target.latents == 1:
        series = hermite_coefficients(target, highest)
        return LinkOverlap(np.arange(highest + 1)[:, None], series * activation)
    degree = min(highest, HIGHEST.get(target.latents, BEYOND))
    powers, tensor = hermite_tensor(target, degree)
    total = powers.sum(axis=1)
    ways = np.array([factorial(sum(row)) / np.prod([float(factorial(b)) for b in row]) for row in powers.tolist()])
    power = label_mean_square(target)
    missing = np.sqrt(max(power - float(tensor @ tensor), 0.0) * float((activation[degree + 1 :] ** 2).sum()))
    size = np.sqrt(power * float((activation**2).sum())) or 1.0
    return LinkOverlap(powers, tensor * activation[total] * np.sqrt(ways), missing / size)


def hermite_tensor(target: Target, degree: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Multi-indices $\beta$ with $|\beta|\le$ `degree`, one a row and $f_\beta=E[\varphi(z)\prod_rhe_{\beta_r}(z_r)]$.

    Up to three variables (noise inside the formula counts as one) by a tensor rule split at the integers, else by
    Sobol points.
    """
    k = target.latents
    powers = np.array([row for row in product(range(degree + 1), repeat=k) if sum(row) <= degree])
    scale = np.sqrt(label_mean_square(target))
    if k + target.uses_inner_noise <= MOST_AXES:
        axis, weights = _axis_rule()
        table = hermite_polynomials(axis, degree).T * weights
        tensor = _grid_values(target)
        if target.uses_inner_noise:
            tensor = tensor @ weights
        for _ in range(k):
            tensor = np.tensordot(tensor, table, axes=(0, 1))
        found, floor = tensor[tuple(powers.T)], 1e-10
    else:
        points, labels = label_points(_without_noise(target), SOBOL_POINTS, 0)
        tables = hermite_polynomials(points, degree)
        found = np.array([labels @ _monomial(tables, row) for row in powers]) / SOBOL_POINTS
        floor = SOBOL_FLOOR
    # What quadrature leaves of a coefficient that vanishes by symmetry would otherwise seed an instability.
    return powers, np.where(np.abs(found) < floor * scale, 0.0, found)


@lru_cache(maxsize=64)
def label_mean_square(target: Target) -> float:
    r"""$E\,\varphi^2$, or $E\,h(z,e)^2$ where the formula has noise inside; additive noise is not counted."""
    if target.hermite is not None:
        return float(np.sum(np.square(target.hermite)))
    if target.latents == 1 and not target.uses_inner_noise:
        rule = gaussian_rule(target)
        return float(rule.weights @ rule.values**2)
    if target.latents + target.uses_inner_noise > MOST_AXES:
        _, labels = label_points(_without_noise(target), SOBOL_POINTS, 0)
        return float(labels @ labels / SOBOL_POINTS)
    _, weights = _axis_rule()
    squares = _grid_values(target) ** 2
    while squares.ndim:
        squares = squares @ weights
    return float(squares)


def _axis_rule() -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre panels between the integers from -9 to 9, weighted with the normal density."""
    edges = np.arange(-REACH, REACH + 1.0)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    axis = (0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * nodes).ravel()
    return axis, np.tile(0.5 * weights, edges.size - 1) * np.exp(-0.5 * axis**2) / np.sqrt(2 * np.pi)


def _grid_values(target: Target) -> np.ndarray:
    """The link on the tensor grid of its latents, and of its inner noise on the last axis if it has one."""
    axis, _ = _axis_rule()
    axes = target.latents + target.uses_inner_noise
    points = np.stack(np.meshgrid(*[axis] * axes, indexing="ij"), axis=-1).reshape(-1, axes)
    inner = points[:, -1] if target.uses_inner_noise else np.zeros(len(points))
    return link_values(target, points[:, : target.latents], inner).reshape((axis.size,) * axes)


def _monomial(tables: np.ndarray, row: np.ndarray) -> np.ndarray:
    return np.prod([tables[:, r, power] for r, power in enumerate(row)], axis=0)


def _without_noise(target: Target) -> Target:
    return target.model_copy(update={"noise": 0.0})
