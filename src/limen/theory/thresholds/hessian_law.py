r"""The Hessian seen by one neuron, $\frac1n\sum_iG_ix_ix_i^\top$: bulk, informative outliers, their eigenvectors."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from limen.checks import positive
from limen.problem.spec import InputError
from limen.theory.spectra import SubspaceOutlier, WeightedLaw, subspace_outliers
from limen.theory.spectra.inversion import invert_above
from limen.theory.spectra.subordination import Subordination
from limen.theory.thresholds.trimming import trimmed_count

NEWTON_STEPS = 200
SHARE_NODES = 64


@dataclass(frozen=True, eq=False)
class HessianLaw:
    r"""Spectrum of $H=\frac1n\sum_iG_ix_ix_i^\top$, $x_i\sim N(0,I_d)$, as $n,d\to\infty$, $n/d\to\delta$.

    The weight $G_i$ depends on $x_i$ through finitely many directions only. `weights` `(N,)` are samples of $G$ and
    `hard_coordinates` `(N, r)` the coordinates $U_i$ of the same $x_i$ along the directions that carry no overlap
    yet; `samples_per_dim` is $\delta$. With $\alpha=\lim\frac1d\mathrm{tr}(H-z)^{-1}$,
    $$z(\alpha)=-\frac1\alpha+\delta E\Big[\frac{G}{\delta+G\alpha}\Big],\qquad
    \Psi(\alpha)=-z(\alpha)I_r+\delta E\Big[\frac{G\,UU^\top}{\delta+G\alpha}\Big].$$
    Left of the bulk $\Psi$ decreases in $z$; an eigenvalue of it that crosses zero is an outlier whose eigenvector
    leans on the hard directions. Directions the network already sees give further outliers, which are not reported.

    `level` is where an eigenvalue starts to be unstable: 0, or $-m\lambda$ with weight decay $\lambda$. `trimmed` is
    the fraction of samples whose weight was set to zero, `minimum_weight` the smallest weight before that.
    Every attribute is computed when first asked for: `kappa` costs about ten passes over the samples, the outliers
    some tens of milliseconds. Source: Montanari & Wang 2026; the eigenvector from the residue of
    $u^\top(H-z)^{-1}u=1/\Psi$.
    """

    weights: np.ndarray
    hard_coordinates: np.ndarray
    samples_per_dim: float
    level: float
    trimmed: float
    minimum_weight: float

    @cached_property
    def left_edge(self) -> float:
        r"""Left end $c$ of the bulk, zeros included.

        $c=z(\alpha_e)$, $\alpha_e$ the only root of $\delta E\big[(\frac{\alpha G}{\delta+\alpha G})^2\big]=1$ below
        the first pole; 0 if there is none, that is for $G\ge0$ and $\delta P(G\ne0)\le1$.
        """
        return _edge(self.weights, self.samples_per_dim)

    @cached_property
    def right_edge(self) -> float:
        """Right end of the bulk, zeros included."""
        return -_edge(-self.weights, self.samples_per_dim)

    @cached_property
    def kappa(self) -> float:
        r"""$\lambda_{\min}\Psi(\alpha_{\max})$: negative iff an informative outlier lies below bulk and `level`.

        $\alpha_{\max}=\alpha_e$ if $c\le$ `level`, else the root of $z(\alpha)=$ `level`. Infinite if there is no hard
        direction.
        """
        return float(self.stability.min(initial=np.inf))

    @cached_property
    def negative_outliers(self) -> int:
        r"""How many outliers lie below both the bulk and `level`: the negative eigenvalues of $\Psi(\alpha_{\max})$."""
        return int((self.stability < 0.0).sum())

    @property
    def outliers(self) -> np.ndarray:
        """Informative eigenvalues below or above the whole bulk, ascending, shape `(outliers,)`."""
        return np.array([outlier.location for outlier in self._found])

    @property
    def alignment(self) -> np.ndarray:
        r"""$c_*^2$ of each outlier: squared length of its unit eigenvector inside the hard subspace.

        $$c_*^2=\Big[1+\alpha'\,\delta E\frac{G^2(w\cdot U)^2}{(\delta+G\alpha)^2}\Big]^{-1},\qquad
        \frac1{\alpha'}=\frac1{\alpha^2}-\delta E\frac{G^2}{(\delta+G\alpha)^2},$$
        $w$ the unit null vector of $\Psi$.
        """
        return np.array([outlier.overlap_squared for outlier in self._found])

    @property
    def directions(self) -> np.ndarray:
        """Unit direction of each eigenvector inside the hard subspace, shape `(outliers, r)`."""
        return np.array([outlier.direction for outlier in self._found]).reshape(-1, self.hard_coordinates.shape[1])

    def density(self, x: ArrayLike) -> np.ndarray:
        """Density of the bulk at `x` (any shape), the atom at zero left out."""
        return self._bulk.density(x)

    def quantile(self, level: ArrayLike) -> np.ndarray:
        """Smallest $x$ below which a part `level` of all eigenvalues lies; outliers are too few to count."""
        return self._bulk.quantile(level)

    def hard_resolvent(self, z: ArrayLike) -> np.ndarray:
        r"""$U^\top(H-z)^{-1}U=\Psi(z)^{-1}$ between the hard directions, for complex `z` off the axis.

        Shape of `z` plus `(r, r)`. Its imaginary part is the spectrum as a hard direction sees it, outliers included;
        where the real part at zero is negative, that direction is unstable.
        """
        z, delta = np.asarray(z, dtype=complex), self.samples_per_dim
        blocks = np.empty((z.size, *self.hard_coordinates.shape[1:] * 2), complex)
        for i, alpha in enumerate(self._bulk.stieltjes(z.ravel())):
            pulls = delta * self.weights / (delta + self.weights * alpha) / self.weights.size
            blocks[i] = (self.hard_coordinates * pulls[:, None]).T @ self.hard_coordinates
        characteristic = blocks - z.reshape(-1, 1, 1) * np.eye(blocks.shape[-1])
        return np.linalg.inv(characteristic).reshape(*z.shape, *blocks.shape[1:])

    @cached_property
    def unstable_share(self) -> np.ndarray:
        r"""Part of each hard direction $u$ inside the eigenspace of eigenvalues below `level`, shape `(r,)`.

        $$\sum_{\lambda_i<0}(u\cdot\xi_i)^2=\frac12-\frac1\pi\int_0^\infty\mathrm{Re}\,u^\top(H-iy)^{-1}u\,dy.$$
        Unlike $c_*^2$ it counts the bulk and passes smoothly through the threshold: finite sizes blur it little.
        """
        nodes, weights = np.polynomial.legendre.leggauss(SHARE_NODES)
        angle = 0.25 * np.pi * (nodes + 1.0)
        scale = float(np.sqrt(np.mean(self.weights**2)))
        resolvent = self.hard_resolvent(self.level + 1j * scale * np.tan(angle))
        heights = 0.25 * np.pi * weights * scale / np.cos(angle) ** 2
        return 0.5 - np.einsum("z,zaa->a", heights, np.real(resolvent)) / np.pi

    @cached_property
    def _bulk(self) -> WeightedLaw:
        return WeightedLaw.from_samples(self.weights, 1.0 / self.samples_per_dim)

    @cached_property
    def stability(self) -> np.ndarray:
        """Ascending eigenvalues of $\\Psi(\\alpha_{\\max})$, shape `(r,)`."""
        delta, size = self.samples_per_dim, self.hard_coordinates.shape[1]
        x = _edge_point(self.weights, delta)
        if x <= 0.0:
            # alpha grows without bound as z rises to 0, and Psi falls to 0: H has no negative part at all.
            x = 0.0 if self.level >= 0.0 else _point_at(self.weights, delta, self.level)
        elif _location(self.weights, delta, x) > self.level:
            x = _point_at(self.weights, delta, self.level)
        if x == 0.0:
            return np.zeros(size)
        pulls = delta * x * self.weights / (delta * x + self.weights) / self.weights.size
        block = (self.hard_coordinates * pulls[:, None]).T @ self.hard_coordinates
        return np.linalg.eigvalsh(0.5 * (block + block.T)) - _location(self.weights, delta, x)

    @cached_property
    def _found(self) -> list[SubspaceOutlier]:
        if self.hard_coordinates.shape[1] == 0:
            return []
        found = subspace_outliers(self.weights, self.hard_coordinates, 1.0 / self.samples_per_dim)
        # Roots in gaps between bands are mostly artefacts of the last samples of a tail.
        return [o for o in found if o.location < self.left_edge or o.location > self.right_edge]


def hessian_law(
    weights: ArrayLike, hard_coordinates: ArrayLike, samples_per_dim: float, trim: float = 0.0, level: float = 0.0
) -> HessianLaw:
    r"""The law of $\frac1n\sum_iG_ix_ix_i^\top$ from samples of the weight and of the hard coordinates.

    Shapes: `weights` `(N,)`, `hard_coordinates` `(N, r)`, or `(N,)` for $r=1$. See `HessianLaw`.

    `trim` is for weights without a lower bound (unbounded labels under square loss), for which the edge follows the
    smallest sample: up to this fraction of the lowest weights is set to zero, as if those samples were left out of the
    sum, and no more than brings the edge to `level`, since beyond that trimming removes negative curvature that counts.
    """
    values = np.asarray(weights, dtype=float)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise InputError(f"weights must be finite with shape (N,), got shape {values.shape}.")
    if not np.any(values):
        raise InputError("weights must contain a non-zero value, got only 0.0.")
    coordinates = checked_coordinates(hard_coordinates, values.size)
    delta, level = positive("samples_per_dim", samples_per_dim), checked_level(level)
    order = np.argsort(values, kind="stable")

    def without(count: int) -> np.ndarray:
        kept = values.copy()
        kept[order[:count]] = 0.0
        return kept

    count = trimmed_count(lambda count: _edge(without(count), delta), values.size, trim, level)
    return HessianLaw(without(count), coordinates, delta, level, count / values.size, float(values.min()))


def zero_level(
    weights: ArrayLike, hard_coordinates: ArrayLike, samples_per_dim: float, epsilon: float = 0.02, level: float = 0.0
) -> float:
    r"""$\lambda_{\min}\mathrm{Re}\,\psi(z)$ at $z=$ `level` $+i\epsilon$, which the tail of the weights hardly moves.

    $\psi(z)=-zI_r+E\big[\frac{\delta G\,UU^\top}{\delta+G\alpha(z)}\big]$ with the complex $\alpha(z)$ of the upper
    half plane. Negative values say that the hard directions are unstable even where the bulk reaches below zero;
    as the bulk edge rises to zero the criterion meets that of `HessianLaw.kappa`. Shapes as for `hessian_law`;
    infinite if there is no hard direction.
    """
    return float(zero_levels(weights, hard_coordinates, samples_per_dim, epsilon, level).min(initial=np.inf))


def zero_levels(
    weights: ArrayLike, hard_coordinates: ArrayLike, samples_per_dim: float, epsilon: float = 0.02, level: float = 0.0
) -> np.ndarray:
    r"""Eigenvalues of $\mathrm{Re}\,\psi$ at `level` $+i\epsilon$, ascending, shape `(r,)`: one per hard direction."""
    values = np.asarray(weights, dtype=float)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise InputError(f"weights must be finite with shape (N,), got shape {values.shape}.")
    coordinates = checked_coordinates(hard_coordinates, values.size)
    delta, epsilon = positive("samples_per_dim", samples_per_dim), positive("epsilon", epsilon)
    z = complex(checked_level(level), epsilon)
    law = Subordination.from_law(values / delta, np.full(values.size, 1.0 / values.size), delta)
    w = complex(invert_above(law, np.array([z]))[0]) if law.atoms.size else z
    # w = -1/alpha.
    pulls = np.real(delta * w * values / (delta * w - values)) / values.size
    block = (coordinates * pulls[:, None]).T @ coordinates
    return np.linalg.eigvalsh(0.5 * (block + block.T)) - z.real


def checked_coordinates(hard_coordinates: ArrayLike, count: int) -> np.ndarray:
    """Hard coordinates as a finite array `(count, r)`."""
    coordinates = np.asarray(hard_coordinates, dtype=float)
    coordinates = coordinates[:, None] if coordinates.ndim == 1 else coordinates
    if coordinates.ndim != 2 or len(coordinates) != count or not np.isfinite(coordinates).all():
        raise InputError(f"hard_coordinates must be finite with shape ({count}, r), got shape {coordinates.shape}.")
    return coordinates


def checked_level(level: float) -> float:
    """A finite level."""
    if not np.isfinite(level):
        raise InputError(f"level must be a finite number, got {level}.")
    return float(level)


def edge_below(weights: np.ndarray, delta: float) -> tuple[float, float]:
    r"""$1/\alpha_e$ at the left edge of the bulk and the edge; not positive and 0 where no $\alpha>0$ is an edge."""
    x = _edge_point(weights, delta)
    return x, _location(weights, delta, x) if x > 0.0 else 0.0


def _edge(weights: np.ndarray, delta: float) -> float:
    return edge_below(weights, delta)[1]


def _location(weights: np.ndarray, delta: float, x: float) -> float:
    r"""$z$ at $x=1/\alpha$."""
    return x * (float(np.mean(delta * weights / (delta * x + weights))) - 1.0)


def _edge_point(weights: np.ndarray, delta: float) -> float:
    r"""$x_e=1/\alpha_e$; not positive if no $\alpha>0$ is an edge.

    $h(x)=\frac1\delta E\frac{G^2}{(x+G/\delta)^2}$ is one there. $h^{-1/2}$ is concave, increasing and nearly straight,
    so Newton climbs to the root from any point below it, and a single sample gives such a point.
    """
    poles = weights[weights != 0.0] / delta
    if poles.size == 0:
        return 0.0
    strengths = (delta / weights.size) * poles**2
    lowest = int(poles.argmin())
    x = float(np.sqrt(strengths[lowest]) - poles[lowest])
    for _ in range(NEWTON_STEPS):
        inverse = 1.0 / (x + poles)
        terms = strengths * inverse * inverse
        h, slope = float(terms.sum()), float(terms @ inverse)
        step = h * (h**0.5 - 1.0) / slope
        if step <= 1e-15 * abs(x):
            break
        x += step
    return x


def _point_at(weights: np.ndarray, delta: float, level: float) -> float:
    r"""$x=1/\alpha$ with $z=$ `level`, left of the bulk.

    In $p=-x$, $z$ is concave and increasing, and at most $p+E[G]$: Newton climbs from $p=$ `level` $-E[G]$.
    """
    x = float(np.mean(weights)) - level
    for _ in range(NEWTON_STEPS):
        slope = 1.0 - float(np.mean((weights / (delta * x + weights)) ** 2)) * delta
        step = (level - _location(weights, delta, x)) / slope
        if step <= 1e-14 * abs(x):
            break
        x -= step
    return x
