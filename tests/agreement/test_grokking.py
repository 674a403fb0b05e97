"""Gradient descent through the escape from a hard direction, at finite dimension; planted errors must be caught."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

import limen
from limen.experiments.descent import grokking
from limen.experiments.descent.grokking import Grokking
from limen.experiments.thresholds import learning_transition
from limen.experiments.thresholds.learning_transition import LearningTransition
from limen.result import Result, merge
from limen.simulation.descent import gradient_descent
from limen.simulation.descent.restarts import fresh_losses, restarts
from limen.theory.descent import escape
from limen.theory.thresholds import success


def problem(samples_per_dim: float = 10.0, start: float | None = None, **changes) -> limen.TwoLayer:
    options = {
        "target": limen.target("z**2"),
        "network": limen.network(1, "gelu"),
        "algorithm": limen.GradientDescent(1.2),
        "samples_per_dim": samples_per_dim,
        "loss": "huber:1",
    } | changes
    if start is not None:
        options["start"] = limen.OverlapStart(start)
    return limen.TwoLayer(**options)


GROKKING = Grokking(d=150, steps=24, samples_per_dim=(4.0, 10.0))
TRANSITION = LearningTransition(sizes=(30, 90), steps=24, samples_per_dim=(3.0, 6.0, 12.0))


@pytest.fixture(autouse=True, scope="module")
def _fewer_paths():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grokking, "PATHS", 4096)
        patch.setattr(learning_transition, "PATHS", 4096)
        yield


@pytest.fixture(scope="module")
def grokking_runs() -> Result:
    return merge([GROKKING.simulate(seed) for seed in range(48)])


def grokking_theory(experiment: Grokking = GROKKING) -> Result:
    return experiment.theory()


@pytest.mark.slow
def test_losses_through_the_escape(grokking_runs):
    comparison = GROKKING.compare(grokking_theory(), grokking_runs)
    assert comparison.verdict != "disagrees", str(comparison)
    assert comparison["test_loss"].deviation < 0.1, str(comparison)


@pytest.mark.slow
def test_without_the_noise_of_the_sample_the_escape_comes_late(grokking_runs):
    """The matched start is then the start itself, whatever the luck."""
    right = escape.matched_overlap

    def deaf(prediction, d, luck, overlap, norm):
        starts, at = right(prediction, d, luck, overlap, norm)
        return np.full_like(starts, abs(overlap)) * (1.0 + 1e-3 * np.arange(len(starts))), at

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(escape, "matched_overlap", deaf)
        twin = GROKKING.compare(grokking_theory(), grokking_runs)
    assert twin["test_loss"].verdict == "disagrees", str(twin)


@pytest.mark.slow
def test_a_pinned_overlap_never_generalises(grokking_runs):
    """The limit of infinite dimension alone."""
    pinned = grokking_theory(GROKKING.model_copy(update={"d": 10**8}))
    twin = GROKKING.compare(replace(pinned, spec=grokking_runs.spec), grokking_runs)
    assert twin["test_loss"].verdict == "disagrees", str(twin)


@pytest.mark.slow
def test_a_step_a_fifth_longer_is_noticed(grokking_runs):
    longer = grokking_theory(GROKKING.model_copy(update={"step": 1.44}))
    twin = GROKKING.compare(replace(longer, spec=grokking_runs.spec), grokking_runs)
    assert twin.verdict == "disagrees", str(twin)


@pytest.mark.slow
def test_the_probability_of_success_and_its_twins():
    runs = merge([TRANSITION.simulate(seed) for seed in range(40)])
    comparison = TRANSITION.compare(TRANSITION.theory(), runs)
    assert comparison.verdict != "disagrees", str(comparison)
    assert comparison["success"].deviation < 0.1, str(comparison)
    right = success.hard_cosine

    def amplified_start(prediction, d):
        gram, amplification = (prediction.dataset[name].values.reshape(-1) for name in ("gram", "amplification"))
        return (np.abs(amplification) / np.sqrt(d * gram))[:, None]

    wrong = {"no noise of the sample": amplified_start, "d half": lambda prediction, d: right(prediction, d // 2)}
    for what, cosine in wrong.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(success, "hard_cosine", cosine)
            twin = TRANSITION.compare(TRANSITION.theory(), runs)
        assert twin.verdict == "disagrees", f"{what}: {twin}"


@pytest.mark.slow
def test_one_start_is_gradient_descent():
    given, times = problem(start=0.05), np.arange(9.0)
    one = restarts(given, times, 60, 3, 1).dataset
    larger = restarts(given, times, 60, 3, 1, drawn_per_dim=23.0).dataset
    other = gradient_descent.solve(given, times, d=60, seed=3).dataset
    for runs in (one, larger):
        np.testing.assert_allclose(runs.train_loss.values[0], other.train_loss.values, atol=2e-6)
        np.testing.assert_allclose(fresh_losses(given, runs)[0], other.test_loss.values, atol=2e-6)
    cosine = np.abs(other.overlap.values.squeeze()) / np.sqrt(other.gram.values.squeeze())
    np.testing.assert_allclose(one.cosine.values.squeeze(), cosine, atol=1e-5)


def test_starts_on_one_sample_differ_and_replay():
    first, again = (restarts(problem(), np.arange(5.0), 60, 1, 3).dataset for _ in range(2))
    np.testing.assert_array_equal(first.train_loss.values, again.train_loss.values)
    assert np.unique(first.train_loss.values[0, :, -1]).size == 3


def test_quantiles_of_a_folded_normal():
    level = np.array([[0.1], [0.5], [0.9]])
    half = escape.folded_quantile(level, 0.0, np.array([1.0, 2.0]))
    assert half == pytest.approx(ndtri(0.5 + 0.5 * level) * [1.0, 2.0], abs=1e-12)
    draws = np.abs(0.7 + 1.3 * np.random.default_rng(0).standard_normal(400_000))
    drawn = np.quantile(draws, level[:, 0])
    assert escape.folded_quantile(level, 0.7, np.array([1.3]))[:, 0] == pytest.approx(drawn, abs=8e-3)


def test_larger_dimensions_escape_less_and_later():
    few = {"times": 20, "paths": 1024, "scrambles": 1}
    chances = [limen.thresholds.success_probability(problem(), d=d, **few) for d in (50, 200, 800)]
    assert 1.0 > chances[0] > chances[1] > chances[2] > 0.0
    assert success.success_probabilities(problem(), (50, 200, 800), **few) == pytest.approx(chances)
    times = [limen.thresholds.escape_time(problem(20.0), d=d, **few) for d in (50, 800)]
    assert times[0] < times[1]
    curves = limen.descent.finite_size(problem(20.0), 20, d=200, quantiles=(0.2, 0.5, 0.9), paths=1024, scrambles=1)
    assert (np.diff(curves.dataset.start_overlap.values) > 0).all()
    assert (np.diff(curves.dataset.cosine.values[:, -1]) > 0).all()
    assert (np.diff(curves.dataset.escape_time.values[1:]) < 0).all()


def test_a_given_start_and_its_easy_part_are_kept():
    """$z_1+z_2^2$: the overlap with the easy direction stays in the informed start."""
    mixed = problem(target=limen.target("z1 + z2**2"), start=None)
    mixed = mixed.model_copy(update={"start": limen.OverlapStart([[0.3, 0.02]])})
    split = escape.escape_of(mixed, 400)
    assert abs(split.overlap or 0.0) == pytest.approx(0.02, abs=1e-3)
    start = split.informed(0.1).start
    assert isinstance(start, limen.OverlapStart)
    informed = np.array(start.overlap)
    assert np.abs(informed) == pytest.approx(np.array([[0.3, 0.1]]), abs=6e-3)
    found = limen.descent.finite_size(mixed, 3, d=400, quantiles=0.5, paths=1024, scrambles=1).dataset
    assert abs(found.overlap.values[0, 0, 0, 0]) == pytest.approx(0.3, abs=6e-3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: limen.descent.finite_size(problem(), 4, d=1), "d must be a whole number of at least 2"),
        (lambda: limen.descent.finite_size(problem(), 4, d=100, quantiles=1.0), r"quantiles must lie in \(0, 1\)"),
        (lambda: limen.descent.average_run(problem(target=limen.target("z")), 4, d=100), "one hard direction"),
        (
            lambda: limen.descent.finite_size(problem(network=limen.network(2, "gelu")), 4, d=100),
            "one neuron and one hard direction, got width 2",
        ),
        (lambda: limen.thresholds.success_probability(problem(), d=0, times=4), "d must be a whole number"),
        (
            lambda: limen.thresholds.success_probability(problem(target=limen.target("z")), d=100, times=4),
            "must have a hard direction",
        ),
        (lambda: limen.thresholds.escape_time(problem(start=0.3), d=100, times=4), "must have a hard direction"),
        (lambda: success.success_probabilities(problem(), (100, 1), 4), "d must be a whole number"),
        (lambda: limen.descent.average_run(problem(algorithm=limen.GradientDescent(500.0)), 4, d=100), "step must be"),
        (lambda: restarts(problem(network=limen.network(2, "gelu")), np.arange(2.0), 50, 0), "one neuron"),
        (lambda: restarts(problem(), np.arange(2.0), 50, 0, 0), "starts must be at least 1"),
        (lambda: Grokking(samples_per_dim=(-1.0,)), "samples_per_dim must be"),
        (lambda: Grokking(target="z"), "one hard direction"),
        (lambda: LearningTransition(sizes=(5.0,)), "sizes must be"),
        (lambda: LearningTransition(samples_per_dim=(5.0, 4.0)), "samples_per_dim must ascend"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
