r"""Outliers against closed forms, finite-difference identities and exact reductions."""

import numpy as np
import pytest
from scipy.stats import norm

from limen.problem import InputError
from limen.spectra import CovarianceLaw, MarchenkoPastur, WeightedLaw, directional_outliers, subspace_outliers
from limen.theory.spectra.gaussian_cells import gaussian_nodes


@pytest.mark.parametrize(("spike", "ratio"), [(3.0, 0.5), (1.9, 0.8), (0.2, 0.3), (4.0, 3.0)])
def test_spiked_identity_has_the_closed_form(spike: float, ratio: float) -> None:
    outlier = CovarianceLaw(1.0, 1.0, ratio).outlier(spike)
    excess = spike - 1.0
    assert outlier is not None
    assert outlier.location == pytest.approx(spike * (1.0 + ratio / excess), rel=1e-13)
    assert outlier.overlap_squared == pytest.approx((1.0 - ratio / excess**2) / (1.0 + ratio / excess), rel=1e-12)


def test_spiked_reference() -> None:
    assert CovarianceLaw(1.0, 1.0, 0.5).outlier(3.0) == pytest.approx((3.75, 0.7), abs=1e-13)


@pytest.mark.parametrize("ratio", [0.3, 0.9, 2.5])
def test_spike_threshold_is_the_square_root_of_the_ratio(ratio: float) -> None:
    law, root = CovarianceLaw(1.0, 1.0, ratio), np.sqrt(ratio)
    assert law.outlier(1.0 + 0.999 * root) is None
    just_above = law.outlier(1.0 + 1.001 * root)
    assert just_above is not None
    assert 0.0 < just_above.location / MarchenkoPastur(ratio).edges[1] - 1.0 < 1e-6
    assert just_above.overlap_squared < 0.01
    # On the left only with more samples than dimensions.
    assert (law.outlier(max(1e-3, 1.0 - 1.001 * root)) is not None) == (ratio < 1.0)


def test_spike_inside_a_population_gap_shows_in_the_sample_gap() -> None:
    law = CovarianceLaw([1.0, 4.0, 10.0], [0.5, 0.3, 0.2], 0.1)
    outlier = law.outlier(2.2)
    assert outlier is not None
    assert law.gaps[0, 0] < outlier.location < law.gaps[0, 1]
    # The inverse transform at the outlier is minus one over the spike: w is the denoised eigenvalue.
    companion = 0.1 * law.stieltjes(outlier.location) - 0.9 / outlier.location
    assert -1.0 / companion == pytest.approx(2.2, rel=1e-12)


def step_weight(s: np.ndarray) -> np.ndarray:
    return np.where(np.abs(s) > 1.2, -1.0, 0.7)


def phase_retrieval_weight(s: np.ndarray) -> np.ndarray:
    return (s**2 - 1.0) / (s**2 + 0.5)


def test_directional_references() -> None:
    (outlier,) = directional_outliers(step_weight, 0.25)
    assert outlier == pytest.approx((-0.77935, 0.65048), abs=6e-6)
    (outlier,) = directional_outliers(phase_retrieval_weight, 0.25)
    assert outlier == pytest.approx((0.43997, 0.81569), abs=6e-6)


def test_directional_edge_reference() -> None:
    places = np.linspace(-8.0, 8.0, 4001)
    masses = np.exp(-0.5 * places**2)
    law = WeightedLaw(phase_retrieval_weight(places), masses / masses.sum(), 0.25, resolution=0.02)
    assert law.edges()[-1] == pytest.approx(0.17874, abs=6e-6)


def test_directional_outlier_solves_its_equation_by_independent_quadrature() -> None:
    ratio = 0.25
    (outlier,) = directional_outliers(phase_retrieval_weight, ratio)
    # Trapezoid for a smooth integrand on the whole line converges faster than any power.
    s = np.linspace(-9.0, 9.0, 20_001)
    mass = np.exp(-0.5 * s**2) / np.sqrt(2.0 * np.pi) * (s[1] - s[0])
    g = phase_retrieval_weight(s)

    def location(w: float) -> float:
        return w + mass @ (g * w / (w - ratio * g))

    def condition(w: float) -> float:
        return mass @ (g * (s**2 - 1.0) / (w - ratio * g)) - 1.0

    low, high = 0.3, 5.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if condition(middle) > 0.0 else (low, middle)
    assert outlier.location == pytest.approx(location(low), rel=1e-8)
    # The overlap is the residue of v^T (W - z)^{-1} v = 1 / (K(z) - z), K = E[g s^2 w / (w - ratio g)].
    step = 1e-5

    def denominator(w: float) -> float:
        return mass @ (g * s**2 * w / (w - ratio * g)) - location(w)

    slope = (denominator(low + step) - denominator(low - step)) / (location(low + step) - location(low - step))
    assert outlier.overlap_squared == pytest.approx(-1.0 / slope, rel=1e-6)


