r"""The best that a theory knows of, and derivatives, where both have closed forms.

A linear neuron under one-pass SGD, $e=|w-w_*|^2$, time $t=\alpha\gamma$ after $\alpha d$ samples:
$\dot e=-(2-\gamma)e+\gamma\sigma^2$. Ridge flow in isotropic inputs, Marchenko–Pastur eigenvalues $s$:
$E[r^2e^{-2st}+\sigma^2\gamma(1-e^{-st})^2/s]$.
"""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

import limen
from limen.sensitivities import differences

NOISE, SAMPLES = 0.3, 5.0


def linear_neuron(rate=0.4, noise=NOISE):
    start = limen.OverlapStart(0.0, gram=[[1.0]])
    return limen.TwoLayer(
        limen.target("z", noise=noise), limen.network(1, "linear"), limen.OnePassSGD(rate), start=start
    )


def squared_distance(rate, t, noise=NOISE):
    fallen = np.exp(-(2.0 - rate) * t)
    return 2.0 * fallen + rate * noise / (2.0 - rate) * (1.0 - fallen)


def test_the_best_constant_rate_at_fixed_samples():
    found = limen.tune(linear_neuron(), {"algorithm.rate": (0.05, 1.6)}, "excess_risk", at={"samples_per_dim": SAMPLES})
    exact = minimize_scalar(lambda r: squared_distance(r, SAMPLES * r), bounds=(0.05, 1.6), options={"xatol": 1e-10})
    assert found.parameters["algorithm.rate"] == pytest.approx(exact.x, abs=2e-3)
    assert found.value == pytest.approx(0.5 * exact.fun, rel=1e-5)
    low, high = found.intervals["algorithm.rate"]
    assert low <= exact.x <= high and high - low < 0.05
    assert found.ok and found.problem.algorithm.rate == found.parameters["algorithm.rate"]
    # A rate that is 20% too large is told from the best.
    assert 0.5 * squared_distance(1.2 * exact.x, SAMPLES * 1.2 * exact.x) > found.value * 1.001
    assert "as good" in repr(found) and len(found.plot().axes) == 1


def test_the_best_time_to_stop_ridge_flow():
    problem = limen.Ridge(0.5, noise=0.8)
    found = limen.tune(problem, {"time": (0.05, 50.0)}, "excess_mse")
    left, right = (1 - 0.5**0.5) ** 2, (1 + 0.5**0.5) ** 2

    def risk(t):
        def part(s):
            density = np.sqrt((right - s) * (s - left)) / (2 * np.pi * 0.5 * s)
            return density * (np.exp(-2 * s * t) + 0.8 * 0.5 * (1 - np.exp(-s * t)) ** 2 / s)

        return quad(part, left, right, epsabs=1e-12, epsrel=1e-10)[0]

    exact = minimize_scalar(risk, bounds=(0.05, 50.0), method="bounded", options={"xatol": 1e-8})
    assert found.time == found.parameters["time"] == pytest.approx(exact.x, rel=1e-3)
    assert found.value == pytest.approx(exact.fun, rel=1e-6)
    assert found.time == pytest.approx(limen.kernel.optimal_stopping_time(0.5, 0.8), rel=1e-3)


def test_two_parameters_lists_and_ends():
    both = limen.tune(limen.Ridge(0.5, noise=0.8), {"ridge": (1e-3, 10.0), "time": (0.1, 500.0)}, "excess_mse")
    # With the best penalty stopping early does not help: the best of both is the best ridge estimator, noise * ratio.
    assert both.value == pytest.approx(limen.kernel.ridge(0.5, 0.4, 0.8).test, rel=1e-3)
    chosen = limen.tune(linear_neuron(), {"rate": [0.2, 0.4, 0.8]}, "excess_risk", at=1.0)
    assert chosen.parameters == {"algorithm.rate": 0.2} and not chosen.intervals  # at a fixed time noise only hurts
    ended = limen.tune(linear_neuron(), {"rate": (0.2, 0.8)}, "excess_risk", at=1.0)
    assert ended.at_end == ("algorithm.rate",) and not ended.ok and "look further" in ended.status
    own = limen.tune(linear_neuron(), {"rate": [0.2, 0.4]}, lambda r: -float(r.dataset.overlap[-1, 0, 0]), at=1.0)
    assert own.value < 0.0


