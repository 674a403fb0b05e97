"""Gradient descent through the escape from a hard direction, at finite dimension; planted errors must be caught."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import limen
from limen.experiments.descent.grokking import Grokking
from limen.experiments.thresholds import learning_transition
from limen.experiments.thresholds.learning_transition import LearningTransition
from limen.result import Result, merge
from limen.simulation.descent import gradient_descent
from limen.simulation.descent.restarts import fresh_losses, nested_restarts, restarts
from limen.theory.descent import finite_dimension
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


GROKKING = Grokking(d=160, steps=24, samples_per_dim=(4.0, 10.0), start=1.0)
TRANSITION = LearningTransition(sizes=(30, 90), steps=24, samples_per_dim=(3.0, 12.0), runs=256)


@pytest.fixture(autouse=True, scope="module")
def _fewer_paths():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning_transition, "PATHS", 1024)
        yield


@pytest.fixture(scope="module")
def grokking_runs() -> Result:
    return merge([GROKKING.simulate(seed) for seed in range(96)])


def with_luck(factor: float, experiment: Grokking | LearningTransition = GROKKING) -> Result:
    """The theory with the fluctuation of the sample's mean scaled by a factor."""
    right = finite_dimension.conditioned_pass

    def scaled(problem, points, start, steps, sampling, pinned, **options):
        parts = {name: getattr(sampling, name) for name in ("luck", "decisive")}
        scaled = {name: np.float32(factor) * part for name, part in parts.items() if part is not None}
        wrong = sampling._replace(**scaled)
        return right(problem, points, start, steps, wrong, pinned, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finite_dimension, "conditioned_pass", scaled)
        return experiment.theory()


@pytest.mark.slow
def test_losses_through_the_escape_and_planted_errors(grokking_runs):
    """No fluctuation of the sample, one that is too large, a drift that is off."""
    comparison = GROKKING.compare(GROKKING.theory(), grokking_runs)
    assert comparison.verdict != "disagrees", str(comparison)
    assert comparison["test_loss"].deviation < 0.1, str(comparison)
    wrong = {
        "no fluctuation": with_luck(0.0),
        "fluctuation twice as large": with_luck(2.0),
        "a step a fifth longer": GROKKING.model_copy(update={"step": 1.44}).theory(),
    }
    for what, theory in wrong.items():
        twin = GROKKING.compare(replace(theory, spec=GROKKING.describe()), grokking_runs)
        assert twin.verdict == "disagrees", f"{what}: {twin}"


@pytest.mark.slow
def test_escape_with_momentum_in_batches():
    """Half of the sample at each step and momentum: the losses through the escape. Twins: no momentum and the step
    it makes in the end, and a step a third longer."""
    rule = {"step": 0.6, "momentum": 0.5, "batch_fraction": 0.5}
    given = Grokking(d=160, steps=24, samples_per_dim=(10.0,), start=1.0, runs=256, **rule)
    runs = merge([given.simulate(seed) for seed in range(64)])
    comparison = given.compare(given.theory(), runs)
    assert comparison.verdict != "disagrees", str(comparison)
    for wrong in ({"momentum": 0.0, "step": 1.2}, {"step": 0.8}):
        twin = given.model_copy(update=wrong).theory()
        caught = given.compare(replace(twin, spec=given.describe()), runs)
        assert caught.verdict == "disagrees", f"{wrong}: {caught}"


@pytest.mark.slow
def test_the_probability_of_success_and_its_twins():
    """Within a tenth; 120 seeds see a fluctuation twice as large and half as many samples again."""
    runs = merge([TRANSITION.simulate(seed) for seed in range(120)])
    comparison = TRANSITION.compare(TRANSITION.theory(), runs)
    assert comparison.verdict != "disagrees", str(comparison)
    assert comparison["success"].deviation < 0.1, str(comparison)
    more = TRANSITION.model_copy(update={"samples_per_dim": (4.5, 18.0)}).theory()
    more = replace(more, spec=runs.spec, dataset=more.dataset.assign_coords(ratio=[3.0, 12.0]))
    for what, theory in {"fluctuation x 2": with_luck(2.0, TRANSITION), "half as many samples again": more}.items():
        twin = TRANSITION.compare(theory, runs)
        assert twin.verdict == "disagrees", f"{what}: {twin}"


@pytest.mark.slow
def test_two_neurons_find_two_hard_directions_as_often_as_predicted():
    """Network, target and trainings of another kind than one neuron's: one training on each sample. Without the
    fluctuation of the sample the part that learns is too small."""
    given = {"sizes": (40.0, 80.0), "steps": 20, "samples_per_dim": (4.0, 14.0), "runs": 128, "target": "z1*z2"}
    pair = LearningTransition(width=2, step=2.4, **given)
    runs = merge([pair.simulate(seed) for seed in range(240)])
    comparison = pair.compare(pair.theory(), runs)
    assert comparison.verdict != "disagrees", str(comparison)
    assert pair.compare(with_luck(0.0, pair), runs).verdict == "disagrees"


@pytest.mark.slow
def test_one_start_is_gradient_descent():
    given, times = problem(start=0.05), np.arange(9.0)
    one = restarts(given, times, 60, 3, 1).dataset
    larger = nested_restarts(given, (10.0, 23.0), times, 60, 3, 1)[0]
    other = gradient_descent.solve(given, times, d=60, seed=3).dataset
    for train_loss in (one.train_loss.values[0], larger.train_loss):
        np.testing.assert_allclose(train_loss, other.train_loss.values, atol=2e-6)
    fresh = fresh_losses(given, larger.overlap, larger.square)
    np.testing.assert_allclose(fresh, other.test_loss.values, atol=2e-6)
    cosine = np.abs(other.overlap.values.squeeze()) / np.sqrt(other.gram.values.squeeze())
    np.testing.assert_allclose(one.cosine.values.squeeze(), cosine, atol=1e-5)


