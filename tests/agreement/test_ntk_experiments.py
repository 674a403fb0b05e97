"""Neural tangents and lazy training of the gallery at reduced size: not contradicted, and planted errors caught."""

from dataclasses import replace

import numpy as np
import pytest

from limen.experiments.kernel.tangent.lazy_training import STARTS, LazyTraining
from limen.experiments.kernel.tangent.linearized_training import LinearizedTraining
from limen.experiments.kernel.tangent.neural_tangent import NeuralTangent
from limen.experiments.kernel.tangent.ntk_convergence import NTKConvergence
from limen.problem import InputError
from limen.result import Result, load, merge
from limen.simulation.kernel.networks.lazy_training import lazy_training

pytestmark = pytest.mark.slow

SEEDS = tuple(range(16))


def with_values(theory: Result, **changes) -> Result:
    """The theory with the values of some variables replaced, at the same places."""
    wrong = {name: theory.dataset[name].copy(data=values) for name, values in changes.items()}
    return replace(theory, dataset=theory.dataset.assign(wrong))


# To which part of the range agreement is asked for: 1% and twice the widest band. Smaller deviations are not seen here.
@pytest.mark.parametrize(
    ("experiment", "seeds", "part", "planted"),
    [
        (NeuralTangent(d=40, neurons=300), 40, 0.19, [{"noise": 0.0}, {"samples_per_dim": 4.0}]),
        (NTKConvergence(width=64, activation="erf", depth=2), 60, 0.05, [{"weight_variance": 2.2}, {"bias": 0.5}]),
        (NTKConvergence(width=128), 40, 0.16, [{"weight_variance": 2.2}, {"depth": 2}]),
    ],
    ids=["tangent features", "kernel of two layers", "kernel of three layers"],
)
def test_the_simulation_agrees_with_the_theory_and_not_with_the_twins(experiment, seeds, part, planted):
    simulation = merge([experiment.simulate(seed) for seed in range(seeds)])
    theory = experiment.theory()
    comparison = experiment.compare(theory, simulation)
    assert comparison.judged(tolerance=part).verdict == "agrees", str(comparison)
    (name,) = experiment.compared
    for changes in planted:
        twin = type(experiment)(**{**experiment.model_dump(mode="python"), **changes}).theory()
        wrong = with_values(theory, **{name: twin.dataset[name].values})
        assert experiment.compare(wrong, simulation).verdict == "disagrees", changes


def test_tangent_features_peak_at_the_threshold_of_interpolation():
    experiment = NeuralTangent(d=30, neurons=200)
    simulation = merge([experiment.simulate(seed) for seed in range(5)])
    numbers = experiment.headline(experiment.theory(), simulation)
    assert numbers["theory"]["peak_neurons"] == numbers["simulation"]["peak_neurons"] == 3.0
    train = np.median(simulation.dataset.few_neurons_train_mse.values, axis=0)
    below = simulation.dataset.neurons.values < 3
    assert train[below].min() > 1e-3 > 1e-10 > train[~below].max()


def test_one_network_deviates_like_one_over_root_width():
    experiment = NTKConvergence(width=512, activation="erf")
    simulation = merge([experiment.simulate(seed) for seed in range(16)])
    slope = experiment.headline(experiment.theory(), simulation)["simulation"]["slope_in_width"]
    assert slope == pytest.approx(-0.5, abs=0.08)


@pytest.fixture(scope="module")
def linearized():
    experiment = LinearizedTraining(width=256, samples=6, horizon=20.0)
    return experiment, experiment.theory(SEEDS), merge([experiment.simulate(seed) for seed in SEEDS])


def test_trained_outputs_agree_with_the_closed_form_and_not_with_a_wrong_clock(linearized):
    experiment, theory, simulation = linearized
    comparison = experiment.compare(theory, simulation)
    assert comparison.verdict == "agrees", comparison
    assert comparison.sizes == (16, 64, 256)
    # A clock 10 % slow, by interpolation in time: the gap no longer vanishes with the width.
    times = experiment.times()
    slow = theory.dataset[["train_output", "test_output"]].interp(time=0.9 * times)
    wrong = with_values(theory, train_output=slow.train_output.values, test_output=slow.test_output.values)
    assert experiment.compare(wrong, simulation).verdict == "disagrees"


