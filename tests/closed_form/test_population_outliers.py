"""Weighted matrices of inputs with several variances: limits with one side constant, spikes, thresholds, refusals."""

import numpy as np
import pytest

import limen
from limen.problem.spec import InputError
from limen.spectra import (
    CovarianceLaw,
    SeparableLaw,
    WeightedLaw,
    separable_edges,
    separable_outliers,
    subspace_outliers,
)
from limen.theory.thresholds.hessian_law import hessian_law, zero_levels
from limen.theory.thresholds.population_hessian import population_hessian

Z = limen.gaussian.sobol_normals(2048, 2, 3)
WEIGHTS = np.tanh(Z[:, 0] ** 2 - 1.0 + 0.3 * Z[:, 0] * Z[:, 1])
VALUES, PARTS = [0.5, 2.0], [0.4, 0.6]


@pytest.mark.parametrize("ratio", [0.2, 1.5])
def test_one_variance_is_the_weighted_law(ratio):
    edges = WeightedLaw(WEIGHTS, np.full(WEIGHTS.size, 1.0 / WEIGHTS.size), ratio).edges()
    np.testing.assert_allclose(separable_edges(WEIGHTS, 1.0, 1.0, ratio), edges[[0, -1]], rtol=1e-9)
    known = subspace_outliers(WEIGHTS, Z, ratio)
    found = separable_outliers(WEIGHTS, Z, 1.0, 1.0, ratio)
    outside = [one for one in known if one.location < edges[0] or one.location > edges[-1]]
    assert len(found) == len(outside) > 0 or ratio > 1.0
    for one, other in zip(found, outside, strict=True):
        np.testing.assert_allclose(one.location, other.location, rtol=1e-9)
        np.testing.assert_allclose(one.in_eigenspaces.sum(), other.overlap_squared, rtol=1e-7)
        np.testing.assert_allclose(abs(one.direction @ other.direction), 1.0, rtol=1e-9)


@pytest.mark.parametrize("level", [-2.0, -0.1, 0.0])
def test_the_hessian_on_equal_variances_is_that_on_one(level):
    """Edges, stability at the edge or at the level, levels of the resolvent; a variance scales the weights."""
    one = hessian_law(WEIGHTS, Z, 4.0, level=level)
    two = population_hessian(WEIGHTS, Z, 4.0, limen.Inputs(variances=(1.0, 1.0), fractions=(0.3, 0.7)), level=level)
    np.testing.assert_allclose((two.left_edge, two.right_edge), (one.left_edge, one.right_edge), rtol=1e-6)
    np.testing.assert_allclose(two.stability, one.stability, atol=1e-6)
    np.testing.assert_allclose(two.zero_levels(0.1), zero_levels(WEIGHTS, Z, 4.0, 0.1, level), atol=1e-6)


def test_a_variance_cut_into_two_changes_nothing():
    whole = separable_outliers(WEIGHTS, Z, VALUES, PARTS, 0.2)
    cut = separable_outliers(WEIGHTS, Z, [0.5, 2.0, 2.0], [0.4, 0.5, 0.1], 0.2)
    for one, other in zip(whole, cut, strict=True):
        np.testing.assert_allclose(
            (one.location, one.overlap_squared), (other.location, other.overlap_squared), rtol=1e-9
        )


@pytest.mark.parametrize("ratio", [0.3, 2.0])
def test_equal_weights_are_the_sample_covariance(ratio):
    law = CovarianceLaw(VALUES, PARTS, ratio)
    left, right = separable_edges([1.0], VALUES, PARTS, ratio)
    np.testing.assert_allclose(right, law.edges()[-1], rtol=1e-9)
    np.testing.assert_allclose(left, law.edges()[0] if ratio < 1.0 else 0.0, rtol=1e-9)
    np.testing.assert_allclose(separable_edges([-1.0], VALUES, PARTS, ratio), (-right, -left), rtol=1e-9)