def test_flipping_the_weight_mirrors_the_outlier() -> None:
    (outlier,) = directional_outliers(step_weight, 0.25)
    (mirrored,) = directional_outliers(lambda s: -step_weight(s), 0.25)
    assert mirrored == pytest.approx((-outlier.location, outlier.overlap_squared), rel=1e-10)


def test_weights_that_ignore_the_direction_have_no_outlier() -> None:
    assert directional_outliers(lambda s: np.full_like(s, 2.0), 0.5) == []
    assert directional_outliers(lambda s: np.sign(s) + 0.3, 0.5) == []
    assert directional_outliers(lambda s: np.zeros_like(s), 0.5) == []


def test_outlier_in_a_gap_is_found() -> None:
    # A thin shell of heavy samples makes a second band; large |s| outside it lifts the direction into the gap.
    inner, outer, ratio = 2.48, 2.5, 0.05
    values = np.array([0.04, 10.0, 0.25])
    tails, moments = 2.0 * norm.sf([inner, outer]), 2.0 * np.array([inner, outer]) * norm.pdf([inner, outer])
    masses = np.array([1.0 - tails[0], tails[0] - tails[1], tails[1]])
    squares = masses + np.array([-moments[0], moments[0] - moments[1], moments[1]])
    law = WeightedLaw(values, masses, ratio)
    (outlier,) = directional_outliers(lambda s: values[np.searchsorted([inner, outer], np.abs(s))], ratio)
    assert law.gaps[0, 0] < outlier.location < law.gaps[0, 1]
    # det(K - z) = 0 at w = -1 / S, with the truncated Gaussian moments in closed form.
    w = -1.0 / law.stieltjes(outlier.location)
    assert squares @ (values * w / (w - ratio * values)) == pytest.approx(outlier.location, rel=1e-9)


@pytest.mark.parametrize("jump", [0.3, 1.2, 1.9967381547756697, 1.8683370465675297])
def test_a_jump_is_resolved_wherever_it_lies(jump: float) -> None:
    # Values of the law must carry exactly the Gaussian mass of their side of the jump.
    nodes = gaussian_nodes(lambda s: np.where(np.abs(s) > jump, -6.0, 1.0), "weight")
    outside = nodes.values < 0.0
    assert nodes.probabilities[outside].sum() == pytest.approx(2.0 * norm.sf(jump), rel=1e-11)
    second = nodes.probabilities @ (outside * nodes.places**2)
    assert second == pytest.approx(2.0 * (norm.sf(jump) + jump * norm.pdf(jump)), rel=1e-10)
    assert nodes.resolution == 0.0


def test_subspace_of_one_coordinate_is_the_direction() -> None:
    places = np.random.default_rng(0).normal(size=20_000)
    values = phase_retrieval_weight(places)
    (single,) = directional_outliers((values, places), 0.25)
    (same,) = subspace_outliers(values, places, 0.25)
    assert (same.location, same.overlap_squared) == pytest.approx(tuple(single), rel=1e-12)


def test_spiked_covariance_is_a_subspace_problem() -> None:
    # Unit weights, one coordinate of variance 3: the two parametrisations of the spiked model must agree.
    nodes, masses = np.polynomial.hermite_e.hermegauss(8)
    masses = masses / masses.sum()
    for ratio, spike, bulk in ((0.5, 3.0, 1.0), (0.4, 6.0, 2.0), (2.0, 4.0, 1.0)):
        (found,) = subspace_outliers(np.ones(8), np.sqrt(spike) * nodes, ratio, bulk, masses)
        closed = CovarianceLaw(bulk, 1.0, ratio).outlier(spike)
        assert closed is not None
        assert (found.location, found.overlap_squared) == pytest.approx(tuple(closed), rel=1e-11)
    (left,) = subspace_outliers(np.ones(8), np.sqrt(0.2) * nodes, 0.25, 1.0, masses)
    closed = CovarianceLaw(1.0, 1.0, 0.25).outlier(0.2)
    assert closed is not None
    assert (left.location, left.overlap_squared) == pytest.approx(tuple(closed), rel=1e-11)


