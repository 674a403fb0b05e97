"""The formula parser: right on what it allows, one sentence on everything else, never anything executed."""

import math
import random
import runpy
import string
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from limen.gaussian import gaussian_rule
from limen.problem import InputError, activation, target

PRINTABLE = st.text(string.printable, max_size=80)
FRAGMENTS = st.sampled_from(
    ["z", "z1", "z2", "e", "pi", "1", "0.5", "9", "1e300", "+", "-", "*", "/", "**", "(", ")", ",", " ", "tanh", "max",
     ">", "<=", "relu(", "__import__", "os", ".", "'", '"', "[", "]", "lambda", ":", "if", "else", "for", "in", "=",
     ";", "\n", "é", "\\", "\x00", "0x", "1_0", "j", "True", "None", "not", "and"]
)  # fmt: skip


def refused(make, text) -> str:
    with pytest.raises(InputError) as caught:
        make(text)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


@settings(max_examples=1500, deadline=None)
@given(
    st.one_of(
        st.lists(FRAGMENTS, max_size=30).map("".join), st.text(max_size=80), st.text(string.printable, max_size=80)
    )
)
@example("z1**9**9**9")
@example("__import__('os').system('true')")
@example("(" * 150 + "z" + ")" * 150)
@example("z" * 500)
@example("-" * 90 + "z")
@example("z**-z")
@example("().__class__")
def test_any_text_is_a_formula_or_one_sentence(text):
    for make in (activation, target):
        try:
            outcome = make(text).describe()["type"]
        except InputError as error:
            outcome = str(error)
        assert "\n" not in outcome


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("z1**9**9**9", 5),
        ("__import__('os')", 1),
        ("z1 + os", 6),
        ("z1 + z1.real", 6),
        ("tanh(z1, z1)", 1),
        ("1 < z1 < 2", 1),
        ("z1 if z1 else 0", 1),
        ("[z1]", 1),
        ("z1 + 'a'", 6),
        ("z1**z1", 5),
    ],
)
def test_a_bad_formula_points_at_the_column(text, column):
    assert f"(column {column})" in refused(target, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("9" * 330 + "*z", "numbers must be smaller than 1e12"),
        ("z+0**-1", "constant part that is not a finite number (column 3)"),
        ("1e-300**-16*z", "constant part that is not a finite number"),
        ("z*nan", "formula 'z*nan': unknown name 'nan'"),
        ("tahn", "formula 'tahn': unknown name 'tahn': did you mean tanh?"),
        ("tahn(z)", "unknown function 'tahn': did you mean tanh?"),
        ("z^2", "write **, as in z**2"),
        ("2z", "write 2*z"),
        ("x", "unknown name 'x': the variable is called z"),
        ("2*cos + z", "a function needs its argument: write cos(z"),
        ("z/0", "divides by zero"),
    ],
)
def test_what_was_typed_is_quoted_and_what_was_meant_is_said(text, said):
    for make in (activation, target):
        assert said in refused(make, text)


def test_a_flat_sum_is_not_deep():
    assert target("+".join(["z"] * 60)).latents == 1
    assert "nested deeper" in refused(target, "tanh(" * 30 + "z" + ")" * 30)


@pytest.mark.parametrize(
    ("text", "kinks"),
    [
        ("sqrt(z**2)", (0.0,)),
        ("max(z, 0.3*z)", (0.0,)),
        ("abs(z-0.5)", (0.5,)),
        ("z/(1+abs(z))", ()),
        ("relu(z)**2", ()),
        ("abs(z)**3", ()),
        ("tanh(50*z)", ()),
    ],
)
def test_kinks_are_found_by_value_and_not_by_syntax(text, kinks):
    assert activation(text).kinks == pytest.approx(kinks, abs=1e-12)


def test_functions_that_vary_too_fast_are_said_to(recwarn):
    for text, said in (("heaviside(sin(1000*z))", "bend or jump"), ("sin(1e9*z)", "cannot be resolved")):
        with pytest.raises(InputError, match=said):
            gaussian_rule(text)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("z1**2 - 3*z2", lambda a, b: a**2 - 3 * b),
        ("abs(z1)/2 + z2**-2", lambda a, b: np.abs(a) / 2 + b**-2),
        ("max(z1, z2) - min(z1, 1)", lambda a, b: np.maximum(a, b) - np.minimum(a, 1)),
        ("(z1 > 0) + (z2 <= 1) * sin(pi*z1)", lambda a, b: (a > 0) + (b <= 1) * np.sin(np.pi * a)),
        ("sqrt(z2**2) ** 0.5 + z1", lambda a, b: np.abs(b) ** 0.5 + a),
    ],
)
def test_formulas_mean_what_they_say(text, reference):
    z = np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32)
    value = target(text).function(z, np.zeros(50, np.float32))
    np.testing.assert_allclose(np.asarray(value), reference(z[:, 0], z[:, 1]), rtol=2e-5, atol=2e-5)


def test_breakpoints_are_found():
    np.testing.assert_allclose(activation("abs(z - 0.3) + max(z, 1.5)").breakpoints, [0.3, 1.5], atol=1e-12)
    np.testing.assert_allclose(activation("sign(z**2 - 2)").breakpoints, [-(2**0.5), 2**0.5], atol=1e-12)
    assert activation("gelu").breakpoints == ()


def test_erf_is_recognised_at_any_scale():
    assert activation("erf").erf_scale == 1.0
    assert activation("saad-solla").erf_scale == pytest.approx(0.5**0.5, abs=1e-15)
    assert activation("erf(sqrt(2)*z)").erf_scale == pytest.approx(2**0.5, abs=1e-15)
    assert activation("erf(z) + 0*z").erf_scale is None


def test_random_formulas_are_understood_or_refused_within_a_second():
    """A small draw of `benchmarks/formulas.py`, and the formulas that once went wrong."""
    formulas = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "formulas.py"))
    chance = random.Random(5)
    formulas["ask"]("z")
    for text in [*formulas["FIXED"], *(formulas["random_formula"](chance) for _ in range(100))]:
        outcome, seconds = formulas["ask"](text)
        assert outcome in ("accepted", "refused"), text
        assert seconds < formulas["SLOWEST"], text


def test_numpy_and_jax_give_the_same_values():
    places = np.linspace(-3.0, 3.0, 41)
    for text in ("gelu(z)*sigmoid(2*z)", "softplus(z)-log(1+exp(z))", "erf(z)+heaviside(z-1)", "max(z, 0.5)**3/(z<1)"):
        function = activation(text).function
        with jax.enable_x64(True):
            compiled = np.asarray(function(jnp.asarray(places)))
        np.testing.assert_allclose(function(places), compiled, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    "name, at_minus_2, at_2, kinks",
    [
        ("silu", -2 / (1 + math.exp(2)), 2 / (1 + math.exp(-2)), ()),
        ("elu", math.exp(-2) - 1, 2.0, ()),
        ("leaky-relu", -0.02, 2.0, (0.0,)),
        ("abs", 2.0, 2.0, (0.0,)),
        ("sin", -math.sin(2), math.sin(2), ()),
    ],
)
def test_activations_that_networks_use_have_names(name, at_minus_2, at_2, kinks):
    named = activation(name)
    assert np.asarray(named.function(np.array([-2.0, 2.0]))) == pytest.approx([at_minus_2, at_2], rel=1e-6)
    assert named.kinks == kinks
