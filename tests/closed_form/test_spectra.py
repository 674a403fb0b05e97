r"""Spectral laws against closed forms, independent quadrature, exact identities and published-form references."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from limen.problem import InputError
from limen.spectra import CovarianceLaw, MarchenkoPastur, SeparableLaw, WeightedLaw

RATIOS = (0.05, 0.5, 1.0, 2.0, 20.0)
THREE = CovarianceLaw([1.0, 4.0, 10.0], [0.5, 0.3, 0.2], 0.3)
SIGNED = WeightedLaw([-1.0, 0.5, 2.0], [0.3, 0.4, 0.3], 0.4)
# Signed, with weights at zero, a gap on either side of an atom.
SPARSE = WeightedLaw([-1.0, 0.5, 2.0, 0.0], [0.2, 0.3, 0.3, 0.2], 1.5)
WIDE = CovarianceLaw([0.0, 1.0, 4.0], [0.2, 0.5, 0.3], 2.0)
LAWS = {"three": THREE, "signed": SIGNED, "sparse": SPARSE, "wide": WIDE}


def cosine_points(left: float, right: float, count: int) -> np.ndarray:
    return 0.5 * (left + right) - 0.5 * (right - left) * np.cos(np.pi * (np.arange(count) + 0.5) / count)


# Marchenko-Pastur


@pytest.mark.parametrize("ratio", RATIOS)
def test_marchenko_pastur_quadrature_has_the_exact_mass_and_moments(ratio: float) -> None:
    nodes, weights = MarchenkoPastur(ratio).quadrature(60)
    exact = [min(1.0, 1.0 / ratio), 1.0, 1.0 + ratio, 1.0 + 3.0 * ratio + ratio**2]
    found = [weights @ nodes**power for power in range(4)]
    np.testing.assert_allclose(found, exact, rtol=1e-13)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_marchenko_pastur_density_integrates_to_one_with_its_atom(ratio: float) -> None:
    law = MarchenkoPastur(ratio, variance=3.0)
    mass = quad(law.density, *law.edges, epsabs=1e-10)[0]
    first = quad(lambda x: x * law.density(x), *law.edges, epsabs=1e-10)[0]
    assert mass + law.atom == pytest.approx(1.0, abs=1e-8)
    assert first == pytest.approx(3.0, abs=1e-8)


def test_marchenko_pastur_stieltjes_at_known_points() -> None:
    assert MarchenkoPastur(0.5).stieltjes(-1.0) == pytest.approx((np.sqrt(17.0) - 3.0) / 2.0, abs=1e-15)
    assert MarchenkoPastur(2.0).stieltjes(-1.0) == pytest.approx(1.0 / np.sqrt(2.0), abs=1e-15)
    assert MarchenkoPastur(0.5).stieltjes(0.0) == pytest.approx(2.0, abs=1e-14)
    assert 1e-9 * MarchenkoPastur(2.0).stieltjes(-1e-9) == pytest.approx(0.5, abs=1e-8)


@pytest.mark.parametrize("ratio", RATIOS)
def test_marchenko_pastur_stieltjes_solves_its_equation_and_inverts_to_the_density(ratio: float) -> None:
    law = MarchenkoPastur(ratio, variance=2.0)
    z = np.array([-1.0 + 0.5j, 0.3 - 0.2j, 5.0 + 1e-3j, 60.0 - 7.0j, 1e-6j])
    s = law.stieltjes(z)
    np.testing.assert_allclose(1.0 + z * s, 2.0 * s / (1.0 + 2.0 * ratio * s), rtol=1e-9, atol=1e-12)
    assert (s.imag * z.imag > 0.0).all()
    companion = law.companion(z)
    np.testing.assert_allclose(z, -1.0 / companion + ratio * 2.0 / (1.0 + 2.0 * companion), rtol=1e-9)
    x = cosine_points(*law.edges, 11)[1:-1]
    np.testing.assert_allclose(law.stieltjes(x + 1e-12j).imag / np.pi, law.density(x), rtol=1e-7)


def test_largest_eigenvalue_at_finite_size() -> None:
    # Mean of 2.8226 +- 0.005 in draws at n = 200, p = 100.
    assert MarchenkoPastur(0.5).largest_eigenvalue(200).mean == pytest.approx(2.8232, abs=1e-4)
    large = MarchenkoPastur(0.5).largest_eigenvalue(10**9)
    assert large.location == pytest.approx(MarchenkoPastur(0.5).edges[1], abs=1e-8)


# The general law


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("make", [CovarianceLaw, WeightedLaw])
def test_general_law_gives_marchenko_pastur(make: type, ratio: float) -> None:
    law, closed = make(1.0, 1.0, ratio), MarchenkoPastur(ratio)
    np.testing.assert_allclose(law.edges(), closed.edges, rtol=1e-13, atol=1e-15)
    assert law.atom == pytest.approx(closed.atom, abs=1e-15)
    x = cosine_points(*closed.edges, 200)
    expected = closed.density(x)
    assert np.max(np.abs(law.density(x) - expected) / np.maximum(1.0, expected)) < 1e-12
    z = np.array([-0.7, -1e-3, 1.2 * closed.edges[1], 1e4])
    np.testing.assert_allclose(law.stieltjes(z), closed.stieltjes(z), rtol=1e-10)
    z = np.array([0.5 + 0.1j, 3.0 - 1e-4j, -2.0 + 5.0j])
    np.testing.assert_allclose(law.stieltjes(z), closed.stieltjes(z), rtol=1e-10)


def test_density_diverges_only_at_a_hard_edge() -> None:
    assert np.isinf(CovarianceLaw(1.0, 1.0, 1.0).density(0.0))
    assert CovarianceLaw(1.0, 1.0, 0.5).density(0.0) == 0.0


def test_reference_edges() -> None:
    expected = [0.2750706482, 1.6265456051, 1.9687334691, 6.2679423224, 6.6494824212, 16.1922255340]
    np.testing.assert_allclose(THREE.edges(), expected, atol=1e-10)
    np.testing.assert_allclose(THREE.gaps, [expected[1:3], expected[3:5]], atol=1e-10)
    np.testing.assert_allclose(SIGNED.edges(), [-0.9399385229, 2.7794050579], atol=1e-10)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_density_and_atom_have_mass_one_and_the_exact_moments(law: CovarianceLaw | WeightedLaw) -> None:
    mass = first = second = 0.0
    for left, right in law.edges().reshape(-1, 2):
        # Midpoint rule in the angle removes the square-root edges; it knows nothing of how the density is found. So
        # many points are for the nearly closed gap of one of the laws.
        x = cosine_points(left, right, 16_000)
        weight = law.density(x) * np.sqrt((right - x) * (x - left)) * np.pi / x.size
        mass, first, second = mass + weight.sum(), first + weight @ x, second + weight @ x**2
    assert mass + law.atom == pytest.approx(1.0, abs=1e-7)
    np.testing.assert_allclose([first, second], law.moments, rtol=1e-6)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_quadrature_of_the_law_converges_geometrically(law: CovarianceLaw | WeightedLaw) -> None:
    errors = []
    for count in (10, 20, 40, 400):
        nodes, weights = law.quadrature(count)
        found = [weights.sum() + law.atom, weights @ nodes, weights @ nodes**2]
        errors.append(np.max(np.abs(np.array(found) / [1.0, *law.moments] - 1.0)))
    assert errors[1] < 0.2 * errors[0] + 1e-12
    assert errors[2] < 0.2 * errors[1] + 1e-12
    assert errors[3] < 1e-12


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_stieltjes_is_the_transform_of_the_density(law: CovarianceLaw | WeightedLaw) -> None:
    nodes, weights = law.quadrature(600)
    edges = law.edges()
    z = np.array([edges[0] - 0.1, edges[-1] + 0.5, -1e3, 1e3, *law.gaps.mean(axis=1)])
    z = z[(z != 0.0)]
    expected = (weights / (nodes - z[:, None])).sum(axis=1) - law.atom / z
    np.testing.assert_allclose(law.stieltjes(z), expected, rtol=1e-10)
    z = np.array([0.3 + 0.5j, 2.0 - 0.7j, -0.5 + 0.3j])
    expected = (weights / (nodes - z[:, None])).sum(axis=1) - law.atom / z
    np.testing.assert_allclose(law.stieltjes(z), expected, rtol=1e-10)


def test_covariance_stieltjes_at_zero_is_the_mean_inverse() -> None:
    # E tr(hat Sigma^{-1}) = E_H[1/s] / (1 - ratio), the inverse Wishart mean.
    assert THREE.stieltjes(0.0) == pytest.approx((0.5 + 0.3 / 4.0 + 0.2 / 10.0) / 0.7, rel=1e-13)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_cdf_is_the_integral_of_the_density_and_quantile_inverts_it(law: CovarianceLaw | WeightedLaw) -> None:
    for left, right in law.edges().reshape(-1, 2):
        x = cosine_points(left, right, 7)
        integrals = [quad(law.density, a, b, epsabs=1e-11)[0] for a, b in pairwise(x)]
        jumps = np.where((x[:-1] < 0.0) & (x[1:] >= 0.0), law.atom, 0.0)
        np.testing.assert_allclose(np.diff(law.cdf(x)), integrals + jumps, atol=1e-9)
        np.testing.assert_allclose(law.quantile(law.cdf(x)), x, rtol=1e-9)
    assert law.cdf(law.edges()[-1] + 1.0) == pytest.approx(1.0, abs=1e-14)
    assert law.cdf(min(law.edges()[0], 0.0) - 1.0) == pytest.approx(0.0, abs=1e-14)
    assert law.cdf(0.0) - law.cdf(-1e-12) == pytest.approx(law.atom, abs=1e-9)


def test_exact_separation_puts_population_mass_in_each_band() -> None:
    # Bai & Silverstein 1999: a gap has as much sample mass to its left as the population has.
    np.testing.assert_allclose(THREE.cdf(THREE.gaps.mean(axis=1)), [0.5, 0.8], atol=1e-14)


@pytest.mark.parametrize("law", [THREE, SIGNED, WIDE], ids=["three", "signed", "wide"])
def test_edge_law(law: CovarianceLaw | WeightedLaw) -> None:
    for place, (edge, coefficient) in enumerate(zip(law.edges(), law.edge_coefficients(), strict=True)):
        inward = 1.0 if place % 2 == 0 else -1.0
        ratios = [
            float(law.density(edge + inward * distance)) / (coefficient * np.sqrt(distance))
            for distance in (1e-5, 1e-6)
        ]
        # The next term is relative order of the distance.
        assert abs(ratios[0] - 1.0) < 2e-3
        assert abs(ratios[1] - 1.0) < 0.2 * abs(ratios[0] - 1.0) + 1e-6


def test_weights_of_one_sign_mirror() -> None:
    flipped = WeightedLaw(-SIGNED.weights, SIGNED.probabilities, SIGNED.ratio)
    np.testing.assert_allclose(flipped.edges(), -SIGNED.edges()[::-1], rtol=1e-13)
    x = np.linspace(-0.9, 2.7, 31)
    np.testing.assert_allclose(flipped.density(-x), SIGNED.density(x), rtol=1e-11)


def test_atoms() -> None:
    assert WIDE.atom == pytest.approx(0.5, abs=1e-14)
    assert CovarianceLaw([0.0, 1.0], [0.7, 0.3], 2.0).atom == pytest.approx(0.7, abs=1e-14)
    assert SPARSE.atom == pytest.approx(1.0 - 0.8 / 1.5, abs=1e-14)
    np.testing.assert_array_equal(WIDE.quantile([0.1, 0.49]), 0.0)


@pytest.mark.parametrize("count", [1, 5, 50])
def test_random_discrete_laws_are_consistent(count: int) -> None:
    generator = np.random.default_rng(count)
    for _ in range(4):
        values = generator.normal(size=count) * np.exp(generator.normal(size=count))
        probabilities, ratio = generator.dirichlet(np.ones(count)), float(np.exp(generator.normal()))
        law = WeightedLaw(values, probabilities, ratio)
        x = np.concatenate([cosine_points(*band, 40) for band in law.edges().reshape(-1, 2)])
        # Newton on the table against bisection along the boundary curve, which shares no step with it.
        np.testing.assert_allclose(law.quantile(law.cdf(x)), x, rtol=1e-7, atol=1e-9)
        u = law.stieltjes(x + 1e-9j)
        residual = -1.0 / u + ((probabilities * values) / (1.0 + ratio * values * u[:, None])).sum(axis=1) - x
        np.testing.assert_allclose(residual, 1e-9j, atol=1e-9 * np.abs(x).max())


# Laws known by samples


def test_samples_keep_the_moments_and_the_edges() -> None:
    generator = np.random.default_rng(3)
    places = generator.normal(size=50_000)
    samples = (places**2 - 1.0) / (places**2 + 0.5)
    law = WeightedLaw.from_samples(samples, 0.25)
    exact = WeightedLaw(samples, np.full(samples.size, 1.0 / samples.size), 0.25, resolution=0.02)
    assert law.weights.size <= 804
    np.testing.assert_allclose(law.moments, exact.moments, rtol=1e-12)
    np.testing.assert_allclose(law.edges(), exact.edges(), rtol=1e-8)
    x = np.linspace(*law.edges(), 1001)
    assert np.trapezoid(law.density(x), x) == pytest.approx(1.0, abs=1e-4)


def test_samples_with_zeros_keep_the_atom() -> None:
    samples = np.maximum(np.random.default_rng(4).normal(size=20_000), 0.0)
    law = WeightedLaw.from_samples(samples, 2.0)
    assert law.atom == pytest.approx(1.0 - np.mean(samples > 0.0) / 2.0, abs=1e-12)


def test_spurious_gaps_of_a_continuous_law_are_closed() -> None:
    samples = np.random.default_rng(5).uniform(1.0, 3.0, size=600)
    ratio = 3000.0
    raw = WeightedLaw(samples, np.full(600, 1.0 / 600), ratio)
    law = WeightedLaw.from_samples(samples, ratio, bins=100)
    assert len(raw.gaps) > 100
    assert len(law.gaps) == 0
    # Many more dimensions than samples: eigenvalues are ratio * weight, a uniform law of total mass 1 / ratio.
    x = np.linspace(1.5, 2.5, 2001) * ratio
    assert np.mean(law.density(x)) == pytest.approx(0.5 / ratio**2, rel=0.1)


# Both sides


def test_separable_law_reduces_to_each_side_and_has_exact_moments() -> None:
    z = np.array([[0.3 + 0.2j, -1.0 - 0.5j, 2.0 + 0.01j]])
    one_sided = SeparableLaw(1.0, 1.0, SPARSE.weights, SPARSE.probabilities, SPARSE.ratio)
    np.testing.assert_allclose(one_sided.stieltjes(z), SPARSE.stieltjes(z), rtol=1e-11)
    one_sided = SeparableLaw(WIDE.values, WIDE.weights, 1.0, 1.0, WIDE.ratio)
    np.testing.assert_allclose(one_sided.stieltjes(z), WIDE.stieltjes(z), rtol=1e-11)
    law = SeparableLaw([1.0, 4.0], [0.3, 0.7], [-1.0, 2.0], [0.4, 0.6], 0.7)
    # Moments from a circle around the whole support: -z S(z) = sum of m_k z^-k.
    circle = 60.0 * np.exp(2j * np.pi * (np.arange(64) + 0.5) / 64)
    transform = law.stieltjes(circle)
    found = [np.mean(-transform * circle ** (power + 1)).real for power in range(3)]
    np.testing.assert_allclose(found, [1.0, *law.moments], rtol=1e-9)


# Wrong input


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MarchenkoPastur(0.0), "ratio must be positive and finite, got 0.0"),
        (lambda: MarchenkoPastur(1.0, variance=-1.0), "variance must be positive"),
        (lambda: MarchenkoPastur(0.5).stieltjes(1.0), "z must lie outside the support"),
        (lambda: MarchenkoPastur(0.5).quadrature(0), "count must be at least 1"),
        (lambda: CovarianceLaw([1.0], [1.0], -2.0), "ratio must be positive and finite, got -2.0"),
        (lambda: CovarianceLaw([1.0, 2.0], [0.5, 0.6], 1.0), "weights must sum to 1"),
        (lambda: CovarianceLaw([1.0, 2.0], [1.5, -0.5], 1.0), "weights must not be negative"),
        (lambda: CovarianceLaw([1.0, -2.0], [0.5, 0.5], 1.0), "values must not be negative"),
        (lambda: CovarianceLaw([1.0, 2.0], [1.0], 1.0), "weights must have one entry per entry of values"),
        (lambda: CovarianceLaw([0.0], [1.0], 1.0), "values must contain a positive eigenvalue"),
        (lambda: CovarianceLaw([np.nan], [1.0], 1.0), "values must be finite"),
        (lambda: CovarianceLaw([], [], 1.0), "values must be a non-empty vector"),
        (lambda: THREE.stieltjes(1.0), "z must lie outside the bulk"),
        (lambda: WIDE.stieltjes(0.0), "z must differ from 0"),
        (lambda: THREE.quantile(1.5), "level must lie between 0 and 1"),
        (lambda: THREE.outlier(-1.0), "spike must be positive"),
        (lambda: WeightedLaw([0.0], [1.0], 1.0), "weights must contain a non-zero value"),
        (lambda: WeightedLaw.from_samples([], 1.0), "samples must be a non-empty vector"),
        (lambda: WeightedLaw.from_samples([1.0, 2.0], 1.0, bins=1), "bins must be at least 4"),
        (lambda: SeparableLaw(1.0, 1.0, 1.0, 1.0, 1.0).stieltjes(2.0), "z must lie off the real axis"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(make, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
