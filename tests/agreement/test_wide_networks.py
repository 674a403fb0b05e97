"""A hundred neurons equal in law against their training: easy and hard directions, random and informed starts.

The theory is continued in 1/m from 8, 16 and 32 neurons; training has a hundred. Held against each other: losses, the
mean overlap of the neurons, the mean square of a weight vector and the mean product of two different ones.
"""

from dataclasses import replace

import numpy as np
import pytest

import limen
from limen.result import Result
from limen.theory.descent import equal_neurons

EASY = limen.TwoLayer(
    limen.target("tanh(2*z) + 0.4*(z**2 - 1)", noise=0.1),
    limen.network(100, "tanh", 2.0),
    limen.GradientDescent(0.4 * 100),
    samples_per_dim=2.0,
)
HARD = limen.TwoLayer(
    limen.target("tanh(z**2 - 1)", noise=0.1),
    limen.network(100, "gelu", 2.0),
    limen.GradientDescent(0.25 * 100),
    samples_per_dim=6.0,
)
INFORMED = HARD.model_copy(update={"start": limen.OverlapStart(0.6)})
PROBLEMS = {"easy": EASY, "hard": HARD, "hard, informed": INFORMED}
TIMES = {"easy": [0, 4, 16], "hard": [0, 3, 8], "hard, informed": [0, 3, 8]}
SIZES = {"easy": 1000, "hard": 500, "hard, informed": 500}
SEEDS = {"easy": 24, "hard": 24, "hard, informed": 16}
OBSERVED = ("train_loss", "test_loss", "own_gram", "shared_gram", "overlap")
# The easy test loss differs between samples by a fifteenth of its range. From a random start the overlap with a hard
# direction vanishes in the limit, and neurons share so little that its range is no measure.
DECIDED = {
    "easy": set(OBSERVED) - {"test_loss"},
    "hard": {"train_loss", "test_loss", "own_gram"},
    "hard, informed": set(OBSERVED),
}


def with_step(problem: limen.TwoLayer, factor: float) -> limen.TwoLayer:
    algorithm = problem.algorithm.model_copy(update={"step": factor * problem.algorithm.step})
    return problem.model_copy(update={"algorithm": algorithm})


def with_width(problem: limen.TwoLayer, width: int) -> limen.TwoLayer:
    """Another number of neurons, each of which moves as before."""
    network = problem.network.model_copy(update={"width": width})
    return with_step(problem.model_copy(update={"network": network}), width / problem.network.width)


def by_group(run: Result) -> Result:
    """Training under the names of the theory: means over neurons, and over pairs of different ones."""
    dataset, m = run.dataset, run.dataset.sizes["neuron"]
    own = np.einsum("stjj->st", dataset.gram.values) / m
    shared = (dataset.gram.values.sum(axis=(2, 3)) / m - own) / (m - 1)
    kept = dataset[["train_loss", "test_loss"]].assign(
        overlap=dataset.overlap.mean("neuron").expand_dims("group", 2),
        own_gram=(("seed", "time", "group"), own[..., None]),
        shared_gram=(("seed", "time", "group", "group2"), shared[..., None, None]),
    )
    return replace(run, dataset=kept.assign_attrs(dataset.attrs))


def theory(problem: limen.TwoLayer, times: list[int], scrambles: int = 5) -> Result:
    """Overlaps of equal neurons are the same: that of the first stands for the group."""
    found = limen.predict(problem, times, theory="equal-neurons", scrambles=scrambles)
    first = {name: found.dataset[name][:, :1].rename(neuron="group") for name in ("overlap", "overlap_spread")}
    names = [name for name in found.dataset if name.removesuffix("_spread") in OBSERVED[:-1]]
    return replace(found, dataset=found.dataset[names].assign(first))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_hundred_neurons_agree_with_training_and_their_twins_do_not(name):
    """What is in `DECIDED` agrees; of the rest the runs see the twins: a step a tenth longer, infinite data, eight
    neurons."""
    problem, times = PROBLEMS[name], TIMES[name]
    runs = by_group(limen.simulate(problem, times, d=SIZES[name], seeds=SEEDS[name]))
    # Of few sets the error of the theory is itself known badly, which widens the band.
    prediction = theory(problem, times, scrambles=16)
    assert prediction.ok, prediction.status
    observed = OBSERVED if name != "hard" else OBSERVED[:-1]
    comparison = limen.compare(prediction, runs, observed)
    assert comparison.verdict != "disagrees", str(comparison)
    told = {variable.name for variable in comparison.variables if variable.verdict == "agrees"}
    assert told >= DECIDED[name], str(comparison)
    twins = {
        "step": with_step(problem, 1.1),
        "infinite data": problem.model_copy(update={"samples_per_dim": 1e6}),
        "eight neurons": with_width(problem, 8),
    }
    for what, wrong in twins.items():
        planted = limen.compare(replace(theory(wrong, times), spec=prediction.spec), runs, observed)
        assert planted.verdict == "disagrees", f"{what}: {planted}"


@pytest.mark.slow
def test_the_infinite_width_is_reached_like_one_over_the_width():
    """Ten, thirty and, allowed here, a hundred neurons are solved as they are; the limit is continued from others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equal_neurons, "MOST_NEURONS", 100)
        found = {width: theory(with_width(EASY, width), [4, 16]).dataset for width in (10, 30, 100)}
    limit, continued = theory(with_width(EASY, 10**6), [4, 16]).dataset, theory(EASY, [4, 16]).dataset
    for name in ("shared_gram", "own_gram", "train_loss", "overlap"):
        error = 0.7 * np.hypot(found[100][f"{name}_spread"], continued[f"{name}_spread"])
        assert (np.abs(found[100][name] - continued[name]) <= 4.0 * error + 3e-3).all(), name
    part = {width: (limit - found[width]).shared_gram.values.ravel() * width for width in found}
    assert (part[10] > 0.0).all()
    np.testing.assert_allclose(part[30], part[10], rtol=0.2)
    np.testing.assert_allclose(part[100], part[10], rtol=0.5)
