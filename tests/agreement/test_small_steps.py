"""Gradient flow at small width: exact theory by small steps, against a closed form, training and the model."""

import numpy as np
import pytest

import limen

TIMES = np.linspace(0.0, 4.0, 6)
SMALL = limen.TwoLayer(
    limen.target("z+0.257*z**2", noise=0.084),
    limen.network(1, "tanh", train_second_layer=True),
    limen.GradientFlow(),
    3.7,
    "square",
    limen.OverlapStart(0.589),
)


def test_many_samples_make_it_the_flow_of_the_population():
    """A linear neuron with many samples: dM/dt = delta (1 - M^2) on the sphere."""
    delta = 200.0
    problem = limen.TwoLayer(
        "z", limen.network(1, "linear"), limen.GradientFlow(), delta, start=limen.OverlapStart(0.2)
    )
    times = np.array([0.0, 0.25, 0.5, 1.0]) / delta
    found = limen.predict(problem, times)
    assert found.ok and found.method == "small-steps"
    np.testing.assert_allclose(
        found.dataset.overlap.values.ravel(), np.tanh(delta * times + np.arctanh(0.2)), atol=5e-3
    )


def test_the_result_says_which_theory_it_was():
    found = limen.predict(SMALL, TIMES)
    assert found.ok and found.method == "small-steps"
    assert "the Gaussian model is off by" in found.status
    assert 0.05 < found.statistics["model_error"] < 0.3
    # Training at d = 1000: 0.2114(11); the model says 0.2518.
    assert float(found.dataset.test_loss[-1]) == pytest.approx(0.2114, abs=0.004)
    late = limen.predict(SMALL, 200.0)
    assert late.status.startswith("Gaussian model, a model of the network")
    wide = limen.TwoLayer(SMALL.target, limen.network(50, "tanh"), limen.GradientFlow(), 20.0, start=SMALL.start)
    assert "at most 8" in limen.theories(wide)["small-steps"]
    assert limen.theories(wide)["gaussian-model"] == "applies"


@pytest.mark.slow
def test_training_agrees_and_not_with_the_model():
    run = limen.simulate(SMALL, TIMES, d=250, seeds=24)
    watched = ["test_loss", "overlap", "second_layer"]
    assert limen.compare(limen.predict(SMALL, TIMES), run, watched).verdict != "disagrees"
    assert limen.compare(limen.predict(SMALL, TIMES, theory="gaussian-model"), run, watched).verdict == "disagrees"
