r"""Ridge regression on random subsets of given rows: an effective medium that knows every row.

Of $M$ rows $\phi_i$ with kernel $K=\Phi\Phi^\top$ and labels $y$, $n$ are drawn for training; $b_i\in\{0,1\}$ says
which. The residuals of the minimiser of $\sum_ib_i(y_i-a\cdot\phi_i)^2+\delta|a|^2$ on all rows, drawn or not, are
$r=\delta(\delta+KB)^{-1}y$. Replace $B$ by weights $W$ that scatter nothing on average. With $q=n/M$,
$$\Gamma=K(\delta+WK)^{-1},\quad h_i=\Gamma_{ii},\quad c_i=\frac{h_i}{1-w_ih_i},\quad w_i=\frac q{1+(1-q)c_i},$$
and $\bar r=(1-\Gamma W)y$ is the mean field on a row. A row scatters with
$t_i=\frac{b_i-w_i}{1+(b_i-w_i)h_i}$, $E\,t_i=0$; products of two different rows' scattering average out, so that the
second moments $S_i$ of the field on row $i$ solve
$$S_i=\bar r_i^2+\sum_{j\ne i}\Gamma_{ij}^2\,E[t_j^2]\,S_j,\qquad
E[r_i^2|b_i=0]=\frac{S_i}{(1-w_ih_i)^2},\qquad E[r_i^2|b_i=1]=\frac{S_i}{(1+(1-w_i)h_i)^2}.$$
Equal $h_i$ give back `finite_population_risk`. Rows of unequal leverage (heavy tails, odd images, near twins), which
raise the error at small ridge by up to 10%, are in it. The coherent potential of alloys (Soven 1967) for a random
choice of rows.

**Random features.** $N$ of them, $\hat K=\frac1N\sum_j\varphi_j\varphi_j^\top$ with $E\varphi\varphi^\top=K$, scatter
too. Feature $j$ answers the field with $1/(1+s_j^2q_0)$, where $s_j^2q_0$ is its own leverage ($E\,s^2=1$). The medium
is that of $K$ at the ridge $\delta'=\delta/\chi$, with $T=\sum_iw_ih_i$,
$$\chi=E\frac{s^2}{1+s^2q_0},\qquad q_0=\frac T{\chi N}\qquad(\chi=1-T/N\text{ for features of one length}),$$
and the second moments gain the source $\frac\nu NQ_ip$, $Q=\Gamma-\Gamma W\Gamma$,
$\nu=\chi^{-2}E\frac{s^4}{(1+s^2q_0)^2}$, where $p$, the mean square of a feature's amplitude, solves
$$p\Big(1-\frac\nu N\sum_{ij}w_i\Gamma_{ij}^2w_j\Big)=(W\bar r)\cdot(y-\bar r)+\sum_iE[t_i^2]\,Q_{ii}S_i.$$
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, gmres

from limen.problem.spec import InputError
from limen.theory.kernel.rows.medium import FeatureMedium, KernelMedium, Medium

Floats = NDArray[np.float64]
MOST_ROUNDS = 400
SETTLED = 1e-7
SMALL_RESIDUAL = 1e-9
# Up to this many rows the equations of the second moments are solved as one matrix.
MOST_DENSE = 4000


@dataclass(frozen=True, eq=False)
class SubsetRisk:
    r"""Residuals per row, over random subsets: their mean on a row left out (M, outputs), their second moments on a row
    left out and on one drawn (M, outputs, outputs), and mean squares of both for labels that are noise of variance 1,
    (2, M). `settled`: whether the weights converged."""

    mean_left_out: Floats
    left_out: Floats
    drawn: Floats
    noise: Floats
    settled: bool

    @property
    def test(self) -> Floats:
        """Mean square of each row's residual when it is left out, summed over outputs, shape (M,)."""
        return np.einsum("icc->i", self.left_out)

    @property
    def train(self) -> Floats:
        """The same when it is drawn."""
        return np.einsum("icc->i", self.drawn)

    def with_noise(self, labels: Floats, attenuation: float, noise: float) -> tuple[Floats, Floats]:
        r"""`test` and `train` when training sees the labels $s\,y_i+\varepsilon_i$: $s$ = `attenuation`, $\varepsilon$
        independent of variance `noise` (summed over outputs). Tested against $y$, trained against what was seen."""
        s = attenuation
        lost = (1 - s) ** 2 * (labels**2).sum(axis=1) + 2 * s * (1 - s) * (labels * self.mean_left_out).sum(axis=1)
        # A row left out has no part in its own output: the square of its residual less that of its noise.
        test = s**2 * self.test + lost + noise * (self.noise[0] - 1.0)
        return test, s**2 * self.train + noise * self.noise[1]

    def outputs_left_out(self, labels: Floats) -> tuple[Floats, Floats]:
        """Means (M, outputs) and covariances (M, outputs, outputs) of the outputs on rows that are left out."""
        mean = self.mean_left_out
        return labels - mean, self.left_out - mean[:, :, None] * mean[:, None, :]


