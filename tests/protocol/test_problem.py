"""Specifications: frozen, hashable, checked when made, one sentence per mistake."""

import subprocess
import sys

import numpy as np
import pytest

import limen
from limen import InputError


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: limen.GradientDescent(-1.0), "step must be greater than 0"),
        (lambda: limen.GradientDescent(float("nan")), "step must be a finite number"),
        (lambda: limen.GradientDescent(rate=1.0), "rate is not an argument of GradientDescent: did you mean 'step'"),
        (lambda: limen.OnePassSGD(lr=1.0), "lr is not an argument of OnePassSGD: did you mean 'rate'"),
        (lambda: limen.GradientDescent(), "step is required"),
        (lambda: limen.network(2, "ReLU"), "got 'ReLU'; did you mean 'relu'"),
        (lambda: limen.network(2, "swish"), "did you mean 'silu'"),
        (lambda: limen.network(2, "mish"), "names: relu, gelu"),
        (lambda: limen.GradientDescent(step=1.0, rate=1.0), "rate is not an argument of GradientDescent"),
        (lambda: limen.OnePassSGD(0.1, 1, 1.0, 0.5, 5), "at most 4 arguments, got 5"),
        (lambda: limen.OnePassSGD(0.1, batch=0), "batch must be at least 1, got 0"),
        (lambda: limen.activation(), "either a name or formula, or its hermite"),
        (lambda: limen.activation("hermite:99"), "degree from 0 to 40"),
        (lambda: limen.target("parity:99"), "k from 1 to 32"),
        (lambda: limen.target("z1 + z3"), "not all of z1..z3"),
        (lambda: limen.target("1 + e"), "must depend on z"),
        (lambda: limen.target("z", noise=-1.0), "noise must be at least 0"),
        (lambda: limen.Loss("hinge"), "loss must be one of"),
        (lambda: limen.Loss("huber:-1"), "positive number k"),
        (lambda: limen.network(0, "relu"), "width must be greater than 0, got 0"),
        (lambda: limen.network(2, "relu", bias=[1.0]), "bias must be one number or 2"),
        (lambda: _problem(samples_per_dim=None), "samples_per_dim (n/d) is required"),
        (lambda: _problem(algorithm=limen.SphericalSGD(0.1)), "must be left out"),
        (lambda: _problem(start=limen.OverlapStart(2.0)), "at most initial_norm"),
        (lambda: _problem(start=limen.OverlapStart([[0.1, 0.2]])), "shape (1, 1)"),
        (lambda: _problem(start=limen.OverlapStart([[0.5]], gram=[[0.1]])), "positive semidefinite"),
        (lambda: limen.simulate(_problem(), times=-1, d=50, seeds=1), "times must be positive"),
        (lambda: limen.predict(_problem(), 0.3), "a whole number of steps for this algorithm, got 0.3"),
        (lambda: limen.simulate(_problem(), 2.7, d=50, seeds=1), "a whole number of steps for this algorithm, got 2.7"),
        (lambda: limen.simulate(_problem(), times=2, d=0, seeds=1), "d must be a positive whole number, got 0"),
        (lambda: limen.simulate(_problem(), times=2, d=50, seeds=0), "seeds must be"),
        (lambda: limen.simulate(_problem(), times=2, d=50, seeds=1, colour=3), "colour is not an option of"),
        (lambda: limen.simulate(_problem(), times=2, d=50, seeds=1, simulator="x"), "simulator must be one of"),
        (lambda: limen.predict(_problem(), 2, theory=np.arange(3)), "theory must be the name of one or a limen.Method"),
        (lambda: limen.network(1, np.ones(3)), "activation must be a name, a formula or a function, got array"),
        (lambda: limen.target(np.ones(3)), "formula must be a name or a formula, got array"),
        (lambda: limen.target("z", entries=3), "entries must be a text, got 3"),
        (lambda: _problem(algorithm="sgd"), "algorithm must be one of limen.GradientDescent, limen.Adam, limen.Sign"),
        (lambda: _problem(algorithm=limen.Adam), "algorithm must be made from its class: write Adam(...)"),
        (lambda: _problem(start=3), "start must be one of limen.RandomStart, limen.OverlapStart, got 3"),
        (lambda: limen.network(2, "relu", second_layer="a"), "second_layer must be a number or a list of numbers, got"),
        (lambda: limen.network(2, "relu", second_layer=[1, [2]]), "second_layer must be a number, or numbers in rows"),
        (lambda: limen.target(hermite="a"), "hermite must be a list of numbers, got 'a'"),
        (lambda: limen.network(2.5, "relu"), "width must be a whole number, got 2.5"),
        (lambda: limen.network(True, "relu"), "width must be a number, got True"),
        (lambda: limen.network(2, "relu", bias=[False, 1.0]), "bias must be a number, got [False, 1.0]"),
        (lambda: limen.target("z", noise=True), "noise must be a number, got True"),
        (lambda: limen.predict(_problem(), True), "times must be a number or an increasing array, got True"),
        (lambda: limen.predict(_problem(), None), "times must be a number or an increasing array, got None"),
        (lambda: limen.predict("z**2", 1), "problem must be a problem such as limen.TwoLayer(...), got 'z**2'"),
        (lambda: limen.simulate(None, 1), "problem must be a problem such as limen.TwoLayer(...), got None"),
        (lambda: limen.theories(limen.TwoLayer), "problem must be made from its class: write TwoLayer(...)"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(make, words):
    with pytest.raises(InputError) as caught:
        make()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


ONLINE = limen.TwoLayer("z", limen.network(1, "tanh"), limen.OnePassSGD(0.1), start=limen.OverlapStart(0.1))
RATES = {"algorithm.rate": [0.1, 0.2]}


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: limen.predict(_problem(), 2, seed=1.5), "seed must be a whole number of at least 0, got 1.5"),
        (lambda: limen.predict(_problem(), 2, tolerance="a"), "tolerance must be a real number"),
        (lambda: limen.predict(_problem(), 2, scrambles="a"), "scrambles must be a real number"),
        (lambda: limen.predict(_problem(), 2, "equal-neurons", scrambles=2.5), "scrambles must be a whole number"),
        (lambda: limen.predict(_problem(), 2, "entrywise", seed="a"), "seed must be a real number"),
        (lambda: limen.tune(ONLINE, RATES, at="late"), "at must be a real number"),
        (lambda: limen.tune(ONLINE, RATES, lambda found: "a", 1.0), "goal must give a number, got 'a'"),
        (lambda: limen.tune(ONLINE, ["ridge"], at=1.0), "over must name at least one parameter"),
        (lambda: limen.tune("z", RATES, at=1.0), "problem must be a problem"),
        (lambda: limen.sensitivity(ONLINE, ["test_loss"], "algorithm.rate", 1.0), "quantity must be the name of a"),
        (lambda: limen.sensitivity(ONLINE, "test_loss", [3], 1.0), "parameters must be a list of names"),
        (lambda: limen.sweep(ONLINE, None), "grid must be a dict such as"),
        (lambda: limen.experiment(3), "name must be that of an experiment, the class of one, or a problem, got 3"),
        (lambda: limen.thresholds.bayes_overlap("z**2", [1.0, 2.0]), "samples_per_dim must be one number"),
        (lambda: limen.predict(ONLINE, [0.0]).save("nodir/x.nc"), "path must be in a folder that exists, got 'nodir"),
        (lambda: ONLINE.save("nodir/p.toml"), "path must be in a folder that exists, got 'nodir/p.toml'"),
        (lambda: limen.load(3), "path must be the name of a file, got 3"),
        (lambda: limen.load_problem(None), "path must be the name of a file, got None"),
    ],
)
def test_a_wrong_option_is_one_sentence(ask, words):
    with pytest.raises(InputError) as caught:
        ask()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def _problem(**changes):
    arguments = {
        "target": "z**2",
        "network": limen.network(1, "gelu"),
        "algorithm": limen.GradientDescent(0.5),
        "samples_per_dim": 10.0,
    }
    return limen.TwoLayer(**{**arguments, **changes})


