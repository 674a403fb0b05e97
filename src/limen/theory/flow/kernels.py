"""Memory kernels of one row: what its correlations and responses make of the residual and of the force."""

from dataclasses import dataclass

import numpy as np

from limen.theory.flow.history import History


def relative(modes: np.ndarray, groups: int) -> np.ndarray:
    """The relative modes (..., G, n) within rows of modes (..., P, n)."""
    return modes[..., :groups, :]


def collective(modes: np.ndarray, groups: int) -> np.ndarray:
    """The collective modes (..., G, n, G) within rows of modes (..., P, n), a view."""
    length = modes.shape[-1]
    return modes[..., groups:, :].reshape(*modes.shape[:-2], groups, groups, length).swapaxes(-1, -2)


def mode_blocks(modes: np.ndarray, groups: int) -> list[np.ndarray]:
    """Rows of modes (2, P, n) as rows of `History.stacks`, (2, B, g, n g): time outside, group inside."""
    if groups == 1:
        return [modes[:, :, None]]
    return [modes[:, :groups, None], collective(modes, groups).reshape(2, 1, groups, -1)]


class Row:
    """The unknowns of row n: modes of correlations and responses with all times up to n, and the one-time functions.

    `modes` (2, P, n+1): rows of `Modes` for correlations and for responses, `second_layer` (G,), `overlap` (G, k).
    `relative_c`, `relative_r` (G, n+1) and `collective_c`, `collective_r` (G, n+1, G) are parts of `modes`. All are
    views of one `vector`.
    """

    def __init__(self, vector: np.ndarray, groups: int, latents: int) -> None:
        two_time = vector.size - groups * (1 + latents)
        self.vector, self.groups = vector, groups
        self.modes = vector[:two_time].reshape(2, groups + groups * groups, -1)
        self.second_layer = vector[two_time : two_time + groups]
        self.overlap = vector[two_time + groups :].reshape(groups, latents)

    @property
    def relative_c(self) -> np.ndarray:
        """Correlations of differences within a group, (G, n+1)."""
        return relative(self.modes[0], self.groups)

    @property
    def relative_r(self) -> np.ndarray:
        """Responses of differences within a group, (G, n+1)."""
        return relative(self.modes[1], self.groups)

    @property
    def collective_c(self) -> np.ndarray:
        """Correlations of sums over groups, (G, n+1, G)."""
        return collective(self.modes[0], self.groups)

    @property
    def collective_r(self) -> np.ndarray:
        """Responses of sums over groups, (G, n+1, G)."""
        return collective(self.modes[1], self.groups)


def empty_row(groups: int, latents: int, length: int) -> Row:
    """A row of zeros with `length` times."""
    return Row(np.zeros(2 * (groups + groups * groups) * length + groups * (1 + latents)), groups, latents)


@dataclass(frozen=True, eq=False)
class Kernels:
    r"""Kernels between time n and all times up to n, as operators on nodal values.

    `residual` (2, n+1): rows of $C_A$ and of $R_A$; `source` (n+1,): of $\Sigma_C$; `rho` $=\int R_A$ and `part`
    $=\frac1m\sum_ja_j\hat\varphi(v_j)$. `memory` (2, P, n+1): modes of
    $M_C=\frac nd\frac{a_ia_j}{m^2}C_Ah'(C)$ and of $M_R=\frac nd\frac{a_ia_j}{m^2}[R_Ah'(C)-C_Ah''(C)R]$. `force`
    (G, k) is $\alpha a\rho\nabla\hat\varphi(v)$, `pull` (G,) the drift of a trained second layer, `stiffness` minus the
    part of it that is linear in the newest value.
    """

    residual: np.ndarray
    source: np.ndarray
    rho: float
    part: float
    memory: np.ndarray
    force: np.ndarray
    pull: np.ndarray
    stiffness: np.ndarray


