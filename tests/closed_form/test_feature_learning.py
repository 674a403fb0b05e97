"""Thresholds of feature learning: known time courses, exact symmetries, closed forms of the first step, refusals."""

import numpy as np
import pytest
from scipy.special import ndtr

from limen.problem import GradientDescent, InputError, OverlapStart, TwoLayer, network, target
from limen.theory.thresholds.along_training import hessian
from limen.theory.thresholds.feature_learning import CRITERIA, feature_learning
from limen.theory.thresholds.hessian_law import HessianLaw
from limen.theory.thresholds.report import report
from limen.theory.thresholds.success import success_probabilities, success_probability


def problem(link="z**2", loss="huber:1", step=1.2, activation="gelu", delta=6.0, a=1.0, **more) -> TwoLayer:
    layers = network(1, activation, second_layer=a)
    return TwoLayer(target(link), layers, GradientDescent(step), samples_per_dim=delta, loss=loss, **more)


def test_time_course_of_a_bounded_loss():
    """Values of an independent program, edge criterion, at ηt = 0..20: spread between its samples up to 8%."""
    found = feature_learning(problem(), [0, 1, 2, 4, 7, 10, 17], scrambles=2)
    known_times = [0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 40.0]
    known = [2.5, 2.8, 3.15, 3.6, 4.4, 5.3, 6.3, 7.6, 8.3]
    expected = np.interp(1.2 * found.dataset.time.values, known_times, known)
    np.testing.assert_allclose(found.dataset.threshold.values[:, 0], expected, rtol=0.07)
    assert (np.diff(found.dataset.threshold.values[:, 0]) > 0.0).all()
    # |l'| <= 1 bounds the weights by the largest curvature of the activation, 2 φ(0).
    lowest = found.dataset.minimum_weight.values
    assert (lowest > -np.sqrt(2.0 / np.pi)).all() and (lowest < -0.5).all()
    assert found.dataset.all_criteria.dims == ("criterion", "time", "hard")
    low, high = found.dataset.bracket.values
    last = found.dataset.all_criteria.values[:, -1, 0]
    assert low <= last.min() and last.max() <= high
    assert not found.ok and "not settled" in found.status


@pytest.mark.slow
def test_long_rows_leave_out_responses_only(monkeypatch):
    """The pass without responses has the same Hessians; then 130 steps (ηt = 156), beyond what responses afford."""
    times = [0, 3, 6]
    known = feature_learning(problem(), times, paths=8192, scrambles=4).dataset.all_criteria.values
    with monkeypatch.context() as patch:
        patch.setattr("limen.theory.thresholds.feature_learning.LONG", 5)
        found = feature_learning(problem(), times, paths=8192, scrambles=4).dataset.all_criteria.values
    np.testing.assert_allclose(found[:2], known[:2], rtol=0.06)
    assert np.isnan(found[2]).all()
    late = feature_learning(problem(), [65, 130], paths=1024, scrambles=1)
    assert (late.dataset.threshold.values > 8.0).all() and (late.dataset.threshold.values < 13.0).all()
    with pytest.raises(InputError, match="must not be 'growth' beyond 100 steps"):
        feature_learning(problem(), 101, "growth")


def test_thresholds_do_not_know_the_scale_of_the_loss():
    """Labels, second layer and Huber's knee times c multiply the loss by c²: the step divided by c² undoes it."""
    plain = feature_learning(problem(), [0, 2], paths=1024, scrambles=1)
    scaled = feature_learning(problem("2*z**2", "huber:2", 0.3, a=2.0), [0, 2], paths=1024, scrambles=1)
    for criterion in ("trimmed", "growth"):
        at = CRITERIA.index(criterion)
        np.testing.assert_allclose(
            scaled.dataset.all_criteria.values[at], plain.dataset.all_criteria.values[at], rtol=1e-5
        )


def test_square_loss_with_unbounded_labels_does_not_settle():
    found = feature_learning(problem(loss="square", step=0.5), [0, 2, 4], "zero-level", paths=2048, scrambles=2)
    assert not found.ok
    assert "not settled" in found.status and "Huber" in found.status
    low, high = found.dataset.bracket.values
    # At ηt = 1 and 2 an independent program found 6.0 and 8.5 at zero level.
    np.testing.assert_allclose(found.dataset.threshold.values[1:, 0], [6.0, 8.5], rtol=0.12)
    assert low < 8.5 < 1.12 * high


def test_no_hard_direction_is_an_answer():
    found = feature_learning(problem("z + z**2"), [0, 5])
    assert found.ok
    assert found.status.startswith("no hard direction")
    assert found.dataset.threshold.shape == (2, 0)
    said = report(problem("z + z**2"), times=3, d=100)
    assert said.threshold is None and said.success_probability is None and said.settled
    assert "no hard direction" in str(said)
    assert "0 hard of 1 latent" in str(said)