def test_specs_are_values():
    one, other = _problem(), _problem()
    assert one == other
    assert hash(one) == hash(other)
    assert one.describe() == other.describe()
    assert _problem(samples_per_dim=11.0) != one
    assert one.network.activation.function is other.network.activation.function, "jit must cache on equal activations"
    assert limen.network(2, "relu", second_layer=np.array([1.0, -1.0])).per_neuron("second_layer") == (1.0, -1.0)
    with pytest.raises(Exception, match="frozen"):
        one.samples_per_dim = 3.0


@pytest.mark.parametrize("name", ["square", "huber:1.5", "pseudo-huber:2", "logistic", "exponential", "squared-hinge"])
def test_slopes_of_losses(name):
    loss = limen.Loss(name)
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    f = np.array([0.3, 0.2, -2.0, 3.1, 0.7])
    step = 1e-3
    numeric = (np.asarray(loss.function(y, f + step)) - np.asarray(loss.function(y, f - step))) / (2 * step)
    np.testing.assert_allclose(np.asarray(loss.slope(y, f)), numeric, atol=2e-3)


def test_closed_values_of_losses():
    y, f = np.array([1.0, -1.0]), np.array([0.5, 2.0])
    np.testing.assert_allclose(limen.Loss("square").function(y, f), [0.125, 4.5])
    np.testing.assert_allclose(limen.Loss("huber:1").function(y, f), [0.125, 2.5])
    np.testing.assert_allclose(limen.Loss("logistic").function(y, f), np.log1p(np.exp([-0.5, 2.0])), rtol=1e-6)
    np.testing.assert_allclose(limen.Loss("squared-hinge").function(y, f), [0.25, 9.0])


def test_problem_modules_do_not_import_jax_and_limen_is_light():
    script = "import sys, limen.problem; assert 'jax' not in sys.modules; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
    script = "import sys, limen; assert not {'jax', 'pydantic', 'xarray', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_power_law_of_variances_has_mean_one_and_the_slope_of_its_exponent():
    inputs = limen.Inputs.power_law(0.6, 6)
    s, w = inputs.spectrum
    assert len(s) == 6 and w @ s == pytest.approx(1.0, abs=1e-12) and w.sum() == pytest.approx(1.0, abs=1e-12)
    # Inner blocks are copies of each other at ranks smaller by e.
    np.testing.assert_allclose(np.diff(np.log(s))[1:], -0.6, atol=1e-12)
    with pytest.raises(limen.InputError, match="exponent must be from 0 to below 1"):
        limen.Inputs.power_law(1.0, 4)
    with pytest.raises(limen.InputError, match="blocks must be a whole number"):
        limen.Inputs.power_law(0.5, 0)
    assert limen.Inputs.power_law(0.0, 3).isotropic


def test_theories_say_which_inputs_they_take():
    spectral = _problem(inputs=limen.Inputs(variances=(0.5, 1.5), fractions=(0.5, 0.5)))
    assert limen.theories(spectral)["descent"] == "applies"
    assert limen.theories(_problem(inputs=limen.Inputs("rademacher")))["descent"] == "applies"
    with pytest.raises(limen.InputError, match="inputs of one variance, and these have 2"):
        limen.thresholds.success_probabilities(spectral, [100], 5)
