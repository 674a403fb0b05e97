"""Trained biases and a step of its own for the second layer against training; wrong ones must be caught."""

from dataclasses import replace

import pytest

import limen

OBSERVED = ("train_loss", "test_loss", "overlap", "second_layer", "bias")


def problem(ratio: float = 3.0, train_bias: bool = True) -> limen.TwoLayer:
    return limen.TwoLayer(
        limen.target("tanh(2*z) + 0.6*z**2", noise=0.1),
        limen.network(2, "tanh", second_layer=(1.0, -0.6), bias=(0.4, -0.2), train_second_layer=True,
                      train_bias=train_bias),
        limen.GradientDescent(1.0, second_layer_ratio=ratio),
        samples_per_dim=3.0,
        start=limen.OverlapStart(0.3),
    )  # fmt: skip


@pytest.mark.slow
def test_trained_biases_and_a_fast_second_layer():
    """Two sizes; twins: a ratio a tenth too large, biases that stay."""
    runs = [limen.simulate(problem(), 8, d=d, seeds=48) for d in (120, 240)]
    found = limen.compare([limen.predict(problem(), 8)] * 2, runs, OBSERVED)
    assert found.verdict != "disagrees", str(found)
    assert {found[name].verdict for name in ("overlap", "second_layer", "bias")} == {"agrees"}, str(found)
    for what, wrong, names in (("ratio", problem(3.3), OBSERVED), ("bias", problem(train_bias=False), OBSERVED[:4])):
        twin = replace(limen.predict(wrong, 8), spec=runs[0].spec)
        comparison = limen.compare([twin] * 2, runs, names)
        assert comparison.verdict == "disagrees", f"{what}: {comparison}"


@pytest.mark.slow
def test_runs_at_finite_dimension_have_biases_of_their_own():
    """One row per seed; the means are those of training, and not of fixed biases."""
    run = limen.simulate(problem(), 6, d=240, seeds=40)
    rows = limen.predict(problem(), 6, d=240, seeds=40)
    assert rows.dataset.bias.sizes == {"seed": 40, "time": 7, "neuron": 2}
    found = limen.compare(rows, run, ["train_loss", "bias"])
    assert found["bias"].verdict != "disagrees", str(found)
    fixed = limen.predict(problem(train_bias=False), 6, d=240, seeds=40)
    twin = limen.compare(replace(fixed, spec=run.spec), run, ["test_loss", "train_loss"])
    assert twin.verdict == "disagrees", str(twin)
