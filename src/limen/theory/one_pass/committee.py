r"""Which averages describe a problem: the route to its population, closed forms first."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from limen.gaussian.functions import as_function
from limen.gaussian.polynomial_degree import polynomial_degree
from limen.machine.arrays import on_device
from limen.precision import in_double
from limen.problem import Activation, InputError, Loss, Target
from limen.problem.activations import as_activation
from limen.theory.fresh_inputs.hermite_rule import hermite_rule
from limen.theory.one_pass.populations.erf_population import ErfPopulation
from limen.theory.one_pass.populations.frozen_points import (
    FINE,
    POINTS,
    frozen_points,
    product_points,
    product_rule,
)
from limen.theory.one_pass.populations.hinge_population import HingePopulation
from limen.theory.one_pass.populations.linear_population import LinearPopulation
from limen.theory.one_pass.populations.population import Population
from limen.theory.one_pass.populations.sampled_population import CommitteeLink, FormulaLink, SampledPopulation
from limen.theory.one_pass.populations.smooth_population import SmoothPopulation
from limen.theory.one_pass.populations.square_population import SquarePopulation

SQUARE = Loss(name="square")
PROBES = 256


def committee_population(
    activation: Any, p: int, teacher_gram: np.ndarray, teacher_weights: np.ndarray, noise: float, points: int = POINTS
) -> Population:
    r"""The population of a committee: $p$ students and $k$ teachers of the same activation, square loss.

    Closed forms for $\mathrm{erf}(cz)$, $z^2$ and $sz$; for $\alpha z+\beta|z|$ and smooth activations only the noise
    term is averaged over `points` frozen points (a product rule when $p=k=1$ and the activation is smooth); for other
    activations with kinks, everything is.
    """
    activation = checked_activation(activation)
    shared = (on_device(teacher_gram), on_device(teacher_weights), on_device(noise))
    if activation.erf_scale is not None:
        return ErfPopulation(*shared, on_device(activation.erf_scale))
    if is_square(activation):
        return SquarePopulation(*shared)
    sides = linear_sides(activation)
    if sides is not None and sides[0] == sides[1]:
        return LinearPopulation(*shared, on_device(sides[0]))
    sampled = sampled_committee(activation, p, teacher_gram, teacher_weights, 0.0, points)
    if sides is not None:
        odd, even = 0.5 * (sides[0] + sides[1]), 0.5 * (sides[0] - sides[1])
        return HingePopulation(*shared, on_device(odd), on_device(even), sampled)
    if activation.breakpoints:
        return sampled_committee(activation, p, teacher_gram, teacher_weights, noise, points)
    nodes, transform = hermite_rule()
    return SmoothPopulation(*shared, on_device(nodes), on_device(transform), sampled, activation.function)


def sampled_committee(
    activation: Activation,
    p: int,
    teacher_gram: np.ndarray,
    teacher_weights: np.ndarray,
    noise: float,
    points: int = POINTS,
) -> SampledPopulation:
    """The committee with every average taken over frozen points."""
    refuse_jumps(activation)
    degree, fields = _degree(activation), p + len(teacher_weights)
    rule = _polynomial_rule(None if degree is None else (degree, degree), fields, points)
    rule = rule or _smooth_or_frozen_rule(fields, not activation.breakpoints, points, 0)
    return SampledPopulation(
        on_device(teacher_gram),
        on_device(noise),
        on_device(np.zeros(p)),
        on_device(rule.nodes),
        on_device(rule.weights),
        CommitteeLink(on_device(teacher_weights), activation.function),
        activation.function,
        SQUARE.function,
        SQUARE.slope,
        False,
    )


def sampled_problem(
    activation: Activation, bias: tuple[float, ...], target: Target, loss: Loss, points: int = POINTS
) -> SampledPopulation:
    """Any target and loss, orthonormal teachers, every average taken over the points of `problem_rule`."""
    refuse_jumps(activation)
    rule = problem_rule(activation, len(bias), target, loss, points)
    return SampledPopulation(
        on_device(np.eye(target.latents)),
        on_device(target.noise),
        on_device(bias),
        on_device(rule.nodes),
        on_device(rule.weights),
        FormulaLink(target.function),
        activation.function,
        loss.function,
        loss.slope,
        _samples_noise(target, loss),
    )


class Rule(NamedTuple):
    """Nodes (dimension, N) and weights (N,) of averages; `exact` to rounding, or good as frozen points are."""

    nodes: np.ndarray
    weights: np.ndarray
    exact: bool


def problem_rule(
    activation: Activation, width: int, target: Target, loss: Loss, points: int = POINTS, scramble: int = 0
) -> Rule:
    r"""Where the averages of a problem are taken.

    A Gauss–Hermite product where target and network are polynomials, of degrees $r$ and $q$, under square loss: the
    highest degree, that of the noise term, is $2q+2\max(q,r)$ with $|x|^2$. A product rule for two smooth fields, the
    coarse one where fewer than `FINE` points are asked for. Otherwise frozen points, other ones for every `scramble`.
    """
    noisy, inner = _samples_noise(target, loss), target.uses_inner_noise
    fields = width + target.latents
    degrees = None if loss != SQUARE or inner else _degrees(activation, target)
    smooth = not (activation.breakpoints or target.breakpoints)
    found = _polynomial_rule(degrees, fields, points)
    return found or _smooth_or_frozen_rule(fields + inner + noisy, smooth, points, scramble)


def _polynomial_rule(degrees: tuple[int, int] | None, fields: int, points: int) -> Rule | None:
    """The product rule for network and target of these degrees, None where it takes more than `points`."""
    if degrees is None:
        return None
    nodes = degrees[0] + max(degrees) + 1
    return Rule(*product_rule((nodes,) * fields), True) if nodes**fields <= points else None


def _smooth_or_frozen_rule(dimension: int, smooth: bool, points: int, scramble: int) -> Rule:
    if dimension == 2 and smooth:
        return Rule(*product_points(points < FINE), True)
    return Rule(*frozen_points(dimension, points, scramble), False)


def _samples_noise(target: Target, loss: Loss) -> bool:
    """For square loss label noise is averaged by hand."""
    return target.noise > 0.0 and loss != SQUARE


@lru_cache(maxsize=256)
@in_double
def _degrees(activation: Activation, target: Target) -> tuple[int, int] | None:
    """The degrees of activation and target where both are polynomials."""
    own = _degree(activation)
    other = polynomial_degree(lambda z: target.function(z, np.zeros(len(z))), target.latents)
    return None if own is None or other is None else (own, other)


@lru_cache(maxsize=256)
@in_double
def _degree(activation: Activation) -> int | None:
    return polynomial_degree(activation.function, 1)


def checked_activation(activation: Any) -> Activation:
    """An `Activation` from itself, its name or its formula."""
    activation = as_activation(activation)
    if not isinstance(activation, Activation):
        raise InputError(f"activation must be an activation, its name or its formula, got {activation!r}.")
    return activation


@lru_cache(maxsize=256)
def is_square(activation: Activation) -> bool:
    """Whether the activation is exactly $z^2$."""
    return activation.formula in ("square", "z**2", "z*z")


@lru_cache(maxsize=256)
@in_double
def linear_sides(activation: Activation) -> tuple[float, float] | None:
    r"""Slopes $(\sigma'(0^+),\sigma'(0^-))$ when the activation is linear on either side of the origin, else None."""
    if any(point != 0.0 for point in activation.breakpoints):
        return None
    probes = np.array([0.1, 1.0, 2.7, 7.0])
    right, left = (np.asarray(activation.function(sign * probes)) / probes for sign in (1.0, -1.0))
    if np.ptp(right) > 1e-13 * abs(right).max() or np.ptp(left) > 1e-13 * abs(left).max():
        return None
    return float(right[1]), float(-left[1])


@lru_cache(maxsize=256)
def refuse_jumps(activation: Activation) -> None:
    """Refuses an activation with a jump, whose derivative SGD never sees."""
    if as_function(activation).jumps_at(activation.breakpoints):
        raise InputError(f"activation must be continuous for gradient training, got {activation.label}.")


@lru_cache(maxsize=256)
@in_double
def committee_weights(target: Target, activation: Activation) -> tuple[float, ...] | None:
    r"""$a^*$ when the target is $\frac1k\sum_ra^*_r\sigma(z_r)$ with the student's own activation, else None.

    The weights that fit the link at random points are exact there if and only if it is such a committee.
    """
    if target.uses_inner_noise:
        return None
    z = 2.0 * np.random.default_rng(0).standard_normal((PROBES, target.latents))
    # On NumPy arrays: nothing is compiled for them.
    labels = np.asarray(target.function(z, np.zeros(PROBES)), dtype=float)
    units = np.asarray(activation.function(z), dtype=float)
    if not (np.isfinite(labels).all() and np.isfinite(units).all()):
        return None
    weights = np.linalg.lstsq(units, labels, rcond=None)[0]
    if np.abs(units @ weights - labels).max() > 1e-11 * max(np.abs(labels).max(), np.abs(units).max()):
        return None
    return tuple(float(weight) for weight in weights * target.latents)
