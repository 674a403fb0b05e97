r"""Sharpness: the largest eigenvalues of the Hessian along gradient descent, against the step that is still stable.

$H=m\nabla^2\hat R$ in everything that is trained. Its weights are known on the paths of the theory, and
`known_directions` says which of its eigenvalues stand outside the bulk: along the target's easy directions, along the
start, along what the gradients have left, along the second layer where it is trained.
"""

from typing import Any

import numpy as np
import xarray as xr

from limen.checks import whole
from limen.method import answers
from limen.precision import in_double
from limen.problem import GradientDescent, InputError, TwoLayer
from limen.problem.divergence import remedy
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.descent.causal_pass import start_coefficients
from limen.theory.descent.conditioned_pass import Sampling, Snapshot, conditioned_pass
from limen.theory.descent.finite_dimension import checked_memory, draw_points
from limen.theory.descent.path_error import stated_part
from limen.theory.descent.solve import pinned_directions, refuses
from limen.theory.thresholds.hessian_weights import network_weights, second_layer_rows
from limen.theory.thresholds.known_directions import top_eigenvalues

CITATIONS = ("montanari2026", "celentano2021", "cohen2021")
MOST_WIDTH = 8
VARIABLES = {
    "sharpness": ("time",),
    "eigenvalue": ("time", "rank"),
    "bulk_edge": ("time",),
    "train_loss": ("time",),
    "second_layer": ("time", "neuron"),
}


@answers("theory", CITATIONS)
@in_double
def sharpness(
    problem: TwoLayer, times: Any, paths: int = 8192, scrambles: int = 4, seed: int = 0, count: int = 1
) -> Findings:
    r"""The largest eigenvalue of $m\nabla^2\hat R$ in all that is trained, at `times` (whole steps), as $n,d\to\infty$.

    `sharpness` (time); `eigenvalue` (time, rank): the `count` largest, descending; `bulk_edge` (time): the right end of
    the bulk, below which they cannot fall; `train_loss` (time), `second_layer` (time, neuron). Each is the median over
    `scrambles` sets of `paths` points, with their standard deviation in `*_spread`. Plain descent along an eigenvector
    is stable while its eigenvalue is below $2m/\eta$, with heavy-ball momentum $2m(1+\beta)/\eta$.

    Up to eight neurons with a twice differentiable activation; any linear rule. Hard directions are pinned: outliers
    that lean on them are those of `hessian`. Weights without an upper bound (square loss with unbounded labels and
    curved activations) have no edge in the limit: the one given is that of the points. Source: Montanari & Wang 2026
    for the dynamics; Cohen et al. 2021 for the phenomenon.
    """
    reason = refuses(problem) or problem.inputs.unlike_isotropic()
    if reason is None and problem.network.width > MOST_WIDTH:
        reason = f"it has at most {MOST_WIDTH} neurons, not {problem.network.width}."
    if reason is None and getattr(problem.algorithm, "batch_fraction", 1.0) < 1.0:
        reason = "with mini-batches the Hessian of a step is that of its batch: take batch_fraction 1."
    if reason is None and problem.loss.kinked:
        reason = f"it needs a loss with a continuous slope, and that of {problem.loss.name} jumps."
    if reason is None and problem.network.train_bias:
        reason = "it needs fixed biases, and train_bias is set."
    if reason is None and getattr(problem.algorithm, "second_layer_ratio", 1.0) != 1.0:
        reason = "with a step of its own for the second layer no one eigenvalue says what is stable."
    if reason is not None:
        raise InputError(f"sharpness does not apply: {reason}")
    if scrambles < 2:
        raise InputError(f"scrambles must be at least 2, got {scrambles}.")
    if whole("count", count) > problem.network.width + problem.target.latents:
        most = problem.network.width + problem.target.latents
        raise InputError(f"count must be at most width + latent directions = {most}, got {count}.")
    grid = time_grid(times, counts_steps=True)
    memory = checked_memory(problem, int(grid[-1]), paths)
    sets = [_set(problem, grid, paths, 1000 * seed + i, count) for i in range(scrambles)]
    variables: dict[str, Any] = {}
    for name, dims in VARIABLES.items():
        values = np.stack([one[name] for one in sets])
        part = stated_part(scrambles)
        variables[name] = (dims, np.median(values, axis=0), {"error": f"{name}_spread", "error_part": part})
        variables[f"{name}_spread"] = (dims, values.std(axis=0, ddof=1))
    coords = {"time": grid, "step": ("time", grid), "rank": np.arange(1, count + 1)}
    dataset = xr.Dataset(variables, coords=coords)
    finite = bool(np.isfinite(dataset.sharpness.values).all())
    status = f"median of {scrambles} sets of {paths} paths."
    if not finite:
        status = f"the weights diverge: {remedy(problem)}."
    return Findings(dataset, finite, status, {"memory": memory})


def _set(problem: TwoLayer, grid: np.ndarray, paths: int, seed: int, count: int) -> dict[str, np.ndarray]:
    """One set of paths through all steps."""
    assert isinstance(problem.algorithm, GradientDescent) and problem.samples_per_dim is not None
    steps, network, delta = int(grid[-1]), problem.network, problem.samples_per_dim
    points = draw_points(problem, network.width * steps, paths, [seed])
    wanted = {int(time): i for i, time in enumerate(grid)}
    values, edges = np.full((grid.size, count), np.nan), np.full(grid.size, np.nan)

    def watch(step: int, now: Snapshot) -> None:
        if step in wanted and np.isfinite(now.field).all():
            parts = (now.second_layer[0], network.per_neuron("bias"), now.field[0].T, points.labels[0])
            weights = network_weights(network.activation, problem.loss, *parts)
            rows = second_layer_rows(network.activation, problem.loss, *parts) if network.train_second_layer else None
            known = (now.coordinates[0], now.forces[0])
            values[wanted[step]], edges[wanted[step]] = top_eigenvalues(weights, *known, delta, count, rows)

    start = start_coefficients(problem, problem.target.latents + network.width)[None]
    pinned = pinned_directions(problem).shape[1] > 0
    runs = conditioned_pass(problem, points, start, steps, Sampling(), pinned, watch, fresh=())
    at = grid.astype(int)
    return {
        "sharpness": values[:, 0],
        "eigenvalue": values,
        "bulk_edge": edges,
        "train_loss": runs.train_loss[0, at],
        "second_layer": runs.second_layer[0, at],
    }
