"""Many trainings on one sample, each with a target of its own: the same as trainings alone."""

import jax.numpy as jnp
import numpy as np
import pytest

import limen
from limen.link import hard_subspace
from limen.precision import in_double
from limen.problem import InputError
from limen.simulation.descent.fixed_sample import Sample
from limen.simulation.descent.fixed_sample_training import Setting
from limen.simulation.descent.hard_cosines import first_steps_above
from limen.simulation.descent.many_targets import many_targets, prepare_many
from limen.simulation.descent.training_steps import train
from limen.simulation.two_layer_gradient import Weights

TIMES = np.arange(0.0, 25.0)


def posed(target: str, width: int, step: float, start: limen.OverlapStart | None = None) -> limen.TwoLayer:
    more = {} if start is None else {"start": start}
    parts = (limen.target(target), limen.network(width, "gelu"), limen.GradientDescent(step))
    return limen.TwoLayer(*parts, samples_per_dim=10.0, loss="huber:1", **more)


@in_double
def trained_alone(problem: limen.TwoLayer, d: int, seed: int, targets: int, which: int) -> np.ndarray:
    """Weights (time, m, d) of one of the trainings by the simulator of single ones."""
    _, numbers, drawn = prepare_many(problem, d, seed, targets)
    frame = jnp.eye(d, dtype=jnp.float32)[drawn.axes[which]]
    weights = Weights(drawn.weights[which], numbers.second, None)
    setting = Setting(Sample(drawn.inputs, drawn.labels[which]), weights, numbers.bias, frame)
    return np.asarray(train(problem, setting, TIMES, seed, lambda weights, risk, setting: weights.first), dtype=float)


@pytest.mark.parametrize("start", [None, limen.OverlapStart(0.3)])
@pytest.mark.parametrize(("targets", "which"), [(1, 0), (5, 3)])
def test_each_of_many_is_a_training_alone(start, targets, which):
    """To single precision, on the same draw: overlaps with its own target, and lengths."""
    problem, d = posed("z1*z2", 2, 2.4, start), 60
    found = many_targets(problem, TIMES, d, 4, targets)
    alone = trained_alone(problem, d, 4, targets, which)
    assert found.overlap[which] == pytest.approx(alone[:, :, 2 * which : 2 * which + 2], abs=2e-5)
    assert found.square_length[which] == pytest.approx((alone**2).sum(axis=2), rel=2e-5)


def test_a_given_start_has_its_overlaps_and_its_length():
    found = many_targets(posed("z**2", 3, 1.0, limen.OverlapStart(((0.1,), (0.0,), (-0.4,)))), [0.0], 40, 0, 7)
    assert found.overlap[:, 0, :, 0] == pytest.approx(np.tile([0.1, 0.0, -0.4], (7, 1)), abs=1e-6)
    assert found.square_length == pytest.approx(np.ones((7, 1, 3)), rel=1e-5)


def test_a_given_gram_matrix_is_refused():
    start = limen.OverlapStart(0.0, gram=((1.0, 0.0), (0.0, 1.0)))
    with pytest.raises(InputError, match="Gram"):
        many_targets(posed("z1*z2", 2, 1.0, start), TIMES, 40, 0, 3)


def test_first_steps_are_those_of_the_cosines():
    """Trainings that have passed are left out on the way, and nothing else changes."""
    problem, d, targets = posed("z1*z2", 2, 2.4), 60, 29
    found = many_targets(problem, TIMES, d, 2, targets)
    hard = hard_subspace(problem.target).basis
    cosine = (np.linalg.norm(found.overlap @ hard, axis=-1) / np.sqrt(found.square_length)).max(axis=-1)
    above = cosine > 0.5
    expected = np.where(above.any(axis=1), above.argmax(axis=1), np.inf)
    passed = first_steps_above(problem, 0.5, int(TIMES[-1]), d, 2, targets)
    assert np.isfinite(expected).any() and np.unique(expected).size > 4
    np.testing.assert_array_equal(passed, expected)


def test_trainings_on_one_sample_spread_as_those_on_many_do():
    """Escaped parts of 16 trainings a sample vary between samples as 16 independent trainings would: the ratio of
    variances is that of a chi-square over its degrees of freedom."""
    problem, d, together, samples = posed("z**2", 1, 1.2), 100, 16, 60
    passed = np.array([first_steps_above(problem, 0.5, 10, d, seed, together) for seed in range(samples)])
    escaped = np.isfinite(passed).mean(axis=1)
    expected = escaped.mean() * (1.0 - escaped.mean()) / together
    assert 0.2 < escaped.mean() < 0.8
    assert escaped.var(ddof=1) / expected == pytest.approx(1.0, abs=3.0 * (2.0 / (samples - 1)) ** 0.5)
