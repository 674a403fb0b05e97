"""ReLU neurons against their training at d = 1000: losses, overlaps and two-time correlations, with planted errors."""

from dataclasses import replace

import pytest

import limen

PROBLEMS = {
    "even part": limen.TwoLayer(
        limen.target("z + z**2"),
        limen.network(1, "relu", second_layer=2.0),
        limen.GradientDescent(0.4),
        samples_per_dim=4.0,
    ),
    "odd": limen.TwoLayer(
        limen.target("tanh(2*z)", noise=0.3),
        limen.network(1, "relu", second_layer=2.0),
        limen.GradientDescent(0.4),
        samples_per_dim=3.0,
    ),
}
OBSERVED = ("train_loss", "test_loss", "overlap", "correlation")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_relu_agrees_with_training_and_its_twins_do_not(name):
    problem, times = PROBLEMS[name], [0, 1, 3, 6]
    runs = limen.simulate(problem, times, d=1000, seeds=64)
    prediction = limen.predict(problem, times, scrambles=9)
    assert prediction.ok, prediction.status
    comparison = limen.compare(prediction, runs, OBSERVED)
    assert comparison.verdict == "agrees", str(comparison)
    twins = {
        "step": {"algorithm": limen.GradientDescent(0.44)},
        "infinite data": {"samples_per_dim": 1e6},
        "no kink": {"network": limen.network(1, "softplus(3*z)/3", second_layer=2.0)},
    }
    for what, wrong in twins.items():
        twin = limen.predict(problem.model_copy(update=wrong), times)
        planted = limen.compare(replace(twin, spec=prediction.spec), runs, OBSERVED)
        assert planted.verdict == "disagrees", f"{what}: {planted}"
