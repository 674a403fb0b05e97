"""Hermite coefficients against closed forms written down here, and the generic route against the same."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import erf

from limen.gaussian import (
    gaussian_rule,
    hermite_coefficients,
    hermite_coefficients_by_quadrature,
    hermite_polynomials,
)
from limen.problem.activations import activation
from limen.problem.spec import InputError
from limen.problem.targets import target


def he_coefficients(m: int) -> list[Fraction]:
    """Probabilists' Hermite polynomial He_m, ascending powers, in exact arithmetic."""
    previous, current = [Fraction(0)], [Fraction(1)]
    for k in range(m):
        shifted = [Fraction(0), *current]
        padded = previous + [Fraction(0)] * (len(shifted) - len(previous))
        previous, current = current, [a - k * b for a, b in zip(shifted, padded, strict=True)]
    return current


def relu_exact(m: int) -> float:
    """Term by term over He_m with exact rational coefficients; even and odd moments summed apart."""
    even = odd = Fraction(0)
    for power, c in enumerate(he_coefficients(m)):
        p = power + 1
        if p % 2:  # E[z^p; z>0] = (p-1)!!/sqrt(2 pi)
            odd += c * math.prod(range(2, p, 2))
        else:  # (p-1)!!/2
            even += c * math.prod(range(1, p, 2))
    return (float(even) / 2 + float(odd) / math.sqrt(2 * math.pi)) / math.sqrt(math.factorial(m))


def erf_exact(m: int, slope: float) -> float:
    """From E[erf(kz) e^{sz - s^2/2}] = erf(k s/sqrt(1 + 2k^2)): Taylor coefficients of erf."""
    if m % 2 == 0:
        return 0.0
    j = (m - 1) // 2
    ratio = slope / math.sqrt(1 + 2 * slope**2)
    taylor = 2 / math.sqrt(math.pi) * (-1) ** j * ratio**m / (math.factorial(j) * m)
    return taylor * math.sqrt(math.factorial(m))


ROUTES = [hermite_coefficients, hermite_coefficients_by_quadrature]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_relu_and_absolute_value(route, scale):
    exact = scale * np.array([relu_exact(m) for m in range(21)])
    assert np.max(np.abs(route("relu", 20, scale) - exact)) < 1e-12
    absolute = 2 * exact - scale * (np.arange(21) == 1)
    assert np.max(np.abs(route("abs(z)", 20, scale) - absolute)) < 1e-12


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name, slope", [("erf", 1.0), ("saad-solla", 2**-0.5), ("erf(3*z)", 3.0)])
@pytest.mark.parametrize("scale", [1.0, 0.3, 4.0])
def test_erf(route, name, slope, scale):
    exact = np.array([erf_exact(m, slope * scale) for m in range(31)])
    assert np.max(np.abs(route(name, 30, scale) - exact)) < 1e-12


@pytest.mark.parametrize("route", ROUTES)
def test_sign(route):
    exact = [0.0 if m % 2 == 0 else 2 * float(he_coefficients(m - 1)[0]) / math.sqrt(2 * math.pi * math.factorial(m))
             for m in range(21)]  # fmt: skip
    assert np.max(np.abs(route("sign(z)", 20) - exact)) < 1e-12


def test_series_are_exact_and_named_polynomials_too():
    assert hermite_coefficients("hermite:3", 5).tolist() == [0, 0, 0, 1, 0, 0]
    assert hermite_coefficients(activation(hermite=[0.5, -1.0, 2.0]), 1).tolist() == [0.5, -1.0]
    assert hermite_coefficients("linear", 3, 2.0).tolist() == [0, 2.0, 0, 0]
    assert hermite_coefficients("square", 3, 3.0) == pytest.approx([9, 0, 9 * math.sqrt(2), 0], abs=1e-12)
    # z^4 = He_4 + 6 He_2 + 3
    assert hermite_coefficients("z**4", 5) == pytest.approx([3, 0, 6 * math.sqrt(2), 0, math.sqrt(24), 0], abs=1e-12)


def test_every_kind_of_argument_gives_the_same():
    exact = [erf_exact(m, 1.0) for m in range(11)]
    for value in (activation("erf"), target("erf(z)", noise=0.5), target("erf(z1)"), erf, lambda z: erf(z)):
        assert np.max(np.abs(hermite_coefficients(value, 10) - exact)) < 1e-13


def test_noise_inside_a_target_is_averaged():
    found = hermite_coefficients(target("sign(z+0.3*e)"), 9)
    assert np.max(np.abs(found - [erf_exact(m, 1 / (0.3 * math.sqrt(2))) for m in range(10)])) < 1e-12


@pytest.mark.parametrize("name", ["tanh", "gelu", "abs(z-0.3)", "softplus", "heaviside(z-1)"])
def test_parseval_and_the_derivative_rule(name):
    rule = gaussian_rule(name)
    square = rule.weights @ rule.values**2
    coefficients = hermite_coefficients(name, 200)
    assert np.all(np.cumsum(coefficients**2) <= square * (1 + 1e-13))
    if name in ("tanh", "gelu", "softplus"):
        assert np.sum(coefficients**2) == pytest.approx(square, rel=1e-9)


def test_gelu_closed_form():
    # gelu = z Phi(z): E[gelu] = E[phi] = 1/(2 sqrt pi); c_1 = E[Phi + z phi] = 1/2
    found = hermite_coefficients("gelu", 2)
    assert found[:2] == pytest.approx([1 / (2 * math.sqrt(math.pi)), 0.5], abs=1e-14)


def test_orthonormal_polynomials():
    rule = gaussian_rule("z**2", 41)
    rows = hermite_polynomials(rule.nodes, 40)
    gram = rows.T @ (rule.weights[:, None] * rows)
    assert np.max(np.abs(gram - np.eye(41))) < 1e-11
    z = np.array([-1.3, 0.2, 2.0])
    exact = [float(sum(float(c) * x**p for p, c in enumerate(he_coefficients(6)))) / math.sqrt(720) for x in z]
    assert hermite_polynomials(z, 6)[:, 6] == pytest.approx(exact, abs=1e-13)


def test_high_degrees_do_not_overflow():
    found = hermite_coefficients_by_quadrature("relu", 300)
    assert np.max(np.abs(found - hermite_coefficients("relu", 300))) < 1e-12


def test_what_is_refused():
    for arguments, text in [
        (("relu", -1), "degree must be between"),
        (("relu", 301), "degree must be between"),
        (("relu", 3, -1.0), "scale must be finite"),
        ((target("z1*z2"), 3), "one latent direction"),
        ((3.0, 3), "activation must be"),
        ((lambda z: z.sum(), 3), "act elementwise"),
    ]:
        with pytest.raises(InputError, match=text):
            hermite_coefficients(*arguments)


def test_gelu_is_fast_once_compiled():
    hermite_coefficients("gelu", 40)
    start = time.process_time()
    hermite_coefficients("gelu", 40)
    assert time.process_time() - start < 0.05
