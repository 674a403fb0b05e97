"""Losses of teacher and student on the sphere: closed forms, the square loss, exponents, and the slope of the loss."""

import numpy as np
import pytest

import limen
from limen.problem import InputError
from limen.theory.effective.sphere.sphere_drift import SphereDrift

OVERLAPS = np.linspace(-0.95, 0.95, 7)


@pytest.mark.parametrize(("link", "noise"), [("tanh", 0.0), ("relu", 0.3)])
def test_the_square_loss_by_the_general_route_is_the_square_loss(link, noise):
    known = limen.SingleIndex(link, noise=noise)
    general = limen.SingleIndex(link, noise=noise, loss="1*(y - f)**2")
    for question in (limen.effective.population_loss, limen.effective.population_slope):
        np.testing.assert_allclose(question(general, OVERLAPS), question(known, OVERLAPS), atol=1e-11)
    for one, other in zip(*(limen.effective.gradient_noise(p, OVERLAPS) for p in (general, known)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)
    first, second = SphereDrift(general), SphereDrift(known)
    assert (first.exponent, first.leading) == (second.exponent, pytest.approx(second.leading, rel=1e-10))


def test_logistic_loss_of_a_sign_is_a_straight_line():
    # log(1 + e^-u) is -u/2 plus an even function, and E sign(s*) s = m sqrt(2/pi)
    problem = limen.SingleIndex("sign(z)", student_link="z", loss="logistic")
    np.testing.assert_allclose(limen.effective.population_slope(problem, OVERLAPS), -np.sqrt(0.5 / np.pi), rtol=1e-9)
    losses = limen.effective.population_loss(problem, OVERLAPS)
    np.testing.assert_allclose(np.diff(losses) / np.diff(OVERLAPS), -np.sqrt(0.5 / np.pi), rtol=1e-9)
    assert SphereDrift(problem).exponent == 1


def test_exponential_loss_of_a_linear_teacher():
    # E exp(-s* s) is finite only for small products: scale the student, E exp(-b s* s) = ((1 + b m)^2 - b^2)^(-1/2)
    problem = limen.SingleIndex("z", student_link="0.2*z", loss="exponential")
    known = ((1 + 0.2 * OVERLAPS) ** 2 - 0.04) ** -0.5
    np.testing.assert_allclose(limen.effective.population_loss(problem, OVERLAPS), known, rtol=1e-9)
    slopes = -0.2 * (1 + 0.2 * OVERLAPS) * known**3
    np.testing.assert_allclose(limen.effective.population_slope(problem, OVERLAPS), slopes, rtol=1e-7)


def test_a_loss_has_an_information_exponent_of_its_own():
    cubic = {loss: SphereDrift(limen.SingleIndex("hermite:3", loss=loss)) for loss in ("square", "pseudo-huber:1")}
    assert {name: drift.exponent for name, drift in cubic.items()} == {"square": 3, "pseudo-huber:1": 1}
    # an even link stays even under every loss
    assert SphereDrift(limen.SingleIndex("hermite:2", loss="pseudo-huber:1")).exponent == 2
    # pseudo-Huber with a large threshold is the square loss: the linear coefficient dies out
    far = SphereDrift(limen.SingleIndex("hermite:3", loss="pseudo-huber:1000"))
    assert (far.exponent, far.leading) == (3, pytest.approx(cubic["square"].leading, rel=1e-3))


def test_a_loss_that_repels_is_refused():
    with pytest.raises(InputError, match="loss must fall with the overlap at first"):
        _ = SphereDrift(limen.SingleIndex("z", loss="-(y - f)**2")).exponent
