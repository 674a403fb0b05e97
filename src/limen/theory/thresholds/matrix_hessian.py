r"""The whole Hessian of a network of finite width, $\frac1n\sum_iG_i\otimes x_ix_i^\top$ with $m\times m$ weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from limen.checks import positive
from limen.problem.spec import InputError
from limen.theory.thresholds.hessian_law import checked_coordinates, checked_level
from limen.theory.thresholds.matrix_resolvent import BranchPoint, LeftBranch, find_root, upper_kernels, upper_resolvent
from limen.theory.thresholds.trimming import trimmed_count

BROADENING = 1e-4


class MatrixOutlier(NamedTuple):
    """An eigenvalue outside the bulk; its eigenvector's part along the hard directions: squared length, direction."""

    location: float
    alignment: float
    direction: np.ndarray


@dataclass(frozen=True, eq=False)
class MatrixHessianLaw:
    r"""Spectrum of $H=\frac1n\sum_iG_i\otimes x_ix_i^\top$, $x_i\sim N(0,I_d)$, as $n,d\to\infty$, $n/d\to\delta$.

    `weights` `(N, m, m)`, $m$ fixed, are samples of the symmetric $G$, `hard_coordinates` `(N, r)` the coordinates $U$
    of the same inputs along the directions no neuron has an overlap with; `samples_per_dim` is $\delta$. The matrix
    $\alpha(z)=\lim\frac1d\mathrm{tr}_d(H-z)^{-1}$ solves
    $$\alpha=\big(-zI+E[K]\big)^{-1},\quad K=G(I+\alpha G/\delta)^{-1},\qquad
    \Psi(z)=-zI_{mr}+E[K\otimes UU^\top],$$
    and informative outliers are the roots of $\det\Psi=0$ outside the bulk. `level`, `trimmed` and `minimum_weight`
    (here the smallest eigenvalue of any $G_i$) as in `HessianLaw`, to which this law reduces for $m=1$. Source:
    Montanari & Wang 2026, extended from blocks to the full matrix.

    Computed when first asked for: an edge takes about a hundred passes over the samples, an outlier some tens more.
    """

    weights: np.ndarray
    hard_coordinates: np.ndarray
    samples_per_dim: float
    level: float
    trimmed: float
    minimum_weight: float

    @cached_property
    def left_edge(self) -> float:
        """Left end of the bulk, zeros included."""
        return _edge_location(self._left)

    @cached_property
    def right_edge(self) -> float:
        """Right end of the bulk, zeros included."""
        return -_edge_location(self._right)

    @cached_property
    def kappa(self) -> float:
        r"""$\lambda_{\min}\Psi$ at the bulk's left edge or at `level`, whichever is lower.

        Negative iff an informative outlier lies below both; infinite if there is no hard direction.
        """
        return float(self.stability.min(initial=np.inf))

    @cached_property
    def negative_outliers(self) -> int:
        """How many outliers lie below both the bulk and `level`."""
        return int((self.stability < 0.0).sum())

    @property
    def outliers(self) -> np.ndarray:
        """Informative eigenvalues below or above the whole bulk, ascending, shape `(outliers,)`."""
        return np.array([outlier.location for outlier in self._found])

    @property
    def alignment(self) -> np.ndarray:
        r"""$c_*^2=-1/(w^\top\Psi'(\lambda)w)$ of each outlier, $w$ the unit null vector of $\Psi(\lambda)$.

        The squared length of the unit eigenvector inside the span of all (neuron, hard direction) pairs.
        """
        return np.array([outlier.alignment for outlier in self._found])

    @property
    def directions(self) -> np.ndarray:
        """Unit direction of each eigenvector among neurons and hard directions, shape `(outliers, m, r)`."""
        size = self.weights.shape[1], self.hard_coordinates.shape[1]
        return np.array([outlier.direction for outlier in self._found]).reshape(-1, *size)

    def density(self, x: ArrayLike) -> np.ndarray:
        r"""Density of the bulk at `x` (any shape), $\frac1{\pi m}\mathrm{Im\,tr}\,\alpha(x+i\epsilon)$.

        $\epsilon$ is $10^{-4}$ of the width of the bulk; the term linear in it is removed with the value at
        $2\epsilon$. Closer to zero than a few $\epsilon$ an atom there shows as a peak. Some ten complex passes over
        the samples per point.
        """
        points = np.asarray(x, dtype=float)
        width = self.right_edge - self.left_edge
        values = np.zeros(points.size)
        near: np.ndarray | None = None
        for place in np.argsort(points.ravel()):
            at = float(points.ravel()[place])
            if not self.left_edge < at < self.right_edge:
                continue
            broad = upper_resolvent(
                self.weights, self.samples_per_dim, complex(at, 2 * BROADENING * width), near, width
            )
            near = upper_resolvent(self.weights, self.samples_per_dim, complex(at, BROADENING * width), broad, width)
            values[place] = max(0.0, float(np.trace(np.imag(2.0 * near - broad)))) / (np.pi * len(near))
        return values.reshape(points.shape)

    @cached_property
    def _left(self) -> LeftBranch:
        return LeftBranch(self.weights, self.samples_per_dim)

    @cached_property
    def _right(self) -> LeftBranch:
        return LeftBranch(-self.weights, self.samples_per_dim)

    @cached_property
    def stability(self) -> np.ndarray:
        r"""Ascending eigenvalues of $\Psi$ where `kappa` is taken, shape `(m*r,)`."""
        edge = self._left.edge
        if edge is None and self.level >= 0.0:
            return np.zeros(self.weights.shape[1] * self.hard_coordinates.shape[1])
        if edge is None or edge.z > self.level:
            edge = self._left.at_level(self.level)
        return np.linalg.eigvalsh(self._deviation(edge))

    @cached_property
    def _found(self) -> list[MatrixOutlier]:
        if self.hard_coordinates.shape[1] == 0:
            return []
        mirrored = [MatrixOutlier(-o.location, o.alignment, o.direction) for o in self._below(self._right)]
        return [*self._below(self._left), *mirrored[::-1]]

    def _below(self, branch: LeftBranch) -> list[MatrixOutlier]:
        edge = branch.edge
        if edge is None:
            return []
        count = int((np.linalg.eigvalsh(self._deviation(edge)) < 0.0).sum())
        far = branch.start.x
        while count and np.linalg.eigvalsh(self._deviation(branch.at(far)))[0] <= 0.0:
            far *= 2.0

        def eigenvalue(x: float, index: int) -> float:
            return float(np.linalg.eigvalsh(self._deviation(branch.at(x)))[index])

        roots = [find_root(lambda x, j=index: eigenvalue(x, j), edge.x, far) for index in range(count)]
        return [self._outlier(branch.at(x), index) for index, x in enumerate(roots)]

    def _deviation(self, point: BranchPoint) -> np.ndarray:
        m, r = len(point.factor), self.hard_coordinates.shape[1]
        means = (point.kernels.reshape(m * m, -1) @ self.coordinate_products).reshape(m, m, r, r)
        block = means.transpose(0, 2, 1, 3).reshape(m * r, m * r)
        return 0.5 * (block + block.T) - point.z * np.eye(m * r)

    @cached_property
    def coordinate_products(self) -> np.ndarray:
        r"""$U_iU_i^\top/N$, shape `(N, r*r)`."""
        products = self.hard_coordinates[:, :, None] * self.hard_coordinates[:, None, :]
        return products.reshape(len(products), -1) / len(products)

    def _outlier(self, point: BranchPoint, index: int) -> MatrixOutlier:
        direction = np.linalg.eigh(self._deviation(point))[1][:, index].reshape(-1, self.hard_coordinates.shape[1])
        pulled = np.einsum("ijn,jn->in", point.kernels, direction @ self.hard_coordinates.T)
        leak = float(np.mean(pulled * (point.alpha_slope @ pulled), axis=1).sum()) / self.samples_per_dim
        return MatrixOutlier(point.z, 1.0 / (1.0 + leak), direction)


