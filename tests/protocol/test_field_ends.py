"""Experiments at the ends of their fields: a number or one sentence, never a traceback."""

import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import field_ends

from limen.experiments.registry import experiment_class
from limen.problem import Adam, GradientDescent, GradientFlow, InputError, MultiIndex, TwoLayer, network, target
from limen.problem.divergence import refusal, remedy
from limen.result import checked
from limen.simulation.kernel.least_squares import draw_least_squares
from limen.theory.descent.batches import draw_batches
from limen.theory.descent.entrywise import entrywise
from limen.theory.descent.solve import descent
from limen.theory.effective.stiefel_hitting import frame_hitting_times
from limen.theory.flow.mean_field import mean_field
from limen.theory.lsoda import lsoda
from limen.theory.one_pass.incremental import incremental_learning
from limen.theory.thresholds.feature_learning import _lowest_crossings

# Closed forms; `benchmarks/field_ends.py` walks through all experiments, for an hour.
LIGHT = ("marchenko-pastur", "ridge-early-stopping", "uniform-gap", "double-descent")


@pytest.mark.parametrize("name", LIGHT)
def test_every_end_of_every_field_is_answered(name):
    said = dict(field_ends.walk(name, seconds=2.0))
    assert said
    assert {place: words for place, words in said.items() if words.startswith(("error", "warning"))} == {}


@pytest.mark.parametrize(
    ("name", "changes", "variable"),
    [
        ("double-descent", {"noise": 2.0}, "second_minimum_ratio"),
        ("double-descent", {"signal": 1e-300}, "second_minimum_ratio"),
        ("benign-overfitting", {"growth": 1.2}, "rank_estimate"),
    ],
)
def test_what_is_infinite_for_a_reason_is_announced(name, changes, variable):
    """More noise than signal: the risk has no second minimum. A floor of few directions: no tail is wide enough."""
    kind = experiment_class(name)
    theory = kind(**{**kind.quick, **changes}).theory()
    assert theory.ok, theory.status
    assert np.isinf(theory.dataset[variable].values).any()


@pytest.mark.parametrize(
    ("name", "field", "least"),
    [
        ("marchenko-pastur", "ratio", 1e-6),
        ("bbp-transition", "ratio", 1e-6),
        ("max-margin", "step", 1e-5),
        ("uniform-gap", "radius", 1e-6),
        ("ridge-early-stopping", "ratio", 1e-6),
        ("bbp-diffusion", "step", 1e-6),
        ("bbp-diffusion", "horizon", 1e-6),
        ("random-features-flow", "samples_per_dim", 1e-6),
        ("random-features-flow", "features_per_dim", 1e-6),
        ("spiked-tensor", "step", 1e-6),
    ],
)
def test_ends_that_were_lost_in_rounding_have_bounds(name, field, least):
    """At 1e-300 these had NaN in place of a number, or a sentence about a variable the user never named."""
    kind = experiment_class(name)
    with pytest.raises(InputError, match=rf"{field} .*1e-0{round(-np.log10(least))}"):
        kind(**{**kind.quick, field: 1e-300})
    assert field_ends.answer(kind, {field: least}, 10.0) == "number"


def test_a_level_below_every_start_is_named():
    with pytest.raises(InputError, match=r"level must be well above 0.025, the overlap of a random start at d = 1600"):
        experiment_class("online-pca")(d=1600, level=1e-3).theory()


def test_arithmetic_that_breaks_down_names_the_field():
    experiment = experiment_class("ridge-early-stopping")(d=60, noise=1e-9)

    with pytest.raises(InputError, match=r"ridge-early-stopping .* noise = 1e-09 \(default 0.5\)"):
        experiment._answered("theory", lambda: 1 / 0, ())


@pytest.mark.parametrize(
    ("samples_per_dim", "batch_fraction", "named"),
    [
        (3.0, 1.0, "step must be small enough for descent: take a smaller step than 0.25"),
        (1e-300, 1.0, "samples_per_dim must be large enough for descent: take a larger samples_per_dim than"),
        (3.0, 1e-300, "batch_fraction must be large enough for descent: take a larger batch_fraction than"),
        (1e-3, 0.5, "samples_per_dim must be"),
    ],
)
def test_weights_that_diverge_name_what_is_to_blame(samples_per_dim, batch_fraction, named):
    """Below one sample per dimension the curvature grows without bound: no step is small enough."""
    algorithm = GradientDescent(0.25, batch_fraction=batch_fraction)
    problem = TwoLayer(target("z"), network(1, "tanh"), algorithm, samples_per_dim)
    assert refusal(problem, remedy(problem)).startswith(named)


