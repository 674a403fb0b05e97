"""One-pass SGD on inputs of several variances: theory, full SGD and the exact chain; planted errors."""

import numpy as np
import pytest

import limen
from limen.theory.one_pass.blocks import block_ode

TIMES = np.linspace(0.0, 6.0, 7)
WATCHED = ("overlap", "gram", "excess_risk")
RIGHT_SPECTRUM = block_ode.problem_spectrum


def problem(case, **inputs):
    given = limen.Inputs(**(inputs or {"variances": (0.25, 2.5), "fractions": (2 / 3, 1 / 3)}))
    common = {"inputs": given}
    if case == "tanh":
        target, network = limen.target("tanh(2*z)+0.3*z", noise=0.3), limen.network(1, "tanh")
        return limen.TwoLayer(target, network, limen.OnePassSGD(1.0), start=limen.OverlapStart(0.3), **common)
    if case == "erf":
        target = limen.target("0.5*(erf(z1/sqrt(2)) + erf(z2/sqrt(2)))", noise=0.2)
        start = limen.OverlapStart(((0.5, 0.0), (0.0, 0.4)))
        return limen.TwoLayer(target, limen.network(2, "saad-solla"), limen.OnePassSGD(1.5), start=start, **common)
    if case == "relu":
        target, network = limen.target("relu(z)", noise=0.2), limen.network(1, "relu")
        return limen.TwoLayer(target, network, limen.SphericalSGD(0.5), start=limen.OverlapStart(0.3), **common)
    network = limen.network(2, "tanh", train_second_layer=True)
    start = limen.OverlapStart(((0.5,), (0.1,)))
    target = limen.target("sign(z+0.3*e)")
    return limen.TwoLayer(target, network, limen.OnePassSGD("2/(1+0.2*t)"), loss="logistic", start=start, **common)


def without_variance(posed):
    """The noise term of SGD without its factor s_b."""
    right = RIGHT_SPECTRUM(posed)
    return block_ode.Spectrum(right.variances, right.fractions / right.variances, right.latent_blocks)


@pytest.mark.slow
def test_theory_training_and_chain(monkeypatch):
    posed, d, seeds = problem("tanh"), 300, 128
    theory = limen.predict(posed, TIMES, d=d, seeds=seeds)
    run = limen.simulate(posed, TIMES, d=d, seeds=seeds)
    assert limen.compare(theory, run, WATCHED).verdict == "agrees"
    chain = limen.simulate(posed, TIMES, d=d, seeds=seeds, simulator="overlap-chain")
    assert limen.compare(theory, chain, WATCHED).verdict == "agrees"
    swapped = limen.predict(problem("tanh", variances=(0.625, 1.75), fractions=(2 / 3, 1 / 3)), TIMES, d=d, seeds=seeds)
    assert limen.compare(_as(swapped, run), run, WATCHED).verdict == "disagrees"
    monkeypatch.setattr(block_ode, "problem_spectrum", without_variance)
    assert limen.compare(limen.predict(posed, TIMES, d=d, seeds=seeds), run, WATCHED).verdict == "disagrees"


@pytest.mark.slow
@pytest.mark.parametrize("case", ["erf", "relu", "logistic"])
def test_sizes_and_planted_errors(case, monkeypatch):
    posed = problem(case)
    runs = {d: limen.simulate(posed, TIMES, d=d, seeds=64) for d in (400, 1000)}
    theory = {d: limen.predict(posed, TIMES, d=d, seeds=64) for d in runs}
    for d, run in runs.items():
        comparison = limen.compare(theory[d], run, WATCHED)
        assert comparison.verdict == "agrees", f"{d}: {comparison}"
    swapped = problem(case, variances=(0.625, 1.75), fractions=(2 / 3, 1 / 3))
    wrong = limen.predict(swapped, TIMES, d=1000, seeds=64)
    assert limen.compare(_as(wrong, runs[1000]), runs[1000], WATCHED).verdict == "disagrees"
    if case != "logistic":
        monkeypatch.setattr(block_ode, "problem_spectrum", without_variance)
        wrong = limen.predict(posed, TIMES, d=1000, seeds=64)
        assert limen.compare(wrong, runs[1000], WATCHED).verdict == "disagrees"


