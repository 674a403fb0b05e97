"""One meaning of a start: theory and training begin with the same overlaps, Gram matrix and losses, on every algorithm,
and what a sphere keeps is the length each neuron started with."""

import numpy as np
import pytest

import limen

OVERLAP, GRAM = [[0.4], [0.2]], [[0.81, 0.1], [0.1, 1.44]]
STARTS = {
    "gram": (limen.OverlapStart(OVERLAP, GRAM), 1.0),
    "norm": (limen.OverlapStart(0.4), 1.3),
    "unit": (limen.OverlapStart(0.4), 1.0),
}
ALGORITHMS = {
    "one-pass": (limen.OnePassSGD(0.2), None, [0.0, 0.1]),
    "sphere": (limen.SphericalSGD(0.2), None, [0.0, 0.1]),
    "descent": (limen.GradientDescent(0.3), 3.0, [0, 1, 2]),
    "descent on the sphere": (limen.GradientDescent(0.3, spherical=True), 3.0, [0, 1, 2]),
    "flow": (limen.GradientFlow(), 3.0, [0.0, 0.1]),
}
KEEPS = ("sphere", "descent on the sphere", "flow")


@pytest.mark.parametrize("start", ["gram", pytest.param("norm", marks=pytest.mark.slow), "unit"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_theory_and_training_start_alike(algorithm, start):
    rule, samples, times = ALGORITHMS[algorithm]
    begin, norm = STARTS[start]
    # Without a Gram matrix the overlaps of several neurons with each other are random, of size d^(-1/2).
    network = limen.network(2 if start == "gram" else 1, "tanh", initial_norm=norm)
    problem = limen.TwoLayer("z", network, rule, samples, start=begin)
    run = limen.simulate(problem, times, d=60, seeds=1).dataset.isel(seed=0)
    lengths = [0.81, 1.44] if start == "gram" else [norm**2]
    if algorithm == "flow":
        reason = limen.theories(problem)["gaussian-model"]
        assert (reason == "applies") == (start == "unit")
    if "neuron" in run.dims:
        kept = np.einsum("tjj->tj", run.gram.values)
        np.testing.assert_allclose(kept[0], lengths, rtol=1e-5)
        if algorithm in KEEPS:
            np.testing.assert_allclose(kept, np.tile(lengths, (len(times), 1)), rtol=1e-5)
    if algorithm == "flow" and start != "unit":
        return
    theory = limen.predict(problem, times).dataset
    for name in ("overlap", "test_loss"):
        assert run[name].values[0] == pytest.approx(theory[name].values[0], rel=2e-4)
    if "neuron" in theory.dims:
        at = np.einsum("tjj->tj", theory.gram.values)
        np.testing.assert_allclose(at[0], lengths, rtol=1e-6)
        if algorithm in KEEPS:
            np.testing.assert_allclose(at[-1], lengths, rtol=1e-6)
    if start == "gram":
        assert theory.gram.values[0, 0, 1] == pytest.approx(0.1, abs=1e-9)
        assert run.gram.values[0, 0, 1] == pytest.approx(0.1, abs=1e-5)
