"""Information exponents and the sign rule on links whose Hermite expansions are known."""

import pytest

from limen.link import escape_sign, information_exponent
from limen.problem.spec import InputError
from limen.problem.targets import target


@pytest.mark.parametrize("link, student, exponent", [
    ("z", "relu", 1), ("z**2", "relu", 2), ("z**2", "square", 2), ("hermite:3", "hermite:3", 3),
    ("z**3", "hermite:3", 3), ("z**3", "erf", 1), ("z**3 - 3*z", "tanh", 3), ("abs(z)", "gelu", 2),
    ("sign(z)", "tanh", 1), ("tanh(z)", "tanh", 1), ("z**2", "gelu", 2), ("z**2*exp(-z**2)", "softplus", 4),
    ("hermite:4", "relu", 4), ("z**4 - 6*z**2", "square", None), ("cos(z)", "gelu", 2), ("heaviside(z)", "relu", 1),
    ("phase-retrieval", "abs(z)", 2), ("sign(z + 0.5*e)", "erf", 1), ("z**2*e + z**2", "gelu", 2),
])  # fmt: skip
def test_exponents(link, student, exponent):
    # z^2 exp(-z^2): its second coefficient is proportional to 3v^2 - v at v = 1/3, hence zero.
    if exponent is None:
        with pytest.raises(InputError, match="share none"):
            information_exponent(link, student)
    else:
        assert information_exponent(link, student) == exponent


def test_noise_changes_nothing_and_hermite_targets_work():
    assert information_exponent(target("z**2", noise=3.0), "relu") == 2
    assert information_exponent(target(hermite=[1.0, 0.0, 0.0, 2.0]), "erf") == 3


def test_odd_and_even_have_no_common_coefficient():
    with pytest.raises(InputError, match="must share a Hermite coefficient of degree 1 to 40, and share none"):
        information_exponent("z**2", "erf")


def test_sign_rule():
    assert escape_sign("z", "relu") == (1,)
    assert escape_sign("-z", "relu") == (-1,)
    assert escape_sign("z**2", "relu") == (-1, 1)
    assert escape_sign("-z**2", "relu") == ()
    assert escape_sign("hermite:3", "erf") == (-1,)  # the cubic coefficient of erf is negative
    assert escape_sign("hermite:4", "relu") == ()  # and the quartic one of ReLU


def test_what_is_refused():
    with pytest.raises(InputError, match="one latent direction"):
        information_exponent("z1*z2", "relu")
    with pytest.raises(InputError, match="degree must be at least 1"):
        information_exponent("z", "relu", degree=0)
