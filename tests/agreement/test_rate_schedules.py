"""Learning rates that change with time: theory, full SGD and the overlap chain follow the same formula."""

import numpy as np
import pytest

import limen
from limen.problem import InputError
from limen.problem.rates import steps_at
from limen.theory.one_pass.fluctuations import fluctuations

TIMES = np.linspace(0.5, 4, 8)
ORDER_PARAMETERS = ("overlap", "gram", "second_layer")


def problem(rate, algorithm=limen.OnePassSGD, **options):
    return limen.TwoLayer(
        limen.target("committee:1", noise=0.5),
        limen.network(2, "saad-solla", train_second_layer=True),
        algorithm(rate=rate, **options),
        start=limen.OverlapStart(((0.5,), (-0.2,)), gram=((1.0, 0.2), (0.2, 0.8))),
    )


def test_steps_follow_the_clock():
    """gamma = g/(1+t): d t = gamma d nu/(d m) gives nu = d m (t + t^2/2)/g; a kink costs less than a step."""
    times = np.array([0.0, 0.3, 1.0, 7.0])
    assert np.array_equal(steps_at("0.5/(1+t)", times, 4_000), np.rint(8_000 * (times + times**2 / 2)))
    kinked = 10_000 * np.where(times < 0.5, times, 0.5 + 2.0 * (times - 0.5))
    assert np.abs(steps_at("0.1 - 0.05*(t > 0.5)", times, 1_000) - kinked).max() <= 40
    assert np.array_equal(steps_at(0.5, times, 4_000), np.rint(8_000 * times))


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["one-pass-sgd", "overlap-chain"])
def test_a_constant_formula_is_the_constant(simulator):
    assert problem("4/2") == problem(2.0)
    for algorithm in (limen.OnePassSGD, limen.SphericalSGD):
        number, formula = (
            limen.simulate(problem(rate, algorithm), [0.5, 1.0], d=40, seeds=2, simulator=simulator).dataset
            for rate in (2.0, "2 + 0*t")
        )
        assert number.identical(formula.assign_attrs(number.attrs))
        number, formula = (limen.predict(problem(rate, algorithm), [0.5, 1.0]).dataset for rate in (2.0, "2 + 0*t"))
        assert number.identical(formula.assign_attrs(number.attrs))


@pytest.mark.slow
@pytest.mark.parametrize("simulator, seeds", [("overlap-chain", 160), ("one-pass-sgd", 40)])
def test_a_decaying_rate_agrees_and_an_ignored_schedule_does_not(simulator, seeds):
    decaying = problem("4/(1+t)", batch=2)
    runs = [limen.simulate(decaying, TIMES, d=d, seeds=seeds, simulator=simulator) for d in (75, 300)]
    assert int(runs[-1].dataset.step[-1]) == 600 * 12 / 4
    assert int(runs[-1].dataset.samples[-1]) == 2 * 600 * 12 / 4
    comparison = limen.compare(limen.predict(decaying, TIMES), runs, ORDER_PARAMETERS)
    assert comparison.verdict == "agrees", str(comparison)
    for wrong in ("4", "4/(1+2*t)"):
        slow = limen.predict(problem(wrong, batch=2), TIMES)
        twin = limen.compare(slow, runs, ORDER_PARAMETERS, differing=("algorithm",))
        assert twin.verdict == "disagrees", str(twin)


@pytest.mark.slow
def test_the_spread_follows_the_schedule():
    """Standard deviations at d = 300 over 400 seeds, within 5 standard errors; those of a constant rate are not."""
    run = limen.simulate(problem("4/(1+t)"), TIMES, d=300, seeds=400, simulator="overlap-chain").dataset
    measured = run.gram.std("seed", ddof=1).values
    right, wrong = (fluctuations(problem(rate), TIMES, 300).dataset.gram_spread.values for rate in ("4/(1+t)", 4.0))
    error = 5 / np.sqrt(2 * 400) + 0.05
    assert np.abs(measured / right - 1).max() < error
    assert np.abs(measured / wrong - 1).max() > 1.5 * error


def test_what_is_refused():
    for rate, words in (
        (0, "greater than 0, got 0"),
        (float("nan"), "finite number, got nan"),
        (True, "number, a formula in t or a function of it, got True"),
        ("t", "positive, got 0 at t = 0 from 't'"),
        ("1 - 2*t", "positive, got 0 at t = 0.5"),
        ("1/x", "unknown name 'x'"),
    ):
        with pytest.raises(InputError, match=r"(rate must be|formula).*") as error:
            limen.OnePassSGD(rate=rate)
        assert words in str(error.value)
    for run in (
        lambda: limen.simulate(problem("1 - t/2"), [1.0, 3.0], d=50, seeds=1),
        lambda: limen.predict(problem("1 - t/2"), [1.0, 3.0]),
    ):
        with pytest.raises(InputError, match=r"rate must be finite and .* from '1 - t/2'"):
            run()
    single = limen.TwoLayer("phase-retrieval", limen.network(1, "square"), limen.SphericalSGD("0.1/(1+t)"))
    assert "constant rate" in limen.theories(single)["phase-retrieval"]


def test_hours_of_work_are_refused_with_their_numbers():
    with pytest.raises(InputError, match=r"2e\+09 steps at d = 1000000000 for 8 seeds are 4\.8 times"):
        limen.simulate(problem(1.0), [0.5, 1.0], d=10**9)
    with pytest.raises(InputError, match=r'simulator "overlap-chain": 2e\+09 steps at d = 10000 are'):
        limen.simulate(problem(1.0), [1e5], d=10**4, seeds=1)
    with pytest.raises(InputError, match=r"shorter or d smaller: 2e\+11 steps at d = 10000 are"):
        limen.simulate(problem(1.0), [1e7], d=10**4, seeds=1)
    with pytest.raises(InputError, match=r"1e\+12 steps"):
        limen.one_pass.chain([[1.0]], [[0.5]], [[1.0]], [1.0], [1.0], "erf", 1.0, 0.0, 100, [10**12], 1)