def matrix_hessian_law(
    weights: ArrayLike, hard_coordinates: ArrayLike, samples_per_dim: float, trim: float = 0.0, level: float = 0.0
) -> MatrixHessianLaw:
    r"""The law of $\frac1n\sum_iG_i\otimes x_ix_i^\top$ from samples of the matrix weight and of the hard coordinates.

    Shapes: `weights` `(N, m, m)`, symmetric; `hard_coordinates` `(N, r)`, or `(N,)` for $r=1$. `trim` sets up to this
    fraction of the weights with the lowest smallest eigenvalues to zero, and no more than brings the edge to `level`.
    See `MatrixHessianLaw`.
    """
    values = np.asarray(weights, dtype=float)
    if values.ndim != 3 or values.shape[1] != values.shape[2] or values.size == 0 or not np.isfinite(values).all():
        raise InputError(f"weights must be finite with shape (N, m, m), got shape {values.shape}.")
    scale = float(np.abs(values).max())
    if scale == 0.0:
        raise InputError("weights must contain a non-zero value, got only 0.0.")
    if np.abs(values - values.transpose(0, 2, 1)).max() > 1e-10 * scale:
        raise InputError("weights must be symmetric matrices, got some that are not.")
    coordinates = checked_coordinates(hard_coordinates, len(values))
    delta, level = positive("samples_per_dim", samples_per_dim), checked_level(level)
    smallest = np.linalg.eigvalsh(values)[:, 0]
    order = np.argsort(smallest, kind="stable")

    def without(count: int) -> np.ndarray:
        kept = values.copy()
        kept[order[:count]] = 0.0
        return kept

    count = trimmed_count(lambda count: _edge_location(LeftBranch(without(count), delta)), len(values), trim, level)
    return MatrixHessianLaw(without(count), coordinates, delta, level, count / len(values), float(smallest.min()))


def matrix_zero_level(
    weights: ArrayLike, hard_coordinates: ArrayLike, samples_per_dim: float, epsilon: float = 0.02, level: float = 0.0
) -> float:
    r"""$\lambda_{\min}\mathrm{Re}\,\Psi(z)$ at $z=$ `level` $+i\epsilon$ for matrix weights; see `zero_level`."""
    law = matrix_hessian_law(weights, hard_coordinates, samples_per_dim, level=level)
    z = complex(law.level, positive("epsilon", epsilon))
    reach = float(np.abs(np.linalg.eigvalsh(law.weights)).mean()) * (1.0 + 1.0 / law.samples_per_dim)
    alpha = upper_resolvent(law.weights, law.samples_per_dim, z, reach=reach)
    m, r = law.weights.shape[1], law.hard_coordinates.shape[1]
    kernels = np.real(upper_kernels(law.weights, law.samples_per_dim, alpha)).reshape(m * m, -1)
    block = (kernels @ law.coordinate_products).reshape(m, m, r, r).transpose(0, 2, 1, 3).reshape(m * r, m * r)
    return float(np.linalg.eigvalsh(0.5 * (block + block.T)).min(initial=np.inf)) - z.real


def _edge_location(branch: LeftBranch) -> float:
    return 0.0 if branch.edge is None else branch.edge.z
