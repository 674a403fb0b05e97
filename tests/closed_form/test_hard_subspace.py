"""Easy and hard directions of links worked out by hand."""

import numpy as np
import pytest

from limen.link import hard_subspace
from limen.problem.spec import InputError
from limen.problem.targets import target

SAME, OPPOSITE = [1.0, 1.0], [1.0, -1.0]


def span(*rows: list[float]) -> np.ndarray:
    return np.array(rows, dtype=float).T


# formula, noise variance, columns that span the hard subspace
LINKS = [
    # Even in z: E[z | y] = 0, whatever the noise.
    ("z**2", 0.0, span([1])),
    ("z**2", 1.0, span([1])),
    ("abs(z)", 0.0, span([1])),
    ("cos(3*z)", 0.0, span([1])),
    ("sign(abs(z) - 1)", 0.0, span([1])),
    ("relu(abs(z) - 1)", 0.0, span([1])),
    ("z*e", 0.0, span([1])),
    # Neither even nor a function of an even one; He_3 has no first coefficient, but its cube has.
    ("z + z**2", 0.0, None),
    ("z**3 - 3*z", 0.0, None),
    ("sign(z)", 0.0, None),
    ("z", 4.0, None),
    ("exp(-2000*(z - 1)**2)", 0.0, None),
    # Symmetric in z1 and z2, and monotone: their difference is hard.
    ("tanh(z1) + tanh(z2)", 0.0, span(OPPOSITE)),
    ("heaviside(z1)*heaviside(z2)", 0.0, span(OPPOSITE)),
    ("max(z1, z2)", 0.5, span(OPPOSITE)),
    ("committee:3", 0.1, span([1, -1, 0], [0, 1, -1])),
    # Products: each sign is hidden by the other.
    ("z1*z2", 0.0, np.eye(2)),
    ("sign(z1*z2)", 0.2, np.eye(2)),
    ("sign(z1*z2*z3)", 0.0, np.eye(3)),
    ("z1**2 - z2**2", 0.0, np.eye(2)),
    # A staircase: z1 first, and with it what it multiplies; |y| large means z2 > -1.
    ("z1 + z1*z2", 0.0, None),
    ("z1 + z2**2", 0.0, span([0, 1])),
    ("z1 + z2*z3", 0.0, span([0, 1, 0], [0, 0, 1])),
    ("z1 + sign(z1)*z2 + z3**2", 0.1, span([0, 0, 1])),
    ("z1*z2*(1 + 0.3*z3)", 0.0, span([1, 0, 0], [0, 1, 0])),
    ("exp(z1) + z2**2*e", 0.0, span([0, 1])),
    # Directions that do not enter are hard, along the axes or not.
    ("z1 + 0*z2", 0.0, span([0, 1])),
    ("(z1 + z2)**2", 0.0, np.eye(2)),
    ("(2*z1 + z2 - z3)**3", 0.0, span([1, -2, 0], [0, 1, 1])),
    ("relu(0.6*z1 + 0.8*z2) + z3**2", 0.1, span([0.8, -0.6, 0], [0, 0, 1])),
]


@pytest.mark.parametrize("formula, noise, hard", LINKS)
def test_links_worked_out_by_hand(formula: str, noise: float, hard: np.ndarray | None) -> None:
    found = hard_subspace(target(formula, noise=noise))
    k = target(formula).latents
    expected = np.zeros((k, 0)) if hard is None else np.linalg.qr(hard)[0]
    assert found.basis.shape == expected.shape
    assert found.dimension == expected.shape[1]
    # The error of the points is 10^-3; exact numbers come from the reading of the basis.
    np.testing.assert_allclose(found.basis @ found.basis.T, expected @ expected.T, atol=1e-10)
    both = np.hstack([found.basis, found.easy_basis])
    np.testing.assert_allclose(both.T @ both, np.eye(k), atol=1e-10)


def test_bases_are_readable() -> None:
    np.testing.assert_allclose(hard_subspace("z1 + z2**2").basis[:, 0], [0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(
        hard_subspace("tanh(z1) + tanh(z2)").basis[:, 0], np.array([1.0, -1.0]) / np.sqrt(2.0), atol=1e-12
    )
    np.testing.assert_array_equal(hard_subspace("z1*z2").basis, np.eye(2))


def test_a_slope_that_is_no_simple_ratio_is_left_as_measured() -> None:
    found = hard_subspace("tanh(z1 + 0.7071*z2)")
    direction = np.array([1.0, 0.7071]) / np.hypot(1.0, 0.7071)
    assert abs(float(found.easy_basis[:, 0] @ direction)) == pytest.approx(1.0, abs=1e-6)


def test_singular_values_are_exposed_for_every_stage() -> None:
    staircase = hard_subspace("z1 + sign(z1)*z2 + z3**2")
    assert len(staircase.singular_values) == len(staircase.errors) == staircase.stages + 1
    assert staircase.singular_values[-1].max() < staircase.errors[-1]
    assert staircase.singular_values[0].max() > staircase.errors[0]
    everything_easy = hard_subspace("z + z**2")
    assert everything_easy.stages == len(everything_easy.singular_values) == 1


def test_a_weakly_easy_direction_is_called_hard_and_shows_in_its_singular_value() -> None:
    weak, stronger = (hard_subspace(f"z**2 + {slope}*z") for slope in (0.003, 0.1))
    assert weak.dimension == 1 and stronger.dimension == 0
    assert hard_subspace("z**2").singular_values[0][0] < weak.singular_values[0][0] < weak.errors[0]


def test_equal_links_give_equal_answers() -> None:
    first, again = hard_subspace("z1 + z2**2"), hard_subspace("z1+z2**2")
    np.testing.assert_array_equal(first.singular_values[0], again.singular_values[0])


@pytest.mark.parametrize("formula", ["exp(z**2)", "exp(z1**2/3) + z2", "1/(z1 - z2)", "1/z"])
def test_labels_without_a_second_moment_are_refused(formula: str) -> None:
    with pytest.raises(InputError, match="must have a finite mean square label"):
        hard_subspace(formula)


@pytest.mark.parametrize("formula", ["z**16", "exp(z)", "exp(z**2/5)", "heaviside(z - 4)", "z1**8*z2**8"])
def test_labels_with_heavy_but_finite_tails_are_not(formula: str) -> None:
    assert hard_subspace(formula).basis.shape[0] == target(formula).latents


def test_what_is_no_target_is_refused() -> None:
    with pytest.raises(InputError, match="target must be a name, a formula or a Target, got int"):
        hard_subspace(3)