def test_trained_outputs_disagree_with_the_closed_form_of_other_starts(linearized):
    experiment, theory, simulation = linearized
    others = experiment.theory(tuple(seed + 100 for seed in SEEDS)).dataset
    wrong = with_values(theory, train_output=others.train_output.values, test_output=others.test_output.values)
    matched, swapped = (experiment.gaps(prediction, simulation)[:, -1] for prediction in (theory, wrong))
    assert matched.max() < 0.05 < swapped.min()
    assert experiment.compare(wrong, simulation).verdict != "agrees"


def test_the_gap_and_the_drifts_fall_with_the_width(linearized):
    experiment, theory, simulation = linearized
    numbers = experiment.headline(theory, simulation)
    for name, tolerance in (("gap_slope", 0.25), ("kernel_drift_slope", 0.2), ("last_layer_drift_slope", 0.1)):
        assert numbers["simulation"][name] == pytest.approx(numbers["theory"][name], abs=tolerance)


@pytest.fixture(scope="module")
def lazy():
    experiment = LazyTraining()
    return experiment, experiment.theory(SEEDS), merge([experiment.simulate(seed) for seed in SEEDS])


def test_lazy_training_agrees_with_its_linearisation_and_not_with_planted_errors(lazy):
    experiment, theory, simulation = lazy
    comparison = experiment.compare(theory, simulation)
    assert comparison.verdict == "agrees", comparison
    right = theory.dataset
    slow = with_values(
        theory,
        residual=right.residual.interp(time=0.9 * right.time.values, kwargs={"fill_value": "extrapolate"}).values,
    )
    longer = with_values(theory, scaled_distance=1.1 * right.scaled_distance.values)
    # What the random start would do is not what the start at zero does.
    random = right.sup_distance.sel(start="random").isel(scale=-1).values[:, None] * experiment.largest_scale
    other = with_values(theory, scaled_distance=np.broadcast_to(random, right.scaled_distance.shape))
    for wrong in (slow, longer, other):
        assert experiment.compare(wrong, simulation).verdict == "disagrees"


def test_distance_and_deviation_scale_from_zero_and_level_off_from_a_random_start(lazy):
    experiment, theory, simulation = lazy
    numbers = experiment.headline(theory, simulation)
    assert numbers["simulation"]["distance_slope"] == pytest.approx(-1.0, abs=0.01)
    assert numbers["simulation"]["deviation_slope"] == pytest.approx(-2.0, abs=0.02)
    levels = simulation.dataset.sel(start="random").mean("seed")
    for name in ("sup_distance", "sup_deviation"):
        values = levels[name].values
        assert values[-1] == pytest.approx(values[-2], rel=0.1)


def test_the_bounds_hold_where_their_condition_does_and_need_a_start_at_zero(lazy):
    _, theory, simulation = lazy
    prediction, measured = theory.dataset, simulation.dataset
    holds = prediction.condition.values < 1.0
    assert holds[:, 0, -1].all()
    assert not holds[:, 0, 0].any()
    assert not holds[:, STARTS.index("random")].any()
    for bound, value in (("distance_bound", "sup_distance"), ("deviation_bound", "sup_deviation")):
        assert np.array_equal(np.isfinite(prediction[bound].values), holds)
        assert np.all(measured[value].values <= prediction[bound].values)


def test_both_sides_survive_the_file(lazy, linearized, tmp_path):
    for _, *results in (lazy, linearized):
        for result in results:
            again = load(result.save(tmp_path / "result.nc"))
            assert (again.ok, again.status, again.seeds) == (True, result.status, SEEDS)
            assert again.dataset.equals(result.dataset)


@pytest.mark.parametrize("mirrored", [True, False])
def test_the_theory_of_lazy_training_starts_where_the_training_does(mirrored):
    experiment = LazyTraining(samples=5, d=8, width=12)
    _, labels, features, initial = experiment._start(3, mirrored)
    run = lazy_training(2.0, [0.1], samples=5, dimension=8, width=12, mirrored=mirrored, seed=3)
    assert np.linalg.norm(labels - 2.0 * initial) == pytest.approx(run.initial_residual, rel=1e-10)
    singular = 2.0 * np.linalg.svd(features, compute_uv=False)
    np.testing.assert_allclose(singular[[0, -1]], (run.sigma_max, run.sigma_min), rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LazyTraining(width=41), "width must be even"),
        (lambda: LazyTraining(width=4, d=5, samples=10), "samples must be below"),
        (lambda: NeuralTangent(activation="relu"), "activation"),
        (lambda: NTKConvergence(depth=1), "depth must be"),
    ],
)
def test_parameters_without_a_picture_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()
