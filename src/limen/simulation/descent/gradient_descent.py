"""Descent of a two-layer network on a fixed sample in d dimensions: every rule, whole sample or mini-batches."""

from dataclasses import replace

import numpy as np

from limen.method import Method
from limen.precision import in_double
from limen.problem import GradientDescent, TwoLayer
from limen.problem.algorithms import Descent
from limen.result import Findings
from limen.simulation.descent.fixed_sample import sample_size
from limen.simulation.descent.fixed_sample_training import (
    keeps_path,
    prepare,
    recorded,
    recorded_with_path,
    refuses,
    training_findings,
)
from limen.simulation.descent.sharded_sample import row_mesh
from limen.simulation.descent.training_steps import batch_size, train
from limen.simulation.training_record import check_keep, with_weights

CITATIONS = ("montanari2026",)


@in_double
def solve(
    problem: TwoLayer,
    times: np.ndarray,
    d: int,
    seed: int,
    dtype: str = "float32",
    devices: int = 1,
    keep: str = "",
) -> Findings:
    r"""Trains one network with

    $$\theta_j\leftarrow(1-\eta\lambda)\,\theta_j-\eta\nabla_{\theta_j}\hat R,\qquad
    a_j\leftarrow a_j-\eta\,\partial_{a_j}\hat R,\qquad \hat R=\frac1n\sum_{i\le n}\ell(y_i,f(x_i)),$$

    or by another rule of `limen.problem.algorithms`, $n$ the nearest whole number to $\delta d$, and reports at exactly
    `times` (whole steps). The second layer moves only where the network trains it; weight decay acts on the first
    layer; `spherical` puts each $\theta_j$ back to its first length after each step. Mini-batches hold the whole
    part of $bn$ samples, all different: drawn anew at each step (`replacement`), or cut from a new random order in each
    epoch. The coordinate `epoch` then counts passes. Train loss is over the whole sample.

    Beside overlaps, Gram matrix, second layer and losses: `correlation` $=\theta_j(t)\cdot\theta_l(t')$, left out (and
    the status says so) when the first layers at all $T$ times exceed 1 GB or $(Tm)^2>4\cdot10^6$. Test loss and excess
    risk are on Gaussian inputs of the same covariance, whatever the law of the entries of $x$. With `keep="weights"`
    also `first_layer` (seed, time, neuron, input) and the target's `direction` (seed, latent, input).

    Cost: $4nmd$ operations a step on the whole sample, inputs read from memory once; memory $nd$ numbers of `dtype`, at
    most 8 GB per device. Train loss comes with the gradient: recording every step costs one step more in all. With
    several `devices` each draws and keeps its own rows of the inputs, and only weights and gradients travel; the sample
    is the same as on one device, the sums are taken in another order. Model and normalisations: Montanari & Wang 2026.
    """
    mesh = row_mesh(devices)
    setting = prepare(problem, d, seed, dtype, mesh)
    kept = check_keep(keep, times.size, problem.network.width, d)
    observe = recorded_with_path if kept or keeps_path(setting, times) else recorded
    record = train(problem, setting, times, seed, observe, mesh)
    algorithm, n = problem.algorithm, sample_size(problem, d, dtype, devices)
    assert isinstance(algorithm, Descent)
    batch = batch_size(problem, n)
    what = _name(problem) if batch is None else f"{_name(problem)} (batches of {batch})"
    found = training_findings(problem, setting, record, times, seed, what)
    if batch is not None:
        per_epoch = n / batch if algorithm.replacement else n // batch
        found.dataset.coords["epoch"] = ("time", times / per_epoch)
    return replace(found, dataset=with_weights(found.dataset, record.path, setting.frame)) if kept else found


def _name(problem: TwoLayer) -> str:
    algorithm = problem.algorithm
    if not isinstance(algorithm, GradientDescent):
        return type(algorithm).__name__
    kind = "mini-batch SGD" if algorithm.batch_fraction < 1.0 else "gradient descent"
    if algorithm.momentum == 0.0:
        return kind
    return f"{kind} with {'Nesterov ' if algorithm.nesterov else ''}momentum {algorithm.momentum:g}"


gradient_descent = Method("gradient-descent", "simulation", CITATIONS, refuses, solve)