def test_exact_derivatives_of_the_overlap_equations():
    times = np.linspace(0.0, 2.0, 5)
    found = limen.sensitivity(linear_neuron(), "excess_risk", ["algorithm.rate", "target.noise"], times)
    assert set(found.ways.values()) == {"exact"}
    step = 1e-5
    by_rate = (squared_distance(0.4 + step, times) - squared_distance(0.4 - step, times)) / (4 * step)
    by_noise = 0.5 * 0.4 / 1.6 * (1.0 - np.exp(-1.6 * times))
    np.testing.assert_allclose(found.dataset.derivative, [by_rate, by_noise], atol=1e-6)
    assert (found.dataset.error < 1e-5).all()
    assert "exact" in repr(found)


def test_differences_say_their_error():
    problem = limen.Ridge(0.5, noise=0.8)
    found = limen.sensitivity(problem, "excess_mse", ["noise", "ratio", "ridge"], [0.5, 2.0])
    assert set(found.ways.values()) == {"differences"}
    variance = limen.predict(problem, [0.5, 2.0]).dataset.variance_mse / 0.8
    np.testing.assert_allclose(found.dataset.derivative.sel(parameter="noise"), variance, rtol=1e-8)
    assert (found.dataset.error < 1e-5).all()
    for function, derivative in ((np.exp, np.e), (lambda x: np.sqrt(x), 0.5), (lambda x: np.sin(3 * x), 3 * np.cos(3))):
        for one_sided in (False, True):
            value, error = differences(lambda x, f=function: np.atleast_1d(f(x)), 1.0, one_sided)
            assert abs(value[0] - derivative) <= error[0] < 1e-3


@pytest.mark.slow
def test_exact_derivatives_and_differences_agree_on_a_committee():
    problem = limen.TwoLayer(
        limen.target("committee:2", noise=0.1),
        limen.network(2, "saad-solla"),
        limen.OnePassSGD(0.6),
        start=limen.OverlapStart([[0.3, 0.1], [0.05, 0.2]]),
    )
    exact = limen.sensitivity(problem, "test_loss", ["algorithm.rate"], [1.0, 3.0])

    def loss(x):
        return limen.predict(
            problem.model_copy(update={"algorithm": limen.OnePassSGD(x)}), [1.0, 3.0]
        ).dataset.test_loss.values

    value, error = differences(loss, 0.6)
    np.testing.assert_allclose(exact.dataset.derivative[0], value, atol=float(1e-6 + 2 * error.max()))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda p: limen.tune(p, {}, at=1.0), "over must name at least one parameter"),
        (lambda p: limen.tune(p, {"algorithm.rat": (0.1, 1.0)}, at=1.0), "did you mean 'algorithm.rate'"),
        (lambda p: limen.tune(p, {"rate": (1.0, 0.1)}, at=1.0), "must be a range with low < high"),
        (lambda p: limen.tune(p, {"rate": (0.1, 1.0)}), "at is the time of the goal"),
        (lambda p: limen.tune(p, {"width": (1, 4)}, at=1.0), "network.width is a whole number"),
        (lambda p: limen.tune(p, {"rate": (0.1, 1.0)}, "best", at=1.0), "goal must be a variable of the prediction"),
        (lambda p: limen.sensitivity(p, "test_loss", ["width"], 1.0), "network.width must be one real number"),
        (lambda p: limen.sensitivity(p, "tst_loss", ["rate"], 1.0), "quantity must be one of"),
    ],
)
def test_mistakes_are_sentences(call, said):
    with pytest.raises(limen.InputError, match=said):
        call(linear_neuron())


@pytest.mark.slow
def test_kinks_in_averages_over_points_are_no_exact_derivatives():
    """A ReLU neuron under a Huber loss: derivatives are those of softplus(60 z)/60, which the program knows exactly."""

    def problem(activation):
        start = limen.OverlapStart(0.3, gram=((1.0,),))
        return limen.TwoLayer(
            limen.target("relu(z)", noise=0.05), limen.network(1, activation), limen.OnePassSGD(0.5), loss="huber:1",
            start=start,
        )  # fmt: skip

    kinked, smooth = (
        limen.sensitivity(problem(name), "overlap_0_0", ["target.noise"], [2.0])
        for name in ("relu", "softplus(60*z)/60")
    )
    assert kinked.ways == {"target.noise": "differences"} and smooth.ways == {"target.noise": "exact"}
    gap = abs(float(kinked.dataset.derivative[0, 0] - smooth.dataset.derivative[0, 0]))
    assert gap < 3.0 * float(kinked.dataset.error[0, 0]) < 0.3
    sharp = limen.TwoLayer("tanh(2*z)", limen.network(1, "tanh"), limen.OnePassSGD(0.5), loss="abs(y-f)",
                           start=limen.OverlapStart(0.3, gram=((1.0,),)))  # fmt: skip
    assert limen.sensitivity(sharp, "test_loss", ["algorithm.rate"], [1.0]).ways == {"algorithm.rate": "differences"}
