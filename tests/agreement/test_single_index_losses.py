"""Spherical SGD with losses other than the square: the overlap follows its own loss and no other."""

from dataclasses import replace

import numpy as np
import pytest

import limen

TIMES = np.linspace(0.0, 4.0, 9)
CASES = {
    "logistic": {"link": "sign(z)", "student_link": "2*z", "loss": "logistic", "step": 0.5},
    "robust": {"link": "tanh", "student_link": "tanh", "loss": "log(1 + (y - f)**2)", "noise": 0.3, "step": 0.4},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_overlap_follows_the_flow_of_its_loss_and_no_other(name):
    problem = limen.SingleIndex(**CASES[name], start=limen.OverlapStart(0.1))
    theory = limen.predict(problem, TIMES)
    run = limen.simulate(problem, TIMES, d=3000, seeds=24, simulator="spherical-chain")
    assert limen.compare(theory, run).verdict == "agrees", limen.compare(theory, run)
    other = problem.model_copy(update={"loss": limen.Loss("square")})
    wrong = replace(theory, dataset=limen.predict(other, TIMES).dataset)
    assert limen.compare(wrong, run).verdict == "disagrees"


@pytest.mark.slow
def test_a_robust_loss_finds_a_cubic_link_at_once_where_the_square_loss_searches():
    times = np.linspace(0.0, 12.0, 7)
    ends = {}
    for loss in ("square", "pseudo-huber:1"):
        problem = limen.SingleIndex("hermite:3", loss=loss, step=0.05)
        run = limen.simulate(problem, times, d=2000, seeds=8, simulator="spherical-chain")
        ends[loss] = float(run.dataset.overlap.isel(time=-1).mean())
        if loss != "square":
            flow = limen.predict(problem, times).dataset.overlap.values
            assert ends[loss] == pytest.approx(flow[-1], abs=0.05)
    assert ends["square"] < 0.2 < 0.5 < ends["pseudo-huber:1"], ends
