"""Dual activations: closed forms written here, the generic route on the same functions, independent integrals."""

import math
import time

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import erf

from limen.gaussian import covariance_dual, covariance_dual_prime, dual, hermite_coefficients, tabulated_dual
from limen.problem.spec import InputError
from limen.problem.targets import target

RHO = np.concatenate([np.linspace(-1, 1, 201), [1 - 1e-9, -1 + 1e-9, 1 - 1e-5]])
INSIDE = RHO[np.abs(RHO) < 0.9999]


def arc_cosine(rho):
    angle = np.arccos(rho)
    return (np.sin(angle) + (np.pi - angle) * rho) / (2 * np.pi)


def arc_sine(rho, c, k):
    return 2 / np.pi * np.arcsin(2 * c * k * rho / np.sqrt((1 + 2 * c * c) * (1 + 2 * k * k)))


@pytest.mark.parametrize("route", [dual, tabulated_dual])
def test_relu_is_the_arc_cosine_kernel(route):
    h = route("relu")
    assert np.max(np.abs(h(RHO) - arc_cosine(RHO))) < 1e-12
    assert np.max(np.abs(h.prime(RHO) - (np.pi - np.arccos(RHO)) / (2 * np.pi))) < 1e-12
    assert np.max(np.abs(h.second(INSIDE) * 2 * np.pi * np.sqrt(1 - INSIDE**2) - 1)) < 1e-11
    assert np.all(np.isposinf(h.second([-1.0, 1.0])))
    assert h.error < 1e-13 and h.prime_error < 1e-13


@pytest.mark.parametrize("route", [dual, tabulated_dual])
@pytest.mark.parametrize("first, second, c, k", [
    ("erf", None, 1.0, 1.0), ("saad-solla", None, 2**-0.5, 2**-0.5), ("erf(2*z)", "erf", 2.0, 1.0),
])  # fmt: skip
def test_erf_is_the_arcsine_kernel(route, first, second, c, k):
    h = route(first, second)
    assert np.max(np.abs(h(RHO) - arc_sine(RHO, c, k))) < 1e-12
    slope = 2 * c * k / math.sqrt((1 + 2 * c * c) * (1 + 2 * k * k))
    assert np.max(np.abs(h.prime(RHO) - 2 / np.pi * slope / np.sqrt(1 - (slope * RHO) ** 2))) < 1e-11
    assert np.max(np.abs(h.second(RHO) - 2 / np.pi * slope**3 * RHO / (1 - (slope * RHO) ** 2) ** 1.5)) < 1e-10


@pytest.mark.parametrize("route", [dual, tabulated_dual])
def test_sign_and_its_infinite_slope(route):
    h = route("sign(z)")
    assert np.max(np.abs(h(RHO) - 2 / np.pi * np.arcsin(RHO))) < 1e-12
    assert np.max(np.abs(h.prime(INSIDE) * np.sqrt(1 - INSIDE**2) - 2 / np.pi)) < 1e-12
    assert np.all(np.isposinf(h.prime([-1.0, 1.0])))
    middle = INSIDE[np.abs(INSIDE) < 0.95]
    assert np.max(np.abs(h.second(middle) - 2 / np.pi * middle / (1 - middle**2) ** 1.5)) < 1e-10
    assert h.second([-1.0, 1.0]).tolist() == [-np.inf, np.inf]


def test_jumps_and_kinks_of_plain_functions_are_seen():
    relu, step = tabulated_dual(lambda z: jnp.maximum(z, 0.0)), tabulated_dual(lambda z: jnp.sign(z))
    assert np.max(np.abs(relu(RHO) - arc_cosine(RHO))) < 1e-12
    assert np.max(np.abs(relu.prime(RHO) - (np.pi - np.arccos(RHO)) / (2 * np.pi))) < 1e-11
    assert np.max(np.abs(step.prime(INSIDE) * np.sqrt(1 - INSIDE**2) - 2 / np.pi)) < 1e-11


