"""What a hard direction sees of the Hessian: resolvent and unstable share, where they are known."""

import numpy as np

from limen.gaussian.sobol import sobol_normals
from limen.theory.spectra import WeightedLaw
from limen.theory.thresholds.hessian_law import hessian_law, zero_level

RNG = np.random.default_rng(3)
SIGNED = RNG.permutation(np.repeat([-1.0, 0.5, 2.0], 1000))
NORMALS = RNG.standard_normal(SIGNED.size)


def independent(weights: np.ndarray) -> np.ndarray:
    """Coordinates with E[U² | G] = 1 exactly."""
    coordinates = np.empty(weights.size)
    for value in np.unique(weights):
        at = np.flatnonzero(weights == value)
        coordinates[at] = NORMALS[at] / np.sqrt(np.mean(NORMALS[at] ** 2))
    return coordinates


def test_a_direction_the_weights_ignore_sees_the_bulk():
    law = hessian_law(SIGNED, independent(SIGNED), 3.0)
    bulk = WeightedLaw([-1.0, 0.5, 2.0], [1 / 3, 1 / 3, 1 / 3], 1 / 3)
    z = np.array([[0.3 + 0.1j], [-1.0 + 0.02j]])
    np.testing.assert_allclose(law.hard_resolvent(z)[..., 0, 0], bulk.stieltjes(z), rtol=1e-9)
    np.testing.assert_allclose(law.unstable_share, [bulk.cdf(0.0)], atol=1e-5)
    np.testing.assert_allclose(law.quantile([0.2, 0.9]), bulk.quantile([0.2, 0.9]), rtol=1e-9)


def test_the_share_of_definite_weights():
    one = np.ones(SIGNED.size)
    np.testing.assert_allclose(hessian_law(one, NORMALS, 4.0).unstable_share, [0.0], atol=1e-8)
    np.testing.assert_allclose(hessian_law(-one, NORMALS, 4.0).unstable_share, [1.0], atol=1e-8)
    # The level moves with the spectrum of Marchenko and Pastur.
    median = WeightedLaw([1.0], [1.0], 0.25).quantile(0.5)
    law = hessian_law(one, independent(one), 4.0, level=float(median))
    np.testing.assert_allclose(law.unstable_share, [0.5], atol=1e-5)


def test_many_samples_leave_one_eigenvalue():
    weights = SIGNED
    coordinates = np.column_stack([np.where(weights < 0.0, 1.5, 0.5) * NORMALS, NORMALS[::-1]])
    law = hessian_law(weights, coordinates, 1e7)
    block = (coordinates * weights[:, None]).T @ coordinates / weights.size
    z = 0.2 + 0.3j
    np.testing.assert_allclose(law.hard_resolvent(z), np.linalg.inv(block - z * np.eye(2)), rtol=1e-5)


def test_the_sign_of_the_resolvent_is_the_zero_level():
    for slope in (-2.0, -0.2, 0.5, 3.0):
        coordinates = NORMALS * np.sqrt(np.where(SIGNED < 0.0, 1.0 + abs(slope), 1.0))
        law = hessian_law(SIGNED + 0.3 * slope, coordinates, 5.0)
        level = zero_level(SIGNED + 0.3 * slope, coordinates, 5.0, epsilon=0.1)
        assert np.sign(law.hard_resolvent(0.1j)[0, 0].real) == np.sign(level)


def test_directions_that_weights_couple_share_what_is_unstable():
    r"""Weights $U_1U_2$ and many samples: $E[G\,UU^\top]$ has 1 beside the diagonal and nothing on it, so that each
    direction lies half in the unstable eigenspace; turned by 45 degrees one lies in it and the other does not."""
    u = sobol_normals(1 << 14, 2, 1)
    found = hessian_law(u[:, 0] * u[:, 1], u, 1e5).unstable_share
    np.testing.assert_allclose(found, [0.5, 0.5], atol=0.01)
    turned = u @ np.array([[1.0, 1.0], [1.0, -1.0]]) / 2**0.5
    np.testing.assert_allclose(hessian_law(u[:, 0] * u[:, 1], turned, 1e5).unstable_share, [0.0, 1.0], atol=0.02)
