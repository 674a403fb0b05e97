r"""One-pass SGD of $p$ students $\mathrm{erf}(cz)$ that start alike: a few numbers at any width, $p$ among them.

Equal norms $q$, equal overlaps $c$ between students and equal overlaps $m_r$ with the teachers stay equal for ever, so
that the equations of `overlap_equations.right_hand_side` close on $(q,c,m)$. Every average over the units sees at
most two particular students and, of the others, one or a pair: four students with the multiplicities $1,1,n$ and
$n(n-1)$, $n=p-2$, stand for all. The formulas are polynomials in $p$ and hold for $p=1$ too, when $c=q$: two
copies of the one student and minus one other.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limen.machine.arrays import on_device
from limen.method import answers
from limen.precision import in_double
from limen.problem import InputError
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.one_pass.committee import checked_activation
from limen.theory.one_pass.overlap_equations.integration import Motion, Schedule, integrate_many, integrate_one
from limen.theory.one_pass.overlap_equations.overlap_flow import CITATIONS, checked_tolerance, flow_findings
from limen.theory.one_pass.overlap_equations.right_hand_side import check_rate_and_noise
from limen.theory.one_pass.overlaps import Overlaps, checked_overlaps
from limen.theory.one_pass.populations.erf_population import arcsine_kernel, field_drift, tilted_squares
from limen.theory.one_pass.populations.population import Population, radial

# Two whose overlaps are followed, and two of the others.
FOLLOWED, STANDING = 2, 4


class AlikeErfPopulation(Population):
    r"""Averages of `students` alike students and $k$ teachers $\mathrm{erf}(cz)$, square loss, from the overlaps of two
    of them. The noise term costs $(4+k)(5+k)$ arcsines at any width."""

    teacher_gram: jax.Array
    teacher_weights: jax.Array
    label_noise: jax.Array
    scale: jax.Array
    students: jax.Array

    def drift(self, overlaps: Overlaps) -> jax.Array:
        drift = field_drift(self._covariance(overlaps), self._readout(overlaps), FOLLOWED)
        return jnp.concatenate([drift[:, :FOLLOWED], drift[:, STANDING:]], axis=1)

    def response(self, overlaps: Overlaps) -> jax.Array:
        return arcsine_kernel(self._covariance(overlaps))[:FOLLOWED] @ self._readout(overlaps)

    def losses(self, overlaps: Overlaps) -> tuple[jax.Array, jax.Array]:
        excess = 0.5 * jnp.sum(self._products(overlaps) * arcsine_kernel(self._covariance(overlaps)))
        return excess, excess + 0.5 * self.label_noise

    def noise(self, overlaps: Overlaps, inverse_d: jax.Array | None = None) -> jax.Array:
        products, first, second = self._products(overlaps), np.array([0, 0]), np.array([0, 1])
        average = radial(
            lambda C: tilted_squares(C, products, self.label_noise, first, second),
            self._covariance(overlaps),
            inverse_d,
        )
        return 2.0 * self.scale**2 * average[np.array([[0, 1], [1, 0]])]

    def _covariance(self, overlaps: Overlaps) -> jax.Array:
        gram = jnp.where(np.eye(STANDING, dtype=bool), overlaps.gram[0, 0], overlaps.gram[0, 1])
        overlap = jnp.broadcast_to(overlaps.overlap[0], (STANDING, self.teacher_weights.size))
        standing = Overlaps(gram, overlap, overlaps.second_layer)
        return 2.0 * self.scale**2 * standing.covariance(self.teacher_gram)

    def _readout(self, overlaps: Overlaps) -> jax.Array:
        counts = jnp.stack([1.0, 1.0, self.students - FOLLOWED, 0.0])
        own = -overlaps.second_layer[0] / self.students
        return jnp.concatenate([own * counts, self.teacher_weights / self.teacher_weights.size])

    def _products(self, overlaps: Overlaps) -> jax.Array:
        r"""$W$ with $\varepsilon^2=\sum_{ab}W_{ab}\sigma_a\sigma_b$ on average: of the others, one
        meets itself $n$ times and another $n(n-1)$ times."""
        others, readout = self.students - FOLLOWED, self._readout(overlaps)
        own = (overlaps.second_layer[0] / self.students) ** 2
        products = (readout[:, None] * readout).at[2, 2].set(own * others)
        return products.at[np.array([2, 3]), np.array([3, 2])].set(0.5 * own * others * (others - 1.0))


@answers("theory", CITATIONS)
@in_double
def alike_flows(
    students: int,
    norm: float,
    similarity: float,
    overlap: Any,
    P: Any,
    a: float,
    a_star: Any,
    activation: Any,
    rate: Any,
    noise: float,
    times: Any,
    tolerance: float | None = None,
) -> Findings:
    r"""`overlap_equations.overlap_flow.flows` at many rates from a start in which all students are alike.

    Args:
        students: $p$. It is traced: another width compiles nothing.
        norm, similarity, overlap: $Q_{ii}$, $Q_{ij}$ (not used when $p=1$) and $M_{ir}$, a number or one per teacher.
        P, a_star: overlaps (k, k) and second layer of the teachers, `a` that of the students.
        activation: $\mathrm{erf}(cz)$: a name, formula or `Activation`.
        rate: the rates $\gamma$, shape (sets,); 0 is gradient flow.
        noise, times, tolerance: as for `flow`.

    Returns a `Result` like that of `flows`, in which `overlap`, `gram` and `second_layer` are those of two of the
    students (of the same one twice when $p=1$).
    """
    rates = np.asarray(rate, dtype=float)
    if rates.ndim != 1 or rates.size == 0:
        raise InputError(f"rate must have shape (sets,), got {rates.shape}.")
    check_rate_and_noise(rates, noise)  # pyright: ignore[reportArgumentType]
    start, population = _checked(students, norm, similarity, overlap, P, a, a_star, activation, noise)
    tolerance = checked_tolerance(tolerance, checked_activation(activation))
    grid = time_grid(times, counts_steps=False)
    weights = on_device(rates / students)
    motion = Motion(Schedule(on_device(0.0)), on_device(1.0), None, False, True)
    starts = Overlaps(*(on_device(np.broadcast_to(part, (rates.size, *part.shape))) for part in start))
    path = integrate_many(
        population, starts, motion, None, weights, on_device(grid), on_device(tolerance), "dormand-prince"
    )
    return flow_findings(path, grid, population, motion, lead="set")


@answers("theory", CITATIONS)
@in_double
def alike_noise_dominated_flow(
    students: int,
    norm: float,
    similarity: float,
    overlap: Any,
    P: Any,
    a: float,
    a_star: Any,
    activation: Any,
    noise: float,
    times: Any,
    tolerance: float | None = None,
) -> Findings:
    r"""`overlap_equations.overlap_flow.noise_dominated_flow` from a start in which all students are alike.

    In the time $t\gamma/p$; arguments as for `alike_flows`. `gram` and `overlap` are those of two of the students.
    """
    check_rate_and_noise(0.0, noise)
    start, population = _checked(students, norm, similarity, overlap, P, a, a_star, activation, noise)
    tolerance = checked_tolerance(tolerance, checked_activation(activation))
    grid = time_grid(times, counts_steps=False)
    motion = Motion(Schedule(on_device(1.0)), on_device(0.0), None, False, True)
    path = integrate_one(population, start, motion, on_device(grid), on_device(tolerance), "dormand-prince")
    return flow_findings(path, grid, population, motion)


def _checked(
    students: int,
    norm: float,
    similarity: float,
    overlap: Any,
    P: Any,
    a: float,
    a_star: Any,
    activation: Any,
    noise: float,
) -> tuple[Overlaps, AlikeErfPopulation]:
    """Overlaps of two of the students, and the population."""
    if students < 1 or students != int(students):
        raise InputError(f"students must be a positive whole number, got {students!r}.")
    activation = checked_activation(activation)
    if activation.erf_scale is None:
        raise InputError(f"activation must be erf(c*z) for students alike, got {activation.label}.")
    row = np.atleast_1d(np.asarray(overlap, dtype=float))
    between = norm if students == 1 else similarity
    # The sum of the students is the one direction in which more than two of them can leave the positive matrices.
    checked_overlaps(norm + (students - 1) * between, np.sqrt(students) * row[None], P, a, a_star)
    gram = np.array([[norm, between], [between, norm]])
    start, teacher_gram, teacher_weights = checked_overlaps(gram, np.tile(row, (FOLLOWED, 1)), P, a, a_star)
    numbers = (teacher_gram, teacher_weights, noise, activation.erf_scale, float(students))
    population = AlikeErfPopulation(*(on_device(number) for number in numbers))
    return start, population
