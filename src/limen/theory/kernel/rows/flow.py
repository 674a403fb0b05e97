r"""Gradient flow on random subsets of given rows, stopped early: the effective medium of `subsets` at complex ridges.

$\dot a=\frac1n\sum_ib_i(y_i-a\cdot\phi_i)\phi_i-\lambda a$ from $a=0$ leaves on all rows the residuals
$$r(t)=g\Big(\frac{KB}n\Big)y,\qquad g(x)=\frac{\lambda+x\,e^{-t(x+\lambda)}}{x+\lambda}.$$
$e^{-x}$ is, to $3\cdot10^{-5}$ on all $x\ge0$, a sum of five fractions $c_k/(x-p_k)$; partial fractions turn $g$ into a
sum of $\alpha_k\eta_k(\eta_k+x)^{-1}$, each the residual of a regression of ridge $n\eta_k$, real or complex. Second
moments of two such residuals obey the equation of `subsets` with one factor from each,
$$S_i=\bar r_i\bar r_i'+\sum_{j\ne i}\Gamma_{ij}\Gamma_{ij}'\,E[t_jt_j']\,S_j.$$
"""

import warnings
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import AAA

from limen.problem.spec import InputError
from limen.theory.kernel.rows.subsets import SETTLED, SubsetRisk, paired

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]
FRACTIONS = 5
MOST_ROUNDS = 1000
# The equations of the second moments are solved as one matrix.
MOST_ROWS = 4000


class _Answer(NamedTuple):
    r"""The medium of one complex ridge: $\Gamma$ (M, M), mean field (M, outputs), weights, the factors $1/(1-wh)$ of a
    row left out and $1/(1+(1-w)h)$ of one drawn (M,), and whether the weights settled."""

    gamma: Complex
    field: Complex
    weights: Complex
    left_out: Complex
    drawn: Complex
    settled: bool

    def conjugate(self) -> "_Answer":
        """The medium of the conjugate ridge."""
        conjugates = {name: np.conj(getattr(self, name)) for name in self._fields if name != "settled"}
        return self._replace(**conjugates)


def subset_flow(features: Floats, labels: Floats, samples: float, time: float, decay: float = 0.0) -> SubsetRisk:
    r"""Moments of the residuals after the `time` $t>0$ of gradient flow on `samples` of the rows of `features` $\Phi$
    (M, p), $M\le4000$; `labels` (M, outputs), weight decay $\lambda$ = `decay`.

    Cost: some tens of rounds of $O(Mp^2)$ for each of 3 to 4 ridges, 15 to 24 linear systems of $M$ complex equations.
    """
    rows, outputs = labels.shape
    if not (np.isfinite(time) and time > 0.0):
        raise InputError(f"times must be positive and finite, got {time:g}.")
    if rows > MOST_ROWS:
        raise InputError(f"times are answered for at most {MOST_ROWS} rows, got {rows}: take a part.")
    share = samples / rows
    parts = [(alpha, _answer(features, labels, share, samples * eta)) for alpha, eta in flow_fractions(time, decay)]
    conjugates = [(alpha.conjugate(), one.conjugate()) for alpha, one in parts if alpha.imag]
    mean = np.zeros((rows, outputs))
    left_out, drawn = (np.zeros((rows, outputs * (outputs + 1) // 2 + 1)) for _ in range(2))
    for alpha, one in parts:
        # A fraction with a complex pole stands for its conjugate too.
        alpha = alpha * (2.0 if alpha.imag else 1.0)
        mean += (alpha * one.left_out[:, None] * one.field).real
        for beta, other in parts + conjugates:
            found = alpha * beta * _product(one, other, share)
            left_out += ((one.left_out * other.left_out)[:, None] * found).real
            drawn += ((one.drawn * other.drawn)[:, None] * found).real
    noise = np.stack([left_out[:, -1], drawn[:, -1]])
    settled = all(one.settled for _, one in parts)
    return SubsetRisk(mean, paired(left_out[:, :-1], outputs), paired(drawn[:, :-1], outputs), noise, settled)


def flow_fractions(time: float, decay: float) -> list[tuple[complex, complex]]:
    r"""Pairs $(\alpha_k,\eta_k)$, poles of the upper half plane and real ones, with
    $g(x)=\sum_k\alpha_k\frac{\eta_k}{\eta_k+x}$ and the conjugates of the complex ones."""
    poles, residues = exponential_fractions()
    eta = -poles / time
    alpha = np.exp(-time * decay) * residues / time / (eta - decay)
    kept = [(complex(a), complex(e)) for a, e in zip(alpha, eta, strict=True) if e.imag >= 0.0]
    return [*kept, (complex(1.0 - alpha.sum().real), complex(decay))] if decay > 0.0 else kept


@lru_cache(maxsize=1)
def exponential_fractions() -> tuple[Complex, Complex]:
    r"""Poles $p_k$ and residues $c_k$ with $e^{-x}\approx\sum_kc_k/(x-p_k)$, $x\ge0$: five of them, $3\cdot10^{-5}$."""
    points = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 400)])
    with warnings.catch_warnings():
        # It says that it stops at the number of terms asked for.
        warnings.simplefilter("ignore", RuntimeWarning)
        fitted = AAA(points, np.exp(-points), max_terms=FRACTIONS + 1)
    return fitted.poles(), fitted.residues()


def _answer(features: Floats, labels: Floats, share: float, ridge: complex) -> _Answer:
    rows = len(features)
    weights, settled = np.full(rows, 0.5 * share, complex), False
    for _ in range(MOST_ROUNDS):
        resolvent = _resolvent(features, weights, ridge)
        h = np.einsum("ip,ip->i", resolvent, features)
        new = share / (1.0 + (1.0 - share) * h / (1.0 - weights * h))
        moved = float(np.abs(new / weights - 1.0).max())
        weights = 0.5 * (new + weights)
        if moved < SETTLED:
            settled = True
            break
    resolvent = _resolvent(features, weights, ridge)
    gamma = resolvent @ features.T
    h = np.diagonal(gamma)
    field = labels - gamma @ (weights[:, None] * labels)
    return _Answer(gamma, field, weights, 1.0 / (1.0 - weights * h), 1.0 / (1.0 + (1.0 - weights) * h), settled)


def _resolvent(features: Floats, weights: Complex, ridge: complex) -> Complex:
    inside = features.T @ (weights[:, None] * features) + ridge * np.eye(features.shape[1])
    return np.asarray(np.linalg.solve(inside, features.T), dtype=np.complex128).T


def _product(one: _Answer, other: _Answer, share: float) -> Complex:
    r"""Second moments $S$ (M, pairs + 1) of two residuals on every row, symmetric in outputs; last, those of noise."""
    first, second = np.tril_indices(one.field.shape[1])
    w, v = one.weights, other.weights
    scattering = share * (1.0 - w) * (1.0 - v) * one.drawn * other.drawn
    scattering = scattering + (1.0 - share) * w * v * one.left_out * other.left_out
    joint = one.gamma * other.gamma
    noise = 1.0 - w * np.diagonal(one.gamma) - v * np.diagonal(other.gamma) + joint @ (w * v)
    sources = one.field[:, first] * other.field[:, second] + one.field[:, second] * other.field[:, first]
    matrix = -joint * scattering
    np.fill_diagonal(matrix, 1.0)
    return np.asarray(np.linalg.solve(matrix, np.column_stack([0.5 * sources, noise])), dtype=np.complex128)
