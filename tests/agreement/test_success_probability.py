"""Will it learn at this d? The fraction of runs that find the hard direction against the predicted probability."""

import numpy as np
import pytest

import limen

STEPS = 120


def problem(samples_per_dim: float) -> limen.TwoLayer:
    return limen.TwoLayer(
        limen.target("z**2"), limen.network(1, "gelu"), limen.GradientDescent(0.5), samples_per_dim=samples_per_dim
    )


def succeeded(samples_per_dim: float, d: int, seeds: int) -> float:
    """Fraction of runs whose cosine with the target passes one half within the steps."""
    times = np.arange(0, STEPS + 1, 5)
    run = limen.simulate(problem(samples_per_dim), times, d=d, seeds=seeds).dataset
    cosine = np.abs(run.overlap.values[..., 0, 0]) / np.sqrt(run.gram.values[..., 0, 0])
    return float((cosine > 0.5).any(axis=1).mean())


def predicted_and_found(samples_per_dim: float) -> tuple[dict[int, float], dict[int, float]]:
    """Probability and fraction at d = 200 (60 runs) and d = 800 (20 runs), which must not contradict each other.

    Allowed are 3 binomial standard errors of both, and 0.03 for what is of order 1/d.
    """
    seeds = {200: 60, 800: 20}
    predicted = {d: limen.thresholds.success_probability(problem(samples_per_dim), d, STEPS) for d in seeds}
    found = {d: succeeded(samples_per_dim, d, count) for d, count in seeds.items()}
    for d, count in seeds.items():
        error = 3.0 * np.sqrt(max(predicted[d] * (1.0 - predicted[d]), 0.02) * (1 / count + 1 / 200)) + 0.03
        assert abs(found[d] - predicted[d]) < error, (predicted, found)
    return predicted, found


@pytest.mark.slow
def test_near_the_onset_success_depends_on_the_dimension_as_predicted():
    """The prediction for the other dimension is worse."""
    predicted, found = predicted_and_found(8.0)
    right = sum(abs(found[d] - predicted[d]) for d in found)
    exchanged = sum(abs(found[d] - predicted[1000 - d]) for d in found)
    assert exchanged > right + 0.15, (predicted, found)


@pytest.mark.slow
def test_well_above_it_most_runs_succeed_at_both():
    """Here 80 runs cannot tell the two dimensions apart."""
    predicted, _ = predicted_and_found(12.0)
    assert predicted[200] > predicted[800] > 0.4