def test_starts_on_one_sample_differ_and_replay():
    first, again = (restarts(problem(), np.arange(5.0), 60, 1, 3).dataset for _ in range(2))
    np.testing.assert_array_equal(first.train_loss.values, again.train_loss.values)
    assert np.unique(first.train_loss.values[0, :, -1]).size == 3


def test_larger_dimensions_escape_less_and_later():
    few = {"times": 20, "paths": 1024, "seeds": 64}
    chances = [limen.thresholds.success_probability(problem(8.0), d=d, **few) for d in (50, 800)]
    assert 1.0 >= chances[0] > chances[1] + 0.1
    times = [limen.thresholds.escape_time(problem(20.0), d=d, **few) for d in (50, 200)]
    assert times[0] < times[1]
    linear = success.success_probabilities(problem(), (50, 200, 800), 20, paths=1024, scrambles=1)
    assert 1.0 > linear[0] > linear[1] > linear[2] > 0.0


def test_runs_that_never_escape_are_no_failure():
    found = limen.descent.average_run(problem(2.0), 4, 400, 32, 256)
    assert found.ok, found.status
    assert np.isinf(found.dataset.escape_time.values).all()


def test_starts_that_are_shared_out_have_the_law_of_random_ones():
    """Lengths are exact, overlaps have variance 1/d, neurons keep what they share beside the target."""
    pair = problem(network=limen.network(2, "gelu"))
    normals = np.random.default_rng(0).standard_normal((400, 2))
    placed = []
    for row in range(400):
        own = finite_dimension.start_overlaps(pair, 20, row)
        overlap, gram = finite_dimension._placed(pair, 20, row, *own, normals[row])
        np.testing.assert_allclose(np.diag(gram), 1.0)
        assert (np.sign(overlap[:, 0]) == np.sign(normals[row])).all()
        placed.append([*overlap[:, 0] ** 2, gram[0, 1] ** 2])
    np.testing.assert_allclose(np.mean(placed, axis=0), 1.0 / 20.0, rtol=0.2)


def test_quantiles_and_means_of_runs():
    options: dict[str, Any] = {"d": 200, "paths": 1024, "seeds": 32}
    curves = limen.descent.finite_size(problem(20.0), 12, quantiles=(0.2, 0.5, 0.9), **options).dataset
    assert (np.diff(curves.cosine.values[:, -1]) > 0).all()
    assert (np.diff(curves.escape_time.values) >= 0).all()
    mean = limen.descent.average_run(problem(20.0), 12, **options).dataset
    assert ((mean.test_loss_low <= mean.test_loss) & (mean.test_loss <= mean.test_loss_high)).all()
    assert (np.diff(mean.escaped.values) >= 0).all() and mean.test_loss.attrs["error"] in mean
    rows = limen.predict(problem(20.0), 12, **options).dataset
    error = np.hypot(rows.test_loss.std("seed").values / 32**0.5, mean.test_loss_error.values)
    assert (np.abs(rows.test_loss.mean("seed").values - mean.test_loss.values) < 4.0 * error + 1e-3).all()


def test_even_luck_has_the_same_law_and_means_of_smaller_error():
    options: dict[str, Any] = {"d": 200, "paths": 1024}
    given, times = problem(12.0, start=0.5 / 200**0.5), [0, 6, 12]
    even = [limen.descent.average_run(given, times, seeds=64, seed=i, **options).dataset for i in range(4)]
    plain = [limen.predict(given, times, seeds=64, seed=i, **options).dataset for i in range(4)]
    values = np.array([one.test_loss.values[-1] for one in even])
    means, spread = (
        np.array([getattr(one.test_loss, what)("seed").values[-1] for one in plain]) for what in ("mean", "std")
    )
    error = spread.mean() / 64**0.5
    assert abs(values.mean() - means.mean()) < 4.0 * error / 2.0
    assert np.mean([one.test_loss_error.values[-1] for one in even]) < 0.75 * error


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: limen.descent.finite_size(problem(), 4, d=0), "d must be a positive whole number"),
        (lambda: limen.descent.finite_size(problem(), 4, d=100, quantiles=1.0), r"quantiles must lie in \(0, 1\)"),
        (lambda: limen.descent.average_run(problem(target=limen.target("z")), 4, d=100), "must have a hard direction"),
        (lambda: limen.thresholds.success_probability(problem(), d=0, times=4), "d must be a positive whole"),
        (
            lambda: limen.thresholds.success_probability(problem(target=limen.target("z")), d=100, times=4),
            "must have a hard direction",
        ),
        (lambda: success.success_probabilities(problem(start=0.3), [100], 4), "must have a hard direction"),
        (lambda: success.success_probabilities(problem(), (100, 1), 4), "d must be a whole number"),
        (lambda: limen.descent.average_run(problem(algorithm=limen.GradientDescent(1e9)), 4, d=100), "step must be"),
        (lambda: restarts(problem(network=limen.network(2, "gelu")), np.arange(2.0), 50, 0), "one neuron"),
        (lambda: restarts(problem(), np.arange(2.0), 50, 0, 0), "starts must be at least 1"),
        (lambda: Grokking(samples_per_dim=(-1.0,)), "samples_per_dim must be"),
        (lambda: Grokking(target="z"), "target must have a hard direction"),
        (lambda: LearningTransition(sizes=(5.0,)), "sizes must be"),
        (lambda: LearningTransition(samples_per_dim=(5.0, 4.0)), "samples_per_dim must ascend"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