def test_mixture_at_zero_has_the_spiked_outliers_with_orthogonal_directions() -> None:
    # k classes with orthonormal means, noise 1/lambda per coordinate, equal weights (1/k)(1 - 1/k): k equal outliers at
    # (1/k)(1-1/k)(1/lambda)(1 + lambda/k)(1 + k ratio/lambda), present iff lambda/k > sqrt(ratio).
    classes, precision, ratio = 3, 10.0, 1.0 / 6.0
    nodes, masses = np.polynomial.hermite_e.hermegauss(4)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, classes)
    product = np.prod(np.stack(np.meshgrid(masses, masses, masses, indexing="ij")), axis=0).ravel()
    coordinates = np.concatenate([np.eye(classes)[c] + grid / np.sqrt(precision) for c in range(classes)])
    probabilities = np.tile(product / product.sum() / classes, classes)
    weight = (1.0 / classes) * (1.0 - 1.0 / classes)
    found = subspace_outliers(np.full(len(coordinates), weight), coordinates, ratio, 1.0 / precision, probabilities)
    strength = precision / classes
    expected = weight / precision * (1.0 + strength) * (1.0 + ratio / strength)
    np.testing.assert_allclose([outlier.location for outlier in found], expected, rtol=1e-10)
    directions = np.stack([outlier.direction for outlier in found])
    np.testing.assert_allclose(directions @ directions.T, np.eye(classes), atol=1e-10)
    assert subspace_outliers(np.full(len(coordinates), weight), coordinates, 12.0, 1.0 / precision, probabilities) == []


def test_independent_directions_give_their_own_outliers() -> None:
    # g = a(s1) + const sees only the first of two coordinates; the second direction stays in the bulk.
    generator = np.random.default_rng(2)
    coordinates = generator.normal(size=(40_000, 2))
    values = phase_retrieval_weight(coordinates[:, 0])
    found = subspace_outliers(values, coordinates, 0.25)
    (expected,) = directional_outliers(phase_retrieval_weight, 0.25)
    assert found[-1].location == pytest.approx(expected.location, abs=0.02)
    assert abs(found[-1].direction[0]) > 0.999


def test_hessian_of_a_single_index_loss_at_initialisation() -> None:
    # One GeLU neuron, target 4 tanh(z^2/4), twelve samples per dimension; edge, outlier and overlap to three digits.
    # Three draws at d = 1000 gave -0.413, -0.637, 0.671.
    grid = np.linspace(-7.0, 7.0, 121)
    mass = norm.pdf(grid) / norm.pdf(grid).sum()
    field, latent = (part.ravel() for part in np.meshgrid(grid, grid, indexing="ij"))
    probabilities = np.outer(mass, mass).ravel()
    slope = norm.cdf(field) + field * norm.pdf(field)
    residual = field * norm.cdf(field) - 4.0 * np.tanh(latent**2 / 4.0)
    weights = slope**2 + residual * norm.pdf(field) * (2.0 - field**2)
    (outlier,) = subspace_outliers(weights, latent, 1.0 / 12.0, probabilities=probabilities)
    assert (outlier.location, outlier.overlap_squared) == pytest.approx((-0.629, 0.670), abs=6e-4)
    law = WeightedLaw(weights, probabilities, 1.0 / 12.0, resolution=0.05)
    assert law.edges()[0] == pytest.approx(-0.421, abs=6e-4)


def test_rank_deficient_matrices_report_no_null_space() -> None:
    # More dimensions than samples with positive weights: the gap around zero holds only the atom.
    assert all(outlier.location > 1.0 for outlier in directional_outliers(lambda s: s**2 / (1.0 + s**2), 4.0))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: directional_outliers(step_weight, 0.0), "ratio must be positive"),
        (lambda: directional_outliers(lambda s: 1.0 / (s - s), 1.0), "weight must be finite"),
        (lambda: directional_outliers(lambda s: np.ones(3), 1.0), "weight must return one value per entry"),
        (lambda: directional_outliers(([1.0, 2.0], [1.0]), 1.0), "weight must hold as many g as s"),
        (lambda: subspace_outliers([1.0, 2.0], np.ones((3, 1)), 1.0), "coordinates must be finite with shape"),
        (lambda: subspace_outliers([1.0, 2.0], np.ones(2), 1.0, bulk_variance=0.0), "bulk_variance must be positive"),
        (lambda: subspace_outliers([1.0], np.ones(1), 1.0, 1.0, [0.5]), "probabilities must sum to 1"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_wrong_input_is_refused_in_one_sentence(make, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
