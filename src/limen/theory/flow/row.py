"""One row of the two-time equations: every kernel between the newest time and all times before it."""

from math import isfinite, sqrt

import numpy as np

from limen.theory.flow.history import History
from limen.theory.flow.kernels import KernelEquations, Kernels, Row, collective, empty_row, mode_blocks
from limen.theory.flow.long_times.anderson import Anderson

# A row is solved to this part of the train loss, within bounds.
ROW_TOLERANCE = 1e-4
FINEST, COARSEST = 1e-11, 1e-8
MOST_ITERATIONS = 120
PATIENCE = 20  # iterations in which the residual must be halved once


class RowEquations:
    r"""The equations of row $n$ at time step $h_n$ with $\dot x_n\approx b_0x_n+b_1x_{n-1}+b_2x_{n-2}$ (BDF2).

    On nodal values the derivative is an operator as the memory is. With $K(n,l)=M_R(n,l)$ and beside it $b_0$ and the
    rates of regularisation at the `time` of the row in $K(n,n)$, $b_1$ in $K(n,n{-}1)$, $b_2$ in $K(n,n{-}2)$, and with
    $D=K(n,n)+\nu$,
    $$D\,R(n,j)=\delta_{nj}-\sum_{l<n}K(n,l)R(l,j),$$
    $$D\,C(n,j)=-\sum_{l<n}K(n,l)C(l,j)+\sum_{l\le j}M_C(n,l)R(j,l)^\top+F_nv_j^\top,$$
    for a group's relative mode, without $F$, and for collective modes with matrices over groups; $\nu$ from
    $C_d(n,n)=1$. The kernels $M$ depend on the row itself: a fixed point. Source: Montanari & Urbani 2025.
    """

    def __init__(self, history: History, formula: tuple[float, float, float], time: float) -> None:
        model, n = history.model, history.count
        groups = model.groups
        self.history, self.n, self.root = history, n, np.sqrt(model.sizes)[:, None]
        self.kernel_equations = KernelEquations(history, n)
        self.kernels: Kernels | None = None
        self.multiplier = history.multiplier[n - 1].copy()
        (b0, b1, b2), earlier = formula, max(n - 2, 0)  # b2 is zero where there is no second row before this one
        # All that follows does not change while the row is iterated.
        self.derivative = np.zeros((2, groups + groups * groups, n + 1))
        for modes in (self.derivative[1, :groups], self.derivative[1, groups :: groups + 1]):
            modes[:, earlier] += b2
            modes[:, n - 1] += b1
            modes[:, n] += b0
        self.second_rate = b0
        if model.decay is not None:
            relative_rate, collective_rate = model.decay.modes(time)
            self.derivative[1, :groups, n] += relative_rate
            self.derivative[1, groups:, n] += collective_rate.ravel()
            self.second_rate = b0 + model.decay.second_layer(time)
        self.stacks = history.stacks_until(n)
        self.along = (history.overlap[:n] * self.root).reshape(n * groups, -1)
        self.second_layer_behind = -b1 * history.second_layer[n - 1] - b2 * history.second_layer[earlier]

    def image(self, row: Row) -> Row:
        """The right-hand sides at `row`; `kernels` and `multiplier` are left as they were found there."""
        model = self.history.model
        self.kernels = kernels = self.kernel_equations(row)
        found = self._advance(kernels)
        if model.trained:
            implicit = self.second_layer_behind + kernels.pull + kernels.stiffness * row.second_layer
            np.divide(implicit, kernels.stiffness + self.second_rate, out=found.second_layer)
        else:
            found.second_layer[:] = model.second_layer
        return found

    def _advance(self, kernels: Kernels) -> Row:
        model, root = self.history.model, self.root
        groups, drive = model.groups, None if model.link.vanishes else kernels.force * root
        blocks = mode_blocks(kernels.memory + self.derivative, groups)
        # Minus the right-hand sides with all times before n, still to be divided by D.
        pasts, sides = [], []
        for block, stack in zip(blocks, self.stacks, strict=True):
            past = block[..., : stack.shape[-1]]
            side = past[1] @ stack
            side[0] -= past[0] @ stack[1].swapaxes(-1, -2)
            pasts.append(past)
            sides.append(side)
        # The collective mode is the last one of the last stack.
        toward = pasts[-1][1, -1] @ self.along
        if drive is not None:
            sides[-1][0, -1] -= drive @ self.along.T
            toward -= drive
        corners = []
        for block, past, side in zip(blocks, pasts, sides, strict=True):
            corner = past @ side[::-1].swapaxes(-1, -2)
            corners.append(block[0, ..., past.shape[-1] :] - corner[0] + corner[1])
        if drive is not None:
            corners[-1][-1] -= drive @ toward.T

        diagonals = [block[1, ..., past.shape[-1] :] for block, past in zip(blocks, pasts, strict=True)]
        if model.spherical:
            own_d, own_last = diagonals[0][:groups, 0, 0], corners[0][:groups, 0, 0]
            self.multiplier = self._multiplier(own_d, diagonals[-1][-1], own_last, corners[-1][-1])
        found = empty_row(groups, model.latents, self.n + 1)
        inverse = diagonals[0]
        for k, side in enumerate(sides):
            if side.shape[-2] == 1:
                inverse = 1.0 / (diagonals[k] + self.multiplier[:, None, None])
                modes = found.modes[:, : len(inverse), None]
                np.multiply(side, -inverse, out=modes[..., :-1])
                modes[0, ..., -1:] = inverse * corners[k] * inverse
                modes[1, ..., -1:] = inverse
            else:
                inverse = np.linalg.inv(diagonals[k] + np.diag(self.multiplier))
                corner = (inverse @ corners[k] @ inverse.swapaxes(1, 2))[0]
                both = collective(found.modes, groups)
                both[:, :, :-1] = (-inverse @ side).reshape(2, groups, -1, groups)
                both[0, :, -1], both[1, :, -1] = 0.5 * (corner + corner.T), inverse[0]
        if model.alone.size:
            found.relative_r[model.alone, -1] = 0.0
        np.divide(inverse[-1] @ toward, -root, out=found.overlap)
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
    weight, best, since, spread = weights.vector, np.inf, 0, sqrt(guess.vector.size)
    tolerance = float(np.clip(ROW_TOLERANCE * equations.history.train_loss[-1], FINEST, COARSEST))
    with np.errstate(all="ignore"):
        for iteration in range(1, MOST_ITERATIONS + 1):
            image = equations.image(point)
            residual = image.vector - point.vector
            residual *= weight
            # Between the length over the root of its size and the length: the largest entry is rarely needed itself.
            change = sqrt(residual @ residual)
            if not isfinite(change) or change > 1e3 * max(best, 1.0):
                return None
            if change < tolerance * spread and float(np.abs(residual).max()) < tolerance:
                return image, iteration
            if change < 0.5 * best:
                best, since = change, iteration
            elif iteration - since >= PATIENCE:
                return None
            point = Row(accelerator.next(image.vector, residual), groups, latents)
    return None
