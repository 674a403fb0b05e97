"""Attention with random matrices in many dimensions: known cases, slopes at the start, order, truncation, refusals."""

from dataclasses import replace

import numpy as np
import pytest

import limen
from limen.theory.attention.free_matrices import refuses, solve

TIMES = np.array([0.0, 0.5, 1.0, 2.0])


def tokens(**matrices):
    return limen.SelfAttention(**{"beta": 1.5, "tokens": 4, "dim": 100, **matrices})


def test_identity_matrices_are_equiangular_tokens():
    problem = tokens(heads=2, dim=10_000_000)
    found = solve(problem, TIMES, step=0.02).dataset.mean_cosine
    np.testing.assert_allclose(found, limen.predict(problem, TIMES).dataset.mean_cosine, atol=1e-7)
    unnormalized = tokens(normalized=False, dim=10_000_000)
    found = solve(unnormalized, TIMES, step=0.01).dataset.mean_cosine
    np.testing.assert_allclose(found, limen.predict(unnormalized, TIMES).dataset.mean_cosine, atol=1e-6)


@pytest.mark.parametrize(
    ("query_key", "value", "slope"), [("ginibre", "wishart", 0.5), ("wigner", None, 0.5), ("ginibre", "goe", 0.0)]
)
def test_the_slope_at_the_start_is_known_at_every_temperature(query_key, value, slope):
    # <V x_j, x_i> is 1 for j = i where E tr V / d = 1, else 0, and attention to another is 1/n on average
    # where all scores of a row have one law (not for goe, whose diagonal is wider)
    found = solve(tokens(query_key=query_key, value=value), np.array([0.0, 1e-3]), draws=4000, words=4)
    rise = float(found.dataset.mean_cosine[1]) / 1e-3
    assert rise == pytest.approx(slope, abs=5 * float(found.dataset.mean_cosine_error[1]) / 1e-3 + 2e-3)


def test_without_temperature_random_values_turn_tokens_as_their_power_series():
    # beta = 0: x_i + a common drive; two tokens and V the shift: cosines by the exact exponential of the mean
    problem = limen.SelfAttention(beta=0.0, tokens=2, dim=100, value="ginibre")
    found = solve(problem, np.linspace(0.0, 3.0, 4), step=0.01)
    fine = solve(problem, np.linspace(0.0, 3.0, 4), step=0.01, words=60)
    np.testing.assert_allclose(found.dataset.mean_cosine, fine.dataset.mean_cosine, atol=1e-9)
    assert found.ok
    assert np.all(np.diff(found.dataset.mean_cosine) > 0)


def test_steps_are_of_order_four_and_few_words_are_told():
    problem = tokens(value="wishart", beta=3.0)
    ends = [float(solve(problem, np.array([0.0, 1.0]), step=h).dataset.mean_cosine[1]) for h in (0.1, 0.05, 0.0125)]
    assert np.log2(abs(ends[0] - ends[2]) / abs(ends[1] - ends[2])) == pytest.approx(4.0, abs=0.5)
    few = solve(problem, np.array([0.0, 4.0]), words=4)
    assert not few.ok
    assert "words must be larger" in few.status


@pytest.mark.parametrize(
    ("matrices", "reason"),
    [
        ({"query_key": "wishart"}, "attention sharpens with d"),
        ({"query_key": "wigner", "value": "query-key"}, "attention sharpens with d"),
        ({"query_key": "ginibre", "heads": 2}, "needs one head"),
        ({"query_key": "ginibre", "noise": 0.1}, "no noise"),
    ],
)
def test_what_has_no_limit_is_refused_with_the_reason(matrices, reason):
    assert reason in refuses(tokens(**matrices))
    assert refuses(tokens(query_key="goe", value="wishart")) is None


@pytest.mark.slow
@pytest.mark.parametrize(("query_key", "value", "wrong"), [("ginibre", "ginibre", "goe"), (None, "wishart", "ginibre")])
def test_particles_in_many_dimensions_follow_the_limit_and_another_ensemble_is_seen(query_key, value, wrong):
    """Twin: matrices of another law. With random queries and keys the draws of the theory add their error: a band below
    10%, and these runs only do not contradict it."""
    times = np.linspace(0.0, 2.0, 5)
    problem = limen.SelfAttention(beta=1.5, tokens=5, dim=240, query_key=query_key, value=value)
    run = limen.simulate(problem, times, seeds=96 if query_key is None else 48)
    theory = limen.predict(problem, times, draws=300)
    comparison = limen.compare(theory, run, variables=("mean_cosine",))
    assert comparison.verdict == "agrees" if query_key is None else comparison.verdict != "disagrees", comparison
    assert comparison["mean_cosine"].band < 0.1, comparison
    planted = solve(problem.model_copy(update={"value": wrong}), times, draws=300).dataset.mean_cosine.values
    dataset = theory.dataset.assign(mean_cosine=theory.dataset.mean_cosine.copy(data=planted))
    other = limen.compare(replace(theory, dataset=dataset), run, variables=("mean_cosine",))
    assert other.verdict == "disagrees", other
