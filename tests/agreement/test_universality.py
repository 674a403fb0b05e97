"""Inputs whose entries are not Gaussian: the same limit, by training on signs and on heavy tails."""

from dataclasses import replace

import numpy as np
import pytest

import limen

START = limen.OverlapStart(0.4)
PROBLEMS = {
    "descent": (
        limen.TwoLayer(
            limen.target("tanh(2*z)+0.3*z", noise=0.05), limen.network(2, "tanh"), limen.GradientDescent(0.5), 5.0
        ),
        np.arange(11.0),
        400,
    ),
    "one pass": (
        limen.TwoLayer(limen.target("z**2+z", noise=0.1), limen.network(2, "relu"), limen.OnePassSGD(0.5), start=START),
        np.linspace(0.0, 3.0, 7),
        400,
    ),
    "flow": (
        limen.TwoLayer(
            limen.target("z+0.2*z**2", noise=0.1), limen.network(1, "tanh"), limen.GradientFlow(), 4.0, start=START
        ),
        np.linspace(0.0, 3.0, 7),
        200,
    ),
}


@pytest.mark.parametrize("name", ["descent", "one pass", pytest.param("flow", marks=pytest.mark.slow)])
@pytest.mark.parametrize("law", ["rademacher", pytest.param("student-t", marks=pytest.mark.slow)])
def test_other_entries_have_the_limit_of_gaussian_ones(name, law):
    """Agrees with training on these inputs; as a twin, the numbers of a later time are seen."""
    problem, times, d = PROBLEMS[name]
    problem = problem.model_copy(update={"inputs": limen.Inputs(law)})
    prediction = limen.predict(problem, times)
    assert prediction.ok and f"law {law} have the limit of Gaussian ones" in prediction.status
    run = limen.simulate(problem, times, d=d, seeds=96)
    assert limen.compare(prediction, run).verdict == "agrees"
    late = replace(prediction, dataset=prediction.dataset.assign_coords(time=times))
    for name, one in prediction.dataset.data_vars.items():
        if one.dims[0] == "time" and "time2" not in one.dims:
            late.dataset[name] = (one.dims, np.concatenate([one.values[1:], one.values[-1:]]), one.attrs)
    assert limen.compare(late, run, ["test_loss", "overlap"]).verdict == "disagrees"


def test_what_is_exact_on_gaussian_inputs_alone_is_refused_on_others():
    problem = PROBLEMS["one pass"][0].model_copy(update={"inputs": limen.Inputs("rademacher")})
    assert limen.theories(problem)["overlap-ode"] == "applies"
    with pytest.raises(limen.InputError, match="Markov chain on Gaussian inputs only, not rademacher"):
        limen.simulate(problem, 1.0, d=50, seeds=1, simulator="overlap-chain")
    flow = PROBLEMS["flow"][0].model_copy(update={"inputs": limen.Inputs("student-t")})
    with pytest.raises(limen.InputError, match="needs Gaussian inputs, and these are student-t"):
        limen.simulate(flow, 1.0, d=50, seeds=1, simulator="sampled-gaussian-model")
