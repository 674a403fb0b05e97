r"""Ridge regression on random subsets of given rows: an effective medium that knows every row.

Of $M$ rows $\phi_i$ with kernel $K=\Phi\Phi^\top$ and labels $y$, $n$ are drawn for training; $b_i\in\{0,1\}$ says
which. The residuals of the minimiser of $\sum_ib_i(y_i-a\cdot\phi_i)^2+\delta|a|^2$ on all rows, drawn or not, are
$r=\delta(\delta+KB)^{-1}y$. Replace $B$ by weights $W$ that scatter nothing on average. With $q=n/M$,
$$\Gamma=K(\delta+WK)^{-1},\quad h_i=\Gamma_{ii},\quad c_i=\frac{h_i}{1-w_ih_i},\quad w_i=\frac q{1+(1-q)c_i},$$
and $\bar r=\delta(\delta+KW)^{-1}y$ is the mean field on a row. A row scatters with
$t_i=\frac{b_i-w_i}{1+(b_i-w_i)h_i}$, $E\,t_i=0$; products of two different rows' scattering average out, so that the
second moments $S_i$ of the field on row $i$ solve
$$S_i=\bar r_i^2+\sum_{j\ne i}\Gamma_{ij}^2\,E[t_j^2]\,S_j,\qquad
E[r_i^2|b_i=0]=\frac{S_i}{(1-w_ih_i)^2},\qquad E[r_i^2|b_i=1]=\frac{S_i}{(1+(1-w_i)h_i)^2}.$$
Equal $h_i$ give back `finite_population_risk` without features. Rows of unequal leverage (heavy tails, odd images,
near twins), which raise the error at small ridge by up to 10%, are in it. The coherent potential of alloys (Soven 1967)
for a random choice of rows.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, get_lapack_funcs
from scipy.sparse.linalg import LinearOperator, gmres

from limen.problem.spec import InputError

Floats = NDArray[np.float64]
MOST_ROUNDS = 400
SETTLED = 1e-7
SMALL_RESIDUAL = 1e-9
# Up to this many rows the equations of the second moments are solved as one matrix.
MOST_DENSE = 4000


@dataclass(frozen=True, eq=False)
class SubsetRisk:
    r"""Per row: mean field $\bar r$ (M, outputs), the factors $1/(1-wh)$ of a row left out and $1/(1+(1-w)h)$ of one
    drawn (M,), and second moments $S$ of the field (M, outputs, outputs). `settled`: whether the weights converged."""

    mean_field: Floats
    left_out: Floats
    drawn: Floats
    moments: Floats
    settled: bool

    @property
    def test(self) -> Floats:
        """Mean square of each row's residual when it is left out, summed over outputs, shape (M,)."""
        return np.einsum("icc->i", self.moments) * self.left_out**2

    @property
    def train(self) -> Floats:
        """The same when it is drawn."""
        return np.einsum("icc->i", self.moments) * self.drawn**2

    def outputs_left_out(self, labels: Floats) -> tuple[Floats, Floats]:
        """Means (M, outputs) and covariances (M, outputs, outputs) of the outputs on rows that are left out."""
        residual = self.mean_field * self.left_out[:, None]
        spread = self.moments - self.mean_field[:, :, None] * self.mean_field[:, None, :]
        return labels - residual, spread * self.left_out[:, None, None] ** 2


def subset_risk(
    features: ArrayLike | None, kernel: ArrayLike | None, labels: ArrayLike, samples: float, ridge: float
) -> SubsetRisk:
    r"""Second moments of the residuals over random subsets of `samples` rows; one of `features` $\Phi$ (M, p) and
    `kernel` $K$ (M, M) is given. `labels` (M, outputs); `ridge` is $\delta$ of the sum over samples, positive.

    Cost: some ten to a hundred rounds of $O(Mp^2)$, no array of $M^2$ numbers, or of $O(M^3)$ with a kernel.
    """
    y = np.atleast_2d(np.asarray(labels, dtype=float).T).T
    rows = len(y)
    if not 0.0 < samples < rows:
        raise InputError(f"samples must lie between 0 and the number of rows ({rows}), got {samples:g}.")
    if not ridge > 0.0:
        raise InputError(f"ridge must be positive, got {ridge:g}.")
    medium: Medium = _Rows(features, ridge) if kernel is None else _Kernel(kernel, ridge)
    share, weights, settled = samples / rows, np.full(rows, 0.5 * samples / rows), False
    for _ in range(MOST_ROUNDS):
        h = medium.leverages(weights)
        new = share / (1.0 + (1.0 - share) * h / (1.0 - weights * h))
        moved = np.abs(np.log(new / weights)).max()
        weights = new
        if moved < SETTLED:
            settled = True
            break
    h = medium.leverages(weights)
    field = medium.mean_field(weights, y)
    left_out, drawn = 1.0 / (1.0 - weights * h), 1.0 / (1.0 + (1.0 - weights) * h)
    scattering = share * ((1.0 - weights) * drawn) ** 2 + (1.0 - share) * (weights * left_out) ** 2
    first, second = np.tril_indices(y.shape[1])
    found = _second_moments(medium, h, scattering, field[:, first] * field[:, second])
    moments = np.empty((rows, y.shape[1], y.shape[1]))
    moments[:, first, second] = moments[:, second, first] = found
    return SubsetRisk(field, left_out, drawn, moments, settled)


