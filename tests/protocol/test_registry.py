"""What is imported for a problem: every method that could answer it, and not the others."""

import subprocess
import sys

import pytest

import limen
from limen.simulation.registry import REDUCTIONS, SIMULATORS
from limen.theory.registry import THEORIES


def two_layer(algorithm, activation="gelu"):
    return limen.TwoLayer(limen.target("z**2"), limen.network(1, activation), algorithm, samples_per_dim=3.0)


PROBLEMS = [
    two_layer(limen.GradientDescent(0.5)),
    two_layer(limen.GradientFlow()),
    two_layer(limen.Adam(0.1)),
    limen.TwoLayer(limen.target("z**2"), limen.network(1, "square"), limen.SphericalSGD(0.1)),
    limen.TwoLayer(limen.target("z"), limen.network(2, "erf"), limen.OnePassSGD(0.1)),
    limen.Ridge(2.0),
    limen.RandomFeatures(2.0, 3.0, activation="relu"),
    limen.SingleIndex("square"),
    limen.OnlinePCA(2.0, 0.1),
    limen.BinaryMixture(0.5, 0.1),
    limen.SpikedTensor(3, 2.0, 0.1),
    limen.MultiIndex("z1*z2"),
    limen.XorMixture(4, 2.0, 0.1, 0.1),
    limen.GaussianMixture(2, 2.0, 0.1, 0.1),
    limen.SelfAttention(1.0, 8, 3),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(getattr(problem, "algorithm", problem)).__name__)
def test_only_methods_that_would_refuse_are_left_out(problem):
    for methods in (THEORIES, SIMULATORS):
        near = methods.for_problem(problem)
        assert [method for method in methods if method in near] == list(near), "in their order"
        assert all(method.refuses(problem) for method in methods if method not in near)


def test_reductions_stand_beside_the_training_they_reduce():
    names = [method.name for method in SIMULATORS]
    assert len(set(names)) == len(SIMULATORS)
    for name, reduction in REDUCTIONS.items():
        assert names.index(name) < names.index(reduction.chain.name)


def test_verbs_are_there_before_any_method_is_imported():
    code = (
        "import sys, limen; limen.predict\n"
        "print([name for name in ('jax', 'diffrax', 'equinox', 'dask', 'scipy.stats') if name in sys.modules])\n"
        "network, algorithm = limen.network(1, 'gelu'), limen.GradientDescent(0.5)\n"
        "problem = limen.TwoLayer(limen.target('z'), network, algorithm, samples_per_dim=2.0)\n"
        "limen.predict(problem, 2, paths=256, scrambles=3)\n"
        "print([name for name in ('diffrax', 'equinox', 'optimistix') if name in sys.modules])"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert asked.stdout.split("\n")[:2] == ["[]", "[]"], asked.stderr
