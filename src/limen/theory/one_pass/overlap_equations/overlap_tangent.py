r"""Exact derivatives of the overlap equations: forward-mode differentiation of the whole integration.

The equations hold averages, rates and a start that depend on a parameter $x$ of the problem by a little arithmetic;
with $u(x)$ these inputs and $\Phi$ the integration, $\frac{d}{dx}\Phi(u(x))=D\Phi\cdot u'(x)$. $D\Phi$ is
differentiated through the solver; $u'$ by central differences, whose error ($10^{-10}$) is far below the tolerance.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limen.precision import in_double
from limen.problem import OnePassSGD, Spec, TwoLayer
from limen.theory.one_pass.overlap_equations.integration import integrate
from limen.theory.one_pass.overlap_equations.overlap_flow import checked_tolerance, solver_of
from limen.theory.one_pass.overlap_equations.overlap_ode import given_overlaps, population_of, problem_motion
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.frozen_points import POINTS
from limen.theory.one_pass.populations.sampled_population import SampledPopulation

STEP = 1e-5
# How much coarser the second integration is, whose difference is the stated error.
COARSER = 100.0


@in_double
def tangent(
    curve: Callable[[float], Spec],
    at: float,
    times: np.ndarray,
    tolerance: float | None = None,
    points: int | None = None,
    **others: Any,
) -> dict[str, tuple[np.ndarray, np.ndarray]] | None:
    """Derivatives of losses, overlaps, Gram matrix and second layer over time, each with its error; None from starts of
    finite size, with momentum, whose clock depends on it, and where averages over points meet kinks of activation or
    loss: their slopes jump, and the derivative at a point does not see it."""
    problem = curve(at)
    if others or not isinstance(problem, TwoLayer) or getattr(problem.algorithm, "momentum", 0.0):
        return None
    assert isinstance(problem.algorithm, OnePassSGD) or problem.one_pass
    if (problem.network.activation.kinks or problem.loss.kinked) and isinstance(
        population_of(problem)[0], SampledPopulation
    ):
        return None

    def inputs(x: float) -> Any:
        posed = curve(x)
        assert isinstance(posed, TwoLayer)
        overlap, gram = given_overlaps(posed)
        second = jnp.asarray(posed.network.per_neuron("second_layer"))
        start = Overlaps(jnp.asarray(gram), jnp.asarray(overlap), second)
        return population_of(posed, POINTS if points is None else points)[0], start, problem_motion(posed, times)

    step = STEP * (abs(at) or 1.0)
    # At the end of a parameter's range the difference goes inward.
    low, high = (at, at + step) if at == 0.0 else (at - step, at + step)
    before, after = (eqx.filter(inputs(x), eqx.is_inexact_array) for x in (low, high))
    slope = jax.tree.map(lambda a, b: (b - a) / (high - low), before, after)
    traced, fixed = eqx.partition(inputs(at), eqx.is_inexact_array)
    fine = checked_tolerance(tolerance, problem.network.activation)
    kind = solver_of(problem_motion(problem, times))

    @eqx.filter_jit
    def differentiated(traced: Any, slope: Any, accuracy: Any) -> Any:
        def path(parts: Any) -> Any:
            population, start, motion = eqx.combine(parts, fixed)
            found = integrate(population, start, motion, jnp.asarray(times), accuracy, kind)
            return found.overlaps, found.excess_risk, found.test_loss

        return jax.jvp(path, (traced,), (slope,))[1]

    best, coarse = (_named(differentiated(traced, slope, jnp.asarray(a))) for a in (fine, COARSER * fine))
    return {name: (best[name], np.abs(best[name] - coarse[name])) for name in best}


def _named(found: Any) -> dict[str, np.ndarray]:
    overlaps, excess, test = found
    named = {"test_loss": np.asarray(test), "excess_risk": np.asarray(excess)}
    for name in ("overlap", "gram", "second_layer"):
        values = np.asarray(getattr(overlaps, name))
        for index in np.ndindex(values.shape[1:]):
            named["_".join([name, *map(str, index)])] = values[(slice(None), *index)]
    return named
