"""One protocol for every theory and simulator, walked over all of them."""

import inspect

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import limen
from limen.method import Method, answers, plain
from limen.problem.spec import InputError
from limen.simulation.registry import REDUCTIONS, SIMULATORS
from limen.theory.registry import THEORIES

METHODS = [*THEORIES, *SIMULATORS]
PREDICTING = tuple(THEORIES)
PHASE = limen.TwoLayer(limen.target("phase-retrieval"), limen.network(1, "square"), limen.SphericalSGD(0.05))
DESCENT = limen.TwoLayer(
    limen.target("z"), limen.network(1, "tanh"), limen.GradientDescent(0.3), 2.0, start=limen.OverlapStart(0.2)
)
PROBLEMS = (
    PHASE,
    DESCENT,
    DESCENT.model_copy(update={"algorithm": limen.GradientFlow()}),
    limen.Ridge(ratio=0.5),
    limen.RandomFeatures(activation="relu", features_per_dim=2.0, samples_per_dim=1.0),
    limen.SingleIndex(link="hermite:2"),
    limen.OnlinePCA(signal=2.0, step=0.1),
    limen.XorMixture(3, 4.0, 0.1, 2.0),
    limen.SelfAttention(beta=2.0, tokens=8, dim=3),
)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.kind}-{method.name}")
def test_a_method_keeps_its_contract(method):
    assert method.kind == ("theory" if method in PREDICTING else "simulation")
    assert not {"problem", "times", "inputs", "variances", "fractions", "start"} & set(method.options), (
        "a problem holds it"
    )
    given = list(inspect.signature(method.solve).parameters)
    assert given[:2] == ["problem", "times"]
    if method.kind == "simulation":
        assert given[2:4] == ["d", "seed"]
        assert not {"d", "seed"} & set(method.options)
    for problem in PROBLEMS:
        reason = method.refuses(problem)
        assert reason is None or reason.endswith("."), f"{method.name} must refuse in a sentence"
    assert method.refuses(object()), "something that is no problem is refused"


def test_names_are_told_apart():
    for methods in (THEORIES, SIMULATORS):
        assert len({method.name for method in methods}) == len(methods)
    for name, reduction in REDUCTIONS.items():
        assert name in {method.name for method in SIMULATORS}
        assert reduction.chain in tuple(SIMULATORS)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_every_family_has_a_simulator(problem):
    assert any(method.refuses(problem) is None for method in SIMULATORS)


def test_theory_and_simulation_use_the_same_names_at_the_same_times():
    times = np.linspace(0.0, 0.5, 3)
    theory = limen.predict(PHASE, times, d=20, seeds=2)
    run = limen.simulate(PHASE, times, d=20, seeds=2)
    assert {"overlap", "excess_risk"} <= set(theory.dataset.data_vars) & set(run.dataset.data_vars)
    for result in (theory, run):
        np.testing.assert_array_equal(result.dataset.time, times)
        assert result.dataset.overlap.dims == ("seed", "time", "neuron", "latent")
    assert (theory.method, run.method) == ("phase-retrieval", "one-pass-sgd")
    assert theory.options == {"d": 20, "seeds": [0, 1]}
    assert run.options == {"d": 20}
    assert theory.spec == run.spec == PHASE.describe()
    assert theory.seconds > 0.0
    assert run.seconds > 0.0
    assert {"limen", "jax", "numpy", "python"} <= set(run.versions)
    assert "by one-pass-sgd" in repr(run)
    assert "d = 20" in repr(run)


def test_what_was_found_and_how_comes_back_from_a_file(tmp_path):
    run = limen.simulate(PHASE, [0.0, 0.1], d=20, seeds=1)
    back = limen.load(run.save(tmp_path / "run.nc"))
    for name in ("method", "options", "seconds", "versions", "spec", "seeds"):
        assert getattr(back, name) == getattr(run, name)


def test_a_wrong_option_is_a_sentence():
    with pytest.raises(InputError, match=r"seed is not an option of one-pass-sgd .*seeds="):
        limen.simulate(PHASE, 3, d=20, seed=3)
    with pytest.raises(InputError, match="paths is not an option of phase-retrieval"):
        limen.predict(PHASE, 1.0, paths=3)


def test_a_reduction_is_asked_before_it_takes_over():
    # Inputs that are not Gaussian have no exact chain: above d = 20,000 the refusal says so, and nothing is computed.
    other = PHASE.model_copy(update={"inputs": limen.Inputs(law="rademacher")})
    with pytest.raises(InputError, match=r"overlap-chain.*does not apply"):
        limen.simulate(other, [0.0, 0.1], d=30_000, seeds=1)


def test_a_method_of_ones_own_takes_the_place_of_a_name():
    def solve(problem, times):
        return limen.Findings(xr.Dataset({"nothing": ("time", np.zeros(times.size))}, {"time": times}), status="idle.")

    idle = Method("idle", "theory", ("saad1995",), lambda problem: None, solve)
    result = limen.predict(PHASE, [0.0, 1.0], theory=idle)
    assert (result.method, result.status, result.citations) == ("idle", "idle.", ("saad1995",))
    refusing = Method("idle", "theory", (), lambda problem: "it is idle.", solve)
    with pytest.raises(InputError, match="'idle' does not apply: it is idle"):
        limen.predict(PHASE, [0.0], theory=refusing)


def test_a_call_is_remembered():
    @answers("theory", ("saad1995",))
    def doubled(values, seeds=2):
        return limen.Findings(xr.Dataset({"twice": ("x", 2.0 * np.asarray(values))}))

    result = doubled([1.0, 2.0])
    assert result.spec == {"type": "doubled", "values": [1.0, 2.0], "seeds": 2}
    assert (result.method, result.seeds, result.options) == ("doubled", (0, 1), {})
    long = plain(np.zeros(20_000))
    assert long["shape"] == [20_000]
    assert long != plain(np.ones(20_000))
    assert plain(limen.activation("relu"))["formula"] == "relu"
    assert plain(np.sin).endswith("sin")


def test_a_prediction_takes_sizes_and_seeds_as_a_simulation_does():
    problem = limen.TwoLayer("z", limen.network(1, "tanh"), limen.OnePassSGD(0.1))
    whole = limen.predict(problem, [0.0], d=100, seeds=[1, 2]).dataset
    for size in (100.0, np.float64(100)):
        assert limen.predict(problem, [0.0], d=size, seeds=pd.Series([1, 2])).dataset.equals(whole)
    for size in (100.5, "a", True, 2**32, 2**70):
        for verb in (limen.predict, limen.simulate):
            with pytest.raises(limen.InputError, match=r"^d must be"):
                verb(problem, [0.0], d=size, seeds=2)
    for seeds in ([2**63], 2**40):
        with pytest.raises(limen.InputError, match=r"^seeds must be at most"):
            limen.predict(problem, [0.0], d=100, seeds=seeds)