@pytest.mark.parametrize("spike", [0.02, 6.0, 11.0])
def test_a_spike_is_that_of_the_sample_covariance(spike):
    """A direction inside the second eigenspace whose coordinate has the variance of the spike."""
    known = CovarianceLaw(VALUES, PARTS, 0.1).outlier(spike)
    (found,) = separable_outliers([1.0], [[np.sqrt(spike / 2.0)]], VALUES, PARTS, 0.1, [0.0, 1.0])
    assert known is not None
    np.testing.assert_allclose(found.location, known.location, rtol=1e-9)
    np.testing.assert_allclose(found.overlap_squared, known.overlap_squared, rtol=1e-7)
    np.testing.assert_allclose(found.in_eigenspaces, [0.0, known.overlap_squared], rtol=1e-7)


def test_edges_are_where_the_density_begins():
    law = SeparableLaw(VALUES, PARTS, [-1.0, 0.5, 2.0], [0.3, 0.4, 0.3], 0.4)
    left, right = law.edges()
    width = right - left
    inside, outside = (
        law.density([left + 0.02 * width, right - 0.02 * width], 1e-4),
        law.density([left - 0.02 * width, right + 0.02 * width], 1e-4),
    )
    assert (inside > 50.0 * outside).all()


def test_dimensions_without_variance_are_zeros():
    left, right = separable_edges([1.0], [0.0, 1.0], [0.5, 0.5], 0.4)
    np.testing.assert_allclose(right, CovarianceLaw([0.0, 1.0], [0.5, 0.5], 0.4).edges()[-1], rtol=1e-9)
    assert left > 0.0, "the bulk; the zeros are an atom"


def test_the_threshold_falls_with_the_spread_of_the_target():
    r"""$\delta_{alg}/\sum_bp_b^2/w_b$, and from there on the leading eigenvector shows an evenly spread target."""
    link = limen.target("z**2", noise=0.1)
    inputs = limen.Inputs(variances=(0.4, 1.6), fractions=(0.5, 0.5))
    one, several = limen.thresholds.algorithmic(link), limen.thresholds.algorithmic(link, inputs)
    np.testing.assert_allclose(several, one / 1.36, rtol=1e-12)
    assert limen.thresholds.spectral_overlap(link, 0.98 * several, 1e-3, inputs) == 0.0
    assert 0.0 < limen.thresholds.spectral_overlap(link, 1.04 * several, 1e-3, inputs) < 0.02
    skewed = inputs.model_copy(update={"target_shares": (0.7, 0.3)})
    np.testing.assert_allclose(limen.thresholds.algorithmic(link, skewed), one / (2 * (0.49 + 0.09)), rtol=1e-12)


@pytest.mark.slow
def test_what_can_be_known_at_all_falls_too():
    """Continuous at one variance, and never above what an algorithm needs."""
    link = limen.target("sign(abs(z) - 0.6)", noise=0.0)
    near = limen.Inputs(variances=(1.0 - 1e-5, 1.0 + 1e-5), fractions=(0.5, 0.5))
    one = limen.thresholds.information_theoretic(link)
    np.testing.assert_allclose(limen.thresholds.information_theoretic(link, near), one, rtol=1e-4)
    wide = limen.Inputs(variances=(0.4, 1.6), fractions=(0.5, 0.5))
    several = limen.thresholds.information_theoretic(link, wide)
    assert several <= limen.thresholds.algorithmic(link, wide) + 1e-9 and several < one


def test_arguments_are_checked():
    with pytest.raises(InputError, match="shares"):
        separable_outliers([1.0], [[1.0]], VALUES, PARTS, 0.3, [0.5, 0.6])
    with pytest.raises(InputError, match="coordinates"):
        separable_outliers([1.0], [[1.0], [2.0]], VALUES, PARTS, 0.3)
    with pytest.raises(InputError, match="values"):
        separable_edges([1.0], [-1.0, 2.0], PARTS, 0.3)
    shares = limen.Inputs(variances=(0.4, 1.6), fractions=(0.5, 0.5), target_shares=((0.7, 0.3), (0.2, 0.8)))
    with pytest.raises(InputError, match="target_shares"):
        limen.thresholds.algorithmic("z1*z2", shares)
