"""Full-batch gradient descent of a two-layer network on a fixed sample in d dimensions."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from limen.method import Method
from limen.precision import in_double
from limen.problem import GradientDescent, TwoLayer
from limen.result import Result
from limen.simulation.descent.fixed_sample_training import (
    Record,
    Setting,
    keeps_path,
    prepare,
    recorded,
    refuses,
    training_result,
    updated,
)
from limen.simulation.descent.sharded_sample import row_mesh, sharded_risk_and_gradient
from limen.simulation.two_layer_gradient import Functions, Weights, functions_of, risk_and_gradient

CITATIONS = ("montanari2026",)


@in_double
def solve(
    problem: TwoLayer,
    times: np.ndarray,
    d: int,
    seed: int,
    dtype: str = "float32",
    devices: int = 1,
) -> Result:
    r"""Trains one network with

    $$\theta_j\leftarrow(1-\eta\lambda)\,\theta_j-\eta\nabla_{\theta_j}\hat R,\qquad
    a_j\leftarrow a_j-\eta\,\partial_{a_j}\hat R,\qquad \hat R=\frac1n\sum_{i\le n}\ell(y_i,f(x_i)),$$

    $n$ the nearest whole number to $\delta d$, and reports at exactly `times` (whole steps). The second layer moves
    only where the network trains it; weight decay acts on the first layer; `spherical` puts each $\theta_j$
    back to length `initial_norm` after each step.

    Beside overlaps, Gram matrix, second layer and losses: `correlation` $=\theta_j(t)\cdot\theta_l(t')$, left out (and
    the status says so) when the first layers at all $T$ times exceed 1 GB or $(Tm)^2>4\cdot10^6$. Test loss and excess
    risk are on Gaussian inputs of the same covariance, whatever the law of the entries of $x$.

    Cost: $4nmd$ operations a step, inputs read from memory once; memory $nd$ numbers of `dtype`, at most 8 GB per
    device. Train loss comes with the gradient: recording every step costs one step more in all. With several `devices`
    each draws and keeps its own rows of the inputs, and only weights and gradients travel; the sample is the same as on
    one device, the sums are taken in another order. Model and normalisations: Montanari & Wang 2026.
    """
    began = time.perf_counter()
    assert isinstance(problem.algorithm, GradientDescent)
    mesh = row_mesh(devices)
    setting = prepare(problem, d, seed, dtype, mesh)
    steps = np.rint(times).astype(np.int32)
    record = _train(
        functions_of(problem),
        problem.algorithm.spherical,
        keeps_path(setting, times),
        mesh,
        setting,
        jnp.asarray(steps[0]),
        jnp.asarray(np.diff(steps, append=steps[-1] + 1)),
    )
    record = jax.block_until_ready(record)
    statistics = {"seconds": time.perf_counter() - began}
    return training_result(problem, setting, record, times, seed, "gradient descent", statistics, CITATIONS)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _train(
    functions: Functions,
    spherical: bool,
    with_path: bool,
    mesh: Mesh | None,
    setting: Setting,
    before: jax.Array,
    intervals: jax.Array,
) -> Record:
    """Records after `before` steps, then after each interval but the last, which only provides the last train loss."""
    x, y = setting.sample

    def step(weights: Weights) -> tuple[Weights, jax.Array]:
        """Weights after a step, train loss before it."""
        if mesh is None or setting.counts is None:
            risk, gradient = risk_and_gradient(functions, weights, setting.bias, x, y)
        else:
            n = setting.counts.sum()
            risk, gradient = sharded_risk_and_gradient(
                mesh, functions, weights, setting.bias, setting.sample, setting.counts, n
            )
        return updated(setting.rule, spherical, weights, gradient), risk

    def interval(weights: Weights, length: jax.Array) -> tuple[Weights, Record]:
        after, risk = step(weights)
        record = recorded(weights, setting, risk, with_path)
        return jax.lax.fori_loop(1, length, lambda _, weights: step(weights)[0], after), record

    first = jax.lax.fori_loop(0, before, lambda _, weights: step(weights)[0], setting.start)
    return jax.lax.scan(interval, first, intervals)[1]


gradient_descent = Method("gradient-descent", CITATIONS, refuses, solve)
