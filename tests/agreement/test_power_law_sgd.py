"""SGD on power-law features against its exact mean and against the deterministic equivalent; planted errors."""

import numpy as np
import pytest

import limen

STEPS = [0, 5, 20, 80, 300]


def changed(problem, **changes):
    return problem.model_copy(update=changes)


@pytest.mark.parametrize("rate", [0.15, "0.3/(1 + t)**0.4"])
def test_sgd_has_the_mean_of_the_recursion(rate):
    problem = limen.PowerLawFeatures(0.7, 0.9, 60, 400, noise=0.05, rate=rate, batch=2)
    run = limen.simulate(problem, STEPS, seeds=60)
    exact = limen.predict(problem, STEPS, seeds=60)
    ratio = run.dataset.excess_risk / exact.dataset.excess_risk
    error = ratio.std("seed", ddof=1) / np.sqrt(60)
    assert (abs(ratio.mean("seed") - 1.0) <= 4.0 * error + 1e-12).all()
    # The mean over features, without a draw: to a few per cent at d = 60.
    limit = limen.predict(problem, STEPS).dataset.excess_risk
    assert (abs(exact.dataset.excess_risk.mean("seed") / limit - 1.0) < 0.06).all()
    for planted in ({"noise": 0.0}, {"batch": 1}, {"rate": 0.1}, {"alpha": 0.6}):
        wrong = limen.predict(changed(problem, **planted), STEPS, seeds=60).dataset.excess_risk
        off = run.dataset.excess_risk / wrong
        assert (abs(off.mean("seed") - 1.0) > 6.0 * off.std("seed") / np.sqrt(60))[1:].any(), planted


@pytest.mark.slow
@pytest.mark.parametrize("features", [50, 200, 800])
def test_sizes(features):
    problem = limen.PowerLawFeatures(0.7, 0.9, features, 2000, rate=0.15)
    steps = [10, 100, 1000]
    run = limen.simulate(problem, steps, seeds=12).dataset.excess_risk
    exact = limen.predict(problem, steps, seeds=12).dataset.excess_risk
    ratio = run / exact
    assert (abs(ratio.mean("seed") - 1.0) <= 4.0 * ratio.std("seed", ddof=1) / np.sqrt(12)).all()
    limit = limen.predict(problem, steps).dataset.excess_risk
    assert (abs(exact.mean("seed") / limit - 1.0) < 0.02 + 2.0 / np.sqrt(features)).all()
