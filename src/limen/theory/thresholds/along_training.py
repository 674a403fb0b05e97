"""The Hessian along gradient descent: weights on the paths of the theory, and the law they give."""

from collections.abc import Sequence

import numpy as np

from limen.precision import in_double
from limen.problem import GradientDescent, InputError, TwoLayer
from limen.theory.descent.solve import Scramble, checked_memory, refuses, run_scramble, without_responses
from limen.theory.thresholds.hessian_law import HessianLaw, hessian_law
from limen.theory.thresholds.hessian_weights import network_weights, neuron_weights
from limen.theory.thresholds.matrix_hessian import MatrixHessianLaw, matrix_hessian_law
from limen.theory.thresholds.population_hessian import PopulationHessianLaw, population_hessian


def scrambles_of(problem: TwoLayer, steps: int, paths: int, scrambles: int, seed: int) -> list[Scramble]:
    """Independent sets of paths through `steps` steps; problems outside the theory are refused."""
    reason = refuses(problem) or without_responses(problem)
    if reason is not None:
        raise InputError(f"the theory of gradient descent does not apply: {reason}")
    if scrambles < 1:
        raise InputError(f"scrambles must be at least 1, got {scrambles}.")
    checked_memory(problem, steps, paths, problem.inputs.spectrum)
    return [run_scramble(problem, steps, paths, 1000 * seed + i, problem.inputs.spectrum) for i in range(scrambles)]


def neuron_samples(
    problem: TwoLayer, found: Sequence[Scramble], step: int, neuron: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (N,) of one neuron's block after `step` steps, and hard coordinates (N, r), over all given sets."""
    network = problem.network
    weights = [
        neuron_weights(
            network.activation,
            problem.loss,
            one.found.second_layer[step],
            network.per_neuron("bias"),
            one.found.fields[step],
            one.coordinates.labels,
            neuron,
        )
        for one in found
    ]
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
    """Refuses a step size with which the weights diverge."""
    steps = [one.found.diverged for one in found if one.found.diverged is not None]
    if steps:
        assert isinstance(problem.algorithm, GradientDescent)
        raise InputError(
            f"step must be small enough for descent, got {problem.algorithm.step:g}: diverged at {min(steps)}."
        )


def _hard_coordinates(found: Sequence[Scramble]) -> np.ndarray:
    return np.concatenate([one.coordinates.latent @ one.hard for one in found])