def test_polynomials():
    h = dual("hermite:3")
    assert h(RHO) == pytest.approx(RHO**3, abs=1e-15)
    assert h.prime(RHO) == pytest.approx(3 * RHO**2, abs=1e-14)
    assert h.second(RHO) == pytest.approx(6 * RHO, abs=1e-14)
    cubic = tabulated_dual("z**3")  # z^3 = He_3 + 3 He_1
    assert cubic(RHO) == pytest.approx(6 * RHO**3 + 9 * RHO, abs=1e-12)
    assert cubic.second(RHO) == pytest.approx(36 * RHO, abs=1e-11)


def test_a_polynomial_with_a_noisy_target_is_a_finite_sum():
    mean_label = hermite_coefficients(lambda z: erf(z / 0.3 / math.sqrt(2)), 1)[1]
    assert dual("linear", target("sign(z+0.3*e)"))(RHO) == pytest.approx(mean_label * RHO, abs=1e-12)
    with pytest.raises(InputError, match="noise inside"):
        dual("tanh", target("sign(z+0.3*e)"))(0.3)


@pytest.mark.parametrize("name, plain, kink", [
    ("tanh", np.tanh, None),
    ("gelu", lambda z: 0.5 * z * (1 + erf(z / np.sqrt(2))), None),
    ("abs(z-0.3)", lambda z: np.abs(z - 0.3), 0.3),
])  # fmt: skip
def test_generic_route_against_nested_quadrature(name, plain, kink):
    """scipy's dblquad in the conditional variables (G1, G2 | G1), another coordinate system than the library's."""
    rho = -0.55
    rest = math.sqrt(1 - rho**2)

    def integrand(y, x):
        density = math.exp(-0.5 * (x * x + y * y)) / (2 * math.pi)
        return plain(x) * plain(rho * x + rest * y) * density

    total = 0.0
    for low, high in ((-9, 9),) if kink is None else ((-9, kink), (kink, 9)):
        if kink is None:
            total += dblquad(integrand, low, high, -9, 9, epsabs=1e-11, epsrel=1e-11)[0]
        else:
            split = lambda x: min(max((kink - rho * x) / rest, -9.0), 9.0)  # noqa: E731
            total += dblquad(integrand, low, high, -9, split, epsabs=1e-11, epsrel=1e-11)[0]
            total += dblquad(integrand, low, high, split, 9, epsabs=1e-11, epsrel=1e-11)[0]
    assert dual(name)(rho) == pytest.approx(total, abs=1e-10)


@pytest.mark.parametrize("first, second", [("tanh", None), ("gelu", None), ("abs(z-0.3)", None), ("tanh", "relu")])
def test_generic_route_against_hermite_sums(first, second):
    degree, rho = 120, np.linspace(-0.7, 0.7, 29)
    m = np.arange(degree + 1)
    products = hermite_coefficients(first, degree) * hermite_coefficients(second or first, degree)
    powers = rho[:, None] ** m
    h = dual(first, second)
    assert np.max(np.abs(h(rho) - powers @ products)) < 1e-11
    assert np.max(np.abs(h.prime(rho) - powers[:, :-1] @ (m * products)[1:])) < 1e-11
    assert np.max(np.abs(h.second(rho) - powers[:, :-2] @ (m * (m - 1) * products)[2:])) < 1e-10


@pytest.mark.parametrize("name", ["tanh", "gelu", "softplus"])
def test_derivatives_are_derivatives(name):
    h, rho, step = dual(name), np.linspace(-0.95, 0.95, 21), 1e-3
    stencil = np.array([1, -8, 8, -1]) / (12 * step)
    shifts = np.array([-2, -1, 1, 2])[:, None] * step
    assert np.max(np.abs(stencil @ h(rho + shifts) - h.prime(rho))) < 1e-9
    assert np.max(np.abs(stencil @ h.prime(rho + shifts) - h.second(rho))) < 1e-9


