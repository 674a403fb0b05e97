"""Memory kernels of one row: what its correlations and responses make of the residual and of the force."""

from dataclasses import dataclass

import numpy as np

from limen.theory.flow.history import History


@dataclass(frozen=True, eq=False)
class Row:
    """The unknowns of row n: modes of correlations and responses with all times up to n, and the one-time functions.

    `relative_c`, `relative_r` (G, n+1); `collective_c`, `collective_r` (G, n+1, G); `second_layer` (G,), `overlap`
    (G, k). All are views of one `vector`.
    """

    vector: np.ndarray
    relative_c: np.ndarray
    relative_r: np.ndarray
    collective_c: np.ndarray
    collective_r: np.ndarray
    second_layer: np.ndarray
    overlap: np.ndarray


def empty_row(groups: int, latents: int, length: int) -> Row:
    """A row of zeros with `length` times."""
    own, pairs = groups * length, groups * groups * length
    ends = (own, 2 * own, 2 * own + pairs, 2 * (own + pairs), 2 * (own + pairs) + groups)
    return _views(np.zeros(ends[-1] + groups * latents), groups, latents, length, ends)


def _views(vector: np.ndarray, groups: int, latents: int, length: int, ends: tuple[int, ...]) -> Row:
    return Row(
        vector,
        vector[: ends[0]].reshape(groups, length),
        vector[ends[0] : ends[1]].reshape(groups, length),
        vector[ends[1] : ends[2]].reshape(groups, length, groups),
        vector[ends[2] : ends[3]].reshape(groups, length, groups),
        vector[ends[3] : ends[4]],
        vector[ends[4] :].reshape(groups, latents),
    )


@dataclass(frozen=True, eq=False)
class Kernels:
    r"""Kernels between time n and all times up to n, as operators on nodal values.

    `residual_r`, `residual_c`, `source` (n+1,): rows of $R_A$, $C_A$, $\Sigma_C$; and `part`
    $=\frac1m\sum_ja_j\hat\varphi(v_j)$. `own_mr`, `own_mc` (G, n+1) and `all_mr`, `all_mc` (G, n+1, G): relative and
    collective modes of $M_R=\frac nd\frac{a_ia_j}{m^2}[R_Ah'(C)-C_Ah''(C)R]$ and
    $M_C=\frac nd\frac{a_ia_j}{m^2}C_Ah'(C)$. `force` (G, k) is $\alpha a\rho\nabla\hat\varphi(v)$, `pull` (G,) the
    drift of a trained second layer, `stiffness` minus the part of it that is linear in the newest value.
    """

    residual_r: np.ndarray
    residual_c: np.ndarray
    source: np.ndarray
    part: float
    own_mr: np.ndarray
    all_mr: np.ndarray
    own_mc: np.ndarray
    all_mc: np.ndarray
    force: np.ndarray
    pull: np.ndarray
    stiffness: np.ndarray


