"""Rows in order of time, on a grid that grows geometrically."""

from dataclasses import dataclass

import numpy as np

from limen.theory.flow.history import History
from limen.theory.flow.kernels import Row, collective, empty_row, store
from limen.theory.flow.model import GaussianModel
from limen.theory.flow.row import RowEquations, solve_row

INTERPOLATION = 1e-9
SMALLEST_STEP = 1e-10  # of the time reached
MOST_REJECTED = 200
SEED = 1e-13  # overlaps below are rounding


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `reason` is `end`, `interpolation` or `stuck` (no step, however small, converges)."""

    reason: str
    iterations: int
    rejected: int


def backward_formula(step: float, before: float | None) -> tuple[float, float, float]:
    r"""$b_0,b_1,b_2$ of $\dot x_n\approx b_0x_n+b_1x_{n-1}+b_2x_{n-2}$: BDF2, or backward Euler for the first step."""
    if before is None:
        return 1.0 / step, -1.0 / step, 0.0
    w = step / before
    return (1 + 2 * w) / (1 + w) / step, -(1 + w) / step, w * w / (1 + w) / step


def add_row(history: History, time: float) -> int | None:
    """Adds the row of `time`; returns its iterations, or None, the history unchanged, where it does not converge."""
    history.reserve()
    n = history.count
    step = time - history.time[n - 1]
    before = history.time[n - 1] - history.time[n - 2] if n > 1 else None
    equations = RowEquations(history, backward_formula(step, before), time)
    solved = solve_row(equations, _guess(history, time))
    if solved is None:
        return None
    row, iterations = solved
    assert equations.kernels is not None
    store(history, time, row, equations.kernels, equations.multiplier)
    return iterations


def _guess(history: History, time: float) -> Row:
    """Extrapolation through the last three rows: at fixed times for what is smooth, along diagonals for responses."""
    model, n = history.model, history.count
    groups, recent = model.groups, slice(max(n - 3, 0), n)
    row = empty_row(groups, model.latents, n + 1)
    weights = _extrapolation(history.time[recent].tolist(), time)
    row.second_layer[:] = weights @ history.second_layer[recent]
    row.overlap[:] = (weights @ history.overlap[recent].reshape(len(weights), -1)).reshape(groups, -1)
    # Response entries carry the width of their cell: extrapolate them in units of it.
    edges = np.empty(n + 1)
    edges[:n], edges[n] = history.time[:n], time
    steps = edges[1:] - edges[:-1]
    grow_one = (steps[1:] / steps[:-1])[:, None]
    grow_two = grow_one[:-1] * grow_one[1:]
    modes = [row.modes[:, :, None, :, None]]
    if groups > 1:
        modes = [modes[0][:, :groups], collective(row.modes, groups)[:, None]]
    for (smooth, peaked), stack in zip(modes, history.stacks_until(n), strict=True):
        count, size = smooth.shape[0], smooth.shape[1]
        correlations, responses = stack.reshape(2, count, n, size, n, size)
        smooth[:, :, :n] = np.einsum("k,bkgjh->bgjh", weights, correlations[:, recent])
        for back, weight in zip(range(recent.start, n), weights.tolist(), strict=True):
            smooth[:, :, n] += weight * correlations[:, back, :, back]
        if n < 3:
            peaked[:, :, n] = steps[-1] * np.eye(size)
            continue
        one, two = responses[:, n - 1, :, 1:], responses[:, n - 2, :, 1:-1]
        peaked[:, :, 1] = one[:, :, 0]
        np.multiply(one, 2.0 * grow_one, out=peaked[:, :, 2:])
        peaked[:, :, 3:] -= two * grow_two
        peaked[:, :, 2] -= one[:, :, 0] * grow_one[0]
    if model.alone.size:
        row.relative_r[model.alone] = 0.0
    return row


def _extrapolation(times: list[float], time: float) -> np.ndarray:
    """Weights of the polynomial through `times` at `time`."""
    weights = [1.0] * len(times)
    for i, here in enumerate(times):
        for j, there in enumerate(times):
            if i != j:
                weights[i] *= (time - there) / (here - there)
    return np.array(weights)


def adapt(
    model: GaussianModel, until: float, ratio: float, capped_after: float = np.inf, cap: float = np.inf
) -> tuple[History, Outcome]:
    r"""Rows up to the first time not before `until`, on a grid that suits them.

    Steps are $(\text{ratio}-1)(t+c)$, $c$ the `initial_time` of the model: uniform in $\log(t+c)$. They are shorter
    where linear extrapolation misses $C_d$, $a$ or $v$ by more than $2.5(\text{ratio}-1)^2$, or the train loss
    or a growing overlap by more than $12(\text{ratio}-1)^2$ of itself: exponentials are followed with that accuracy.
    After the time `capped_after` steps are at most `cap`.
    """
    history = History(model)
    offset, growth = min(initial_time(model), until), ratio - 1.0
    step, iterations, rejected = growth * offset, 0, 0
    while history.time[history.count - 1] < until:
        now = history.time[history.count - 1]
        step = min(step, growth * (now + offset))
        if now >= capped_after:
            step = min(step, cap)
        used = add_row(history, now + step)
        missed = _missed(history) / growth**2 if used is not None else np.inf
        if used is None or (missed > 4.0 and history.count > 3):
            if used is not None:
                history.count -= 1
            step, rejected = 0.5 * step, rejected + 1
            if step < SMALLEST_STEP * (now + offset) or rejected > MOST_REJECTED:
                return history, Outcome("stuck", iterations, rejected)
            continue
        iterations += used
        if history.train_loss[-1] < INTERPOLATION:
            return history, Outcome(_fitted(model), iterations, rejected)
        step *= float(np.clip(0.9 / np.sqrt(max(missed, 1e-12)), 0.7, 1.2))
    return history, Outcome("end", iterations, rejected)


def follow(model: GaussianModel, grid: np.ndarray) -> tuple[History, Outcome]:
    """Rows at the times of `grid` (from 0), with further times in between only where a row does not converge."""
    history = History(model, max(len(grid), 2))
    iterations, rejected = 0, 0
    for time in grid[1:]:
        now, goal = history.time[history.count - 1], float(time)
        while now < time:
            used = add_row(history, goal)
            if used is None:
                goal, rejected = 0.5 * (now + goal), rejected + 1
                if goal - now < SMALLEST_STEP * goal or rejected > MOST_REJECTED:
                    return history, Outcome("stuck", iterations, rejected)
                continue
            iterations += used
            now, goal = goal, min(float(time), goal + 2.0 * (goal - now))
            if history.train_loss[-1] < INTERPOLATION:
                return history, Outcome(_fitted(model), iterations, rejected)
    return history, Outcome("end", iterations, rejected)


def _fitted(model: GaussianModel) -> str:
    """How a run without train loss ends: it rests, unless regularisation goes on moving it."""
    return "interpolation" if model.decay is None else "stuck"


def refined(grid: np.ndarray, offset: float) -> np.ndarray:
    r"""The grid with a time between any two neighbours, in the middle of $\log(t+\text{offset})$."""
    middle = np.sqrt((grid[1:] + offset) * (grid[:-1] + offset)) - offset
    return np.sort(np.concatenate([grid, middle]))


def initial_time(model: GaussianModel) -> float:
    """The time in which something happens at the start: a third of the inverse of all rates."""
    return 0.3 / total_rate(model, float(np.abs(model.second_layer).max()))


def total_rate(model: GaussianModel, second_layer: float) -> float:
    """An upper estimate of the rate at which the first layer can move with a second layer of this size: the collective
    and relative curvatures of the train loss, the kick of the residuals, the pull of the target, all added."""
    alpha, width = model.samples_per_parameter, model.width
    (_, power), (slope_0, slope_1), _ = model.dual(np.array([0.0, 1.0]))
    collective = alpha * second_layer**2 * (slope_1 / width + slope_0)
    relative = second_layer**2 / width * slope_1
    kick = np.sqrt(alpha * slope_1 * model.label_power / width) * second_layer
    signal = alpha * (second_layer + 0.1) * np.sqrt(slope_1 * model.label_power)
    return float(collective + relative + kick + signal + (alpha * power if model.trained else 0.0) + _decay_rate(model))


def _decay_rate(model: GaussianModel) -> float:
    if model.decay is None:
        return 0.0
    relative, collective = model.decay.modes(0.0)
    return float(np.abs(relative).max() + np.abs(collective).sum(axis=1).max() + model.decay.second_layer(0.0))


def _missed(history: History) -> float:
    """How far linear extrapolation missed the newest row, in units in which 1 is wanted at ratio - 1 = 1."""
    n = history.count - 1
    if n < 2:
        return 0.0
    w = (history.time[n] - history.time[n - 1]) / (history.time[n - 1] - history.time[n - 2])

    def bend(values: np.ndarray) -> np.ndarray:
        return np.abs(values[n] - (1 + w) * values[n - 1] + w * values[n - 2])

    groups, error = history.model.groups, 0.0
    for g, share in enumerate(1.0 / history.model.sizes):
        columns = slice(g, (n - 1) * groups, groups)
        collective = bend(history.collective[0, g::groups, columns])
        relative = bend(history.relative[0, g, :, : n - 1])
        error = max(error, float((share * collective + (1.0 - share) * relative).max(initial=0.0)))
    error = max(error, float((bend(history.second_layer) / (1.0 + np.abs(history.second_layer[n]))).max()))
    error = max(error, float(bend(history.overlap).max(initial=0.0)))
    losses = np.diagonal(history.residual[0])[: n + 1]
    relative = float(bend(losses)) / (abs(float(losses[n])) + 1e-300)
    # A small overlap that grows is leaving a saddle, which longer implicit steps would take for stable.
    before, now = np.abs(history.overlap[n - 1]), np.abs(history.overlap[n])
    growing = (now > before) & (before > SEED)
    relative = max(relative, float((bend(history.overlap)[growing] / now[growing]).max(initial=0.0)))
    return max(error / 2.5, relative / 12.0)
