"""Specs copied, described and made again; seeds and sizes as people give them."""

import numpy as np
import pytest

import limen
from limen.checks import seed_list, whole
from limen.problem import InputError, from_description

PROBLEMS = [
    limen.TwoLayer(
        limen.target("z1+z2**2", noise=0.1),
        limen.network(2, "hermite:3", second_layer=[1.0, 2.0], bias=0.1),
        limen.GradientDescent(0.3, momentum=0.5),
        3.0,
        "huber:2",
        limen.OverlapStart([[0.1, 0.2], [0.3, 0.1]], np.eye(2)),
    ),
    limen.TwoLayer("sign(z)", limen.network(1, "relu"), limen.OnePassSGD("0.5/(1+t)")),
    limen.Ridge(0.6, noise=0.5, signal=(0.5, 0.5), inputs=limen.Inputs(variances=(0.5, 1.5), fractions=(0.5, 0.5))),
    limen.SpikedTensor(3, 2.0, 0.1, limen.OverlapStart(0.5)),
    limen.MultiIndex("z1*z2", 0.1, limen.OverlapStart([[0.3, 0.1], [0.0, 0.2]]), "huber:1"),
    limen.SelfAttention(1.0, 8, 3),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_a_problem_comes_back_from_its_description(problem):
    assert from_description(problem.describe()) == problem


def test_a_result_knows_its_problem():
    problem = limen.OnlinePCA(2.0, 0.5, limen.OverlapStart(0.3))
    assert limen.predict(problem, 0.2).problem == problem
    with pytest.raises(InputError, match="of a problem, got the type 'Ridg'"):
        from_description({"type": "Ridg"})


def test_a_copy_is_checked_like_a_new_spec():
    algorithm = limen.GradientDescent(0.3)
    assert algorithm.model_copy(update={"step": 0.4}) == limen.GradientDescent(0.4)
    with pytest.raises(InputError, match="step"):
        algorithm.model_copy(update={"step": -1.0})
    with pytest.raises(InputError, match="samples_per_dim"):
        PROBLEMS[0].model_copy(update={"samples_per_dim": None})


def test_seeds_and_sizes_as_people_give_them():
    assert seed_list(np.arange(3)) == (0, 1, 2) == seed_list(range(3)) == seed_list(3)
    for wrong in ([0.5], "abc", [-1], [1, 1], [], np.ones(2)):
        with pytest.raises(InputError, match="seeds must be"):
            seed_list(wrong)
    with pytest.raises(InputError, match=r"d must be one positive whole number, got \[50, 100\]"):
        whole("d", [50, 100])
    with pytest.raises(InputError, match="d must be a positive whole number, got 'x'"):
        whole("d", "x")


def test_a_refusal_leads_with_the_theory_that_was_meant():
    differing = limen.network(20, "tanh", second_layer=tuple(np.linspace(0.5, 1.5, 20)))
    wide = limen.TwoLayer("z", differing, limen.GradientFlow(), 2.0, "huber:1")
    with pytest.raises(InputError, match=r"^no theory applies: small-steps: it follows every neuron .* \(and 2 more"):
        limen.predict(wide, 1.0)
