"""Full SGD in d dimensions against the overlap equations, from the same starts; planted errors must be seen.

The verdict is on overlaps, Gram matrix and second layer. Losses follow from them, in simulation by an average over
fixed points whose error (some 1e-3 of the loss) no number of seeds can lower: they are held to that accuracy.
"""

from dataclasses import replace

import numpy as np
import pytest

import limen
from limen.theory.one_pass.fluctuations import fluctuations

GRAM = ((1.0, 0.1, 0.0, 0.2), (0.1, 1.0, 0.1, 0.0), (0.0, 0.1, 1.0, 0.1), (0.2, 0.0, 0.1, 1.0))
SAAD_SOLLA = limen.TwoLayer(
    limen.target("committee:2", noise=0.05),
    limen.network(4, "saad-solla"),
    limen.OnePassSGD(rate=2.0),
    start=limen.OverlapStart(((0.6, 0.0), (0.1, 0.5), (0.4, -0.2), (0.0, 0.3)), gram=GRAM),
)
RELU = limen.TwoLayer(
    limen.target("relu(z)", noise=0.05),
    limen.network(2, "relu", second_layer=(1.0, 0.8), train_second_layer=True),
    limen.OnePassSGD(rate=0.5),
    start=limen.OverlapStart(((0.5,), (0.1,)), gram=((1.0, 0.2), (0.2, 0.8))),
)
PHASE = limen.TwoLayer(
    limen.target("phase-retrieval", noise=0.1),
    limen.network(2, "square"),
    limen.SphericalSGD(rate=0.1),
    start=limen.OverlapStart(((0.5,), (-0.3,)), gram=((1.0, 0.2), (0.2, 1.0))),
)
OTHER = limen.TwoLayer(
    limen.target("sign(z1 + 0.5*z2 + 0.3*e)"),
    limen.network(2, "tanh", second_layer=2.0, train_second_layer=True),
    limen.OnePassSGD(rate=1.0),
    loss="logistic",
    start=limen.OverlapStart(((0.5, 0.0), (0.1, 0.4)), gram=((1.0, 0.1), (0.1, 1.0))),
)
TIMES = {"saad-solla": np.linspace(0, 8, 9), "relu": np.linspace(0, 4, 9), "phase": np.linspace(0, 1, 9)}
PROBLEMS = {"saad-solla": SAAD_SOLLA, "relu": RELU, "phase": PHASE, "other": OTHER}
SEEDS = 40
OBSERVED = ("overlap", "gram", "second_layer")


def runs(name, sizes, seeds=SEEDS):
    times = TIMES.get(name, np.linspace(0, 4, 9))
    return [limen.simulate(PROBLEMS[name], times, d=d, seeds=seeds) for d in sizes]


def theory(name, problem=None):
    times = TIMES.get(name, np.linspace(0, 4, 9))
    return limen.predict(problem or PROBLEMS[name], times, theory="overlap-ode")


@pytest.mark.parametrize("name", PROBLEMS)
def test_sgd_agrees_and_its_twins_do_not(name):
    simulations = runs(name, (75, 150, 300))
    prediction = theory(name)
    comparison = limen.compare(prediction, simulations, OBSERVED)
    assert comparison.verdict == "agrees", str(comparison)
    losses = simulations[-1].dataset.test_loss
    error = 3 * losses.std("seed") / SEEDS**0.5 + 0.01 * prediction.dataset.test_loss
    assert (np.abs(losses.mean("seed") - prediction.dataset.test_loss) < error).all()
    deviations = [np.abs((run.dataset.gram.mean("seed") - prediction.dataset.gram).values).max() for run in simulations]
    assert deviations[-1] < deviations[0]
    problem = PROBLEMS[name]
    algorithm = problem.algorithm.model_copy(update={"rate": 1.6 * problem.algorithm.rate})
    noisier = theory(name, problem.model_copy(update={"algorithm": algorithm}))
    assert limen.compare(noisier, simulations, OBSERVED).verdict == "disagrees"
    flipped = {key: (value.dims, value.values[::-1]) for key, value in prediction.dataset.data_vars.items()}
    swapped = replace(prediction, dataset=prediction.dataset.assign(flipped))
    assert limen.compare(swapped, simulations, OBSERVED).verdict == "disagrees"


def test_starts_are_paired_with_the_simulation():
    problem = SAAD_SOLLA.model_copy(update={"start": limen.RandomStart()})
    times = np.array([0.0, 1.0, 2.0])
    prediction = limen.predict(problem, times, d=300, seeds=6)
    run = limen.simulate(problem, times, d=300, seeds=6)
    np.testing.assert_allclose(prediction.dataset.gram[:, 0], run.dataset.gram[:, 0], atol=1e-5)
    np.testing.assert_allclose(prediction.dataset.overlap[:, 0], run.dataset.overlap[:, 0], atol=1e-5)
    assert limen.compare(prediction, run, OBSERVED).verdict != "disagrees"


def test_spread_of_the_overlaps():
    """Standard deviations over 120 seeds at d = 300, within 5 standard errors of the covariance equation."""
    (run,) = runs("phase", (300,), 120)
    bands = fluctuations(PHASE, TIMES["phase"], 300).dataset
    for name in ("overlap", "gram"):
        measured = run.dataset[name].std("seed", ddof=1).values[1:]
        predicted = bands[f"{name}_spread"].values[1:]
        moving = predicted > 1e-6
        ratio = measured[moving] / predicted[moving]
        assert np.abs(ratio - 1).max() < 5 / np.sqrt(2 * 120), ratio
        assert not moving.all() if name == "gram" else moving.all()  # the sphere keeps the diagonal


@pytest.mark.slow
@pytest.mark.parametrize("name", ["saad-solla", "relu", "other"])
def test_sgd_agrees_at_d_1000(name):
    simulations = runs(name, (250, 500, 1000), 60)
    comparison = limen.compare(theory(name), simulations, OBSERVED)
    assert comparison.verdict == "agrees", str(comparison)
