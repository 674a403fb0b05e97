"""Losses whose slope jumps: descent on a fixed sample, where a second derivative would be a point mass."""

import jax.numpy as jnp
import numpy as np
import pytest

import limen

START = limen.OverlapStart(0.3)


def problem(loss="abs(y-f)", step=0.5, **changes):
    parts = {"target": limen.target("tanh(2*z)", noise=0.05), "samples_per_dim": 3.0, "start": START, **changes}
    return limen.TwoLayer(network=limen.network(1, "tanh"), algorithm=limen.GradientDescent(step), loss=loss, **parts)


def test_which_losses_bend():
    def huber_like(y, f):
        return jnp.where(jnp.abs(y - f) < 1.0, 0.5 * (y - f) ** 2, jnp.abs(y - f) - 0.5)

    bent = ("abs(y-f)", "max(0, 1-y*f)", "max(0.7*(y-f), -0.3*(y-f))", lambda y, f: jnp.abs(y - f))
    smooth = ("square", "huber:1", "squared-hinge", "abs(y-f)**1.5", "log(1+(y-f)**2)", huber_like)
    assert all(problem(loss).loss.kinked for loss in bent)
    assert not any(problem(loss).loss.kinked for loss in smooth)


def test_the_first_step_by_hand():
    """F = eta sign(f - y) sigma'(V): at t = 1 the Gram entry is |A|^2 of (1 - E F V, - E F U) and E F^2 / delta, from
    two million normals."""
    given = problem()
    found = limen.predict(given, [0, 1]).dataset
    random = np.random.default_rng(3)
    u, v, noise = random.standard_normal((3, 2_000_000))
    v = 0.3 * u + np.sqrt(1 - 0.09) * v
    y = np.tanh(2 * u) + np.sqrt(0.05) * noise
    force = 0.5 * np.sign(np.tanh(v) - y) / np.cosh(v) ** 2
    along, beside = (force * u).mean(), (force * (v - 0.3 * u)).mean() / np.sqrt(1 - 0.09)
    gram = (0.3 - along) ** 2 + (np.sqrt(1 - 0.09) - beside) ** 2 + (force**2).mean() / 3.0
    assert float(found.gram[1, 0, 0]) == pytest.approx(gram, abs=3e-3)
    assert float(found.overlap[1, 0, 0]) == pytest.approx(0.3 - along, abs=3e-3)


@pytest.mark.parametrize(
    ("loss", "steps", "seeds"),
    [("abs(y-f)", 6, 160), pytest.param("max(0.7*(y-f), -0.3*(y-f))", 12, 320, marks=pytest.mark.slow)],
)
def test_training_agrees_and_another_step_does_not(loss, steps, seeds):
    run = limen.simulate(problem(loss), steps, d=300, seeds=seeds)
    right = limen.predict(problem(loss), steps)
    assert right.ok and "without responses (it needs a loss with a continuous slope" in right.status
    assert limen.compare(right, run).verdict == "agrees"
    wrong = limen.predict(problem(loss, step=0.55), steps)
    assert limen.compare(wrong, run, differing=("algorithm",)).verdict == "disagrees"


def test_what_needs_a_second_derivative_is_refused():
    for ask in (limen.thresholds.sharpness, limen.thresholds.hessian):
        with pytest.raises(limen.InputError, match=r"continuous slope, and that of abs\(y-f\) jumps"):
            ask(problem(), 2)
