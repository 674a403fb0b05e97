"""One row of the two-time equations: every kernel between the newest time and all times before it."""

import numpy as np

from limen.theory.flow.history import History
from limen.theory.flow.kernels import KernelEquations, Kernels, Row, empty_row
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
        self.relative_rate, self.collective_rate = (np.zeros(groups), np.zeros((groups, groups)))
        self.second_rate = 0.0
        if decay is not None:
            self.relative_rate, self.collective_rate = decay.modes(time)
            self.second_rate = decay.second_layer(time)
        self.history, self.formula, self.n = history, formula, history.count
        self.kernel_equations = KernelEquations(history, self.n)
        self.kernels: Kernels | None = None
        self.multiplier = history.multiplier[self.n - 1].copy()

    def image(self, row: Row) -> Row:
        """The right-hand sides at `row`; `kernels` and `multiplier` are left as they were found there."""
        history, model, n = self.history, self.history.model, self.n
        b0, b1, b2 = self.formula
        self.kernels = kernels = self.kernel_equations(row)
        found = self._advance(kernels)
        found.second_layer[:] = model.second_layer
        if model.trained:
            behind = -b1 * history.second_layer[n - 1] - b2 * history.second_layer[max(n - 2, 0)]
            implicit = behind + kernels.pull + kernels.stiffness * row.second_layer
            found.second_layer[:] = implicit / (b0 + kernels.stiffness + self.second_rate)
        return found

    def _advance(self, kernels: Kernels) -> Row:
        own_mr, all_mr, own_mc, all_mc = kernels.own_mr, kernels.all_mr, kernels.own_mc, kernels.all_mc
        history, model, n = self.history, self.history.model, self.n
        groups, root, (b0, b1, b2) = model.groups, np.sqrt(model.sizes), self.formula
        found = empty_row(groups, model.latents, n + 1)
        # Right-hand sides with all times before n, still to be divided by D.
        own_c, own_r = np.zeros((groups, n)), np.zeros((groups, n))
        own_last = np.zeros(groups)
        earlier = max(n - 2, 0)  # b2 is zero where there is no second row before this one
        for g in model.several:
            before_c, before_r = history.relative_c[g, :n, :n], history.relative_r[g, :n, :n]
            mr, mc = own_mr[g, :n], own_mc[g, :n]
            own_c[g] = before_r @ mc - mr @ before_c - b1 * before_c[n - 1] - b2 * before_c[earlier]
            own_r[g] = -(mr @ before_r) - b1 * before_r[n - 1] - b2 * before_r[earlier]
            own_last[g] = mc @ own_r[g] + own_mc[g, n] - mr @ own_c[g] - b1 * own_c[g, n - 1] - b2 * own_c[g, earlier]
        size, one, two = (
            n * groups,
            slice((n - 1) * groups, n * groups),
            slice(earlier * groups, (earlier + 1) * groups),
        )
        before_c, before_r = history.collective_c[:size, :size], history.collective_r[:size, :size]
        mr, mc = all_mr[:, :n].reshape(groups, size), all_mc[:, :n].reshape(groups, size)
        overlaps, drive = history.overlap[:n] * root[:, None], kernels.force * root[:, None]
        along = overlaps.reshape(size, -1)
        all_c = mc @ before_r.T - mr @ before_c - b1 * before_c[one] - b2 * before_c[two] + drive @ along.T
        all_r = -(mr @ before_r) - b1 * before_r[one] - b2 * before_r[two]
        toward = drive - mr @ along - b1 * overlaps[n - 1] - b2 * overlaps[earlier]
        last = mc @ all_r.T + all_mc[:, n] - mr @ all_c.T + drive @ toward.T
        last -= b1 * all_c[:, one].T + b2 * all_c[:, two].T

        own_d = b0 + own_mr[:, n] + self.relative_rate
        all_d = b0 * np.eye(groups) + all_mr[:, n] + self.collective_rate
        if model.spherical:
            self.multiplier = self._multiplier(own_d, all_d, own_last, last)
        own_d = own_d + self.multiplier
        inverse = np.linalg.inv(all_d + np.diag(self.multiplier)) if groups > 1 else 1.0 / (all_d + self.multiplier)
        several = model.several
        found.relative_c[several, :n] = own_c[several] / own_d[several, None]
        found.relative_r[several, :n] = own_r[several] / own_d[several, None]
        found.relative_r[several, n] = 1.0 / own_d[several]
        found.relative_c[several, n] = own_last[several] / own_d[several] ** 2
        found.collective_c[:, :n] = (inverse @ all_c).reshape(groups, n, groups)
        found.collective_r[:, :n] = (inverse @ all_r).reshape(groups, n, groups)
        found.collective_r[:, n] = inverse
        corner = inverse @ last @ inverse.T
        found.collective_c[:, n] = 0.5 * (corner + corner.T)
        found.overlap[:] = (inverse @ toward) / root[:, None]
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
    length = guess.relative_c.shape[1]
    accelerator = Anderson(guess.vector.size)
    point = guess
    # Responses carry the width of a cell; correlations, second layer and overlaps are of order one.
    weight = empty_row(groups, latents, length)
    weight.vector[:] = 1.0
    largest = max(float(np.abs(guess.relative_r).max()), float(np.abs(guess.collective_r).max()), 1e-300)
    weight.relative_r[:] = weight.collective_r[:] = 1.0 / largest
    weight.collective_c[:] = 1.0 / equations.kernel_equations.root
    weight.second_layer[:] = 1.0 / (1.0 + np.abs(guess.second_layer))
    best = np.inf
    tolerance = float(np.clip(ROW_TOLERANCE * equations.history.train_loss[-1], FINEST, COARSEST))
    with np.errstate(all="ignore"):
        for iteration in range(1, MOST_ITERATIONS + 1):
            image = equations.image(point)
            change = float(np.abs((image.vector - point.vector) * weight.vector).max())
            if not np.isfinite(change) or change > 1e3 * max(best, 1.0):
                return None
            if change < tolerance:
                return image, iteration
            best = min(best, change)
            following = empty_row(groups, latents, length)
            following.vector[:] = accelerator.next(point.vector, image.vector, weight.vector)
            point = following
    return None
