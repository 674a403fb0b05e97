"""Random waves that add modulo p: the law of their accuracy against drawn networks, and a planted error."""

from dataclasses import replace

import pytest

import limen.descent
from limen.experiments.descent.modular_addition import ModularAddition
from limen.result import Result, merge


def wider(theory: Result, factor: float) -> Result:
    """The theory of waves that are `factor` times as many."""
    chosen = ModularAddition()
    values = [limen.descent.random_solution_accuracy(chosen.modulus, int(factor * n))[0] for n in chosen.widths()]
    accuracy = theory.dataset.random_accuracy.copy(data=values)
    return replace(theory, dataset=theory.dataset.assign(random_accuracy=accuracy))


@pytest.mark.slow
def test_random_waves_agree_and_wider_ones_do_not():
    chosen = ModularAddition(steps=20)
    theory, run = chosen.theory(), merge([chosen.simulate(seed) for seed in range(32)])
    assert chosen.compare(theory, run).verdict == "agrees"
    assert chosen.compare(wider(theory, 1.3), run).verdict == "disagrees"


@pytest.mark.slow
def test_training_follows_the_lazy_network_before_it_jumps():
    """Seen pairs are right early; unseen ones fall below chance, as a lazy network's, and are right late."""
    chosen = ModularAddition()
    run = chosen.simulate(0)
    test, train = run.dataset.test_accuracy.values[0], run.dataset.train_accuracy.values[0]
    early = int((train >= 0.99).argmax())
    assert run.dataset.step.values[early] < 100 and test[early] < 1.0 / chosen.modulus
    assert float(chosen.theory().dataset.lazy_accuracy) < 0.01
    assert test[-1] > 0.99 and run.dataset.periodicity.values[0, -1] > 2.0 * run.dataset.periodicity.values[0, 0]
