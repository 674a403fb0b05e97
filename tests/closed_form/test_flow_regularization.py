r"""Regularisation of gradient flow against closed forms: ridge flow of one linear neuron; neurons that only repel.

One free linear neuron on $n=\delta d$ samples with decay $\lambda$ is linear regression: in the eigenbasis of
$\frac1nX^\top X$, of Marchenko-Pastur law, every coordinate relaxes at the rate $\delta(h+\lambda)$. Two neurons on
the sphere with a negligible second layer feel $\Lambda$ alone: $c=w_1\cdot w_2$ has
$\dot c=-2\frac nd\Lambda_{12}(1-c^2)$.
"""

import numpy as np
import pytest

import limen
import limen.flow
from limen.problem.groups import neuron_groups

DELTA, LAMBDA, NOISE = 3.0, 0.3, 0.25
TIMES = np.array([0.0, 0.1, 0.3, 0.8])
NEGLIGIBLE = 1e-4


def ridge_flow(decay: float = LAMBDA) -> dict[str, np.ndarray]:
    """Overlap and squared length of the neuron, from a start of length 1 without overlap."""
    law = limen.spectra.MarchenkoPastur(1.0 / DELTA)
    x, w = np.polynomial.legendre.leggauss(4000)
    low, high = (1.0 - DELTA**-0.5) ** 2, (1.0 + DELTA**-0.5) ** 2
    h = 0.5 * (high + low) + 0.5 * (high - low) * np.sin(0.5 * np.pi * x)
    weight = w * 0.25 * np.pi * (high - low) * np.cos(0.5 * np.pi * x) * law.density(h)
    fading = np.exp(-DELTA * (h + decay) * TIMES[:, None])
    reached = (1.0 - fading) / (h + decay)
    square = fading**2 + (h * reached) ** 2 + NOISE / DELTA * h * reached**2
    return {"overlap": (h * reached) @ weight, "length": square @ weight}


def linear_neuron(decay: float) -> limen.TwoLayer:
    return limen.TwoLayer(
        limen.target("z", noise=NOISE),
        limen.network(1, "linear"),
        limen.GradientFlow(weight_decay=decay, spherical=False),
        DELTA,
        start=limen.OverlapStart(0.0),
    )


@pytest.mark.slow
def test_free_flow_with_decay_is_ridge_regression():
    found, exact = limen.predict(linear_neuron(LAMBDA), TIMES), ridge_flow()
    assert found.ok and found.method == "small-steps"
    assert np.abs(found.dataset.overlap.values.ravel() - exact["overlap"]).max() < 5e-3
    assert np.abs(found.dataset.own_gram.values.ravel() - exact["length"]).max() < 1e-2
    wrong = ridge_flow(1.3 * LAMBDA)
    assert np.abs(found.dataset.overlap.values.ravel() - wrong["overlap"]).max() > 2e-2


@pytest.mark.slow
def test_trained_ridge_regression_has_the_closed_form():
    run, exact = limen.simulate(linear_neuron(LAMBDA), TIMES, d=200, seeds=8), ridge_flow()
    means = run.dataset.mean("seed")
    assert np.abs(means.overlap.values.ravel() - exact["overlap"]).max() < 2e-2
    assert np.abs(means.own_gram.values.ravel() - exact["length"]).max() < 3e-2


def repelling(decay: float | str, width: int = 2) -> limen.TwoLayer:
    rows = [[decay if i != j else 0.0 for j in range(width)] for i in range(width)]
    return limen.TwoLayer(
        limen.target(hermite=[0], noise=1.0),
        limen.network(width, limen.activation(hermite=[0, 0, 1]), second_layer=NEGLIGIBLE),
        limen.GradientFlow(weight_decay=rows),
        DELTA,
        start=limen.OverlapStart(0.0, gram=np.eye(width).tolist()),
    )


