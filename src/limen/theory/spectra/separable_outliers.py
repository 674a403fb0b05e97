r"""Edges and outliers of $\frac1n\sum_ig_ix_ix_i^\top$ with inputs of several variances, on the real axis.

$x_i=\Sigma^{1/2}\xi_i$, and the weights $g_i$ depend on $x_i$ through finitely many coordinates $U_i=V^\top\xi_i$ of
second moment $I$, $V$ orthonormal with the part $p_{rb}$ of direction $r$ in eigenspace $b$. Left of the bulk all is
a function of $e=\frac1d\mathrm{tr}\,\Sigma(H-z)^{-1}>0$:
$$a=E\frac g{1+\gamma ge},\qquad E_H\frac s{as-z}=e,\qquad z<as\ \text{for all}\ s,$$
which has one root $z(e)$. It rises until
$\gamma E\big[\frac{g^2}{(1+\gamma ge)^2}\big]\,E_H\big[\frac{s^2}{(as-z)^2}\big]=1$: there is the edge. Around the
directions the matrix behaves like $\Sigma^{1/2}(aI+VBV^\top)\Sigma^{1/2}$,
$B=E\big[\frac{g(UU^\top-I)}{1+\gamma ge}\big]$, so that
$$V^\top\Sigma^{1/2}(H-z)^{-1}\Sigma^{1/2}V=(Q^{-1}+B)^{-1},\qquad Q_{rr}=\sum_b\frac{p_{rb}\,s_b}{as_b-z}.$$
It grows with $z$, so each eigenvalue of $Q^{-1}+B$ falls through zero at most once: at an outlier. One variance gives
`subspace_outliers` back. The right side is the left side of $-g$. Gaps between bands are not searched.

Source: Paul & Silverstein 2009 and Couillet & Hachem 2014 for the bulk; outliers from the deterministic equivalent as
in Benaych-Georges & Nadakuditi 2011.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from limen.checks import positive
from limen.problem.spec import InputError
from limen.theory.spectra.discrete_law import Numbers, discrete_law, finite_array

GRID = 160
# An edge is sought between these parts of the way to the first pole, or of a natural unit where there is none.
NEAR, FAR = 1e-7, 1e9
ROOT_STEPS = 200


class PopulationOutlier(NamedTuple):
    r"""An eigenvalue outside the bulk, and its unit eigenvector $\hat u$.

    `direction` $c$ (r,): the combination of the directions it leans on, a unit vector. `overlap_squared`: squared
    cosine of $\hat u$ with $\Sigma^{-1/2}Vc$; for labels of $\theta_*\cdot x$ that is $\theta_*$. `in_eigenspaces`
    (S,): squared length of its projection on $Vc$ inside each eigenspace, in the order of the ascending variances.
    """

    location: float
    overlap_squared: float
    in_eigenspaces: np.ndarray
    direction: np.ndarray


class Point(NamedTuple):
    r"""$a$ and $z$ at some $e$, with their slopes in $e$."""

    a: float
    z: float
    a_slope: float
    z_slope: float


@dataclass(frozen=True, eq=False)
class PopulationWeights:
    r"""What the law is made of: weights `g` (N,), coordinates `u` (N, r), probabilities `mass` (N,); positive variances
    `s` (S,) with fractions `w` (S,), which sum to less than one where some variance is zero; shares `p` (r, S);
    $\gamma$ = `ratio`."""

    g: np.ndarray
    u: np.ndarray
    mass: np.ndarray
    s: np.ndarray
    w: np.ndarray
    p: np.ndarray
    ratio: float

    def mirrored(self) -> "PopulationWeights":
        """The matrix with the other sign."""
        return replace(self, g=-self.g)

    def at(self, e: float) -> Point:
        r"""$a$, $z$ and slopes. For $z$, Newton on $1/E_H[\frac s{as-z}]$, which is concave in $z$, falls to the root
        from the least of the places at which a single eigenspace gives $e$."""
        parts = self.g / (1.0 + self.ratio * self.g * e)
        a, a_slope = float(self.mass @ parts), -self.ratio * float(self.mass @ parts**2)
        z = float((self.s * (a - self.w / e)).min())
        for _ in range(ROOT_STEPS):
            pulls = self.s / (a * self.s - z)
            value, slope = float(self.w @ pulls), float((self.w / self.s) @ pulls**2)
            step = (value / e - 1.0) * value / slope
            z -= step
            if abs(step) <= 1e-15 * (abs(z) + abs(a)):
                break
        pulls = self.s / (a * self.s - z)
        along, across = float((self.w / self.s) @ pulls**2), float(self.w @ pulls**2)
        return Point(a, z, a_slope, (1.0 + across * a_slope) / along)

    def edge(self) -> float:
        r"""$e$ at the left edge; infinite where there is none, that is where $H\ge0$ has too low a rank."""
        lowest = float(self.g.min())
        if lowest < 0.0:
            last = 1.0 / (self.ratio * -lowest)
            close = np.geomspace(NEAR, 0.5, GRID // 2)
            tried = last * np.concatenate([close, 1.0 - close[::-1][1:]])
        else:
            tried = np.geomspace(NEAR, FAR, GRID) / (self.ratio * float(np.abs(self.g).max()))
        before = tried[0]
        for e in tried:
            if self.at(e).z_slope <= 0.0:
                root = brentq(lambda one: self.at(one).z_slope * one**2, before, e, xtol=1e-14 * e)
                return float(root)  # pyright: ignore[reportArgumentType]
            before = e
        return np.inf

    def characteristic(self, e: float, point: Point) -> np.ndarray:
        r"""$Q^{-1}+B$, shape (r, r)."""
        weights = self.mass * self.g / (1.0 + self.ratio * self.g * e)
        pairs = (self.u * weights[:, None]).T @ self.u
        q = (self.p * self.s) @ (1.0 / (point.a * self.s - point.z))
        return 0.5 * (pairs + pairs.T) + np.diag(1.0 / q - point.a)

    def outlier(self, e: float, direction: np.ndarray) -> PopulationOutlier:
        r"""The outlier at $e$ from the residue there, $-(t\cdot y)^2/\partial_z(c^\top(Q^{-1}+B)c)$ for a unit vector
        $t$, with $y=(a\Sigma-z)^{-1}\Sigma^{1/2}VQ^{-1}c$."""
        point = self.at(e)
        gaps = point.a * self.s - point.z
        q = (self.p * self.s) @ (1.0 / gaps)
        q_slope = -(self.p * self.s) @ ((point.a_slope * self.s - point.z_slope) / gaps**2)
        squares = (self.u @ direction) ** 2 - 1.0
        leak = -self.ratio * float(self.mass @ ((self.g / (1.0 + self.ratio * self.g * e)) ** 2 * squares))
        slope = (float(-(direction**2) @ (q_slope / q**2)) + leak) / point.z_slope
        inside = (direction**2 / q**2) @ self.p * self.s / gaps**2
        length = float((direction**2) @ (self.p @ (1.0 / self.s)))
        along = float((direction**2 / q) @ (self.p @ (1.0 / gaps))) ** 2 / length
        return PopulationOutlier(point.z, -along / slope, -inside / slope, direction)

    def outliers_left(self) -> list[PopulationOutlier]:
        """Outliers below the bulk, ascending."""
        edge = self.edge()
        if np.isinf(edge):
            return []
        last = self.characteristic(edge, self.at(edge))
        first = NEAR * edge
        found = []
        for index in np.flatnonzero(np.linalg.eigvalsh(last) < 0.0):

            def level(e: float, index: int = int(index)) -> float:
                return float(np.linalg.eigvalsh(self.characteristic(e, self.at(e)))[index])

            root = float(brentq(level, first, edge, xtol=1e-14 * edge))  # pyright: ignore[reportArgumentType]
            vectors = np.linalg.eigh(self.characteristic(root, self.at(root)))[1]
            found.append(self.outlier(root, vectors[:, index]))
        return sorted(found, key=lambda one: one.location)


def population_weights(
    weights: Numbers,
    coordinates: ArrayLike,
    values: Numbers,
    value_weights: Numbers,
    ratio: float,
    shares: ArrayLike | None = None,
    probabilities: Numbers | None = None,
) -> PopulationWeights:
    """Checked arguments; see `separable_outliers`."""
    g = finite_array(weights, "weights")
    u = np.asarray(coordinates, dtype=float)
    u = u[:, None] if u.ndim == 1 else u
    if u.ndim != 2 or len(u) != g.size or not np.isfinite(u).all():
        raise InputError(f"coordinates must be finite with shape ({g.size}, r), got shape {u.shape}.")
    if not np.any(g):
        raise InputError("weights must contain a non-zero value, got only 0.0.")
    mass = np.full(g.size, 1.0 / g.size) if probabilities is None else finite_array(probabilities, "probabilities")
    discrete_law(g, mass, "weights", "probabilities")
    s, w = finite_array(values, "values"), finite_array(value_weights, "value_weights")
    discrete_law(s, w, "values", "value_weights")
    if s.min() < 0.0 or s.max() == 0.0:
        raise InputError(f"values must not be negative nor all 0 (eigenvalues of a covariance), got {s.tolist()}.")
    p = np.atleast_2d(w * s / (w @ s) if shares is None else np.asarray(shares, dtype=float))
    if p.shape[-1] != s.size or p.min() < 0.0 or np.abs(p.sum(axis=1) - 1.0).max() > 1e-9 or p[:, s == 0.0].any():
        raise InputError(f"shares must have {s.size} entries a row, not negative, of sum 1, got {p.tolist()}.")
    p = np.broadcast_to(p, (u.shape[1], s.size))
    order = np.argsort(s)[int((s == 0.0).sum()) :]
    return PopulationWeights(g, u, mass, s[order], w[order], p[:, order], positive("ratio", ratio))


def separable_edges(
    weights: Numbers, values: Numbers, value_weights: Numbers, ratio: float, probabilities: Numbers | None = None
) -> tuple[float, float]:
    r"""Left and right end of the spectrum of $\frac1n\sum_ig_ix_ix_i^\top$ for $x_i\sim N(0,\Sigma)$, zeros included.

    `weights` (N,) with `probabilities` (equal if not given): the law of $g$. `values`, `value_weights`: eigenvalues of
    $\Sigma$ and their parts. `ratio`: $\gamma=d/n$.
    """
    count = finite_array(weights, "weights").size
    law = population_weights(weights, np.zeros((count, 0)), values, value_weights, ratio, None, probabilities)
    ends = [one.edge() for one in (law, law.mirrored())]
    left, right = (0.0 if np.isinf(e) else one.at(e).z for one, e in zip((law, law.mirrored()), ends, strict=True))
    return left, -right


def separable_outliers(
    weights: Numbers,
    coordinates: ArrayLike,
    values: Numbers,
    value_weights: Numbers,
    ratio: float,
    shares: ArrayLike | None = None,
    probabilities: Numbers | None = None,
) -> list[PopulationOutlier]:
    r"""Outliers of $\frac1n\sum_ig_ix_ix_i^\top$, $x_i\sim N(0,\Sigma)$, left and right of the bulk, ascending.

    As $n,d\to\infty$ with $\gamma=d/n$ = `ratio`. `weights` (N,) and `coordinates` (N, r): samples, or with
    `probabilities` a discrete law, of $g$ and of the coordinates it depends on, uncorrelated of variance 1. `values`,
    `value_weights` (S,): eigenvalues of $\Sigma$ and their parts. `shares` (S,) or (r, S): the part of the variance of
    a coordinate $z_r=\theta_r\cdot x$ that comes from each eigenspace, $s_b|\theta_{r,b}|^2$; by default evenly spread,
    $w_bs_b$. Directions inside an eigenspace are taken for orthogonal.
    """
    law = population_weights(weights, coordinates, values, value_weights, ratio, shares, probabilities)
    right = [one._replace(location=-one.location) for one in law.mirrored().outliers_left()]
    return [*law.outliers_left(), *reversed(right)]
