"""Gradient descent with steps of finite size on the Gaussian model: the same equations, one explicit step at a time."""

from typing import Any

import numpy as np

from limen.labelled import labelled
from limen.method import answers
from limen.problem import GradientDescent, InputError, TwoLayer
from limen.problem.algorithms import beyond_plain, constant_step
from limen.problem.divergence import remedy
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.flow.history import History
from limen.theory.flow.kernels import KernelEquations, Kernels, Row, collective, empty_row, store
from limen.theory.flow.model import GaussianModel, gaussian_model
from limen.theory.flow.model import refuses as model_refuses
from limen.theory.flow.observables import mean_correlation

CITATIONS = ("montanari2025",)
MOST_STEPS = 5000


def refuses(problem: object) -> str | None:
    """Why the finite-step theory does not apply, or None."""
    if not isinstance(problem, TwoLayer):
        return "it solves two-layer networks."
    if not isinstance(problem.algorithm, GradientDescent):
        return f"it solves GradientDescent, not {type(problem.algorithm).__name__}."
    if not problem.algorithm.spherical:
        return "it needs neurons that are put back on the sphere: GradientDescent(step, spherical=True)."
    if problem.algorithm.weight_decay:
        return "it needs weight_decay 0."
    if (reason := beyond_plain(problem.algorithm)) is not None:
        return reason
    return model_refuses(problem)


@answers("theory", CITATIONS)
def finite_step(problem: TwoLayer, steps: Any) -> Findings:
    r"""Gradient descent with every neuron put back on the sphere, on the Gaussian model, as $n,d\to\infty$.

    Exact for finite steps $\eta$ = `step`$\cdot d/n$ in the time of gradient flow: each row of correlations is
    $$\kappa\,C(n{+}1,j)=C(n,j)+\eta\Big[-\sum_{l\le n}M_R(n,l)C(l,j)+\sum_{l<j}M_C(n,l)R(j,l)^\top+F_nv_j^\top\Big],$$
    likewise $\kappa R(n{+}1,j)=R(n,j)+\eta[\delta_{nj}-\sum_lM_R(n,l)R(l,j)]$, and $\kappa$ makes $C_d(n{+}1,n{+}1)=1$.
    Off the sphere the model is homogeneous in each Hermite degree. As $\eta\to0$ the flow is reached to first order.
    Variables as in `solve`, at steps $0,1,\dots$ (`steps` is their number, or a list of them). Costs about ten products
    of a vector and a matrix of steps a step. Source: Montanari & Urbani 2025.
    """
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"finite_step does not apply: {reason}")
    assert isinstance(problem.algorithm, GradientDescent)
    grid = time_grid(steps, counts_steps=True)
    if grid[-1] > MOST_STEPS:
        raise InputError(f"steps must be at most {MOST_STEPS}, got {grid[-1]:g}.")
    model = gaussian_model(problem)
    history = descend(model, constant_step(problem.algorithm) / model.samples_per_dim, int(grid[-1]))
    at = grid.astype(int)
    finite = bool(np.isfinite(history.train_loss).all())
    dataset = labelled(
        {
            "train_loss": (("time",), history.train_loss[at]),
            "test_loss": (("time",), history.test_loss[at]),
            "second_layer": (("time", "group"), history.second_layer[at]),
            "overlap": (("time", "group", "latent"), history.overlap[at]),
            "gram": (("time", "group", "group2"), history.gram[at]),
            "correlation": (("time", "time2"), mean_correlation(history)[np.ix_(at, at)]),
        },
        coords={"time": grid, "step": ("time", grid), "time2": grid, "group_size": ("group", model.sizes.astype(int))},
    )
    status = "every step taken." if finite else f"diverges: {remedy(problem)}."
    statistics = {"truncation": model.truncation}
    return Findings(dataset, finite, status, statistics)


def descend(model: GaussianModel, step: float, steps: int) -> History:
    r"""The history of `steps` steps of size $\eta$ = `step`, in the time of gradient flow."""
    history = History(model, steps + 1)
    row = empty_row(model.groups, model.latents, 1)
    row.relative_c[:, 0] = history.relative[0, :, 0, 0]
    row.collective_c[:, 0] = history.collective[0, : model.groups, : model.groups]
    row.second_layer[:], row.overlap[:] = model.second_layer, model.overlap
    history.count = 0
    with np.errstate(all="ignore"):
        for n in range(steps):
            kernels = KernelEquations(history, n)(row)
            store(history, n * step, row, kernels, np.zeros(model.groups))
            row = _step(history, kernels, step)
        store(history, steps * step, row, KernelEquations(history, steps)(row), np.zeros(model.groups))
    return history


def _step(history: History, kernels: Kernels, step: float) -> Row:
    model, length = history.model, history.count
    groups, size, root = model.groups, length * history.model.groups, np.sqrt(model.sizes)
    row = empty_row(groups, model.latents, length + 1)
    for g in model.several:
        before_c, before_r = history.relative[:, g, :length, :length]
        mc, mr = step * kernels.memory[:, g]
        row.relative_c[g, :length] = before_c[-1] - mr @ before_c + before_r @ mc
        row.relative_r[g, :length] = before_r[-1] - mr @ before_r
        row.relative_r[g, length - 1] += step
        row.relative_c[g, length] = (
            row.relative_c[g, length - 1] - mr @ row.relative_c[g, :length] + mc @ row.relative_r[g, :length]
        )
    before_c, before_r = history.collective[:, :size, :size]
    mc, mr = step * collective(kernels.memory, groups).reshape(2, groups, size)
    drive, overlaps = step * kernels.force * root[:, None], history.overlap[:length] * root[:, None]
    along = overlaps.reshape(size, -1)
    correlation = before_c[size - groups :] - mr @ before_c + mc @ before_r.T + drive @ along.T
    response = before_r[size - groups :] - mr @ before_r
    response[:, size - groups :] += step * np.eye(groups)
    toward = overlaps[-1] - mr @ along + drive
    corner = correlation[:, size - groups :].T - mr @ correlation.T + mc @ response.T + drive @ toward.T
    share = 1.0 / model.sizes
    norm = np.sqrt((1.0 - share) * row.relative_c[:, length] + share * np.diagonal(corner)) if model.spherical else 1.0
    norm = np.broadcast_to(norm, (groups,))
    row.relative_c[:] /= norm[:, None]
    row.relative_c[:, length] /= norm
    row.relative_r[:] /= norm[:, None]
    row.collective_c[:, :length] = (correlation / norm[:, None]).reshape(groups, length, groups)
    row.collective_c[:, length] = 0.5 * (corner + corner.T) / np.outer(norm, norm)
    row.collective_r[:, :length] = (response / norm[:, None]).reshape(groups, length, groups)
    row.overlap[:] = toward / norm[:, None] / root[:, None]
    row.second_layer[:] = history.second_layer[length - 1] + step * kernels.pull
    return row
