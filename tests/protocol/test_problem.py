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
        (lambda: limen.GradientDescent(rate=1.0), "is required"),
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
        (lambda: limen.simulate(_problem(), times=2, d=0, seeds=1), "d must be a positive whole number, got 0"),
        (lambda: limen.simulate(_problem(), times=2, d=50, seeds=0), "seeds must be"),
        (lambda: limen.simulate(_problem(), times=2, d=50, seeds=1, colour=3), "colour is not an option of"),
        (lambda: limen.simulate(_problem(), times=2, d=50, seeds=1, simulator="x"), "simulator must be one of"),
        (lambda: limen.predict(_problem(), 2, theory=np.arange(3)), "theory must be the name of one or a limen.Method"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(make, words):
    with pytest.raises(InputError) as caught:
        make()
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
    other = limen.theories(_problem(inputs=limen.Inputs("rademacher")))
    assert "Gaussian inputs, not rademacher" in other["descent"]
    with pytest.raises(limen.InputError, match="inputs of one variance, and these have 2"):
        limen.thresholds.success_probabilities(spectral, [100], 5)
