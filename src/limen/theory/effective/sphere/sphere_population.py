r"""Population loss and gradient noise of single-index losses on the sphere, as functions of the overlap $m$.

With $s=\langle a,x\rangle$, $s_*=\langle a,\theta\rangle$ and $c=\partial_sL$: the loss $\phi(m)=E\,L$, its slope
$\phi'$, the size of the gradient $\sigma^2(m)=E\,c^2=\lim E\|\nabla_{sph}L\|^2/N$ and its part along the signal
$v^2(m)=E[c^2(s_*-ms)^2]$, as $N\to\infty$ (Ben Arous, Gheissari & Jagannath 2021 for $\phi$).
"""

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import logsumexp

from limen.gaussian.angles import AngleSeries, angle_series
from limen.gaussian.duals import Dual, check_correlation, dual
from limen.gaussian.functions import ScalarFunction, as_function
from limen.gaussian.hermite import hermite_coefficients
from limen.gaussian.quadrature import gaussian_rule
from limen.gaussian.rotated import RotatedRule
from limen.link.information_exponent import escape_sign, information_exponent
from limen.problem import Activation, BinaryMixture, InputError, OnlinePCA, SingleIndex
from limen.problem.families.effective_models import SQUARE, SphericalProblem
from limen.problem.losses import Loss
from limen.theory.effective.loss_population import LossPopulation
from limen.theory.effective.sphere.sphere_moments import HIGHEST_EXPONENT, REACH, SpherePopulation


class TeacherStudent(SpherePopulation):
    r"""$L=(f(s_*)+\sqrt\Delta\,\varepsilon-g(s))^2$.

    $\phi=\|f\|^2+\|g\|^2+\Delta-2h(m)$ with the dual $h(m)=E[f(G_1)g(G_2)]=\sum_ku_k(f)u_k(g)m^k$;
    $c=-2(f+\sqrt\Delta\varepsilon-g)g'$, so that $\sigma^2=4E[((f-g)^2+\Delta)g'^2]$. Gradient moments by a
    two-dimensional rule that follows the kinks, tabulated in the angle $\arccos m$.
    """

    def __init__(self, link: Activation, student: Activation, noise: float) -> None:
        self._link, self._student, self._noise = as_function(link), as_function(student), noise
        self._links = link, student
        if self._student.jumps_at(gaussian_rule(self._student).kinks):
            raise InputError(f"student_link must be continuous for SGD to see a gradient, got {student.label!r}.")

    @cached_property
    def _dual(self) -> Dual:
        return dual(*self._links)

    @cached_property
    def _floor(self) -> float:
        squares = [rule.weights @ rule.values**2 for rule in (gaussian_rule(f) for f in (self._link, self._student))]
        return float(sum(squares)) + self._noise

    def loss(self, m: np.ndarray) -> np.ndarray:
        return self._floor - 2.0 * self._dual(m)

    def slope(self, m: np.ndarray) -> np.ndarray:
        return -2.0 * self._dual.prime(m)

    def gradient_square(self, m: np.ndarray) -> np.ndarray:
        return np.maximum(self._moments[0](m), 0.0)

    def signal_noise(self, m: np.ndarray) -> np.ndarray:
        return np.maximum(self._moments[1](m), 0.0)

    def leading(self) -> tuple[int, float]:
        return self._first_product

    @cached_property
    def _first_product(self) -> tuple[int, float]:
        k = information_exponent(*self._links, degree=HIGHEST_EXPONENT)
        u = [hermite_coefficients(link, k)[k] for link in self._links]
        a = 2.0 * k * float(u[0] * u[1])
        if 1 not in escape_sign(*self._links, degree=HIGHEST_EXPONENT):
            raise InputError(
                f"link and student_link must first share a positive Hermite product, and that of degree {k} is "
                f"{u[0] * u[1]:.4g}: positive overlaps are repelled and there is no recovery."
            )
        return k, a

    @cached_property
    def _moments(self) -> tuple[AngleSeries, AngleSeries]:
        slope = self._student.derivative()
        assert slope is not None  # activations are JAX functions
        rules = [gaussian_rule(function) for function in (self._link, self._student)]
        reach = float(np.ceil(np.clip(2.0**0.5 * max(rule.extent for rule in rules), REACH, 38.0)))
        kinks = [np.array(rule.kinks) for rule in rules]
        rule = RotatedRule(self._link, self._student, kinks[0], kinks[1], reach, 1.0, 1.0, 0.0)
        both = lru_cache(maxsize=None)(lambda angle: self._at(rule, slope, angle))
        scale = both(0.5 * np.pi)
        return (
            angle_series(lambda angle: both(angle)[0], scale[0], 128),
            angle_series(lambda angle: both(angle)[1], scale[1], 128),
        )

    def _at(self, rule: RotatedRule, slope: ScalarFunction, angle: float) -> tuple[float, float]:
        along, field, weights = rule.nodes(angle)
        residual = self._link.values(along) - self._student.values(field)
        square = 4.0 * weights * (residual**2 + self._noise) * slope.values(field) ** 2
        return float(square.sum()), float((square * (along - np.cos(angle) * field) ** 2).sum())