def test_numpy_functions_without_derivatives_say_how_good_they_are():
    plain, traced = dual(np.tanh), dual("tanh")
    assert np.max(np.abs(plain(RHO) - traced(RHO))) < 1e-13
    assert np.max(np.abs(plain.prime(RHO) - traced.prime(RHO))) < 1e-9
    assert np.max(np.abs(plain.second(INSIDE) - traced.second(INSIDE))) < plain.second_error
    assert 1e-9 < plain.second_error < 1e-4


def test_unresolved_functions_say_so():
    assert tabulated_dual("tanh(300*z)").error > 1e-9


def q_grid():
    q1, q2, rho = np.meshgrid([0.2, 1.0, 4.0], [0.5, 3.0], [-1.0, -0.4, 0.9, 1.0], indexing="ij")
    return q1, q2, rho * np.sqrt(q1 * q2)


@pytest.mark.parametrize("name", ["relu", "erf", "saad-solla", "square", "linear", "abs(z)"])
def test_covariance_closed_forms_against_the_generic_route(name):
    plain = {"relu": lambda z: jnp.maximum(z, 0.0), "erf": lambda z: jnp.asarray(1.0) * _erf(z),
             "saad-solla": lambda z: _erf(z / math.sqrt(2)), "square": lambda z: z * z, "linear": lambda z: 1.0 * z,
             "abs(z)": jnp.abs}[name]  # fmt: skip
    q1, q2, c = q_grid()
    assert np.max(np.abs(covariance_dual(name, q1, q2, c) - covariance_dual(plain, q1, q2, c))) < 1e-11
    assert np.max(np.abs(covariance_dual_prime(name, q1, q2, c) - covariance_dual_prime(plain, q1, q2, c))) < 1e-11


def _erf(z):
    from jax.scipy.special import erf as traced

    return traced(z)


@pytest.mark.parametrize("q", [1.0, 4.0, 25.0])
def test_covariance_dual_of_tanh_against_the_trapezoid_rule(q):
    x = np.arange(-9, 9.0001, 0.1 if q < 10 else 0.02)
    weight = np.exp(-x * x / 2)
    weight /= weight.sum()
    slope = 1 / np.cosh(np.sqrt(q) * x) ** 2
    assert covariance_dual_prime("tanh", q, q, q) == pytest.approx(weight @ slope**2, abs=1e-11)
    c, q2 = 0.6 * q, 1.5 * q
    v = c / np.sqrt(q) * x[:, None] + np.sqrt(q2 - c * c / q) * x[None, :]
    exact = weight @ (np.tanh(np.sqrt(q) * x)[:, None] * np.tanh(v)) @ weight
    assert covariance_dual("tanh", q, q2, c) == pytest.approx(exact, abs=1e-11)


def test_covariance_tables_equal_single_integrals():
    c = np.linspace(-2, 2, 60)
    table = covariance_dual("tanh", 2.0, 2.0, c)
    assert table[[0, 17, 59]] == pytest.approx(covariance_dual("tanh", 2.0, 2.0, c[[0, 17, 59]]), abs=1e-12)
    assert covariance_dual("softplus", 0.0, 2.0, 0.0) == pytest.approx(
        math.log(2) * hermite_coefficients("softplus", 0, math.sqrt(2))[0], abs=1e-12
    )


def test_what_is_refused():
    with pytest.raises(InputError, match=r"rho must be between -1 and 1, got 1\.5"):
        dual("relu")([0.0, 1.5])
    with pytest.raises(InputError, match="c must be at most"):
        covariance_dual("relu", 1.0, 1.0, 1.1)
    with pytest.raises(InputError, match="q1 must not be negative"):
        covariance_dual("relu", -1.0, 1.0, 0.0)
    with pytest.raises(InputError, match="continuous"):
        covariance_dual_prime("sign(z)", 1.0, 1.0, 0.2)
    with pytest.raises(InputError, match="square integrable"):
        dual("exp(z**2)")(0.1)


def test_tabulating_tanh_is_fast():
    start = time.process_time()
    tabulated_dual("tanh")(0.3)
    assert time.process_time() - start < 1.0
