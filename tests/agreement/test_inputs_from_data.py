"""Inputs that are rows of data: the spectrum theory sees, training on the rows, what is refused."""

import json

import numpy as np
import pytest

import limen
from limen import InputError
from limen.problem.spec import from_description


def cloud(rows=4000, d=80, heavy=False):
    """Rows with eigenvalues from 0.2 to 5, turned; entries normal or of heavy tails."""
    generator = np.random.default_rng(rows + heavy)
    variances = np.geomspace(0.2, 5.0, d)
    entries = generator.standard_t(5, (rows, d)) if heavy else generator.standard_normal((rows, d))
    return (entries * np.sqrt(variances)) @ np.linalg.qr(generator.standard_normal((d, d)))[0]


def neuron(inputs, algorithm=None, **more):
    return limen.TwoLayer(
        limen.target("tanh(2*z)+0.3*z", noise=0.3),
        limen.network(1, "tanh"),
        algorithm or limen.OnePassSGD(1.0),
        start=limen.OverlapStart(0.3),
        inputs=inputs,
        **more,
    )


def test_the_spectrum_that_theory_sees():
    X = cloud(heavy=True) + 3.0
    inputs = limen.Inputs.from_data(np.column_stack([X, X[:, 0], np.ones(len(X))]), "cloud", blocks=6)
    assert inputs.d == 80 and len(inputs.variances) == 6
    s, w = inputs.spectrum
    assert s @ w == pytest.approx(1.0) and w.sum() == pytest.approx(1.0)
    rows = inputs.rows.rows
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(rows.T @ rows / len(rows), np.diag(inputs.rows.variances), atol=1e-10)
    # Each eigenspace holds the mean of its own eigenvalues.
    ends = np.rint(np.cumsum(w) * 80).astype(int)
    parts = np.split(inputs.rows.variances, ends[:-1])
    np.testing.assert_allclose([part.mean() for part in parts], s, rtol=1e-12)


@pytest.mark.slow
def test_training_on_rows_follows_theory_and_a_wrong_spectrum_is_caught():
    """Pairing is by the seeds' own starts; 80 dimensions, so the tolerance is that of a small system."""
    posed = neuron(limen.Inputs.from_data(cloud(), "cloud", blocks=6))
    times, watched = np.linspace(0.0, 4.0, 5), ("overlap", "gram", "excess_risk")
    run = limen.simulate(posed, times, seeds=48)
    theory = limen.predict(posed, times, d=80, seeds=48)
    assert limen.compare(theory, run, watched, tolerance=0.15).verdict == "agrees"
    flat = limen.predict(posed.model_copy(update={"inputs": limen.Inputs()}), times, d=80, seeds=48)
    assert limen.compare(flat, run, watched, tolerance=0.15, differing=("inputs",)).verdict == "disagrees"


def test_descent_and_ridge_train_on_rows():
    inputs = limen.Inputs.from_data(cloud(heavy=True), "cloud", blocks=6)
    descent = neuron(inputs, limen.GradientDescent(0.4), samples_per_dim=8.0)
    run = limen.simulate(descent, 3, seeds=12).dataset
    drawn = limen.Inputs(variances=inputs.variances, fractions=inputs.fractions)
    gaussian = limen.simulate(descent.model_copy(update={"inputs": drawn}), 3, d=80, seeds=12).dataset
    for name in ("overlap", "gram", "train_loss"):
        first, second = (part[name].isel(time=-1) for part in (run, gaussian))
        error = np.sqrt((first.var("seed") + second.var("seed")) / 12)
        assert (abs(first.mean("seed") - second.mean("seed")) < 5.0 * error + 0.03).all(), name
    heavy_ball = descent.model_copy(update={"algorithm": limen.GradientDescent(0.2, momentum=0.5)})
    pushed = limen.simulate(heavy_ball, [6], seeds=12).dataset
    predicted = limen.predict(heavy_ball, [6], paths=4096, scrambles=2).dataset
    for name in ("overlap", "train_loss"):
        error = pushed[name].std("seed") / np.sqrt(12)
        assert (abs(pushed[name].mean("seed") - predicted[name]) < 5.0 * error + 0.03).all(), name
    even = limen.Inputs.from_data(cloud(), "cloud", blocks=6)
    ridge = limen.Ridge(ratio=0.5, noise=0.1, ridge=0.01, signal=np.ones(6), inputs=even)
    measured = limen.simulate(ridge, [0.5, 8.0], seeds=48).dataset.excess_mse
    predicted = limen.predict(ridge, [0.5, 8.0]).dataset.excess_mse
    error = measured.std("seed") / np.sqrt(48)
    # The part n/N = 0.04 of the rows that is trained on is also in the population.
    assert (abs(measured.mean("seed") - predicted) < 4.0 * error + 0.04 * predicted).all()


def test_descriptions_name_the_rows_and_do_not_hold_them(tmp_path):
    X = cloud(rows=300, d=20)
    posed = neuron(limen.Inputs.from_data(X, "cloud"))
    again = neuron(limen.Inputs.from_data(X, "cloud"))
    assert posed == again and hash(posed) == hash(again)
    described = posed.describe()
    assert len(json.dumps(described)) < 3000 and described["inputs"]["rows"]["shape"] == [300, 20]
    with pytest.raises(InputError, match="rows of cloud are not in a description"):
        from_description(described)
    limen.simulate(posed, [0.5], seeds=1).save(tmp_path / "run.nc")
    assert limen.load(tmp_path / "run.nc").spec == described


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: limen.Inputs.from_data(np.ones((30, 5))), "vary in at least 4 directions, got 0"),
        (lambda: limen.Inputs.from_data(np.full((30, 5), np.nan)), "30 rows have NaN"),
        (lambda: limen.Inputs.from_data(np.eye(6)), "at least 8 rows, got 6"),
        (lambda: limen.Inputs.from_data(np.array([["a"]])), "must be numbers"),
        (lambda: limen.Inputs.from_data(cloud(100, 10), blocks=0), "blocks must be"),
        (lambda: limen.simulate(neuron(limen.Inputs.from_data(cloud(100, 10))), 50.0, seeds=1), "at most the 100 rows"),
        (
            lambda: limen.simulate(neuron(limen.Inputs.from_data(cloud(100, 10))), 0.5, d=30, seeds=1),
            "the 10 directions",
        ),
        (
            lambda: limen.simulate(
                neuron(limen.Inputs.from_data(cloud(100, 10))), 0.5, seeds=1, simulator="overlap-chain"
            ),
            "not on rows of data",
        ),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()
