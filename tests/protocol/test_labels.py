"""Labels that do not exist are refused by one sentence, whatever the algorithm and the verb."""

import numpy as np
import pytest

import limen
from limen.link.mean_square import check_activation
from limen.problem import InputError
from limen.simulation.population_loss import population_losses as of_simulation
from limen.theory.fresh_inputs.population_losses import population_losses as of_theory

ALGORITHMS = [
    (limen.OnePassSGD(0.1), None),
    (limen.SphericalSGD(0.1), None),
    (limen.GradientDescent(0.1), 2.0),
    (limen.GradientFlow(), 2.0),
]


@pytest.mark.parametrize(("algorithm", "samples"), ALGORITHMS)
@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("log(z)", "target 'log(z)' must be finite for every latent coordinate."),
        ("sqrt(z)", "target 'sqrt(z)' must be finite for every latent coordinate."),
        ("1/z", "target must have a finite mean square label, and '1/z' has not."),
    ],
)
def test_labels_that_do_not_exist(formula, said, algorithm, samples):
    problem = limen.TwoLayer(formula, limen.network(1, "tanh"), algorithm, samples, start=limen.OverlapStart(0.3))
    for verb in (lambda: limen.predict(problem, 2), lambda: limen.simulate(problem, 2, d=40, seeds=1)):
        with pytest.raises(InputError) as caught:
            verb()
        assert str(caught.value) == said


def test_a_logarithmic_singularity_is_a_label():
    problem = limen.TwoLayer("log(abs(z))", limen.network(1, "tanh"), limen.OnePassSGD(0.1))
    parts = (np.full((1, 1, 1), 0.3), np.ones((1, 1, 1)), np.ones((1, 1)))
    assert of_simulation(problem, *parts).test == pytest.approx(of_theory(problem, *parts).test, rel=1e-5)


@pytest.mark.parametrize(("algorithm", "samples"), ALGORITHMS)
@pytest.mark.parametrize("formula", ["exp(z**2)", "exp(exp(z))", "1/z", "log(abs(z))"])
def test_outputs_and_slopes_without_a_mean_square(formula, algorithm, samples):
    network = limen.network(2, formula)
    problem = limen.TwoLayer("z", network, algorithm, samples, start=limen.OverlapStart(0.1))
    with pytest.raises(InputError, match=r"^activation must have a .*finite mean square.* has not"):
        limen.predict(problem, 2)
    assert all("finite mean square" in reason for reason in limen.theories(problem).values())


@pytest.mark.parametrize("formula", ["exp(z)", "exp(z**2/8)", "sqrt(abs(z))", "1/(1+exp(z**2))", "heaviside(z-4)"])
def test_activations_that_have_a_mean_square(formula):
    check_activation(limen.activation(formula), 1.0, with_slope=True)


def test_a_small_start_may_have_a_mean_square_where_a_large_one_has_not():
    check_activation(limen.activation("exp(z**2)"), 0.3, with_slope=True)
