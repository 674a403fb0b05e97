"""The Hessian along gradient descent: weights on the paths of the theory, and the law they give."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from limen.precision import in_double
from limen.problem import GradientDescent, InputError, TwoLayer
from limen.problem.divergence import refusal, remedy
from limen.theory.descent.causal_pass import start_coefficients
from limen.theory.descent.conditioned_pass import Sampling, Snapshot, conditioned_pass
from limen.theory.descent.finite_dimension import checked_memory as checked_run_memory
from limen.theory.descent.finite_dimension import draw_points
from limen.theory.descent.solve import (
    Scramble,
    checked_memory,
    pinned_directions,
    refuses,
    run_scramble,
    without_responses,
)
from limen.theory.thresholds.hessian_law import HessianLaw, hessian_law
from limen.theory.thresholds.hessian_weights import network_weights, neuron_weights
from limen.theory.thresholds.matrix_hessian import MatrixHessianLaw, matrix_hessian_law
from limen.theory.thresholds.population_hessian import PopulationHessianLaw, population_hessian


class PathFields(NamedTuple):
    """What Hessians of one set of paths are made of: fields (N, m) and second layer (m,) by step, those left out at
    which weights have diverged; labels (N,); hard coordinates (N, r)."""

    fields: Mapping[int, np.ndarray]
    second_layer: Mapping[int, np.ndarray]
    labels: np.ndarray
    hard: np.ndarray


def path_fields(one: Scramble, steps: Sequence[int] | np.ndarray) -> PathFields:
    """Those of a set with responses."""
    end = one.found.diverged
    some = [int(step) for step in steps if end is None or step < end]
    fields, second = one.found.fields, one.found.second_layer
    hard = one.coordinates.latent @ one.hard
    return PathFields({t: fields[t] for t in some}, {t: second[t] for t in some}, one.coordinates.labels, hard)


def fields_of(problem: TwoLayer, steps: np.ndarray, paths: int, scrambles: int, seed: int) -> list[PathFields]:
    """Independent sets of paths at `steps`, by the pass without responses."""
    _check(problem, scrambles)
    if (reason := problem.inputs.unlike_isotropic()) is not None:
        raise InputError(f"the pass without responses does not apply: {reason}")
    checked_run_memory(problem, int(steps[-1]), paths)
    return [_fields(problem, steps, paths, 1000 * seed + i) for i in range(scrambles)]


def _fields(problem: TwoLayer, steps: np.ndarray, paths: int, seed: int) -> PathFields:
    last, k, m = int(steps[-1]), problem.target.latents, problem.network.width
    points = draw_points(problem, m * last, paths, [seed])
    hard = points.normals[0, :k].T @ pinned_directions(problem)
    wanted = {int(step) for step in steps}
    fields: dict[int, np.ndarray] = {}
    second: dict[int, np.ndarray] = {}

    def watch(step: int, now: Snapshot) -> None:
        if step in wanted:
            fields[step], second[step] = now.field[0].T.astype(float), now.second_layer[0]

    start = start_coefficients(problem, k + m)[None]
    end = conditioned_pass(problem, points, start, last, Sampling(), True, watch, fresh=()).row(0).diverged
    kept = {step for step in fields if end is None or step < end}
    fields, second = ({step: part[step] for step in kept} for part in (fields, second))
    return PathFields(fields, second, points.labels[0].astype(float), hard.astype(float))


def path_weights(problem: TwoLayer, one: PathFields, step: int, neuron: int) -> np.ndarray:
    """Weights (N,) of one neuron's block after `step` steps."""
    network = problem.network
    outer = (one.second_layer[step], network.per_neuron("bias"))
    return neuron_weights(network.activation, problem.loss, *outer, one.fields[step], one.labels, neuron)


