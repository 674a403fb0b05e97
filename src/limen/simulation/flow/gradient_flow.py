"""Gradient flow of a two-layer network on a fixed sample in d dimensions."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.gaussian.starts.start_weights import start_weights
from limen.method import Method
from limen.precision import in_double
from limen.problem import GradientFlow, TwoLayer
from limen.result import Findings
from limen.simulation.data import spread
from limen.simulation.descent.fixed_sample import Sample, draw_sample, sample_size
from limen.simulation.flow.flow_record import (
    check_flow,
    check_path,
    check_tolerance,
    flow_outcome,
    flow_rule,
    group_dataset,
)
from limen.simulation.flow.sphere_flow import RiskAndGradient, SphereFlow, flow_path
from limen.simulation.population_loss import population_losses
from limen.simulation.training_record import check_keep, with_weights
from limen.simulation.two_layer_gradient import Functions, Weights, functions_of, risk_and_gradient
from limen.simulation.work import check_flow_work

CITATIONS = ("montanari2025", "sommeijer1998")


def refuses(problem: object) -> str | None:
    """Why gradient flow on a fixed sample cannot run the problem, or None."""
    if not isinstance(problem, TwoLayer):
        return "it trains two-layer networks."
    if not isinstance(problem.algorithm, GradientFlow):
        return f"it runs GradientFlow, not {type(problem.algorithm).__name__}."
    if not problem.inputs.isotropic:
        return problem.inputs.unlike_isotropic()
    return None


@in_double
def solve(
    problem: TwoLayer,
    times: np.ndarray,
    d: int,
    seed: int,
    tolerance: float = 1e-5,
    keep: str = "",
) -> Findings:
    r"""Trains one network by

    $$\dot w_j=-\frac nd\,P_{w_j}^\perp\nabla_{w_j}\hat R,\qquad\dot a_j=-\frac nd\,\partial_{a_j}\hat R,\qquad
    \hat R=\frac1n\sum_{i\le n}\ell(y_i,f(x_i)),$$

    $n$ the nearest whole number to $\delta d$, $|w_j|$ kept as it starts unless the flow is free; decays as
    `GradientFlow` has them. The second layer moves where the network
    trains it. Variables: `train_loss` ($\hat R$), `test_loss` on fresh Gaussian inputs with label noise (from the
    overlaps), and by group of neurons that start alike `second_layer`, `overlap`, `gram` (two different neurons);
    `correlation` $=\frac1m\sum_j\langle w_j(t),w_j(t')\rangle$. `tolerance` is the local error of a step, relative to
    the length of a neuron. With `keep="weights"` also `first_layer` (seed, time, neuron, input) and the target's
    `direction` (seed, latent, input).

    Cost: $4nmd$ operations a gradient, some hundred gradients per decade of time until $t$ times the largest rate is
    $10^3$, then in proportion to $\sqrt t$; runs of hours are refused. Double precision, $8nd$ bytes. Setting:
    Montanari & Urbani 2025.
    """
    check_tolerance(tolerance)
    check_flow(problem, float(times[-1]))
    n, k, width = sample_size(problem, d, "float64"), problem.target.latents, problem.network.width
    check_path(times.size, width, d)
    kept = check_keep(keep, times.size, width, d)
    law = problem.inputs.law
    frame = spread(np.eye(k, d), k, seed, law)
    start = spread(start_weights(problem, d, seed), k, seed, law)
    sample = draw_sample(problem.target, n, jnp.asarray(frame), seed, law)
    flow = SphereFlow(network_gradient(problem, sample), (width, d), flow_rule(problem, n, d, tolerance))
    second = np.asarray(problem.network.per_neuron("second_layer"))
    check_flow_work(d, float(times[-1]), flow.start_rate(start, second), 4.0 * n * width * d)
    path = flow_path(flow, start, second, times)
    overlap, gram = path.first @ frame.T, path.first @ np.swapaxes(path.first, 1, 2)
    test, _, _ = population_losses(problem, overlap, gram, path.second)
    dataset = group_dataset(problem, times, seed, path, test, overlap, gram).assign_attrs(n=n)
    if kept:
        dataset = with_weights(dataset, path.first, frame)
    status, statistics = flow_outcome(path, f"gradient flow on n = {n} samples in d = {d}.")
    return Findings(dataset, path.finished, status, statistics)


def network_gradient(problem: TwoLayer, sample: Sample) -> RiskAndGradient:
    """Empirical risk and gradient of a network as a function of NumPy arrays, first and second layer."""
    functions, bias = functions_of(problem), jnp.asarray(problem.network.per_neuron("bias"))

    def gradient(first: np.ndarray, second: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        risk, slope = _risk_and_gradient(functions, first, second, bias, *sample)
        return float(risk), np.asarray(slope.first), np.asarray(slope.second)

    return gradient


@partial(jax.jit, static_argnums=0)
def _risk_and_gradient(
    functions: Functions, first: Any, second: Any, bias: jax.Array, x: jax.Array, y: jax.Array
) -> tuple[jax.Array, Weights]:
    return risk_and_gradient(functions, Weights(first, second), bias, x, y)


gradient_flow = Method("gradient-flow", "simulation", CITATIONS, refuses, solve)
