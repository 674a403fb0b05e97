"""SGD at finite d against the overlap equations, from the same starts; planted errors must be seen.

Full SGD in d dimensions, and its exact overlap chain where a rate 10% off can only be told from many seeds. Losses are
judged too, after the start: there every seed has the same loss, and an average over fixed points, exact to some 1e-3 of
the loss, would be held against a band of width zero. With kinks in the target the loss estimate is coarser (1e-2 of
its range) and is left out.
"""

from dataclasses import replace

import numpy as np
import pytest

import limen
from limen import one_pass
from limen.theory.one_pass.fluctuations import fluctuations

GRAM = ((1.0, 0.1, 0.0, 0.2), (0.1, 1.0, 0.1, 0.0), (0.0, 0.1, 1.0, 0.1), (0.2, 0.0, 0.1, 1.0))
SAAD_SOLLA = limen.TwoLayer(
    limen.target("committee:2", noise=0.5),
    limen.network(4, "saad-solla"),
    limen.OnePassSGD(rate=4.0),
    start=limen.OverlapStart(((0.6, 0.0), (0.1, 0.5), (0.4, -0.2), (0.0, 0.3)), gram=GRAM),
)
RELU = limen.TwoLayer(
    limen.target("relu(z)", noise=0.5),
    limen.network(2, "relu", second_layer=(1.0, 0.8), train_second_layer=True),
    limen.OnePassSGD(rate=0.8),
    start=limen.OverlapStart(((0.5,), (0.1,)), gram=((1.0, 0.2), (0.2, 0.8))),
)
PHASE = limen.TwoLayer(
    limen.target("phase-retrieval", noise=0.5),
    limen.network(2, "square"),
    limen.SphericalSGD(rate=0.1),
    start=limen.OverlapStart(((0.5,), (-0.3,)), gram=((1.0, 0.2), (0.2, 1.0))),
)
OTHER = limen.TwoLayer(
    limen.target("sign(z1 + 0.5*z2 + 0.3*e)"),
    limen.network(2, "tanh", second_layer=2.0, train_second_layer=True),
    limen.OnePassSGD(rate=3.0),
    loss="logistic",
    start=limen.OverlapStart(((0.5, 0.0), (0.1, 0.4)), gram=((1.0, 0.1), (0.1, 1.0))),
)
TIMES = {
    "saad-solla": np.linspace(1, 8, 8),
    "relu": np.linspace(0.5, 4, 8),
    "phase": np.linspace(0.125, 1, 8),
    "other": np.linspace(0.5, 4, 8),
}
PROBLEMS = {"saad-solla": SAAD_SOLLA, "relu": RELU, "phase": PHASE, "other": OTHER}
ORDER_PARAMETERS = ("overlap", "gram", "second_layer")


def judged(name):
    return ORDER_PARAMETERS if name == "other" else (*ORDER_PARAMETERS, "test_loss", "excess_risk")


def runs(name, sizes, seeds, simulator):
    return [limen.simulate(PROBLEMS[name], TIMES[name], d=d, seeds=seeds, simulator=simulator) for d in sizes]


def theory(name, rate_factor=1.0):
    problem = PROBLEMS[name]
    algorithm = problem.algorithm.model_copy(update={"rate": rate_factor * problem.algorithm.rate})
    return limen.predict(problem.model_copy(update={"algorithm": algorithm}), TIMES[name], theory="overlap-ode")


def backwards(prediction):
    flipped = {key: (value.dims, value.values[::-1]) for key, value in prediction.dataset.data_vars.items()}
    return replace(prediction, dataset=prediction.dataset.assign(flipped))


@pytest.mark.parametrize(
    "name", ["phase", *(pytest.param(n, marks=pytest.mark.slow) for n in PROBLEMS if n != "phase")]
)
def test_the_chain_agrees_and_a_rate_a_tenth_off_does_not(name):
    simulations = runs(name, (150, 600), 400, "overlap-chain")
    comparison = limen.compare(theory(name), simulations, judged(name))
    assert comparison.verdict == "agrees", str(comparison)
    twin = limen.compare(theory(name, 1.1), simulations, judged(name), differing=("rate",))
    assert twin.verdict == "disagrees", str(twin)
    assert limen.compare(backwards(theory(name)), simulations, judged(name)).verdict == "disagrees"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["saad-solla", "relu"])