def _check(problem: TwoLayer, scrambles: int) -> None:
    reason = refuses(problem) or without_responses(problem)
    if reason is not None:
        raise InputError(f"the theory of gradient descent does not apply: {reason}")
    if scrambles < 1:
        raise InputError(f"scrambles must be at least 1, got {scrambles}.")


def scrambles_of(problem: TwoLayer, steps: int, paths: int, scrambles: int, seed: int) -> list[Scramble]:
    """Independent sets of paths through `steps` steps; problems outside the theory are refused."""
    _check(problem, scrambles)
    checked_memory(problem, steps, paths, problem.inputs.spectrum)
    return [run_scramble(problem, steps, paths, 1000 * seed + i, problem.inputs.spectrum) for i in range(scrambles)]


def neuron_samples(
    problem: TwoLayer, found: Sequence[Scramble], step: int, neuron: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (N,) of one neuron's block after `step` steps, and hard coordinates (N, r), over all given sets."""
    weights = [path_weights(problem, path_fields(one, [step]), step, neuron) for one in found]
    return np.concatenate(weights), _hard_coordinates(found)


@in_double
def hessian(
    problem: TwoLayer,
    time: int,
    neuron: int | None = 0,
    paths: int = 4096,
    scrambles: int = 4,
    seed: int = 0,
    trim: float = 0.0,
) -> HessianLaw | MatrixHessianLaw | PopulationHessianLaw:
    r"""Law of the Hessian $m\nabla^2\hat R$ after `time` steps of gradient descent, as $n,d\to\infty$.

    At width one the whole Hessian; at larger width the diagonal block of `neuron`, and the whole matrix with
    `neuron=None`. Outliers are those that lean on hard directions of the target; weight decay $\lambda$ adds
    $m\lambda$ to all eigenvalues, which is left out here and stands in `level` $=-m\lambda$ instead. `trim`: see
    `hessian_law`. Inputs of several variances have a `PopulationHessianLaw`, block by block. Gradient descent is
    unstable along an eigenvector with eigenvalue above $2m/\eta$.
    """
    if int(time) != time or time < 0:
        raise InputError(f"time must be a whole number of steps, not negative, got {time!r}.")
    found = scrambles_of(problem, int(time), paths, scrambles, seed)
    require_finite(problem, found)
    delta, level = problem.samples_per_dim, weight_decay_level(problem)
    assert delta is not None
    if neuron is not None:
        weights, coordinates = neuron_samples(problem, found, int(time), neuron)
        if not problem.inputs.isotropic:
            return population_hessian(weights, coordinates, delta, problem.inputs, trim, level)
        return hessian_law(weights, coordinates, delta, trim, level)
    if not problem.inputs.isotropic:
        raise InputError(
            "neuron must be a number on inputs of several variances: the law of matrix weights with a population "
            "spectrum is a fixed point of matrices that has no form on the real axis."
        )
    network = problem.network
    matrices = [
        network_weights(
            network.activation,
            problem.loss,
            one.found.second_layer[int(time)],
            network.per_neuron("bias"),
            one.found.fields[int(time)],
            one.coordinates.labels,
        )
        for one in found
    ]
    return matrix_hessian_law(np.concatenate(matrices), _hard_coordinates(found), delta, trim, level)


def weight_decay_level(problem: TwoLayer) -> float:
    r"""$-m\lambda$: below it an eigenvalue of the Hessian of the loss alone is unstable."""
    assert isinstance(problem.algorithm, GradientDescent)
    return -problem.network.width * problem.algorithm.weight_decay


def require_finite(problem: TwoLayer, found: Sequence[Scramble]) -> None:
    """Refuses weights that diverge."""
    steps = [one.found.diverged for one in found if one.found.diverged is not None]
    if steps:
        raise InputError(refusal(problem, f"the weights diverge at step {min(steps)}: {remedy(problem)}."))


def _hard_coordinates(found: Sequence[Scramble]) -> np.ndarray:
    return np.concatenate([one.coordinates.latent @ one.hard for one in found])