@pytest.mark.parametrize("decay, grown", [(0.4, 0.4 * TIMES), ("0.8*exp(-2*t)", 0.4 * (1.0 - np.exp(-2.0 * TIMES)))])
def test_two_neurons_that_only_repel(decay, grown):
    exact = -np.tanh(2.0 * DELTA * grown)
    problem = repelling(decay)
    theory = limen.flow.solve(problem, TIMES, tolerance=1e-4)
    apart = limen.flow.solve(problem, TIMES, tolerance=1e-4, groups=[1, 1])
    trained = limen.simulate(problem, TIMES, d=12, seeds=1)
    assert theory.ok and apart.ok
    np.testing.assert_allclose(theory.dataset.gram.values[:, 0, 0], exact, atol=3e-4)
    np.testing.assert_allclose(apart.dataset.gram.values[:, 0, 1], exact, atol=3e-4)
    np.testing.assert_allclose(trained.dataset.gram.values[0, :, 0, 0], exact, atol=1e-3)


def test_many_neurons_repel_to_the_simplex():
    """Four neurons end at the angles of a simplex, $-1/3$."""
    theory = limen.flow.solve(repelling(0.5, 4), [0.0, 1.0, 20.0])
    assert theory.dataset.gram.values[-1, 0, 0] == pytest.approx(-1.0 / 3.0, abs=1e-3)


def test_decay_of_the_second_layer_holds_back_the_particles():
    """With no target to learn and all neurons along it, a obeys a' = -h(1) a - m lambda a."""
    width, decay = 3, 0.2
    problem = limen.TwoLayer(
        limen.target(hermite=[0], noise=0.5),
        limen.network(width, limen.activation(hermite=[0, 0, 1]), train_second_layer=True),
        limen.GradientFlow(second_layer_decay=decay),
        1.5,
        start=limen.OverlapStart(1.0),
    )
    found = limen.flow.mean_field(problem, TIMES)
    alpha = 1.5 / width
    exact = np.exp(-(1.0 + width * decay) * alpha * TIMES)
    np.testing.assert_allclose(found.dataset.second_layer.values[:, 0], exact, rtol=1e-6)


def test_neurons_that_repel_differently_need_groups_of_their_own():
    rows = [[0.0, 0.1, 0.2], [0.1, 0.0, 0.1], [0.2, 0.1, 0.0]]
    problem = limen.TwoLayer(
        limen.target(hermite=[0, 1]), limen.network(3, "tanh"), limen.GradientFlow(weight_decay=rows), 2.0
    )
    assert neuron_groups(problem).sizes.size == 1
    with pytest.raises(limen.InputError, match="groups"):
        limen.flow.solve(problem, 1.0)
    assert limen.flow.solve(problem, 1.0, groups=[1, 1, 1]).ok


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"weight_decay": 0.1}, "does nothing"),
        ({"weight_decay": -0.1, "spherical": False}, "negative"),
        ({"weight_decay": [[0.1, 0.2]]}, "square matrix"),
        ({"second_layer_decay": "1/(t - 1)"}, "finite"),
        ({"second_layer_decay": "tau"}, "tau"),
    ],
)
def test_bad_decays_are_refused(arguments, words):
    with pytest.raises(limen.InputError, match=words):
        limen.GradientFlow(**arguments)


def test_decays_that_do_not_fit_the_problem_are_refused():
    flow = limen.GradientFlow(weight_decay=[[0.0, 0.1], [0.1, 0.0]])
    with pytest.raises(limen.InputError, match="one row per neuron"):
        limen.TwoLayer("z", limen.network(3, "tanh"), flow, 2.0)
    with pytest.raises(limen.InputError, match="not trained"):
        limen.TwoLayer("z", limen.network(3, "tanh"), limen.GradientFlow(second_layer_decay=0.1), 2.0)
    later = limen.TwoLayer(
        "z", limen.network(2, "tanh", train_second_layer=True), limen.GradientFlow(second_layer_decay="1 - t/2"), 2.0
    )
    with pytest.raises(limen.InputError, match="negative"):
        limen.predict(later, 3.0)
    free = limen.TwoLayer("z", limen.network(2, "tanh"), limen.GradientFlow(0.1, spherical=False), 2.0)
    assert "sphere" in limen.theories(free)["gaussian-model"]
