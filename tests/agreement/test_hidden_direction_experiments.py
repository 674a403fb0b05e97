"""Experiments about hidden directions at reduced size: theory agrees with runs, planted errors do not."""

from dataclasses import replace

import pytest

from limen.experiments.experiment import Experiment
from limen.experiments.thresholds.feature_threshold import FeatureThreshold
from limen.experiments.thresholds.hard_directions import HardDirections
from limen.experiments.thresholds.hessian_spectrum import HessianSpectrum
from limen.problem import InputError
from limen.result import Result, merge

pytestmark = pytest.mark.slow


def runs(experiment: Experiment, seeds: int) -> Result:
    return merge([experiment.simulate(seed) for seed in range(seeds)])


def test_fluctuations_along_hard_directions():
    """Twins: a step a fifth too long, twice the samples, and noise that is forgotten."""
    small = HardDirections(d=400, steps=6, runs=400)
    theory, simulation = small.theory(), runs(small, 192)
    comparison = small.compare(theory, simulation)
    assert comparison.verdict == "agrees", str(comparison)
    # Planted: a step 20% too long.
    longer = replace(HardDirections(d=400, steps=6, step=1.2).theory(), spec=simulation.spec)
    longer = small.compare(longer, simulation)
    assert longer["hard_length"].verdict == longer["amplification"].verdict == "disagrees"
    # Planted: twice the samples. More amplification and less noise hardly change the length, as they should not.
    more = replace(HardDirections(d=400, steps=6, samples_per_dim=12).theory(), spec=simulation.spec)
    more = small.compare(more, simulation)
    assert more["amplification"].verdict == more["easy_overlap"].verdict == "disagrees"
    # Planted: the noise of the sample is forgotten, so that only the start is amplified.
    quiet = replace(theory, dataset=theory.dataset.assign(hard_length=theory.dataset.amplification))
    assert small.compare(quiet, simulation)["hard_length"].verdict == "disagrees"


def test_only_hard_directions():
    """Without an easy direction there is no easy overlap to compare; two hard ones. Twins: a step a fifth too long, and
    the square loss. 256 seeds do not tell either: the length is off by 3.4% of its range, with a band of 2.9%."""
    given = {"target": "z1*z2", "d": 400, "steps": 3, "runs": 200, "loss": "huber:2"}
    small = HardDirections(**given)
    theory, simulation = small.theory(), runs(small, 96)
    comparison = small.compare(theory, simulation)
    assert {variable.name for variable in comparison.variables} == {"hard_length", "amplification"}
    assert comparison.verdict != "disagrees", str(comparison)
    for wrong in ({"step": 1.2 * small.step}, {"loss": "square"}):
        twin = replace(HardDirections(**{**given, **wrong}).theory(), spec=simulation.spec)
        assert small.compare(twin, simulation).verdict == "disagrees", wrong
    small.figure(theory, simulation)


def test_fluctuations_in_a_wider_network():
    """Two different neurons: each has its easy overlap, and they share the noise of the sample. 12 seeds see the two
    exchanged; to agree 512 seeds of a tenth of a second at d = 400 would be needed."""
    pair = {"width": 2, "second_layer": (1.5, -1.0), "step": 2.0, "d": 200, "steps": 4, "runs": 100}
    small = HardDirections(**pair)
    theory, simulation = small.theory(), runs(small, 12)
    assert small.compare(theory, simulation).verdict != "disagrees"
    # Planted: the two neurons exchanged.
    exchanged = theory.dataset.assign(easy_overlap=theory.dataset.easy_overlap[:, ::-1])
    assert small.compare(replace(theory, dataset=exchanged), simulation)["easy_overlap"].verdict == "disagrees"
    small.figure(theory, simulation)


def test_the_block_of_one_neuron_of_several():
    """Twin: the block of the other neuron. Of the witness of a threshold, whose band is a quarter of its range, 12
    seeds see the Hessian of the start; no smaller error was tried."""
    pair = {"width": 2, "second_layer": (1.5, -1.0), "step": 1.0, "d": 150, "times": (0, 3), "samples_per_dim": (6,)}
    small = HessianSpectrum(neuron=1, **pair)
    theory, simulation = small.theory(), runs(small, 64)
    assert small.compare(theory, simulation).verdict == "agrees"
    # Planted: the block of the other neuron.
    other = replace(HessianSpectrum(neuron=0, **pair).theory(), spec=simulation.spec)
    assert small.compare(other, simulation)["eigenvalue"].verdict == "disagrees"
    # Its witness of a threshold.
    given = {"width": 2, "second_layer": (1.5, -1.0), "step": 2.0, "d": 150, "steps": 2, "ratios": (4, 8)}
    wide = FeatureThreshold(**given)
    found = runs(wide, 12)
    assert wide.compare(wide.theory(), found).verdict != "disagrees"
    early = FeatureThreshold(**given, witness_step=0).theory()
    assert wide.compare(replace(early, spec=found.spec), found).verdict == "disagrees"


@pytest.mark.slow
def test_spectra_along_training():
    """12 seeds see a quarter fewer samples, and training that stood still."""
    small = HessianSpectrum(d=150, times=(0, 4), samples_per_dim=(4, 12))
    simulation = runs(small, 12)
    assert small.compare(small.theory(), simulation).verdict != "disagrees"
    # Planted: fewer samples, and a step of no length.
    fewer = HessianSpectrum(d=150, times=(0, 4), samples_per_dim=(3, 9)).theory()
    fewer = replace(fewer, spec=simulation.spec, dataset=fewer.dataset.assign_coords(samples_per_dim=[4.0, 12.0]))
    assert small.compare(fewer, simulation).verdict == "disagrees"
    still = HessianSpectrum(d=150, times=(0, 4), samples_per_dim=(4, 12), step=0.001).theory()
    assert small.compare(replace(still, spec=simulation.spec), simulation)["unstable_share"].verdict == "disagrees"


@pytest.mark.slow
def test_the_witness_of_a_threshold():
    """20 seeds see the Hessian of the start, and where the share crosses within 0.6 samples per dimension."""
    small = FeatureThreshold(d=150, steps=2, ratios=(2, 4, 8))
    theory, simulation = small.theory(), runs(small, 20)
    assert small.compare(theory, simulation).verdict != "disagrees"
    numbers = small.headline(theory, simulation)
    assert abs(numbers["simulation"]["witness_crossing"] - numbers["theory"]["witness_crossing"]) < 0.6
    # Planted: the Hessian of the start.
    early = FeatureThreshold(d=150, steps=2, ratios=(2, 4, 8), witness_step=0).theory()
    assert small.compare(replace(early, spec=simulation.spec), simulation).verdict == "disagrees"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HardDirections(target="z + z**2").theory(), "target must have a hard direction"),
        (lambda: HessianSpectrum(times=(4, 2)), "times must be one to six ascending numbers"),
        (lambda: HessianSpectrum(times=(0.5,)), "times must be whole numbers of steps"),
        (lambda: HessianSpectrum(width=2, neuron=2), "neuron must be a whole number from 0 to 1"),
        (lambda: HessianSpectrum(samples_per_dim=(0.5, 2)), "samples_per_dim must lie between 1 and 100"),
        (lambda: HessianSpectrum(target="z").simulate(0), "target must have a hard direction"),
        (lambda: FeatureThreshold(ratios=(2,)), "ratios must be 2 to 20 ascending numbers"),
        (lambda: FeatureThreshold(target="z").theory(), "target must have a hard direction"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()
