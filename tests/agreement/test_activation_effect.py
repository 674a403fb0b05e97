"""Ten activations: what the Hessian shows and how often descent succeeds, against training; planted errors are seen."""

from dataclasses import replace

import numpy as np
import pytest

from limen.experiments.thresholds.activation_effect import ActivationEffect, mean_squared_slope
from limen.problem import InputError
from limen.result import merge


@pytest.mark.parametrize(
    ("name", "expected"), [("z", 1.0), ("square", 4.0), ("hermite:3", 3.0), ("sin(z)", 0.5 + 0.5 * np.exp(-2.0))]
)
def test_the_unit_of_the_step_is_the_mean_squared_slope(name, expected):
    np.testing.assert_allclose(mean_squared_slope(name), expected, rtol=1e-9)


def test_what_it_cannot_do_is_refused():
    with pytest.raises(InputError, match="twice differentiable"):
        ActivationEffect(activations="gelu relu")
    with pytest.raises(InputError, match="different"):
        ActivationEffect(activations="gelu gelu")
    with pytest.raises(InputError, match="hard direction"):
        ActivationEffect(target="z")


@pytest.mark.slow
def test_the_hessian_tells_activations_apart_as_predicted():
    """Squares and softplus see the direction, tanh does not; activations exchanged are noticed."""
    chosen = ActivationEffect(activations="square tanh", steps=2, runs=32, d=300)
    theory, run = chosen.theory(), merge([chosen.simulate(seed) for seed in range(48)])
    assert chosen.compare(theory, run).verdict != "disagrees"
    shares = theory.dataset.unstable_share
    exchanged = replace(theory, dataset=theory.dataset.assign(unstable_share=shares.copy(data=shares.values[::-1])))
    assert chosen.compare(exchanged, run).verdict == "disagrees"


@pytest.mark.slow
def test_success_is_as_frequent_as_predicted():
    """Within 3.5 standard errors of samples and of the theory; half the step is not."""
    chosen = ActivationEffect(activations="softplus", samples_per_dim=16.0, steps=16, runs=256, d=80, witness_step=0)
    theory = chosen.predict().dataset
    found = np.array([chosen.train(seed).dataset.success.values[0, 0] for seed in range(96)])
    error = np.hypot(found.std(ddof=1) / np.sqrt(found.size), float(theory.success_error[0]))
    assert abs(found.mean() - float(theory.success[0])) < 3.5 * error
    planted = chosen.model_copy(update={"step": 0.25}).predict().dataset
    assert abs(found.mean() - float(planted.success[0])) > 3.5 * error