def _second_moments(medium: "Medium", h: Floats, scattering: Floats, sources: Floats) -> Floats:
    """Solutions (M, pairs) for all pairs of outputs."""
    size = h.size
    if size <= MOST_DENSE:
        matrix = -medium.squared_entries() * scattering
        np.fill_diagonal(matrix, 1.0)
        return np.asarray(np.linalg.solve(matrix, sources), dtype=float)

    def apply(moments: Floats) -> Floats:
        carried = scattering * moments
        return moments - medium.squares(carried) + h**2 * carried

    operator = LinearOperator((size, size), matvec=apply, dtype=float)  # pyright: ignore[reportCallIssue]
    columns = []
    for source in sources.T:
        found, failed = gmres(operator, source, x0=source, rtol=SMALL_RESIDUAL, atol=0.0, restart=60, maxiter=20)
        if failed:
            raise InputError("ridge must be larger: the error of these rows diverges at this number of samples.")
        columns.append(found)
    return np.column_stack(columns)


class Medium(Protocol):
    r"""The effective medium: what is asked of $\Gamma=K(\delta+WK)^{-1}$ at the weights asked for last."""

    def leverages(self, weights: Floats) -> Floats:
        """Its diagonal."""
        ...

    def mean_field(self, weights: Floats, labels: Floats) -> Floats:
        r"""$\delta(\delta+KW)^{-1}y$."""
        ...

    def squares(self, vector: Floats) -> Floats:
        r"""$\sum_j\Gamma_{ij}^2v_j$."""
        ...

    def squared_entries(self) -> Floats:
        r"""$\Gamma_{ij}^2$, shape (M, M)."""
        ...


class _Rows:
    def __init__(self, features: ArrayLike | None, ridge: float) -> None:
        self.features, self.ridge = np.asarray(features, dtype=float), ridge
        self.resolvent = np.zeros(0)

    def leverages(self, weights: Floats) -> Floats:
        phi = self.features
        inverse = cho_factor(phi.T @ (weights[:, None] * phi) + self.ridge * np.eye(phi.shape[1]))
        self.resolvent = cho_solve(inverse, phi.T).T
        return np.einsum("ip,ip->i", self.resolvent, phi)

    def mean_field(self, weights: Floats, labels: Floats) -> Floats:
        return labels - self.resolvent @ (self.features.T @ (weights[:, None] * labels))

    def squares(self, vector: Floats) -> Floats:
        inner = self.features.T @ (vector[:, None] * self.features)
        return np.einsum("ip,ip->i", self.resolvent @ inner, self.resolvent)

    def squared_entries(self) -> Floats:
        return (self.resolvent @ self.features.T) ** 2


class _Kernel:
    def __init__(self, kernel: ArrayLike | None, ridge: float) -> None:
        self.kernel, self.ridge = np.asarray(kernel, dtype=float), ridge
        self.inverse, self.root = np.zeros(0), np.zeros(0)

    def leverages(self, weights: Floats) -> Floats:
        self.root = np.sqrt(weights)
        inside = self.root[:, None] * self.kernel * self.root
        inside[np.diag_indices_from(inside)] += self.ridge
        factor, _ = cho_factor(inside, lower=True, overwrite_a=True)
        (invert,) = get_lapack_funcs(("potri",), (factor,))
        lower, _ = invert(factor, lower=1, overwrite_c=1)
        self.inverse = np.tril(lower) + np.tril(lower, -1).T
        return (1.0 - self.ridge * np.diagonal(self.inverse)) / weights

    def mean_field(self, weights: Floats, labels: Floats) -> Floats:
        return self.ridge * (self.inverse @ (self.root[:, None] * labels)) / self.root[:, None]

    def squares(self, vector: Floats) -> Floats:
        return self.squared_entries() @ vector

    def squared_entries(self) -> Floats:
        gamma = (np.eye(self.root.size) - self.ridge * self.inverse) / self.root[:, None] / self.root
        return gamma**2
