"""A sweep of one structure compiles for its first point only: numbers are traced, never part of a program."""

import logging

import jax
import pytest

import limen


def one_pass(i):
    start = limen.OverlapStart(0.2 + 0.01 * i, gram=((1.0, 0.1), (0.1, 1.0)))
    algorithm = limen.OnePassSGD(0.5 + 0.02 * i)
    return limen.TwoLayer(
        limen.target("committee:2", noise=0.01 * i), limen.network(2, "saad-solla"), algorithm, start=start
    )


def descent(i):
    algorithm = limen.GradientDescent(0.3 + 0.01 * i)
    return limen.TwoLayer(limen.target("z", noise=0.01 * i), limen.network(1, "tanh"), algorithm, 3.0 + 0.1 * i)


@pytest.mark.parametrize("problem, times", [(one_pass, 2.0), (descent, 4)])
def test_further_points_compile_nothing(problem, times, caplog):
    limen.predict(problem(1), times)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for i in range(2, 8):
            limen.predict(problem(i), times)
        assert not [record for record in caplog.records if "Compiling" in record.getMessage()]
        # The twin: another structure is seen to be compiled.
        limen.predict(problem(1), times + 1)
        jax.jit(lambda x: x + 1.25)(1.0)
        assert [record for record in caplog.records if "Compiling" in record.getMessage()]
