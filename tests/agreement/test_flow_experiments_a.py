"""Four experiments of learning, then overfitting: the Gaussian model agrees with the theory, planted errors do not."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.registry import experiment_class
from limen.result import Result, merge

pytestmark = pytest.mark.slow

# One shape of sample for all four, so that it is compiled once.
SMALL: dict[str, dict[str, Any]] = {
    "learn-then-overfit": {
        "width": 20, "horizon": 100.0, "tolerance": 0.05, "witness_width": 4, "witness_horizon": 8.0, "d": 30,
    },
    "unlearning": {
        "widths": "20", "horizon": 2.0, "tolerance": 0.05, "witness_width": 4, "witness_horizon": 8.0, "d": 30,
    },
    "lazy-vs-feature": {
        "width": 20, "scales": "0.3 1", "horizon": 10.0, "tolerance": 0.05, "witness_width": 4, "witness_horizon": 8.0,
        "d": 30,
    },
    "mean-field-flow": {"widths": "4", "samples_per_parameter": 0.3, "horizon": 2.4, "d": 30},
}  # fmt: skip
SEEDS = 12


def experiment(name: str, **changes: Any) -> Experiment:
    return experiment_class(name)(**SMALL[name] | changes)


@lru_cache(maxsize=4)
def runs(name: str, seeds: int = SEEDS) -> Result:
    return merge([experiment(name).simulate(seed) for seed in range(seeds)])


def judged(name: str, **changes: Any) -> Comparison:
    return experiment(name).compare(replace(experiment(name, **changes).theory(), spec=runs(name).spec), runs(name))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (i > 0)) for i, name in enumerate(SMALL)]
)
def test_theory_and_its_planted_twin(name):
    """So few seeds see label noise of another size; smaller errors were not tried."""
    right, wrong = judged(name), judged(name, noise=0.05)
    assert right.verdict != "disagrees", str(right)
    assert wrong.verdict == "disagrees", str(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_defaults_agree(name):
    chosen = experiment_class(name)()
    theory = chosen.theory()
    simulation = merge([chosen.simulate(seed) for seed in range(chosen.default_seeds)])
    # Within a tenth of the range, band included: what the default seeds can show.
    comparison = chosen.compare(theory, simulation).judged(0.01, 0.1)
    assert theory.ok, theory.status
    assert comparison.verdict == "agrees", str(comparison)
    # Real networks are near while they learn, and above in train loss: the Gaussian model fits noise too fast.
    numbers = chosen.headline(theory, simulation)["simulation"]
    learning = [value for key, value in numbers.items() if key.startswith("network_deviation_learning")]
    assert learning[0] < 0.08
    last = {"start": 0} if "start" in theory.dataset.dims else {}
    above = simulation.dataset.network_train_loss.mean("seed") - theory.dataset.witness_train_loss
    assert float(above.isel(last)[-1]) > 0.0


def test_three_regimes_of_a_wide_network():
    found = experiment("learn-then-overfit", width=200, horizon=1e4, tolerance=0.05).theory().dataset
    time, train, test = (found[name].values for name in ("time", "train_loss", "test_loss"))
    learnt, felt, fitted = (int(np.searchsorted(time, t)) for t in (1 / 0.3, 200**0.5, 2000.0))
    # Learning: along mean field, train and test together.
    np.testing.assert_allclose(test[:learnt], found.mean_field_loss.values[:learnt], rtol=0.02)
    assert (test - train)[learnt] < 0.02
    # Then the noise is felt, then fitted, and the overlap given up.
    assert 0.02 < (test - train)[felt] < 0.06
    assert train[fitted] < 1e-4
    assert test[fitted] > test.min() + 0.004
    overlap = found.overlap.values
    assert overlap.max() > 3.0 * overlap[fitted]
    assert found.second_layer.values[fitted] / 200**0.5 == pytest.approx(0.427, abs=0.01)


@pytest.mark.slow
def test_only_a_target_with_a_flat_direction_is_unlearnt():
    chosen = experiment("unlearning", widths="2000", horizon=100.0)
    theory = chosen.theory()
    numbers = chosen.headline(theory)["theory"]
    assert numbers["degree_1_final_complexity"] == pytest.approx(numbers["threshold"], rel=0.03)
    assert numbers["degree_1_final_overlap"] < 0.1
    assert (numbers["degree_1_trapped"], numbers["degree_2_trapped"]) == (0.0, 1.0)
    assert numbers["degree_2_final_overlap"] > 0.7
