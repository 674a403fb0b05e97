"""Momentum, schedules, batches and kinks on inputs of several variances: closed forms, and other theories where both
hold."""

import numpy as np
import pytest

import limen

TWO = limen.Inputs(variances=(0.25, 2.5), fractions=(2 / 3, 1 / 3))
NAMES = ("train_loss", "test_loss", "overlap", "gram", "second_layer", "correlation")


def network(algorithm, inputs=TWO, width=2, **options):
    fields = {"second_layer": (1.5, -1.0), "bias": (0.0, 0.2), "train_second_layer": True} if width == 2 else {}
    return limen.TwoLayer(
        limen.target("tanh(2*z) + 0.5*(z**2 - 1)", noise=0.1),
        limen.network(width, "tanh", **fields),
        algorithm,
        2.0,
        inputs=inputs,
        **options,
    )


def differ(first, second, names=NAMES):
    """The largest difference in units of the spread between sets of both."""
    ratios = []
    for name in names:
        error = np.hypot(first[f"{name}_spread"].values, second[f"{name}_spread"].values)
        floor = 1e-4 * np.abs(first[name].values).max()
        ratios.append(np.max(np.abs(first[name].values - second[name].values) / (error + floor)))
    return max(ratios)


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.3, "spherical": True}])
def test_plain_steps_are_those_of_the_theory_with_responses(options):
    """A formula that is constant goes the way without responses."""
    exact = limen.predict(network(limen.GradientDescent(0.6, **options)), 6, scrambles=4, paths=8192).dataset
    formula = limen.GradientDescent("0.6 + 0*t", **options)
    conditioned = limen.predict(network(formula), 6, scrambles=4, paths=8192).dataset
    assert "response" not in conditioned and differ(exact, conditioned) < 4.0
    longer = limen.predict(network(limen.GradientDescent("0.63 + 0*t", **options)), 6, scrambles=4, paths=8192).dataset
    assert differ(exact, longer) > 8.0


def test_equal_variances_are_one():
    equal = limen.Inputs(variances=(1.0 - 1e-7, 1.0 + 1e-7), fractions=(0.5, 0.5))
    rule = limen.GradientDescent(0.3, momentum=0.6, batch_fraction=0.5)
    one, two = (
        limen.predict(network(rule, inputs), 6, scrambles=4, paths=8192).dataset for inputs in (limen.Inputs(), equal)
    )
    assert differ(one, two) < 4.0


@pytest.mark.parametrize("part", [1.0, 0.25])
def test_one_step_and_two_of_the_heavy_ball(part):
    r"""A linear neuron: $|\theta(1)|^2=\sum_aw_a[(1-\eta s_a)^2+\eta^2s_a^2]+\eta^2(2+\sigma^2)/(b\delta)$, and
    $\theta_*\cdot\theta(2)=\eta(2+\beta)-\eta^2(\sum_aw_as_a^2+1/\delta)$, whatever the batch: a sample is in both
    batches with probability $b^2$ and counts $b^{-1}$ in each."""
    step, beta, delta, noise, (s, w) = 0.3, 0.5, 2.0, 0.3, TWO.spectrum
    rule = limen.GradientDescent(step, momentum=beta, batch_fraction=part)
    problem = limen.TwoLayer(limen.target("z", noise=noise), limen.network(1, "linear"), rule, delta, inputs=TWO)
    found = limen.predict(problem, 2, paths=16384, scrambles=3).dataset
    square = w @ ((1 - step * s) ** 2 + (step * s) ** 2) + step**2 * (2 + noise) / (part * delta)
    assert float(found.gram[1, 0, 0]) == pytest.approx(square, rel=5e-3)
    assert float(found.overlap[1, 0, 0]) == pytest.approx(step, abs=1e-3)
    again = step * (2 + beta) - step**2 * (w @ s**2 + 1.0 / delta)
    assert float(found.overlap[2, 0, 0]) == pytest.approx(again, abs=3e-3)


def test_a_kink_on_two_variances_and_what_is_said():
    problem = limen.TwoLayer("relu(z)", limen.network(1, "relu"), limen.GradientDescent(0.5), 3.0, inputs=TWO)
    found = limen.predict(problem, 5, paths=4096, scrambles=3)
    assert found.ok and "without responses" in found.status
    wild = problem.model_copy(update={"algorithm": limen.GradientDescent(1e5, momentum=0.5)})
    lost = limen.predict(wild, 8, paths=1024, scrambles=2)
    assert not lost.ok and "diverge before step" in lost.status
    shares = limen.Inputs(variances=(0.4, 1.6), fractions=(0.5, 0.5), target_shares=(0.9, 0.1))
    with pytest.raises(limen.InputError, match="spread evenly over the eigenspaces"):
        limen.predict(wild.model_copy(update={"inputs": shares}), 3)
    with pytest.raises(limen.InputError, match="d does not apply"):
        limen.predict(problem, 3, d=100)


def test_overlaps_with_hard_directions_stay_at_zero():
    """Of z1 + z2² - 1 the second direction is hard; the first is learnt in both eigenspaces."""
    rule = limen.GradientDescent(0.5, momentum=0.5)
    given = limen.TwoLayer("z1 + z2**2 - 1", limen.network(1, "tanh"), rule, 2.0, inputs=TWO)
    overlap = limen.predict(given, 4, scrambles=2, paths=2048).dataset.overlap.values[:, 0]
    np.testing.assert_allclose(overlap[:, 1], 0.0, atol=1e-12)
    assert overlap[-1, 0] > 0.3
