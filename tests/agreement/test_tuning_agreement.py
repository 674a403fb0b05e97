"""The best rate that the theory names is the best among trainings."""

import numpy as np
import pytest

import limen

SAMPLES = 8.0
RATES = (0.1, 0.2, 0.4, 0.8, 1.6)


def neuron(rate):
    return limen.TwoLayer(
        limen.target("tanh(1.5*z)", noise=0.3),
        limen.network(1, "tanh"),
        limen.OnePassSGD(rate),
        start=limen.OverlapStart(0.1),
    )


@pytest.mark.slow
def test_the_best_rate_of_one_pass_sgd_against_a_grid_of_trainings():
    best = limen.tune(neuron(0.4), {"algorithm.rate": (0.05, 3.0)}, "excess_risk", at={"samples_per_dim": SAMPLES})
    rate = best.parameters["algorithm.rate"]
    assert best.ok and RATES[0] < rate < RATES[-1]

    def trained(at):
        run = limen.simulate(neuron(at), [SAMPLES * at], d=200, seeds=64)
        return run.dataset.excess_risk.values[:, -1]

    def predicted(at):
        return float(limen.predict(neuron(at), [SAMPLES * at]).dataset.excess_risk[-1])

    runs = {at: trained(at) for at in (*RATES, rate)}
    for at, values in runs.items():
        error = values.std(ddof=1) / np.sqrt(len(values))
        # Four standard errors, and what a dimension of 200 leaves of the limit.
        assert abs(values.mean() - predicted(at)) < 4.0 * error + 0.05 * predicted(at), at
    # No rate of the grid trains better than the one the theory names, within the error of the difference.
    for at in RATES:
        difference = runs[rate] - runs[at]
        assert difference.mean() < 3.0 * difference.std(ddof=1) / np.sqrt(len(difference)), at
    # A planted mistake is seen: twice the rate trains worse.
    worse = trained(2.0 * rate) - runs[rate]
    assert worse.mean() > 3.0 * worse.std(ddof=1) / np.sqrt(len(worse))
