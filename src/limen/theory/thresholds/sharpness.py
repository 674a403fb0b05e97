r"""Sharpness: the largest eigenvalue of the Hessian along gradient descent, against the step that is still stable.

One neuron, $H=\frac1n\sum_iG_ix_ix_i^\top$. The weights $G_i$ know $x_i$ through its components $u$ along the
directions that the neuron has taken: target, start, every gradient. By Gaussian conditioning the rest of the inputs is
fresh, but for one thing: gradients pulled back from the sample, $X^\top\varphi_c$, lie in those directions, so that the
rest is orthogonal to the forces $\varphi_c$. With $\alpha=\frac1d\mathrm{tr}(H-z)^{-1}$ of the bulk,
$\beta=\alpha/\delta$ and $g=G/(1+\beta G)$, the Schur complement on the known directions is

$$D(z)=-z+E[g\,uu^\top]
+\beta\,E[g\,u\varphi^\top]\Big(E\frac{\varphi\varphi^\top}{1+\beta G}\Big)^{-1}E[g\,\varphi u^\top],$$

and every eigenvalue of $H$ outside the bulk is a $z$ at which it is singular. Above the bulk $D$ decreases in $z$: the
largest outlier is where its top eigenvalue passes zero, and where it does not the sharpness is the bulk's edge.
"""

from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import root_scalar

from limen.method import answers
from limen.precision import in_double
from limen.problem import GradientDescent, InputError, TwoLayer
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.descent.causal_pass import start_coefficients
from limen.theory.descent.conditioned_pass import Sampling, Snapshot, conditioned_pass
from limen.theory.descent.finite_dimension import checked_memory, draw_points
from limen.theory.descent.path_error import OF_A_MEDIAN
from limen.theory.descent.solve import pinned_directions, refuses
from limen.theory.thresholds.hessian_law import edge_below
from limen.theory.thresholds.hessian_weights import neuron_weights

CITATIONS = ("montanari2026", "celentano2021", "cohen2021")


@answers("theory", CITATIONS)
@in_double
def sharpness(problem: TwoLayer, times: Any, paths: int = 8192, scrambles: int = 4, seed: int = 0) -> Findings:
    r"""The largest eigenvalue of $\nabla^2\hat R$ in the first layer at `times` (whole steps), as $n,d\to\infty$.

    `sharpness` (time), `bulk_edge` (time): the right end of the bulk, below which it cannot fall; `train_loss`. Each
    is the median over `scrambles` sets of `paths` points, with their standard deviation in `*_spread`. Plain descent
    along an eigenvector is stable while its eigenvalue is below $2/\eta$, with heavy-ball momentum $2(1+\beta)/\eta$.

    One neuron with a twice differentiable activation; any linear rule. Weights without an upper bound (square loss with
    unbounded labels and curved activations) have no edge in the limit: the one given is that of the points. Source:
    Montanari & Wang 2026 for the dynamics; Cohen et al. 2021 for the phenomenon.
    """
    reason = refuses(problem) or problem.inputs.unlike_isotropic()
    if reason is None and problem.network.width != 1:
        reason = f"it has one neuron, not {problem.network.width}."
    if reason is None and getattr(problem.algorithm, "batch_fraction", 1.0) < 1.0:
        reason = "with mini-batches the Hessian of a step is that of its batch: take batch_fraction 1."
    if reason is not None:
        raise InputError(f"sharpness does not apply: {reason}")
    if scrambles < 2:
        raise InputError(f"scrambles must be at least 2, got {scrambles}.")
    grid = time_grid(times, counts_steps=True)
    steps = int(grid[-1])
    memory = checked_memory(problem, steps, paths)
    sets = [_set(problem, grid, paths, 1000 * seed + i) for i in range(scrambles)]
    variables: dict[str, Any] = {}
    for name in ("sharpness", "bulk_edge", "train_loss"):
        values = np.stack([one[name] for one in sets])
        part = OF_A_MEDIAN / scrambles**0.5
        variables[name] = (("time",), np.median(values, axis=0), {"error": f"{name}_spread", "error_part": part})
        variables[f"{name}_spread"] = (("time",), values.std(axis=0, ddof=1))
    dataset = xr.Dataset(variables, coords={"time": grid, "step": ("time", grid)})
    finite = bool(np.isfinite(dataset.sharpness.values).all())
    status = f"median of {scrambles} sets of {paths} paths."
    if not finite:
        status = "the weights diverge: take a smaller step."
    return Findings(dataset, finite, status, {"memory": memory})


def _set(problem: TwoLayer, grid: np.ndarray, paths: int, seed: int) -> dict[str, np.ndarray]:
    """One set of paths through all steps."""
    assert isinstance(problem.algorithm, GradientDescent) and problem.samples_per_dim is not None
    steps, network, delta = int(grid[-1]), problem.network, problem.samples_per_dim
    points = draw_points(problem, steps, paths, [seed])
    wanted = {int(time): i for i, time in enumerate(grid)}
    found = {name: np.full(grid.size, np.nan) for name in ("sharpness", "bulk_edge")}

    def watch(step: int, now: Snapshot) -> None:
        if step in wanted and np.isfinite(now.field).all():
            parts = (now.second_layer[0], network.per_neuron("bias"), now.field[0].T, points.labels[0])
            weights = neuron_weights(network.activation, problem.loss, *parts)
            top, edge = top_eigenvalue(weights, now.coordinates[0], now.forces[0], delta)
            found["sharpness"][wanted[step]], found["bulk_edge"][wanted[step]] = top, edge

    start = start_coefficients(problem, problem.target.latents + 1)[None]
    pinned = pinned_directions(problem).shape[1] > 0
    runs = conditioned_pass(problem, points, start, steps, Sampling(), pinned, watch)
    return {**found, "train_loss": runs.train_loss[0, grid.astype(int)]}


def top_eigenvalue(
    weights: np.ndarray, coordinates: np.ndarray, forces: np.ndarray, samples_per_dim: float
) -> tuple[float, float]:
    r"""The largest eigenvalue of $H$ and the right edge of its bulk, from paths: weights $G$ (N,), coordinates $u$
    (c, N), orthonormal forces $\varphi$ (f, N).

    A root in $\alpha$ between the edge and zero, where $z(\alpha)=-1/\alpha+\delta E[G/(\delta+\alpha G)]$.
    """
    delta, u, phi = samples_per_dim, coordinates.astype(float), forces.astype(float)
    # The edge of -H from below, in its own variable 1/alpha.
    mirrored, edge = edge_below(-weights, delta)
    if mirrored <= 0.0:
        return 0.0, 0.0
    lowest = -1.0 / mirrored

    def excess(alpha: float) -> tuple[float, float]:
        shrunk = 1.0 / (1.0 + alpha * weights / delta)
        pulls, count = weights * shrunk, weights.size
        z = -1.0 / alpha + float(np.mean(pulls))
        block = (u * pulls) @ u.T / count
        if len(phi):
            cross = (u * pulls) @ phi.T / count
            block += alpha / delta * cross @ np.linalg.solve((phi * shrunk) @ phi.T / count, cross.T)
        return float(np.linalg.eigvalsh(block)[-1]) - z, z

    inside, outside = lowest * (1.0 - 1e-9), lowest * 1e-6
    if excess(inside)[0] <= 0.0:
        return -edge, -edge
    root = root_scalar(lambda alpha: excess(alpha)[0], bracket=(inside, outside), xtol=1e-10 * abs(lowest)).root
    return excess(float(root))[1], -edge