def test_hessian_of_a_trained_network():
    """Edge, outlier and alignment after 12 steps; the values of four sets of paths spread by 3%."""
    found = hessian(problem("4*tanh(z**2/4)", "square", 0.5, delta=12.0), 12, paths=8192)
    assert isinstance(found, HessianLaw)
    assert abs(found.left_edge + 0.224) < 0.008
    np.testing.assert_allclose(found.outliers, [-0.252], atol=0.01)
    np.testing.assert_allclose(found.alignment, [0.295], atol=0.02)


def test_weight_decay_moves_the_level():
    decayed = problem("4*tanh(z**2/4)", "square", 0.5, delta=12.0)
    decayed = decayed.model_copy(update={"algorithm": GradientDescent(0.5, weight_decay=0.7)})
    found = hessian(decayed, 0)
    assert isinstance(found, HessianLaw)
    assert found.level == -0.7
    # The outlier at -0.63 is stable with this decay.
    assert found.negative_outliers == 0 and found.kappa > 0.0


def test_first_step_of_the_quadratic_neuron():
    """C_u(1,1) = 1 + 48η²/δ and C_θ(1,1) = (1-4η)² + 48η²/δ."""
    eta, delta, d = 0.1, 3.0, 40
    quadratic = problem(loss="square", step=eta, activation="square", delta=delta)
    noise = 48.0 * eta**2 / delta
    cosine = np.sqrt((1.0 + noise) / (d * ((1.0 - 4.0 * eta) ** 2 + noise)))
    (found,) = success_probabilities(quadratic, [d], [1], paths=4096, scrambles=3)
    assert abs(found / (2.0 * ndtr(-0.5 / cosine)) - 1.0) < 0.02
    count = 400
    runs = success_probability(quadratic, d, [1], seeds=count, paths=1024)
    assert abs(runs - found) < 3.0 * np.sqrt(found * (1.0 - found) / count) + 0.01


def test_success_of_several_neurons_or_directions():
    """Two independent hard directions of one neuron: its squared cosine is a chi-square with two degrees of freedom."""
    d = 30
    (found,) = success_probabilities(problem("z1**2 + z2**2"), [d], [0], paths=1024, scrambles=1)
    assert abs(found - np.exp(-d / 8.0)) < 0.004
    pair = problem().model_copy(update={"network": network(2, "gelu")})
    single = 2.0 * ndtr(-0.5 * np.sqrt(d))
    (found,) = success_probabilities(pair, [d], [0], paths=1024, scrambles=1)
    assert abs(found - (1.0 - (1.0 - single) ** 2)) < 0.002


def test_report_gathers_what_the_parts_say():
    given = problem(delta=8.0)
    said = report(given, times=4, d=200, paths=1024, scrambles=1)
    curve = feature_learning(given, [0, 2, 4], paths=1024, scrambles=1)
    assert said.threshold == curve.dataset.threshold.values[-1, 0]
    assert said.bracket == tuple(curve.dataset.bracket.values)
    assert said.success_probability == success_probability(given, 200, 4, seeds=100, paths=1024)
    assert said.delta_it is not None
    np.testing.assert_allclose([said.delta_alg, said.delta_it], 0.5, rtol=1e-3)
    assert (said.information_leap, said.generative_leap) == (2, 2)
    for words in ("1 hard of 1", "δ_alg = 0.5", "δ*(t=4)", "bracket", "d = 200"):
        assert words in str(said)


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"criterion": "edge"}, "criterion must be one of trimmed, zero-level, growth, got 'edge'."),
        ({"start": OverlapStart(overlap=0.3)}, {}, "start must not overlap with the hard directions"),
        ({"activation": "relu"}, {}, "needs a twice differentiable activation, and relu has a kink"),
        ({}, {"times": [0.5]}, "whole"),
        ({}, {"scrambles": 0}, "scrambles must be at least 1, got 0."),
        ({}, {"paths": 1000}, "power of two"),
    ],
)
def test_bad_input_to_a_threshold(change, arguments, message):
    with pytest.raises(InputError, match=message):
        feature_learning(problem(**change), **{"times": [0, 2], **arguments})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: success_probability(problem(), 1, [2]), "d must be at least width"),
        (lambda: success_probability(problem("z + z**2"), 100, 4), "must have a hard direction"),
        (lambda: success_probability(problem(step=50.0, loss="square"), 100, 30, seeds=4), "step must be small enough"),
        (lambda: report(problem(activation="relu")), "report does not apply"),
        (lambda: hessian(problem(), -1), "time must be a whole number of steps"),
        (lambda: hessian(problem(step=50.0, loss="square"), 30), "step must be small enough"),
    ],
)
def test_bad_input_to_success_report_and_hessian(call, message):
    with pytest.raises(InputError, match=message):
        call()
