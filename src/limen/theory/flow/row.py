"""One row of the two-time equations: every kernel between the newest time and all times before it."""

from math import isfinite

import numpy as np

from limen.theory.flow.history import History
from limen.theory.flow.kernels import KernelEquations, Kernels, Row, collective, empty_row
from limen.theory.flow.long_times.anderson import Anderson

# A row is solved to this part of the train loss, within bounds.
ROW_TOLERANCE = 1e-4
FINEST, COARSEST = 1e-11, 1e-8
MOST_ITERATIONS = 120


class RowEquations:
    r"""The equations of row $n$ at time step $h_n$ with $\dot x_n\approx b_0x_n+b_1x_{n-1}+b_2x_{n-2}$ (BDF2).

    For a group's relative mode, and for collective modes with matrices over groups,
    $D=b_0+\nu+M_R(n,n)$ and
    $$D\,R(n,j)=\delta_{nj}-b_1R(n{-}1,j)-b_2R(n{-}2,j)-\sum_{l<n}M_R(n,l)R(l,j),$$
    $$D\,C(n,j)=-b_1C(n{-}1,j)-b_2C(n{-}2,j)-\sum_{l<n}M_R(n,l)C(l,j)+\sum_{l\le j}M_C(n,l)R(j,l)^\top+F_nv_j^\top,$$
    with $\nu$ from $C_d(n,n)=1$, and beside it the rates of regularisation at the `time` of the row. The kernels $M$
    depend on the row itself: a fixed point. Source: Montanari & Urbani 2025.
    """

    def __init__(self, history: History, formula: tuple[float, float, float], time: float) -> None:
        decay, groups = history.model.decay, history.model.groups
        # What the newest values are multiplied with, but for memory and multiplier.
        b0 = self.second_rate = formula[0]
        self.relative_rate, self.collective_rate = np.full(groups, b0), b0 * np.eye(groups)
        if decay is not None:
            relative_rate, collective_rate = decay.modes(time)
            self.relative_rate += relative_rate
            self.collective_rate += collective_rate
            self.second_rate = b0 + decay.second_layer(time)
        self.history, self.n = history, history.count
        self.kernel_equations = KernelEquations(history, self.n)
        self.kernels: Kernels | None = None
        self.multiplier = history.multiplier[self.n - 1].copy()
        self._remember(formula)

    def _remember(self, formula: tuple[float, float, float]) -> None:
        """What does not change while the row is iterated: the rows before it, and their part in the derivative."""
        history, model, n = self.history, self.history.model, self.n
        groups, root = model.groups, np.sqrt(model.sizes)[:, None]
        earlier = max(n - 2, 0)  # b2 is zero where there is no second row before this one
        _, b1, b2 = formula
        self.ends = b1, b2
        self.root, size = root, n * groups
        self.relative, self.collective = history.relative[:, :, :n, :n], history.collective[:, :size, :size]
        overlaps = history.overlap[:n] * root
        self.along = overlaps.reshape(size, -1)
        self.relative_behind = -b1 * self.relative[:, :, n - 1] - b2 * self.relative[:, :, earlier]
        one, two = slice((n - 1) * groups, size), slice(earlier * groups, (earlier + 1) * groups)
        self.collective_behind = -b1 * self.collective[:, one] - b2 * self.collective[:, two]
        self.overlap_behind = -b1 * overlaps[n - 1] - b2 * overlaps[earlier]
        self.second_layer_behind = -b1 * history.second_layer[n - 1] - b2 * history.second_layer[earlier]

    def image(self, row: Row) -> Row:
        """The right-hand sides at `row`; `kernels` and `multiplier` are left as they were found there."""
        model = self.history.model
        self.kernels = kernels = self.kernel_equations(row)
        found = self._advance(kernels)
        found.second_layer[:] = model.second_layer
        if model.trained:
            implicit = self.second_layer_behind + kernels.pull + kernels.stiffness * row.second_layer
            found.second_layer[:] = implicit / (kernels.stiffness + self.second_rate)
        return found

    def _advance(self, kernels: Kernels) -> Row:
        model, n, root = self.history.model, self.n, self.root
        groups, memory, (b1, b2), earlier = model.groups, kernels.memory, self.ends, max(n - 2, 0)
        found = empty_row(groups, model.latents, n + 1)
        # Right-hand sides with all times before n, still to be divided by D.
        own, own_last = {}, np.zeros(groups)
        for g in model.several:
            (mc, mr), before = memory[:, g, :n], self.relative[:, g]
            own[g] = rows = self.relative_behind[:, g] - mr @ before
            rows[0] += before[1] @ mc
            own_last[g] = mc @ rows[1] + memory[0, g, n] - mr @ rows[0] - b1 * rows[0, n - 1] - b2 * rows[0, earlier]
        every = collective(memory, groups)
        mc, mr = every[:, :, :n].reshape(2, groups, n * groups)
        drive, before = kernels.force * root, self.collective
        rows = self.collective_behind - mr @ before
        rows[0] += mc @ before[1].T + drive @ self.along.T
        toward = drive - mr @ self.along + self.overlap_behind
        last = mc @ rows[1].T + every[0, :, n] - mr @ rows[0].T + drive @ toward.T
        last -= b1 * rows[0, :, (n - 1) * groups :].T + b2 * rows[0, :, earlier * groups : (earlier + 1) * groups].T

        own_d, all_d = self.relative_rate + memory[1, :groups, n], self.collective_rate + every[1, :, n]
        if model.spherical:
            self.multiplier = self._multiplier(own_d, all_d, own_last, last)
        own_d = own_d + self.multiplier
        inverse = np.linalg.inv(all_d + np.diag(self.multiplier)) if groups > 1 else 1.0 / (all_d + self.multiplier)
        for g, rows_of_group in own.items():
            np.divide(rows_of_group, own_d[g], out=found.modes[:, g, :n])
            found.modes[:, g, n] = own_last[g] / own_d[g] ** 2, 1.0 / own_d[g]
        both, corner = collective(found.modes, groups), inverse @ last @ inverse.T
        both[:, :, :n] = (inverse @ rows).reshape(2, groups, n, groups)
        both[0, :, n], both[1, :, n] = 0.5 * (corner + corner.T), inverse
        found.overlap[:] = (inverse @ toward) / root
        return found

    def _multiplier(self, own_d: np.ndarray, all_d: np.ndarray, own_last: np.ndarray, last: np.ndarray) -> np.ndarray:
        r"""$\nu$ with $C_d(n,n)=1$ in every group, by Newton's method from the value of the row before."""
        sizes, groups = self.history.model.sizes, self.history.model.groups
        share = 1.0 / sizes
        nu = self.multiplier.copy()
        if groups == 1:
            found = _one_multiplier(
                float(nu[0]), float(own_d[0]), float(all_d[0, 0]), own_last[0], last[0, 0], share[0]
            )
            return np.array([found])
        for _ in range(50):
            inverse = np.linalg.inv(all_d + np.diag(nu))
            corner = inverse @ last @ inverse.T
            relative = own_last / (own_d + nu) ** 2
            excess = (1.0 - share) * relative + share * np.diagonal(corner) - 1.0
            jacobian = -share[:, None] * inverse * (corner + corner.T)
            np.fill_diagonal(jacobian, np.diagonal(jacobian) - 2.0 * (1.0 - share) * relative / (own_d + nu))
            change = np.linalg.solve(jacobian, excess)
            nu = nu - change
            if np.abs(change).max() <= 1e-13 * (1.0 + np.abs(nu).max() + np.abs(own_d).max()):
                break
        return nu


