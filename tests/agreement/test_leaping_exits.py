"""Leaps of the overlap chain against the chain of single steps, and against closed forms of a step's mean."""

import jax.numpy as jnp
import numpy as np
import pytest

from limen.precision import in_double
from limen.problem.spec import InputError
from limen.simulation.one_pass import leaping_exits
from limen.simulation.one_pass.exit_times import simulated_exit_times
from limen.simulation.one_pass.leaping_exits import leaping_exit_times
from limen.theory.one_pass.exit_time import exit_times


@in_double
def test_the_mean_of_a_step_is_that_of_drawn_steps():
    overlap, gram, noise, strength = np.array([0.3, -0.2]), np.array([[1.0, 0.4], [0.4, 1.0]]), 0.3, 0.2
    factor = np.linalg.cholesky(np.block([[gram, overlap[:, None]], [overlap[None], np.ones((1, 1))]]))
    rng = np.random.default_rng(5)
    fields = rng.standard_normal((400_000, 3)) @ factor.T
    residual = fields[:, 2] ** 2 - (fields[:, :2] ** 2).mean(axis=1) + noise**0.5 * rng.standard_normal(len(fields))
    moves = 2 * residual[:, None] * fields[:, :2] * fields[:, 2:]
    gram_moves = (4 * residual + 4 * strength * residual**2)[:, None, None] * fields[:, :2, None] * fields[:, None, :2]
    means = leaping_exits._mean_move(jnp.asarray(overlap)[None], jnp.asarray(gram)[None], strength, noise)  # pyright: ignore[reportArgumentType]
    for drawn, mean in zip((moves, gram_moves), means, strict=True):
        error = drawn.std(axis=0) / len(fields) ** 0.5
        assert np.all(np.abs(drawn.mean(axis=0) - np.asarray(mean)[0]) < 4 * error)


def paired_shift(leaps: np.ndarray, steps: np.ndarray) -> float:
    """Mean of leaping minus single steps in standard errors; the two have their starts in common."""
    shift = leaps - steps
    return float(shift.mean() / (shift.std() / len(shift) ** 0.5))


@pytest.mark.slow
@pytest.mark.parametrize(("width", "rate", "noise"), [(1, 0.1, 0.0), (3, 0.74, 0.5)])
def test_leaps_and_single_steps_leave_at_the_same_times(width: int, rate: float, noise: float):
    d, runs = 4000, 600
    leap = 40 * rate / (d * width)
    steps = simulated_exit_times(width, d, rate, noise, 0.02, runs)[0]
    leaps = leaping_exit_times(width, d, rate, noise, 0.02, runs, leap=leap)
    assert abs(paired_shift(leaps, steps)) < 3.5
    assert abs(np.log(leaps.std() / steps.std())) < 0.2
    wrong = leaping_exit_times(width, d, 1.15 * rate, noise, 0.02, runs, leap=leap)
    assert abs(paired_shift(wrong, steps)) > 4


@pytest.mark.slow
def test_at_a_million_dimensions_leaps_follow_the_law_of_exits_and_their_length_does_not_matter():
    width, rate, d, runs = 2, 0.3, 10**6, 1500
    law = exit_times(width, d, rate, 0.0, 0.02, "noise", 2**15)
    for leap in (4e-4, 1e-3):
        found = leaping_exit_times(width, d, rate, 0.0, 0.02, runs, leap=leap)
        assert abs(found.mean() - law.mean()) < 3.5 * found.std() / runs**0.5 + 2e-3
        assert np.abs(np.quantile(found, [0.25, 0.5, 0.75]) - np.quantile(law, [0.25, 0.5, 0.75])).max() < 0.06
    quenched = exit_times(width, d, rate, 0.0, 0.02, "quenched", 2**15)
    assert abs(found.mean() - quenched.mean()) > 5 * found.std() / runs**0.5


def test_too_few_steps_for_a_leap_are_refused():
    with pytest.raises(InputError, match="d must be at least"):
        leaping_exit_times(1, 100, 0.1, 0.0)


def test_exits_are_dated_in_the_middle_of_their_leaps():
    leap = 2e-3
    found = leaping_exit_times(1, 10_000, 0.1, 0.0, 0.05, seeds=8, leap=leap) / leap
    np.testing.assert_allclose(found - np.floor(found), 0.5, atol=1e-6)