def test_full_sgd_agrees_and_a_rate_half_off_does_not(name):
    simulations = runs(name, (75, 300), 80, "one-pass-sgd")
    comparison = limen.compare(theory(name), simulations, ORDER_PARAMETERS)
    assert comparison.verdict == "agrees", str(comparison)
    twin = limen.compare(theory(name, 1.5), simulations, ORDER_PARAMETERS, differing=("rate",))
    assert twin.verdict == "disagrees"


@pytest.mark.slow
def test_the_deviation_shrinks_like_one_over_d():
    """Mean overlap of 8,000 runs of phase retrieval on the sphere at three sizes: halved, and halved again."""
    given = ([[1.0]], [[0.5]], [[1.0]], [1.0], [1.0], "square", 0.08, 0.5)
    limit = one_pass.flow(*given, times=[0.25], spherical=True).dataset.overlap.values[-1, 0, 0]
    deviations, errors = [], []
    for d in (16, 32, 64):
        steps = round(0.25 * d / 0.08)
        found = one_pass.chain(*given, d=d, steps=[steps], seeds=8_000, spherical=True).dataset.overlap[:, -1].values
        deviations.append(found.mean() - limit)
        errors.append(found.std() / 8_000**0.5)
    scaled, bands = np.array(deviations) * [16, 32, 64], 4 * np.array(errors) * [16, 32, 64]
    assert (np.abs(scaled) > bands).all(), (scaled, bands)
    assert np.abs(np.diff(scaled)).max() < 0.25 * np.abs(scaled).max() + bands[1:].max(), (scaled, bands)


@pytest.mark.slow
def test_starts_are_paired_with_the_simulation():
    """The starts are equal to rounding; twin: a rate a quarter too large. Of 64 seeds the band is 3.9%."""
    problem = SAAD_SOLLA.model_copy(update={"start": limen.RandomStart()})
    times = np.array([0.0, 1.0, 2.0])
    prediction = limen.predict(problem, times, d=300, seeds=160)
    run = limen.simulate(problem, times, d=300, seeds=160)
    np.testing.assert_allclose(prediction.dataset.gram[:, 0], run.dataset.gram[:, 0], atol=1e-5)
    np.testing.assert_allclose(prediction.dataset.overlap[:, 0], run.dataset.overlap[:, 0], atol=1e-5)
    assert limen.compare(prediction, run, ORDER_PARAMETERS).verdict == "agrees"
    faster = problem.model_copy(update={"algorithm": limen.OnePassSGD(rate=5.0)})
    twin = replace(limen.predict(faster, times, d=300, seeds=160), spec=run.spec)
    assert limen.compare(twin, run, ORDER_PARAMETERS).verdict == "disagrees"


@pytest.mark.slow
def test_spread_of_the_overlaps():
    """Standard deviations over 120 seeds at d = 300, within 5 standard errors of the covariance equation."""
    (run,) = runs("phase", (300,), 120, "one-pass-sgd")
    bands = fluctuations(PHASE, TIMES["phase"], 300).dataset
    for name in ("overlap", "gram"):
        measured = run.dataset[name].std("seed", ddof=1).values
        predicted = bands[f"{name}_spread"].values
        moving = predicted > 1e-6
        ratio = measured[moving] / predicted[moving]
        assert np.abs(ratio - 1).max() < 5 / np.sqrt(2 * 120), ratio
        assert not moving.all() if name == "gram" else moving.all()  # the sphere keeps the diagonal


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_full_sgd_agrees_at_d_1000_and_a_rate_a_tenth_off_does_not(name):
    simulations = runs(name, (250, 1000), 80, "one-pass-sgd")
    # Within a tenth of the range, band included: what so many seeds can show.
    comparison = limen.compare(theory(name), simulations, judged(name), tolerance=0.1)
    assert comparison.verdict == "agrees", str(comparison)
    twin = limen.compare(theory(name, 1.1), simulations, judged(name), resolution=0.001, differing=("rate",))
    assert twin.verdict == "disagrees", str(twin)