def _one_multiplier(nu: float, own_d: float, all_d: float, own_last: float, last: float, share: float) -> float:
    """The multiplier of a single group: the same Newton iteration on numbers."""
    for _ in range(50):
        relative, collective = (1.0 - share) * own_last / (own_d + nu) ** 2, share * last / (all_d + nu) ** 2
        change = 0.5 * (1.0 - relative - collective) / (relative / (own_d + nu) + collective / (all_d + nu))
        nu -= change
        if not abs(change) > 1e-13 * (1.0 + abs(nu) + abs(own_d)):
            break
    return nu


def solve_row(equations: RowEquations, guess: Row) -> tuple[Row, int] | None:
    """The row and the number of iterations, or None when the iteration does not converge."""
    groups, latents = guess.overlap.shape
    accelerator = Anderson(guess.vector.size)
    point = guess
    # Responses carry the width of a cell; correlations, second layer and overlaps are of order one.
    weights = Row(np.ones_like(guess.vector), groups, latents)
    weights.modes[1] = 1.0 / max(float(np.abs(guess.modes[1]).max()), 1e-300)
    weights.collective_c[:] = 1.0 / (equations.root * equations.root.T)[:, None, :]
    weights.second_layer[:] = 1.0 / (1.0 + np.abs(guess.second_layer))
    weight, best = weights.vector, np.inf
    tolerance = float(np.clip(ROW_TOLERANCE * equations.history.train_loss[-1], FINEST, COARSEST))
    with np.errstate(all="ignore"):
        for iteration in range(1, MOST_ITERATIONS + 1):
            image = equations.image(point)
            residual = image.vector - point.vector
            residual *= weight
            change = float(np.abs(residual).max())
            if not isfinite(change) or change > 1e3 * max(best, 1.0):
                return None
            if change < tolerance:
                return image, iteration
            best = min(best, change)
            point = Row(accelerator.next(image.vector, residual), groups, latents)
    return None
