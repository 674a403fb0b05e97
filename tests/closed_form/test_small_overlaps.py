"""Runs at finite dimension while overlaps are small: the linear law, without the noise of any draw."""

import numpy as np
import pytest

import limen
from limen.link import hard_subspace
from limen.theory.descent import conditioned_pass
from limen.theory.descent.conditioned_pass import Points, Sampling
from limen.theory.descent.finite_dimension import draw_points

STEPS, PATHS, SETS = 6, 32768, 8
# Overlaps stay below some 1e-2: what is not linear is of the order of their square.
START, LUCK = 1e-3, 1e-5
CLOSE = 0.01


def posed(target: str, width: int, step: float, samples_per_dim: float) -> limen.TwoLayer:
    algorithm = limen.GradientDescent(step)
    parts = (limen.target(target), limen.network(width, "gelu"), algorithm)
    return limen.TwoLayer(*parts, samples_per_dim=samples_per_dim, loss="huber:1")


PROBLEMS = {"one neuron on z²": posed("z**2", 1, 1.2, 8.0), "two on z1 z2": posed("z1*z2", 2, 2.4, 12.0)}


def responses(problem: limen.TwoLayer, seed: int, fluctuation: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Hard overlaps (column, step, neuron x direction) per unit of one number each: of every overlap at the start, and
    of every coordinate of the sample's luck, in the units of $\sqrt d$ times an overlap.

    The luck of a sample is a normal vector over the paths. Its coordinates along the orthonormal vectors that the
    forces span are independent standard normals, and there are no others that move the overlaps.
    """
    m, k, delta = problem.network.width, problem.target.latents, problem.samples_per_dim
    assert delta is not None
    hard = hard_subspace(problem.target).basis
    starts, lucks = m * hard.shape[1], 1 + STEPS * m * k
    count = starts + lucks
    along = np.zeros((count, m, hard.shape[1]))
    along[:starts] = START * np.eye(starts).reshape(starts, m, -1)
    start = np.concatenate([along @ hard.T, np.tile(np.eye(m), (count, 1, 1))], axis=2)
    decisive = np.zeros((count, lucks), np.float32)
    decisive[starts:] = LUCK * fluctuation * np.eye(lucks)
    one = draw_points(problem, m * STEPS, PATHS, [seed])
    points = Points(*(np.repeat(part, count, axis=0) for part in one[:3]), one.hard)
    sampling = Sampling(np.zeros((count, PATHS), np.float32), None, decisive)
    found = conditioned_pass.conditioned_pass(problem, points, start, STEPS, sampling, False)
    overlap = (found.coefficients[..., :k] @ hard).reshape(count, STEPS + 1, -1)
    return overlap[:starts] / START, overlap[starts:] / (LUCK * np.sqrt(delta * PATHS))


def recovered(problem: limen.TwoLayer, sets: int, fluctuation: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Variance and amplification (step, neuron x direction, neuron x direction), means over sets of points."""
    variances, amplifications = [], []
    for seed in range(sets):
        started, lucky = responses(problem, seed, fluctuation)
        both = np.concatenate([started, lucky])
        variances.append(np.einsum("cti,ctj->tij", both, both))
        amplifications.append(started.transpose(1, 2, 0))
    return np.mean(variances, axis=0), np.mean(amplifications, axis=0)


def farthest(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference at any step, as a part of the largest entry of that step."""
    size = np.abs(expected).max(axis=(1, 2))
    return float((np.abs(found - expected).max(axis=(1, 2)) / size).max())


@pytest.fixture(scope="module", params=["one neuron on z²", pytest.param("two on z1 z2", marks=pytest.mark.slow)])
def case(request) -> tuple[limen.TwoLayer, np.ndarray, np.ndarray]:
    """A problem, its `hard_variance` and its `amplification`, as matrices over neurons and directions together."""
    problem = PROBLEMS[request.param]
    linear = limen.predict(problem, STEPS, paths=PATHS, scrambles=SETS).dataset
    size = problem.network.width * hard_subspace(problem.target).dimension
    parts = [linear[name].values.transpose(0, 1, 3, 2, 4) for name in ("hard_variance", "amplification")]
    variance, amplification = (part.reshape(STEPS + 1, size, size) for part in parts)
    return problem, variance, amplification


def test_small_overlaps_obey_the_linear_law(case):
    problem, variance, amplification = case
    found = recovered(problem, SETS)
    assert farthest(found[0], variance) < CLOSE
    assert farthest(found[1], amplification) < CLOSE


def test_a_fluctuation_that_is_two_per_cent_too_large_is_seen(case):
    problem, variance, _ = case
    assert farthest(recovered(problem, SETS, 1.02)[0], variance) > CLOSE


@pytest.fixture
def stronger(monkeypatch) -> None:
    """A drift of the overlaps that is two per cent too large."""
    right = conditioned_pass.move_of

    def planted(algorithm):
        move, numbers = right(algorithm)

        def apply(numbers, size, shrink, step, weights, gradient, memory):
            if gradient.ndim == 3:
                # Coordinates of the target come first, then m of the start and m for every step.
                gradient[..., : gradient.shape[2] - gradient.shape[1] * (STEPS + 1)] *= 1.02
            return move.apply(numbers, size, shrink, step, weights, gradient, memory)

        return move._replace(apply=apply), numbers

    monkeypatch.setattr(conditioned_pass, "move_of", planted)


def test_a_response_that_is_two_per_cent_too_large_is_seen(case, stronger):
    problem, variance, amplification = case
    found = recovered(problem, SETS, 1.0 / 1.02)
    assert farthest(found[0], variance) > CLOSE
    assert farthest(found[1], amplification) > CLOSE