@pytest.mark.parametrize("changes", [{"samples_per_dim": 1e-300}, {"horizon": 1e-300}])
def test_too_few_steps_of_sgd_name_all_that_counts_them(changes):
    kind = experiment_class("sgd-beside-flow")
    with pytest.raises(InputError, match=r"horizon \* samples_per_dim / rate, .* must be 1 to .*, got .*1e-300"):
        kind(**{**kind.quick, **changes})


def test_weight_decay_that_diverges_alone_is_to_blame():
    problem = TwoLayer(target("z"), network(1, "tanh"), GradientDescent(1.2, weight_decay=10.0), 3.0)
    assert remedy(problem) == "take a smaller weight_decay than 10, or a smaller step than 1.2"
    assert refusal(problem, "").startswith("weight_decay must be small enough")


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("grokking", {"start": 10.0}, "start must be at most √⌊d/2⌋ = 4.472, the length of a neuron, got 10."),
        ("learning-curve-data", {"largest": 1500}, "largest must be below the 569 rows of breast_cancer, got 1500."),
        ("scaling-law", {"largest": 1000}, "ambient must exceed largest = 1000, got 200."),
        ("adam-vs-sgd", {"beta2": 1.0 - 1e-16}, "beta2 must be at most 0.999999, got 0.9999999999999999."),
    ],
)
def test_the_field_that_was_given_is_named(name, changes, sentence):
    kind = experiment_class(name)
    assert field_ends.answer(kind, changes, 10.0) == f"sentence: {sentence}"


@pytest.mark.parametrize("name", ["overparametrized-committee", "mean-field-committee"])
def test_too_few_dimensions_for_a_committee_are_named(name):
    kind = experiment_class(name)
    with pytest.raises(InputError, match=r"d must be at least students \+ teachers = \d+, got 4\."):
        kind(**{**kind.quick, "d": 4})


def test_a_degree_that_is_not_learnt_has_no_learning_time():
    """A narrow network has not learnt the first degree at the last time: no fault of the theory."""
    found = checked(incremental_learning((1.0, 1.0), (1.0, 1.0), 1e-3, [0.0, 1e-4], 5))
    assert found.ok, found.status
    assert np.isnan(found.dataset.learning_time.values).all()


@pytest.mark.parametrize("replacement", [True, False])
def test_a_batch_smaller_than_a_path_is_named(replacement):
    """In single precision 1e-300 is 0: forces were 0/0."""
    algorithm = GradientDescent(0.25, batch_fraction=1e-300, replacement=replacement)
    with pytest.raises(InputError, match=r"batch_fraction must be at least 1 / paths = 0.00195, .* got 1e-300\."):
        draw_batches(algorithm, 3, 512, [np.random.default_rng(0)])


def test_distances_of_both_signs_follow_no_power():
    """Without noise a narrow network may be ahead of infinite width: the exponent was NaN, with a warning."""
    kind = experiment_class("mean-field-flow")
    experiment = kind(**kind.quick)
    ahead = np.array([[0.1], [-0.1]]) * np.ones(experiment.times().size)
    behind = -np.abs(ahead) * np.array([[1.0], [0.5]])

    def named(overlap):
        variables = {
            "mean_field_overlap": ("time", np.zeros(overlap.shape[1])),
            "overlap": (("width", "time"), overlap),
        }
        variables |= {f"witness_{name}": ("witness_time", np.ones(1)) for name in ("test_loss", "overlap")}
        return experiment.numbers(xr.Dataset(variables))

    assert "exponent_of_width" not in named(ahead)
    assert named(behind)["exponent_of_width"] == pytest.approx(-1.0)


def test_mean_field_of_hardly_any_samples_comes_back():
    """At 1e-300 samples per parameter the integrator never returned; overlaps are linear in so short a time."""
    weights = network(4, "tanh", second_layer=1.0, train_second_layer=True)
    moved = [
        mean_field(TwoLayer(target("z"), weights, GradientFlow(), 4.0 * few), 1.0).dataset.overlap.values[-1] / few
        for few in (1e-20, 1e-300)
    ]
    np.testing.assert_allclose(moved[1], moved[0], rtol=1e-12)


