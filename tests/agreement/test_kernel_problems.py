"""`Ridge` and `RandomFeatures` as problems: predict against simulate, ends of the flow, planted errors, mistakes."""

import numpy as np
import pytest

import limen
from limen import InputError

INPUTS = limen.Inputs(variances=(1.0, 4.0, 10.0), fractions=(0.5, 0.3, 0.2))
POPULATION = {"values": INPUTS.variances, "weights": INPUTS.fractions, "signal": (0.2, 0.5, 0.3)}
RIDGE = limen.Ridge(0.6, noise=0.5, ridge=0.2, signal=(0.2, 0.5, 0.3), inputs=INPUTS)
FEATURES = limen.RandomFeatures(3.0, 2.0, "erf", ridge=0.02, nonlinear=0.1, noise=0.2)
RIDGE_TIMES = np.linspace(0.0, 1.5, 16)
FEATURES_TIMES = np.geomspace(0.3, 300.0, 13)


def changed(problem, **changes):
    return type(problem)(**{**{name: getattr(problem, name) for name in type(problem).model_fields}, **changes})


@pytest.fixture(scope="module")
def ridge_run():
    return limen.simulate(RIDGE, RIDGE_TIMES, d=150, seeds=400)


@pytest.fixture(scope="module")
def features_run():
    return limen.simulate(FEATURES, FEATURES_TIMES, d=60, seeds=120, test_samples=1000)


def test_ridge_agrees(ridge_run):
    assert limen.compare(limen.predict(RIDGE, RIDGE_TIMES), ridge_run).verdict == "agrees"


@pytest.mark.parametrize("planted", [{"noise": 0.0}, {"ridge": 0.0}, {"ratio": 0.66}])
def test_planted_errors_of_ridge_are_caught(ridge_run, planted):
    wrong = limen.predict(changed(RIDGE, **planted), RIDGE_TIMES)
    # Two of these errors move the risk by less than the resolution of 1%.
    twin = limen.compare(wrong, ridge_run, resolution=0.001, differing=tuple(planted))
    assert twin.verdict == "disagrees"


def test_random_features_agree(features_run):
    comparison = limen.compare(limen.predict(FEATURES, FEATURES_TIMES), features_run)
    # 120 seeds: what is below a tenth of the range (1% and twice the band) is not seen.
    assert comparison.judged(tolerance=0.1).verdict == "agrees", str(comparison)


@pytest.mark.parametrize("planted", [{"noise": 0.0}, {"ridge": 0.0}, {"nonlinear": 0.0}, {"samples_per_dim": 2.4}])
def test_planted_errors_of_random_features_are_caught(features_run, planted):
    wrong = limen.predict(changed(FEATURES, **planted), FEATURES_TIMES)
    assert limen.compare(wrong, features_run, differing=tuple(planted)).verdict == "disagrees"


def test_the_flow_ends_at_the_closed_forms():
    late = limen.predict(RIDGE, [400.0]).dataset
    closed = limen.kernel.ridge(0.6, 0.2, 0.5, **POPULATION)
    np.testing.assert_allclose(late.excess_mse.values, closed.test, rtol=1e-9)
    np.testing.assert_allclose(late.train_mse.values, closed.train, rtol=1e-9)
    np.testing.assert_allclose((late.bias_mse + late.variance_mse).values, late.excess_mse.values)
    late = limen.predict(FEATURES, [4000.0]).dataset
    closed = limen.kernel.random_features(3.0, 2.0, 0.02, "erf", 1.0, 0.1, 0.2)
    np.testing.assert_allclose(late.excess_mse.values, closed.test, rtol=1e-9)
    np.testing.assert_allclose(late.train_mse.values, closed.train, rtol=1e-9)


def test_the_flow_starts_at_the_size_of_target_and_labels():
    start = limen.predict(RIDGE, [0.0]).dataset
    energy = 0.2 * 1.0 + 0.5 * 4.0 + 0.3 * 10.0
    assert float(start.excess_mse[0]) == pytest.approx(energy)
    assert float(start.train_mse[0]) == pytest.approx(energy + 0.5)
    start = limen.predict(FEATURES, [0.0]).dataset
    assert float(start.excess_mse[0]) == pytest.approx(1.1)
    assert float(start.train_mse[0]) == pytest.approx(1.3)


def test_the_simulated_flow_solves_its_differential_equation():
    """Small steps of gradient descent with weight decay on the same data."""
    from limen.simulation.kernel.least_squares import draw_least_squares

    data = draw_least_squares(3, 30, 50, 0.5, **POPULATION)
    step, estimate = 1e-4, np.zeros(30)
    for _ in range(5000):
        residual = data.labels - data.inputs @ estimate
        estimate = estimate + step * (data.inputs.T @ residual / 50 - 0.2 * estimate)
    run = limen.simulate(RIDGE, [0.5], d=30, seeds=[3])
    expected = data.variances @ (estimate - data.coefficients) ** 2
    assert float(run.dataset.excess_mse[0, 0]) == pytest.approx(expected, rel=1e-3)


def test_each_problem_has_its_own_theory():
    assert limen.theories(RIDGE)["ridge"] == "applies"
    assert limen.theories(FEATURES)["random-features"] == "applies"
    assert limen.theories(RIDGE)["random-features"] == "it solves RandomFeatures problems."
    assert "constant" in limen.theories(limen.RandomFeatures(1.0, 2.0, "1 + 0*z"))["random-features"]
    assert "mei2022" in limen.cite(FEATURES)
    assert "ali2019" in limen.cite(RIDGE)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: limen.Ridge(0.0), "ratio must be greater than 0"),
        (lambda: limen.Ridge(1.0, noise=-1.0), "noise must be at least 0"),
        (lambda: limen.Ridge(1.0, signal=(1.0,), inputs=INPUTS), "signal must have one entry per variance"),
        (lambda: limen.Ridge(1.0, signal=(-2.0,)), "signal must be numbers that are at least 0"),
        (lambda: limen.Ridge(1.0, values=(2.0,)), "values stands in the inputs of Ridge: inputs=limen.Inputs(var"),
        (lambda: limen.Ridge(1.0, weights=(0.5,)), "weights stands in the inputs of Ridge: inputs=limen.Inputs(fra"),
        (lambda: limen.Inputs(variances=(0.0,)), "nor all 0"),
        (lambda: limen.RandomFeatures(-1.0, 2.0, "relu"), "features_per_dim must be greater than 0"),
        (lambda: limen.RandomFeatures(float("inf"), 2.0, "relu"), "features_per_dim must be a finite number"),
        (lambda: limen.simulate(limen.Ridge(100.0), 1.0, d=10, seeds=1), "ratio must leave at least one sample"),
        (lambda: limen.simulate(FEATURES, 1.0, d=10, seeds=1, width=3), "width is not an option of"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(make, words):
    with pytest.raises(InputError) as caught:
        make()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
