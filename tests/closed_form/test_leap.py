"""Leaps worked out by hand, and their relations to exponents and to hard directions."""

import numpy as np
import pytest
from scipy.special import ndtri

from limen.link import hard_subspace, leap
from limen.link.label_points import label_points, normal_scores
from limen.link.leap import _enters
from limen.link.staircase import _hermite_products
from limen.problem.spec import InputError
from limen.problem.targets import target


@pytest.mark.parametrize("formula, information, generative", [
    ("z**2", 2, 2),
    ("z**3 - 3*z", 3, 1),  # He_3: some function of it has a linear part
    ("z**4 - 6*z**2", 4, 2),
    # Level sets are pairs u, v of z^2 with weights 1/|1-u|, 1/|1-v|, so that E[z^2 - 1 | y] = 0 exactly.
    ("z**2*exp(-z**2)", 4, 4),
    ("z1*z2", 2, 2),
    ("z1*z2*z3", 3, 2),  # |y| tells E[z1^2]
    ("sign(z1*z2*z3)", 3, 3),
    ("parity:4", 4, 4),
    ("z1 + z1*z2", 1, 1),
    ("z1 + z1*z2 + z1*z2*z3", 1, 1),
    ("z1 + z1*z2*z3", 2, 2),
    ("z1 + z2**3 - 3*z2", 3, 1),
    ("z1**2 + sign(z2*z3*z4)", 3, 3),
    ("(z1 + z2)**2", 2, 2),  # the direction that does not enter is no part of the leap
    ("z1 + 0*z2", 1, 1),
    ("z1**2 + (z1**3 - 3*z1)*z2", 2, 2),  # once z1 is known z2 is seen at degree one: the largest counts
    ("z*e", np.inf, 2),  # the mean label is zero
])  # fmt: skip
def test_leaps(formula: str, information: float, generative: float) -> None:
    assert leap(formula) == leap(formula, "information") == information
    assert leap(formula, kind="generative") == generative


def test_noise_changes_neither() -> None:
    assert leap(target("z1*z2", noise=0.5)) == leap(target("z1*z2", noise=0.5), "generative") == 2


def test_generative_leap_one_means_no_hard_direction_that_enters() -> None:
    for formula in ("z1 + z1*z2", "z**3 - 3*z", "z1 + z2**3 - 3*z2"):
        assert leap(formula, "generative") == 1 and hard_subspace(formula).dimension == 0


def test_series_are_links_too() -> None:
    assert leap(target(hermite=[0.0, 0.0, 0.0, 0.0, 0.0, 1.0])) == 5


def test_what_hides_above_degree_six_counts_as_never() -> None:
    assert leap(target(hermite=[0.0] * 7 + [1.0])) == np.inf


def test_unknown_kind_and_infinite_moments_are_refused() -> None:
    with pytest.raises(InputError, match="kind must be 'information' or 'generative', got 'other'"):
        leap("z", kind="other")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="must have a finite mean square label"):
        leap("exp(z**2)")


def test_a_direction_enters_by_what_drawing_it_anew_changes() -> None:
    """A slope s beside one of 1 moves the label by a mean square of 2 s², of which a thousandth is too little."""
    second = np.array([[0.0], [1.0]])
    assert _enters(target("z1 + 0.025*z2"), second)
    assert not _enters(target("z1 + 0.02*z2"), second)


def test_products_of_hermite_polynomials() -> None:
    """Of norm one, written out up to degree five."""
    z = np.random.default_rng(0).standard_normal((6, 2))
    x, y = z.T
    third, fourth = (x**3 - 3 * x) / 6**0.5, (x**4 - 6 * x**2 + 3) / 24**0.5
    found = _hermite_products(z, np.array([[3, 1], [4, 0], [0, 5], [1, 2]]), np.dtype(float))
    fifth = (y**5 - 10 * y**3 + 15 * y) / 120**0.5
    np.testing.assert_allclose(found, [third * y, fourth, fifth, x * (y**2 - 1) / 2**0.5], rtol=1e-9)


def test_scores_are_those_of_mid_ranks_and_labels_have_their_noise() -> None:
    """Equal labels share the middle of their ranks; noise is given by its variance."""
    np.testing.assert_allclose(normal_scores(np.array([3.0, 1.0, 3.0, 1.0, 9.0])), ndtri([0.6, 0.2, 0.6, 0.2, 0.9]))
    latents, labels = label_points(target("2*z", noise=0.25), 4096, 0)
    rest = labels - 2.0 * latents[:, 0]
    assert np.mean(rest) == pytest.approx(0.0, abs=0.01) and np.var(rest) == pytest.approx(0.25, rel=0.02)