def test_descent_on_hardly_any_samples_says_what_is_to_blame():
    """Squares of the weights overflow at the first step: no warning, one sentence."""
    problem = TwoLayer(target("z**2"), network(1, "tanh"), GradientDescent(0.5), 1e-300)
    found = descent.solve(problem, 3, paths=256, scrambles=2)
    assert not found.ok
    assert "take a larger samples_per_dim than 1e-300, or a smaller step than 0.5" in found.status


def test_nothing_is_hit_in_no_time():
    """Lengths that do not move in a double are never at the level, without a division by zero."""
    problem = MultiIndex(target=target("z1*z2"), step=0.1)
    assert np.isinf(frame_hitting_times(problem, 1024, 0.5, 1e-300, 8)).all()


@pytest.mark.parametrize("algorithm", [Adam(0.1), GradientDescent(0.1)])
def test_entrywise_rules_need_samples_in_single_precision(algorithm):
    """At 1e-30 gradients of size 1e15 are still squared; below they divided by zero."""
    problem = TwoLayer(target("z"), network(1, "tanh"), algorithm, 1e-30)
    assert np.isfinite(entrywise.solve(problem, 2, paths=256, scrambles=2).dataset.train_loss.values[:1]).all()
    with pytest.raises(InputError, match=r"samples_per_dim must be at least 1e-30, .* got 1e-31\."):
        entrywise.solve(problem.model_copy(update={"samples_per_dim": 1e-31}), 2, paths=256, scrambles=2)


def test_a_loss_that_stands_still_asks_for_a_larger_step():
    """Sets differ by more than so small a range, but more paths would not help."""
    problem = TwoLayer(target("z"), network(1, "tanh"), Adam(1e-300), 3.0)
    found = entrywise.solve(problem, 2, paths=256, scrambles=2)
    assert not found.ok
    assert "moves by less than 0.1%" in found.status and "a larger step than 1e-300" in found.status


def test_samples_beyond_memory_are_refused_before_they_are_drawn():
    with pytest.raises(InputError, match=r"the inputs, 1e\+12 samples in 60 dimensions, needs .* GB of memory"):
        draw_least_squares(0, 60, 10**12, 0.1)


def test_a_sign_that_never_changes_crosses_nowhere():
    """With a step of 1e-300 nothing depends on the samples: infinite, without a division by zero."""
    assert np.isinf(_lowest_crossings(lambda index: np.array([1.0]))).all()


def test_a_run_without_samples_names_the_field_of_the_flow():
    """Theory answers at any number of samples; a run needs one."""
    kind = experiment_class("learn-then-overfit")
    said = field_ends.answer(kind, {"samples_per_parameter": 1e-300}, 10.0, simulate=True)
    assert said == "sentence: samples_per_parameter must leave a sample for 3 neurons in 16 dimensions, got 1e-300."


def test_spans_near_the_least_number_are_integrated():
    """LSODA never returned from 1e-300; growth is linear in so short a time, and the rate sees the time itself."""
    times = np.array([0.0, 0.5e-300, 1e-300])
    found = lsoda(lambda t, y: [2.0, t], (0.0, 0.0), times, 1e-9, 1e-12)
    np.testing.assert_allclose(found.y[0], 2.0 * times, rtol=1e-12)
    assert field_ends.answer(experiment_class("spiked-tensor"), {"horizon": 1e-300}, 10.0) == "number"


def test_too_many_layers_name_both_numbers():
    kind = experiment_class("attention-layers")
    said = field_ends.answer(kind, {"eta": 1e-300}, 10.0)
    assert said.startswith("sentence: beta must be smaller or eta larger than 3 and 1e-300")


@pytest.mark.parametrize("name", ["committee-sgd", "incremental-learning"])
def test_a_run_of_too_many_steps_names_the_rate(name):
    """1e300 steps became none in whole numbers, and the run said it was fine."""
    said = field_ends.answer(experiment_class(name), {"rate": 1e-300}, 10.0, simulate=True)
    assert said.startswith("sentence: rate must be larger for at most 2^62 steps, got ")