class KernelEquations:
    """The map from a row to its kernels, given the history before it."""

    def __init__(self, history: History, n: int) -> None:
        model = history.model
        self.history, self.n = history, n
        self.pairs = ((np.outer(model.sizes, model.sizes) - np.diag(model.sizes)) / model.width**2)[:, None, :]
        self.own = (model.sizes / model.width**2)[:, None]
        self.others = (model.sizes - np.eye(model.groups)) / model.width
        self.root = np.sqrt(np.outer(model.sizes, model.sizes))[:, None, :]
        self.diagonal = np.arange(model.groups)

    def __call__(self, row: Row) -> Kernels:
        """The kernels of `row`."""
        history, model, n = self.history, self.history.model, self.n
        own_c, pair_c = self._neurons(row.relative_c, row.collective_c)
        own_r, pair_r = self._neurons(row.relative_r, row.collective_r)
        values = model.dual(np.concatenate([own_c.ravel(), pair_c.ravel()]))
        split = own_c.size
        own_h, own_h1, own_h2 = (x[:split].reshape(own_c.shape) for x in values)
        pair_h, pair_h1, pair_h2 = (x[split:].reshape(pair_c.shape) for x in values)
        now, past = row.second_layer, np.concatenate([history.second_layer[:n], row.second_layer[None]])
        own_a, pair_a = now[:, None] * past.T, now[:, None, None] * past
        own_weight, pair_weight = self.own * own_a, self.pairs * pair_a
        own_rh, pair_rh = own_h1 * own_r, pair_h1 * pair_r
        link = model.link.value(row.overlap)
        part = float(model.fractions @ (now * link))
        source = (own_weight * own_h).sum(0) + (pair_weight * pair_h).sum((0, 2))
        source += model.label_power - part
        source[:n] -= history.part[:n]
        source[n] -= part
        reaction = (own_weight * own_rh).sum(0) + (pair_weight * pair_rh).sum((0, 2))
        residual_r, residual_c = self._residual(source, reaction)
        rho = residual_r.sum()

        front = model.samples_per_dim / model.width**2
        own_a *= front
        pair_a *= front
        own_mc, pair_mc = own_a * own_h1, pair_a * pair_h1
        own_mr = residual_r * own_mc - residual_c * (own_a * own_h2 * own_r)
        pair_mr = residual_r[:, None] * pair_mc - residual_c[:, None] * (pair_a * pair_h2 * pair_r)
        own_mc *= residual_c
        pair_mc *= residual_c[:, None]
        alpha = model.samples_per_parameter
        force = alpha * (rho * now)[:, None] * model.link.slope(row.overlap)
        pull, stiffness = np.zeros(model.groups), np.zeros(model.groups)
        if model.trained:
            pull = link * rho - (past.T * own_h) @ residual_r / model.width
            pull += (past.T * own_rh) @ residual_c / model.width
            weighted = pair_rh * residual_c[:, None] - pair_h * residual_r[:, None]
            pull += (self.others * (weighted * past).sum(1)).sum(1)
            own_curve = own_h[:, n] / model.width
            pair_curve = self.others[self.diagonal, self.diagonal] * pair_h[self.diagonal, n, self.diagonal]
            stiffness = alpha * residual_r[n] * (own_curve + pair_curve)
            pull *= alpha
        return Kernels(
            residual_r,
            residual_c,
            source,
            part,
            *self._modes(own_mr, pair_mr),
            *self._modes(own_mc, pair_mc),
            force,
            pull,
            stiffness,
        )

    def _neurons(self, relative: np.ndarray, collective: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A neuron with itself (G, n+1), and with another one (G, n+1, G), from the modes."""
        pair = collective / self.root
        diagonal = self.diagonal
        pair[diagonal, :, diagonal] -= relative / self.history.model.sizes[:, None]
        return relative + pair[diagonal, :, diagonal], pair

    def _modes(self, own: np.ndarray, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The inverse of `_neurons`."""
        diagonal = self.diagonal
        relative = own - pair[diagonal, :, diagonal]
        collective = pair * self.root
        collective[diagonal, :, diagonal] += relative
        return relative, collective

    def _residual(self, source: np.ndarray, reaction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Rows of $R_A=(1+\Sigma_R)^{-1}$ and of $C_A=R_A\Sigma_CR_A^\top$."""
        history, n = self.history, self.n
        scale = 1.0 / (1.0 + reaction[n])
        residual_r, residual_c = np.empty(n + 1), np.empty(n + 1)
        residual_r[:n] = -scale * (reaction[:n] @ history.residual_r[:n, :n])
        residual_r[n] = scale
        driven = history.residual_r[:n, :n] @ source[:n]
        residual_c[:n] = scale * (driven - reaction[:n] @ history.residual_c[:n, :n])
        residual_c[n] = scale * (source @ residual_r - reaction[:n] @ residual_c[:n])
        return residual_r, residual_c


def store(history: History, time: float, row: Row, kernels: Kernels, multiplier: np.ndarray) -> None:
    """Makes `row` the last row of the history."""
    n, groups = history.count, history.model.groups
    rows, until = slice(n * groups, (n + 1) * groups), (n + 1) * groups
    history.time[n] = time
    history.relative_c[:, n, : n + 1] = history.relative_c[:, : n + 1, n] = row.relative_c
    history.relative_r[:, n, : n + 1] = row.relative_r
    history.collective_c[rows, :until] = row.collective_c.reshape(groups, until)
    history.collective_c[:until, rows] = row.collective_c.reshape(groups, until).T
    history.collective_r[rows, :until] = row.collective_r.reshape(groups, until)
    history.residual_c[n, : n + 1] = history.residual_c[: n + 1, n] = kernels.residual_c
    history.residual_r[n, : n + 1] = kernels.residual_r
    history.source[n, : n + 1] = history.source[: n + 1, n] = kernels.source
    history.rho[n], history.part[n] = kernels.residual_r.sum(), kernels.part
    history.second_layer[n], history.overlap[n] = row.second_layer, row.overlap
    history.multiplier[n] = multiplier
    history.count = n + 1
