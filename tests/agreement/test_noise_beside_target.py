"""Noise fitted beside a target: what a lazy network cannot learn is noise to it; the Gaussian model agrees, twins do
not."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from limen.experiments.experiment import Experiment
from limen.experiments.flow.complexity_growth import ComplexityGrowth
from limen.experiments.flow.flow_words import depends_on_width, learnt_without_overlap, unlearnt_noise
from limen.experiments.flow.interpolation_diagram import InterpolationDiagram
from limen.experiments.flow.interpolation_threshold import InterpolationThreshold
from limen.problem import InputError
from limen.result import Result, merge
from limen.theory.flow.solve import solve

LINEAR = "0, 0.8, 0.6"
# One experiment of each kind beside a linear target, and the same with one parameter of its theory off.
TWINS = {
    InterpolationThreshold: {"noise": 1.4},
    InterpolationDiagram: {"horizon": 1.5},
    ComplexityGrowth: {"target": "0, 0.8"},
}


@pytest.mark.parametrize(
    "activation, target, expected",
    [
        (LINEAR, "0, 1", 0.3),
        (LINEAR, "0, 1, 0.5", 0.55),
        (LINEAR, "0.2, 1, 0.5", 0.59),
        ("hermite:2", "0, 1, 0.5", 1.55),
        (LINEAR, "z1 + 0.5*z2", 0.3),
        (LINEAR, "z1*z2 + z1", 1.3),
    ],
)
def test_what_is_noise_to_a_lazy_network(activation, target, expected):
    assert unlearnt_noise(activation, target, 0.3) == pytest.approx(expected, abs=1e-6)
    assert learnt_without_overlap(activation, target) == (expected == 0.3)


def test_beyond_degree_one_a_target_becomes_noise_as_the_root_of_the_width():
    beside = InterpolationThreshold(activation=LINEAR, target="0, 1, 0.5", noise=0.3)
    noise = InterpolationThreshold(activation=LINEAR, noise=0.55)
    assert beside.threshold() == noise.threshold()
    gamma, times = 0.7 * noise.threshold(), [0.0, 10.0, 30.0]
    apart = []
    for width in (100_000, 1_000_000):
        target, pure = (solve(part.problem(gamma, width), times, tolerance=5e-3) for part in (beside, noise))
        apart.append((pure.dataset.train_loss - target.dataset.train_loss).values[1:])
    assert (apart[1] > 0.0).all()
    assert apart[0] / apart[1] == pytest.approx([10.0**0.5] * 2, rel=0.05)


def test_words_without_meaning_are_refused():
    assert not depends_on_width("hermite:2", "0, 0")
    assert depends_on_width("hermite:2", "0, 1") and depends_on_width(LINEAR, "0, 0")
    with pytest.raises(InputError, match="no constant part"):
        InterpolationThreshold(activation="relu").problem(0.5)
    with pytest.raises(InputError, match="share no linear part"):
        InterpolationThreshold(target="0, 1").theory()


def test_a_target_that_can_hold_the_network_has_no_adiabatic_line():
    held = ComplexityGrowth(activation=LINEAR, target=LINEAR, largest_width=100, horizon=0.1, witness_horizon=0.2)
    theory = held.theory()
    assert theory.ok and np.isnan(theory.dataset.adiabatic_gamma.values).all()
    assert "deviation_from_adiabatic" not in held.headline(theory)["theory"]


def posed(kind: type[Experiment], **planted) -> Experiment:
    return kind(**{**kind.quick, "activation": LINEAR, "target": "0, 1", **planted})


@lru_cache(maxsize=4)
def runs(kind: type[Experiment]) -> Result:
    return merge([posed(kind).simulate(seed) for seed in range(kind.quick_seeds)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.name)
def test_the_gaussian_model_fits_noise_beside_a_target_as_the_theory(kind):
    experiment, found = posed(kind), runs(kind)
    comparison = experiment.compare(experiment.theory(), found).judged(0.01, 0.1)
    assert comparison.verdict == "agrees", str(comparison)
    wrong = replace(posed(kind, **TWINS[kind]).theory(), spec=found.spec)
    twin = experiment.compare(wrong, found)
    assert twin.verdict == "disagrees", str(twin)
