"""A step of its own for the second layer, and trained biases: closed forms, theories against each other, refusals."""

import numpy as np
import pytest

import limen
from limen.problem import InputError
from limen.theory.descent import entrywise, equal_neurons
from limen.theory.descent.outer_weights import OuterWeights
from limen.theory.descent.solve import solve
from limen.theory.fresh_inputs.population_losses import population_losses


def problem(activation="tanh", width=2, **changes) -> limen.TwoLayer:
    network = limen.network(width, activation, second_layer=1.5, bias=0.3, train_second_layer=True, train_bias=True)
    options = {
        "target": limen.target("tanh(2*z) + 0.5*z**2", noise=0.1),
        "network": network,
        "algorithm": limen.GradientDescent(0.6, second_layer_ratio=2.0),
        "samples_per_dim": 3.0,
    } | changes
    return limen.TwoLayer(**options)


def test_the_first_steps_of_the_bias_of_a_linear_neuron():
    r"""With $c=E y$ the mean of the forces is $g=a(ab+aE V-c)$, and $E V(1)=-\frac\eta\delta g(0)$: the neuron has met
    the mean of the sample, which is not zero. Without reuse $b$ relaxes by $1-\eta a^2$."""
    network = limen.network(1, "z", second_layer=0.8, bias=-0.4, train_bias=True)
    given = problem(target=limen.target("z + 1.5"), network=network, algorithm=limen.GradientDescent(0.7))
    found = solve(given, 2, paths=2048, scrambles=2).dataset.bias.values[:, 0]
    first = 0.8 * (0.8 * -0.4 - 1.5)
    then = 0.8 * (0.8 * (-0.4 - 0.7 * first) - 0.8 * 0.7 / 3.0 * first - 1.5)
    np.testing.assert_allclose(found, [-0.4, -0.4 - 0.7 * first, -0.4 - 0.7 * (first + then)], atol=2e-5)
    alone = solve(given.model_copy(update={"samples_per_dim": 1e6}), 6, paths=2048, scrambles=2).dataset.bias.values
    wanted = 1.5 / 0.8 + (1.0 - 0.7 * 0.64) ** np.arange(7) * (-0.4 - 1.5 / 0.8)
    np.testing.assert_allclose(alone[:, 0], wanted, atol=1e-4)


def test_the_ratio_scales_the_first_move_of_the_second_layer_alone():
    first = {}
    for ratio in (0.0, 1.0, 2.5):
        algorithm = limen.GradientDescent(0.6, second_layer_ratio=ratio)
        first[ratio] = solve(problem(algorithm=algorithm), 1, paths=2048, scrambles=2).dataset
    moves = {ratio: found.second_layer.diff("time").values for ratio, found in first.items()}
    np.testing.assert_allclose(moves[0.0], 0.0, atol=1e-12)
    np.testing.assert_allclose(moves[2.5], 2.5 * moves[1.0], rtol=1e-5)
    # The other two agree but for the precision of the paths, single: ratio 1 has responses and goes another way.
    np.testing.assert_allclose(first[2.5].overlap.values, first[0.0].overlap.values, atol=1e-6)
    np.testing.assert_allclose(first[2.5].bias.values, first[1.0].bias.values, atol=1e-6)


def test_adam_of_the_outer_weights_corrects_its_averages_by_the_steps_done():
    """Two neurons, three steps with given gradients: both averages divided by one minus their decay to that number."""
    size, first, second, floor = 0.2, 0.9, 0.99, 0.01
    outer = OuterWeights(problem(algorithm=limen.Adam(size, first, second, floor)), 3)
    pulls = np.random.default_rng(2).normal(size=(3, 2, 2))
    for t, pull in enumerate(pulls):
        outer.advance(t, size, *pull)
    values, mean, square = np.array([[1.5, 1.5], [0.3, 0.3]]), np.zeros((2, 2)), np.zeros((2, 2))
    for t, pull in enumerate(pulls, start=1):
        mean, square = first * mean + (1 - first) * pull, second * square + (1 - second) * pull**2
        values = values - size * mean / (1 - first**t) / (np.sqrt(square / (1 - second**t)) + floor)
        np.testing.assert_allclose(outer.at(t), values, rtol=1e-5)


def test_three_theories_agree():
    given, times = problem(), [0, 2, 5]
    ours = solve(given, times, scrambles=4).dataset
    for other in (entrywise.solve(problem(), times), equal_neurons.solve(given, times)):
        assert other.ok, other.status
        for name in ("train_loss", "test_loss", "overlap", "second_layer", "bias"):
            error = np.hypot(ours[f"{name}_spread"].values, other.dataset[f"{name}_spread"].values)
            apart = np.abs(ours[name].values - other.dataset[name].values)
            assert (apart <= 3.0 * error + 3e-3 * np.abs(ours[name].values).max()).all(), (name, apart.max())


def test_one_variance_written_as_two_is_one():
    """Inputs of several variances go another way; one eigenspace cut in two is the same."""
    cut = limen.Inputs(variances=(1.0, 1.0 + 1e-9), fractions=(0.5, 0.5))
    plain, blocks = (solve(problem(inputs=inputs), 3, scrambles=3).dataset for inputs in (limen.Inputs(), cut))
    for name in ("train_loss", "bias", "second_layer"):
        np.testing.assert_allclose(blocks[name].values, plain[name].values, rtol=5e-3, atol=2e-3)


@pytest.mark.parametrize("loss", ["square", "pseudo-huber:1"])
@pytest.mark.parametrize("width", [1, 2])
def test_losses_of_biases_that_move_are_those_of_networks_with_them(loss, width):
    overlap, gram = np.full((2, width, 1), 0.3), np.tile(np.eye(width), (2, 1, 1))
    second = np.ones((2, width))
    bias = np.array([[0.2] * width, [-0.7] * width])
    both = population_losses(problem(width=width, loss=loss), overlap, gram, second, bias)
    for i in range(2):
        fixed = problem(width=width, loss=loss, network=limen.network(width, "tanh", bias=float(bias[i, 0])),
                        algorithm=limen.GradientDescent(0.6))  # fmt: skip
        alone = population_losses(fixed, overlap[:1], gram[:1], second[:1])
        np.testing.assert_allclose(both.test[i], alone.test[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: problem(algorithm=limen.OnePassSGD(0.5), samples_per_dim=None), "train_bias must be false with OnePa"),
        (lambda: problem(algorithm=limen.GradientFlow()), "train_bias must be false with GradientFlow"),
        (
            lambda: problem(network=limen.network(2, "tanh")),
            "second_layer_ratio must be 1 where the second layer is not trained, got 2",
        ),
        (lambda: limen.thresholds.hessian(problem(), 2), "it needs fixed biases, and train_bias is set"),
        (lambda: limen.thresholds.sharpness(problem(), 2), "it needs fixed biases"),
        (
            lambda: limen.thresholds.hessian(problem(network=limen.network(2, "tanh", train_second_layer=True)), 2),
            "it needs second_layer_ratio 1, got 2",
        ),
        (
            lambda: limen.thresholds.sharpness(problem(network=limen.network(2, "tanh", train_second_layer=True)), 2),
            "no one eigenvalue says what is stable",
        ),
    ],
)
def test_what_does_not_go_is_a_sentence(call, words):
    with pytest.raises(InputError, match=words):
        call()