class KernelEquations:
    """The map from a row to its kernels, given the history before it."""

    def __init__(self, history: History, n: int) -> None:
        model, modes = history.model, history.modes
        self.model, self.modes, self.n = model, modes, n
        self.residuals = history.residual[:, :n, :n]
        # The last column of each belongs to the row and is filled in for each.
        self.past, self.level = np.empty((modes.second.size, n + 1)), np.empty(n + 1)
        self.past[:, :n] = history.second_layer[:n, modes.second].T
        np.subtract(model.label_power, history.part[:n], out=self.level[:n])
        self.to_memory = modes.to_modes * (model.samples_per_dim / model.width**2)

    def __call__(self, row: Row) -> Kernels:
        """The kernels of `row`."""
        model, modes, n, now, past = self.model, self.modes, self.n, row.second_layer, self.past
        correlation, response = modes.to_neurons @ row.modes
        first, past[:, n] = now[modes.both]
        dual = model.dual(correlation)
        # Of each pair of neurons: a h, a h', a h'', and the last two times the response.
        terms = np.empty((5, *correlation.shape))
        np.multiply(dual, past, out=terms[:3])
        np.multiply(terms[1:3], response, out=terms[3:])
        values_driven = terms[::3]
        source, reaction = (modes.pairs * first) @ values_driven
        link, slope_of_link, part = 0.0 * now, 0.0 * row.overlap, 0.0
        if not model.link.vanishes:
            link, slope_of_link = model.link.with_slope(row.overlap)
            part = float(model.fractions @ (now * link))
            source -= part
        self.level[n] = model.label_power - part
        source += self.level
        residual = self._residual(source, reaction)
        rho = float(residual[1].sum())

        memory = terms[1] * residual[:, None, :]
        terms[4] *= residual[0]
        memory[1] -= terms[4]
        alpha = model.samples_per_parameter
        force = (alpha * rho) * now[:, None] * slope_of_link
        pull = stiffness = 0.0 * now
        if model.trained:
            values, driven = (values_driven @ residual[::-1, :, None])[..., 0]
            driven -= values
            pull = alpha * (link * rho + modes.partners @ driven)
            stiffness = (alpha * residual[1, n]) * (modes.alike @ dual[0, :, n])
        return Kernels(residual, source, rho, part, (self.to_memory * first) @ memory, force, pull, stiffness)

    def _residual(self, source: np.ndarray, reaction: np.ndarray) -> np.ndarray:
        r"""Rows of $C_A=R_A\Sigma_CR_A^\top$ and of $R_A=(1+\Sigma_R)^{-1}$."""
        n, before = self.n, self.residuals
        residual, earlier = np.empty((2, n + 1)), reaction[:n]
        scale = residual[1, n] = 1.0 / (1.0 + reaction[n])
        found = earlier @ before
        found[0] -= before[1] @ source[:n]
        np.multiply(found, -scale, out=residual[:, :n])
        residual[0, n] = scale * (source @ residual[1] - earlier @ residual[0, :n])
        return residual


def store(history: History, time: float, row: Row, kernels: Kernels, multiplier: np.ndarray) -> None:
    """Makes `row` the last row of the history."""
    n, groups = history.count, history.model.groups
    rows, until = slice(n * groups, (n + 1) * groups), (n + 1) * groups
    history.time[n] = time
    history.relative[:, :, n, : n + 1] = relative(row.modes, groups)
    history.relative[0, :, : n + 1, n] = row.relative_c
    all_c, all_r = collective(row.modes, groups).reshape(2, groups, until)
    history.collective[0, rows, :until] = all_c
    history.collective[0, :until, rows] = all_c.T
    history.collective[1, rows, :until] = all_r
    history.residual[:, n, : n + 1] = kernels.residual
    history.residual[0, : n + 1, n] = kernels.residual[0]
    history.source[n, : n + 1] = history.source[: n + 1, n] = kernels.source
    history.rho[n], history.part[n] = kernels.rho, kernels.part
    history.second_layer[n], history.overlap[n] = row.second_layer, row.overlap
    history.multiplier[n] = multiplier
    history.count = n + 1
