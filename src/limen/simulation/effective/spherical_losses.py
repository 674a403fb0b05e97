r"""The losses on the sphere as a simulator sees them: how a sample is drawn, and the slope of the loss.

Every loss depends on the vector only through $s=\langle a,x\rangle$ of the sample $a$, so that a step needs
$c=\partial_sL$ and nothing else. A sample is known by $s_*=\langle a,\theta\rangle$, its other coordinates, which are
independent standard normals, and one more number $e$ where the label has noise of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.problem import BinaryMixture, OnlinePCA, SingleIndex
from limen.problem.families.effective_models import SphericalProblem

CITATIONS = ("benarous2021", "benarous2022")
Slope = Callable[[Any, Any, Any, Any], Any]


@dataclass(frozen=True)
class SphericalLoss:
    r"""`slope(s_star, s, e, parameter)` is $\partial_sL$, the same object for equal losses so that jit caches on it.

    `along(normals, generator)` makes $s_*$ of standard normals, in place where it can; `noise_scale` is the standard
    deviation of $e$, zero where there is none.
    """

    slope: Slope
    parameter: float
    along: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    noise_scale: float


def spherical_loss(problem: SphericalProblem) -> SphericalLoss:
    """The loss of a problem."""
    match problem:
        case SingleIndex():
            slope = _teacher_student(problem.link.function, problem.student.function, problem.loss.slope)
            return SphericalLoss(slope, 0.0, lambda normals, generator: normals, problem.noise**0.5)
        case OnlinePCA():
            stretch = (1.0 + problem.signal) ** 0.5
            return SphericalLoss(_variance_slope, 0.0, lambda normals, generator: stretch * normals, 0.0)
        case BinaryMixture():
            weight = problem.weight

            def along(normals: np.ndarray, generator: np.random.Generator) -> np.ndarray:
                return normals + np.where(generator.random(normals.shape) < weight, 1.0, -1.0)

            return SphericalLoss(_mixture_slope, problem.field, along, 0.0)


@lru_cache(maxsize=64)
def _teacher_student(
    link: Callable[[Any], Any], student: Callable[[Any], Any], loss: Callable[[Any, Any], Any]
) -> Slope:
    def slope(s_star: Any, s: Any, e: Any, parameter: Any) -> Any:
        value, derivative = jax.jvp(student, (s,), (jnp.ones_like(s),))
        return loss(link(s_star) + e, value) * derivative

    return slope


def _variance_slope(s_star: Any, s: Any, e: Any, parameter: Any) -> Any:
    return -2.0 * s


def _mixture_slope(s_star: Any, s: Any, e: Any, parameter: Any) -> Any:
    return -jnp.tanh(s + parameter)