@dataclass(frozen=True, eq=False)
class RandomFeatures:
    r"""`count` $N$ random features; `examples` (M, L), some of them on all rows, from which the law of their leverages
    is taken; without, all have the same."""

    count: float
    examples: Floats | None = None


def subset_risk(
    features: ArrayLike | None,
    kernel: ArrayLike | None,
    labels: ArrayLike,
    samples: float,
    ridge: float,
    random_features: RandomFeatures | None = None,
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
    medium: Medium = KernelMedium(kernel) if features is None else FeatureMedium(features)  # pyright: ignore
    share, weights, settled = samples / rows, np.full(rows, 0.5 * samples / rows), False
    amplitudes = None if random_features is None else _Amplitudes(random_features, ridge)
    raised = ridge
    for _ in range(MOST_ROUNDS):
        h = medium.leverages(weights, raised)
        new = share / (1.0 + (1.0 - share) * h / (1.0 - weights * h))
        moved = float(np.abs(np.log(new / weights)).max())
        if amplitudes is not None:
            higher = amplitudes.raised_ridge(medium, weights, h, raised)
            moved, raised = max(moved, abs(np.log(higher / raised))), higher
        weights = new
        if moved < SETTLED:
            settled = True
            break
    h = medium.leverages(weights, raised)
    field = y - medium.carried(weights[:, None] * y)
    left_out, drawn = 1.0 / (1.0 - weights * h), 1.0 / (1.0 + (1.0 - weights) * h)
    scattering = share * ((1.0 - weights) * drawn) ** 2 + (1.0 - share) * (weights * left_out) ** 2
    first, second = np.tril_indices(y.shape[1])
    unit_noise = 1.0 - 2.0 * weights * h + medium.squares(weights**2)
    sources = np.column_stack([field[:, first] * field[:, second], unit_noise])
    border = None
    if amplitudes is not None:
        fitted = weights[:, None] * field
        passed = [(fitted[:, a] * (y - field)[:, b]).sum() for a, b in zip(first, second, strict=True)]
        passed.append(weights**2 @ h - weights**2 @ medium.squares(weights))
        border = amplitudes.border(medium, weights, h, raised, np.asarray(passed))
    found = _second_moments(medium, h, scattering, sources, border)
    moments = paired(found[:, :-1], y.shape[1])
    noise = np.stack([found[:, -1] * factor**2 for factor in (left_out, drawn)])
    return SubsetRisk(
        field * left_out[:, None],
        moments * left_out[:, None, None] ** 2,
        moments * drawn[:, None, None] ** 2,
        noise,
        settled,
    )


def paired(columns: Floats, outputs: int) -> Floats:
    """Pairs of outputs (M, pairs), in the order of `np.tril_indices`, as symmetric matrices (M, outputs, outputs)."""
    first, second = np.tril_indices(outputs)
    matrices = np.empty((len(columns), outputs, outputs))
    matrices[:, first, second] = matrices[:, second, first] = columns
    return matrices


@dataclass(frozen=True, eq=False)
class _Border:
    """The row and column that random features add to the equations of the second moments."""

    weight: float  # nu / N
    diagonal: Floats  # Q_ii
    own: float  # 1 - nu T2 / N
    sources: Floats


class _Amplitudes:
    """How random features answer the field: their raised ridge, and what they scatter."""

    def __init__(self, law: RandomFeatures, ridge: float) -> None:
        self.law, self.ridge = law, ridge
        self.squares = np.ones(1)

    def raised_ridge(self, medium: Medium, weights: Floats, h: Floats, raised: float) -> float:
        r"""One step of Newton's method in $\log\delta'$ for $N\chi q_0(\chi)=T(\delta')$, $\chi=\delta/\delta'$."""
        examples = self.law.examples
        if examples is not None:
            held = weights[:, None] * examples
            own = np.einsum("il,il->l", held, examples - medium.carried(held))
            self.squares = own / own.mean()
        degrees = float(weights @ h)
        bend = float(weights @ medium.squares(weights)) / degrees - 1.0
        # Just above the ridge a feature's own leverage vanishes.
        log = max(np.log(raised), np.log(self.ridge) + 1e-9)

        def excess(at: float) -> float:
            chi = self.ridge / np.exp(at)
            return float(np.log(self.law.count * chi * self.leverage(chi) / degrees)) - bend * (at - log)

        step = excess(log) / max((excess(log + 1e-4) - excess(log)) / 1e-4, 1e-3)
        lowest = np.log(self.ridge) + 0.1 * (log - np.log(self.ridge))
        return float(np.exp(max(log - np.clip(step, -1.0, 1.0), lowest)))

    def leverage(self, chi: float) -> float:
        r"""$q_0$ with $E[s^2/(1+s^2q_0)]=\chi$."""
        top = 1.0 / chi - 1.0
        if self.squares.size == 1 or top <= 0.0:
            return top

        def excess(q: float) -> float:
            return float(np.mean(self.squares / (1.0 + self.squares * q))) - chi

        # Jensen's inequality: features of several lengths need less than those of one.
        return float(brentq(excess, 0.0, top, xtol=1e-15, rtol=1e-12))  # pyright: ignore[reportArgumentType]

    def border(self, medium: Medium, weights: Floats, h: Floats, raised: float, sources: Floats) -> _Border:
        """What goes into the equations of the second moments."""
        carried, chi, count = medium.squares(weights), self.ridge / raised, self.law.count
        q = float(weights @ h) / (chi * count)
        weight = float(np.mean((self.squares / (1.0 + self.squares * q)) ** 2)) / chi**2 / count
        return _Border(weight, h - carried, 1.0 - weight * float(weights @ carried), sources)


def _second_moments(medium: Medium, h: Floats, scattering: Floats, sources: Floats, border: _Border | None) -> Floats:
    """Solutions (M, pairs) for all pairs of outputs."""
    size = h.size
    if border is not None:
        sources = np.vstack([sources, border.sources])
    if size <= MOST_DENSE:
        matrix = np.eye(len(sources))
        matrix[:size, :size] = -medium.squared_entries() * scattering
        np.fill_diagonal(matrix, 1.0)
        if border is not None:
            matrix[:size, size] = -border.weight * border.diagonal
            matrix[size, :size] = -scattering * border.diagonal
            matrix[size, size] = border.own
        return np.asarray(np.linalg.solve(matrix, sources), dtype=float)[:size]

    def apply(moments: Floats) -> Floats:
        carried = scattering * moments[:size]
        found = moments[:size] - medium.squares(carried) + h**2 * carried
        if border is None:
            return found
        own = border.own * moments[size] - border.diagonal @ carried
        return np.append(found - border.weight * border.diagonal * moments[size], own)

    operator = LinearOperator((len(sources),) * 2, matvec=apply, dtype=float)  # pyright: ignore[reportCallIssue]
    columns = []
    for source in sources.T:
        found, failed = gmres(operator, source, x0=source, rtol=SMALL_RESIDUAL, atol=0.0, restart=60, maxiter=20)
        if failed:
            raise InputError("ridge must be larger: the error of these rows diverges at this number of samples.")
        columns.append(found[:size])
    return np.column_stack(columns)