@pytest.mark.slow
def test_chain_of_batches_and_shares_has_the_law_of_training():
    posed = limen.TwoLayer(
        limen.target("z1 + tanh(z2)", noise=0.1),
        limen.network(2, "tanh"),
        limen.OnePassSGD(1.0, batch=2),
        start=limen.OverlapStart(((0.3, 0.1), (-0.2, 0.4))),
        inputs=limen.Inputs(variances=(0.4, 1.6), fractions=(0.5, 0.5), target_shares=((0.9, 0.1), (0.1, 0.9))),
    )
    runs = [
        limen.simulate(posed, [2.0], d=40, seeds=200, simulator=name).dataset.isel(time=-1)
        for name in ("one-pass-sgd", "overlap-chain")
    ]
    for name in ("block_overlap", "block_gram"):
        first, second = (run[name].values for run in runs)
        error = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 200)
        assert np.abs((first.mean(axis=0) - second.mean(axis=0)) / error).max() < 4.0, name
        ratio = first.std(axis=0) / second.std(axis=0)
        assert np.abs(np.log(ratio)).max() < 4.0 * np.sqrt(1 / 200), name


def _as(wrong, run):
    """A prediction of another problem, said to be of the one that was run."""
    from dataclasses import replace

    return replace(wrong, spec=run.spec)


@pytest.mark.slow
def test_hard_directions_of_descent_on_two_variances():
    """Overlaps of order $d^{-1/2}$ with a direction that no single step finds: variance and amplification; one variance
    as a twin."""
    posed = limen.TwoLayer(
        "z**2",
        limen.network(1, "gelu"),
        limen.GradientDescent(0.4),
        samples_per_dim=6.0,
        inputs=limen.Inputs(variances=(0.25, 2.5), fractions=(2 / 3, 1 / 3)),
    )
    d, seeds = 300, 200
    theory = limen.predict(posed, 3).dataset
    overlap = np.sqrt(d) * limen.simulate(posed, 3, d=d, seeds=seeds).dataset.overlap.values[:, :, 0, 0]
    variance, error = (overlap**2).mean(axis=0), (overlap**2).std(axis=0) / np.sqrt(seeds)
    # Finite dimensions add some per cent.
    assert (np.abs(variance - theory.hard_variance.values.ravel()) < 3.0 * error + 0.08 * variance)[1:].all()
    amplification = (overlap * overlap[:, :1]).mean(axis=0) / (overlap[:, 0] ** 2).mean()
    np.testing.assert_allclose(amplification, theory.amplification.values.ravel(), rtol=0.12)
    flat = limen.predict(posed.model_copy(update={"inputs": limen.Inputs()}), 3).dataset
    assert not (np.abs(variance - flat.hard_variance.values.ravel()) < 3.0 * error + 0.08 * variance)[1:].all()


@pytest.mark.slow
@pytest.mark.parametrize("case", ["momentum", "batches of a kinked network"])
def test_linear_rules_on_two_variances(case):
    """Momentum, and batches by epochs of a ReLU network with a trained second layer; rule and spectrum as twins."""
    given = limen.Inputs(variances=(0.25, 2.5), fractions=(2 / 3, 1 / 3))
    if case == "momentum":
        target, network = limen.target("tanh(2*z) + 0.5*(z**2 - 1)", noise=0.1), limen.network(1, "tanh")
        rule, wrong = (limen.GradientDescent(0.2, momentum=beta) for beta in (0.8, 0.75))
    else:
        target = limen.target("relu(z1) + 0.5*z2", noise=0.1)
        network = limen.network(2, "relu", second_layer=(1.5, -1.0), train_second_layer=True)
        rule, wrong = (limen.GradientDescent(0.4, batch_fraction=part, replacement=False) for part in (0.25, 0.5))
    posed = limen.TwoLayer(target, network, rule, 2.0, inputs=given)
    times, watched = [1, 3, 6, 10], ("train_loss", "test_loss", "overlap", "gram")
    # Seeds from 48 others, for a band of 3% of the range.
    run = limen.simulate(posed, times, d=600, seeds=range(48, 248))
    prediction = limen.predict(posed, times)
    assert prediction.ok, prediction.status
    comparison = limen.compare(prediction, run, watched)
    assert comparison.verdict != "disagrees", str(comparison)
    assert comparison["train_loss"].verdict == "agrees", str(comparison)
    swapped = limen.Inputs(variances=(0.625, 1.75), fractions=(2 / 3, 1 / 3))
    for change, field in ((wrong, "algorithm"), (swapped, "inputs")):
        twin = limen.predict(posed.model_copy(update={field: change}), times)
        caught = limen.compare(twin, run, watched, differing=(field,))
        assert caught.verdict == "disagrees", f"{field}: {caught}"