class LeadingVariance(SpherePopulation):
    r"""Online PCA: $L=-s^2$, $\phi=-1-\lambda m^2$, $\sigma^2=4(1+\lambda m^2)$,
    $v^2=4(1-m^2)\big[(1+\lambda m^2)(1+\lambda(1-m^2))+2\lambda^2m^2(1-m^2)\big]$."""

    def __init__(self, signal: float) -> None:
        self._signal = signal

    def loss(self, m: np.ndarray) -> np.ndarray:
        return -1.0 - self._signal * m**2

    def slope(self, m: np.ndarray) -> np.ndarray:
        return -2.0 * self._signal * m

    def gradient_square(self, m: np.ndarray) -> np.ndarray:
        return 4.0 * (1.0 + self._signal * m**2)

    def signal_noise(self, m: np.ndarray) -> np.ndarray:
        signal, rest = self._signal, 1.0 - m**2
        field, across = 1.0 + signal * m**2, rest * (1.0 + signal * rest)
        return 4.0 * (field * across + 2.0 * (signal * m * rest) ** 2)

    def leading(self) -> tuple[int, float]:
        return 2, 2.0 * self._signal


class TwoComponents(SpherePopulation):
    r"""Binary mixture: $s=\varepsilon m+z$, $L=-\log\cosh(s+h)$, $\phi'=-E[\varepsilon\tanh(s+h)]$,
    $\sigma^2=E\tanh^2(s+h)$ and $v^2=(1-m^2)(2-m^2)\sigma^2$, since $s_*-ms=\varepsilon(1-m^2)+\sqrt{1-m^2}\,w$."""

    def __init__(self, weight: float, field: float) -> None:
        self._weight, self._field = weight, field
        # The integrands are analytic up to the poles of tanh at distance pi/2: equal steps converge like exp(-pi^2/h).
        self._nodes, h = np.linspace(-9.0, 9.0, 73, retstep=True)
        self._weights = h * np.exp(-0.5 * self._nodes**2) / np.sqrt(2.0 * np.pi)

    def _mean(self, function: Any, m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Expectations over the noise given each component, without its probability."""
        shifted = [self._nodes + sign * np.asarray(m)[..., None] + self._field for sign in (1.0, -1.0)]
        plus, minus = (function(s) @ self._weights for s in shifted)
        return self._weight * plus, (1.0 - self._weight) * minus

    def loss(self, m: np.ndarray) -> np.ndarray:
        plus, minus = self._mean(lambda s: np.log(2.0) - logsumexp([s, -s], axis=0), m)
        return plus + minus

    def slope(self, m: np.ndarray) -> np.ndarray:
        plus, minus = self._mean(np.tanh, m)
        return minus - plus

    def gradient_square(self, m: np.ndarray) -> np.ndarray:
        plus, minus = self._mean(lambda s: np.tanh(s) ** 2, m)
        return plus + minus

    def signal_noise(self, m: np.ndarray) -> np.ndarray:
        return (1.0 - m**2) * (2.0 - m**2) * self.gradient_square(m)

    def leading(self) -> tuple[int, float]:
        if self._weight != 0.5:
            return 1, -float(self.slope(np.asarray(0.0)))
        plus, minus = self._mean(lambda s: 1.0 / np.cosh(s) ** 2, np.asarray(0.0))
        return 2, float(plus + minus)


def sphere_population(problem: SphericalProblem) -> SpherePopulation:
    """The population of a problem; the same object for the same loss, whatever the step and the start."""
    match problem:
        case SingleIndex():
            if problem.loss != Loss(SQUARE):
                return _any_loss(problem.link, problem.student, problem.noise, problem.loss)
            return _teacher_student(problem.link, problem.student, problem.noise)
        case OnlinePCA():
            return LeadingVariance(problem.signal)
        case BinaryMixture():
            return TwoComponents(problem.weight, problem.field)


@lru_cache(maxsize=64)
def _teacher_student(link: Activation, student: Activation, noise: float) -> TeacherStudent:
    return TeacherStudent(link, student, noise)


@lru_cache(maxsize=64)
def _any_loss(link: Activation, student: Activation, noise: float, loss: Loss) -> LossPopulation:
    return LossPopulation(link, student, noise, loss)


def checked_sphere(problem: Any, what: str) -> SphericalProblem:
    """The problem, or a sentence that `what` is for losses on the sphere."""
    if not isinstance(problem, (SingleIndex, OnlinePCA, BinaryMixture)):
        raise InputError(
            f"problem must be a SingleIndex, OnlinePCA or BinaryMixture for {what}, got {type(problem).__name__}."
        )
    return problem


def population_loss(problem: SphericalProblem, m: Any) -> Any:
    r"""The population loss $\phi(m)=E\,L$ at overlap $m\in[-1,1]$; an array for an array.

    Teacher and student: $\phi=\|f\|^2+\|g\|^2-2\sum_ku_k(f)u_k(g)m^k+\text{noise}$ with $u_k$ the orthonormal Hermite
    coefficients for the square loss, a rule in two dimensions for others. Online PCA: $-1-\lambda m^2$. Binary mixture:
    $-E\log\cosh(z+\varepsilon m+h)$. Exact to about $10^{-12}$ (Ben Arous, Gheissari & Jagannath 2021).
    """
    population = sphere_population(checked_sphere(problem, "population_loss"))
    return _like(m, population.loss(check_correlation(m)))


def population_slope(problem: SphericalProblem, m: Any) -> Any:
    r"""$\phi'(m)$, the slope of `population_loss`; an array for an array.

    The drift of the overlap as $N\to\infty$ at small step is $-\phi'(m)(1-m^2)$.
    """
    population = sphere_population(checked_sphere(problem, "population_slope"))
    return _like(m, population.slope(check_correlation(m)))


def gradient_noise(problem: SphericalProblem, m: Any) -> tuple[Any, Any]:
    r"""$\sigma^2(m)=\lim E\|\nabla_{sph}L\|^2/N$ and $v^2(m)$, the mean square of the gradient along the signal.

    Between them they fix what the noise of SGD does: the corrector $-\frac\delta2m\sigma^2(m)$ of the drift, and the
    volatility $\delta v^2(m)/N$ of the overlap.
    """
    population = sphere_population(checked_sphere(problem, "gradient_noise"))
    overlaps = check_correlation(m)
    return _like(m, population.gradient_square(overlaps)), _like(m, population.signal_noise(overlaps))


def _like(given: Any, values: np.ndarray) -> Any:
    # the sum turns -0.0 into 0.0
    return float(values) + 0.0 if np.ndim(given) == 0 else np.asarray(values, dtype=float) + 0.0
