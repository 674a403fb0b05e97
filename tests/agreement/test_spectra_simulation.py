r"""Spectral laws against draws, within their statistical error, each with a twin that carries an error and must fail.

Simulation tools are checked against dense linear algebra first. Statistical errors come from the spread over seeds; a
prediction agrees when it lies within four standard errors plus an allowance for finite size, which is of order
$1/d$ for linear statistics and outliers.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from limen.problem import InputError
from limen.simulation.spectra.random_matrices import stream_generator
from limen.spectra import (
    CovarianceLaw,
    MarchenkoPastur,
    SeparableLaw,
    WeightedLaw,
    bottom_eigenspace,
    directional_outliers,
    draw_covariance,
    draw_directional,
    draw_weighted,
    lanczos,
    population_spectrum,
    subspace_outliers,
    top_eigenspace,
    weighted_gram,
)

VALUES, PROPORTIONS = [1.0, 4.0, 10.0], [0.5, 0.3, 0.2]
SIGNED, CHANCES = [-1.0, 0.5, 2.0], [0.3, 0.4, 0.3]


def agrees(draws: np.ndarray, prediction: float, allowance: float) -> bool:
    """Within four standard errors of the mean over seeds, plus the allowance."""
    error = np.std(draws, ddof=1) / np.sqrt(len(draws))
    return bool(abs(np.mean(draws) - prediction) <= 4.0 * error + allowance)


def dense(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return (rows.T * weights) @ rows / len(rows)


def covariance_eigenvalues(ratio: float, seed: int, dimension: int = 300) -> np.ndarray:
    samples = round(dimension / ratio)
    rows = draw_covariance(population_spectrum(dimension, VALUES, PROPORTIONS), samples, seed)
    return np.linalg.eigvalsh(dense(rows, np.ones(samples)))


# Tools against dense linear algebra


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    return draw_weighted(SIGNED, CHANCES, dimension=150, samples=375, seed=7)


def test_lanczos_with_all_steps_is_exact_for_its_probe(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    rows, weights = drawn
    spectrum = lanczos(weighted_gram(rows, weights), 150, steps=150, probes=2)
    eigenvalues = np.linalg.eigvalsh(dense(rows, weights))
    np.testing.assert_allclose(spectrum.weights.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(spectrum.nodes, np.tile(eigenvalues, (2, 1)), atol=1e-9)


def test_lanczos_moments_and_density_agree_with_dense_eigenvalues(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    rows, weights = drawn
    eigenvalues = np.linalg.eigvalsh(dense(rows, weights))
    spectrum = lanczos(weighted_gram(rows, weights), 150, steps=40, probes=60)
    moments = spectrum.moments(4)
    exact = [np.mean(eigenvalues**power) for power in range(1, 5)]
    assert (np.abs(moments.mean - exact) < 4.0 * moments.error).all()
    assert not (np.abs(moments.mean - 1.1 * np.array(exact)) < 4.0 * moments.error).any()
    x, width = np.linspace(-1.0, 3.0, 21), 0.2
    kernel = np.exp(-0.5 * ((x[:, None] - eigenvalues) / width) ** 2) / (width * np.sqrt(2.0 * np.pi))
    density = spectrum.density(x, width)
    assert (np.abs(density.mean - kernel.mean(axis=1)) < 5.0 * density.error + 1e-6).all()


def test_lanczos_stops_at_an_invariant_subspace() -> None:
    spectrum = lanczos(lambda vector: 2.0 * vector, 30, steps=10, probes=3)
    moments = spectrum.moments(2)
    np.testing.assert_allclose(moments.mean, [2.0, 4.0], rtol=1e-12)


def test_extreme_eigenspaces_agree_with_dense(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    rows, weights = drawn
    values, vectors = np.linalg.eigh(dense(rows, weights))
    operator = weighted_gram(rows, weights)
    top, bottom = top_eigenspace(operator, 150, 3), bottom_eigenspace(operator, 150, 2)
    np.testing.assert_allclose(top.values, values[::-1][:3], atol=1e-10)
    np.testing.assert_allclose(bottom.values, values[:2], atol=1e-10)
    np.testing.assert_allclose(np.abs(top.vectors.T @ vectors[:, ::-1][:, :3]), np.eye(3), atol=1e-7)


def test_operators_may_be_jax_functions(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    rows, weights = drawn
    matrix = dense(rows, weights)
    device = jnp.asarray(matrix, dtype=jnp.float32)
    top = top_eigenspace(lambda vector: device @ jnp.asarray(vector, dtype=jnp.float32), 150, 1)
    assert top.values[0] == pytest.approx(np.linalg.eigvalsh(matrix)[-1], rel=1e-4)


def test_draws_repeat_and_differ_between_seeds() -> None:
    first, again, other = (draw_covariance(np.ones(5), 7, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1
    np.testing.assert_array_equal(population_spectrum(7, [1.0, 2.0], [0.5, 0.5], spikes=[9.0])[:1], [9.0])
    assert population_spectrum(7, [1.0, 2.0], [0.5, 0.5], spikes=[9.0]).size == 7


# Bulk


def distribution_distance(eigenvalues: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> float:
    """Kolmogorov distance of sorted eigenvalues from a continuous law."""
    places = np.arange(eigenvalues.size)
    values = cdf(eigenvalues)
    return float(np.max(np.maximum(np.abs(values - places / values.size), np.abs(values - (places + 1) / values.size))))


def test_covariance_bulk() -> None:
    # Eigenvalues are rigid: the distance is of order log(d)/d, far below the 1/sqrt(d) of independent points.
    eigenvalues, law = covariance_eigenvalues(0.3, 0), CovarianceLaw(VALUES, PROPORTIONS, 0.3)
    assert distribution_distance(eigenvalues, law.cdf) < 4.0 / 300
    planted = CovarianceLaw(VALUES, PROPORTIONS, 0.33)
    assert distribution_distance(eigenvalues, planted.cdf) > 4.0 / 300
    # Gaps are empty, and exact separation puts each eigenvalue on its side.
    assert [int(np.sum(eigenvalues < middle)) for middle in law.gaps.mean(axis=1)] == [150, 240]


def test_covariance_bulk_is_approached_at_rate_one_over_d() -> None:
    law, planted = (CovarianceLaw(VALUES, PROPORTIONS, ratio) for ratio in (0.3, 0.33))
    spectra = {d: [covariance_eigenvalues(0.3, seed, d) for seed in range(1, 7)] for d in (60, 240)}
    small, large = (np.mean([distribution_distance(e, law.cdf) for e in spectra[d]]) for d in (60, 240))
    # Four times the dimension: a quarter of the distance, up to a logarithm; a wrong law keeps a distance.
    assert large < 0.4 * small
    stuck_small, stuck = (np.mean([distribution_distance(e, planted.cdf) for e in spectra[d]]) for d in (60, 240))
    assert stuck > 0.4 * stuck_small


def test_weighted_bulk() -> None:
    rows, weights = draw_weighted(SIGNED, CHANCES, dimension=400, samples=1000, seed=1)
    eigenvalues = np.linalg.eigvalsh(dense(rows, weights))
    # The drawn weights themselves are the law here; their own scatter would move it by 1/sqrt(n).
    counts = np.array([np.mean(weights == value) for value in SIGNED])
    assert distribution_distance(eigenvalues, WeightedLaw(SIGNED, counts, 0.4).cdf) < 4.0 / 400
    assert distribution_distance(eigenvalues, WeightedLaw(SIGNED, counts, 0.44).cdf) > 4.0 / 400
    edges = WeightedLaw(SIGNED, counts, 0.4).edges()
    np.testing.assert_allclose(eigenvalues[[0, -1]], edges, atol=0.08)


def test_rank_deficient_bulk_and_atom() -> None:
    rows, weights = draw_weighted([-1.0, 2.0], [0.4, 0.6], dimension=400, samples=250, seed=2)
    eigenvalues = np.linalg.eigvalsh(dense(rows, weights))
    counts = np.array([np.mean(weights == -1.0), np.mean(weights == 2.0)])
    law = WeightedLaw([-1.0, 2.0], counts, 1.6)
    zeros = np.abs(eigenvalues) < 1e-9
    assert zeros.mean() == pytest.approx(law.atom, abs=1e-12)
    np.testing.assert_allclose(np.mean(eigenvalues < -1e-9), law.cdf(-1e-9), atol=1e-12)


def test_separable_resolvent() -> None:
    dimension, samples, z = 300, 600, np.array([0.5 + 0.5j, -1.0 + 0.3j])
    scales = np.sqrt(population_spectrum(dimension, [1.0, 3.0], [0.5, 0.5]))
    transforms = []
    for seed in range(6):
        rows, weights = draw_weighted([-1.0, 2.0], [0.5, 0.5], dimension, samples, seed)
        weights = np.sort(weights)
        weights[: samples // 2], weights[samples // 2 :] = -1.0, 2.0
        eigenvalues = np.linalg.eigvalsh(dense(rows * scales, weights))
        transforms.append(np.mean(1.0 / (eigenvalues[:, None] - z), axis=0))
    drawn_transforms = np.array(transforms)
    for ratio, verdict in ((0.5, True), (0.55, False)):
        law = SeparableLaw([1.0, 3.0], [0.5, 0.5], [-1.0, 2.0], [0.5, 0.5], ratio).stieltjes(z)
        found = [agrees(drawn_transforms[:, k].imag, law[k].imag, 1.0 / dimension**1.5) for k in range(2)]
        assert all(found) == verdict


def test_largest_eigenvalue_fluctuates_as_predicted() -> None:
    draws = np.array(
        [
            top_eigenspace(weighted_gram(draw_covariance(np.ones(50), 100, s), np.ones(100)), 50, 1).values[0]
            for s in range(200)
        ]
    )
    prediction = MarchenkoPastur(0.5).largest_eigenvalue(100)
    assert agrees(draws, prediction.mean, 0.0)
    assert not agrees(draws, prediction.location, 0.0)
    assert np.std(draws) == pytest.approx(prediction.standard_deviation, rel=0.2)


# Outliers


def test_spiked_covariance() -> None:
    dimension, ratio, spike = 400, 0.5, 3.0
    samples = round(dimension / ratio)
    population = population_spectrum(dimension, 1.0, 1.0, spikes=[spike])
    locations, overlaps = [], []
    for seed in range(24):
        top = top_eigenspace(weighted_gram(draw_covariance(population, samples, seed), np.ones(samples)), dimension, 1)
        locations.append(top.values[0])
        overlaps.append(top.vectors[0, 0] ** 2)
    law = CovarianceLaw(1.0, 1.0, ratio)
    prediction = law.outlier(spike)
    assert prediction is not None
    assert agrees(np.array(locations), prediction.location, 2.0 / dimension)
    assert agrees(np.array(overlaps), prediction.overlap_squared, 2.0 / dimension)
    # Planted: a ratio 10% off; an overlap that forgets z'.
    planted = CovarianceLaw(1.0, 1.0, 1.1 * ratio).outlier(spike)
    assert planted is not None
    assert not agrees(np.array(overlaps), planted.overlap_squared, 2.0 / dimension)
    assert not agrees(np.array(overlaps), spike / prediction.location, 2.0 / dimension)


def directional_draws(
    weight: Callable[[np.ndarray], np.ndarray], dimension: int, ratio: float, seeds: int, place: int
) -> tuple[np.ndarray, np.ndarray]:
    locations, overlaps = np.empty(seeds), np.empty(seeds)
    for seed in range(seeds):
        rows, weights = draw_directional(weight, dimension, round(dimension / ratio), seed)
        values, vectors = np.linalg.eigh(dense(rows, weights))
        locations[seed], overlaps[seed] = values[place], vectors[0, place] ** 2
    return locations, overlaps


def without_slope(location: float, overlap: float, law: WeightedLaw) -> float:
    """The overlap formula with its factor z'(w) forgotten."""
    w = -1.0 / law.stieltjes(location)
    g = law.weights
    return overlap / float(1.0 - law.ratio * law.probabilities @ (g**2 / (w - law.ratio * g) ** 2))


@pytest.mark.parametrize(
    ("weight", "place"),
    [
        (lambda s: np.where(np.abs(s) > 1.2, -1.0, 0.7), 0),
        (lambda s: (s**2 - 1.0) / (s**2 + 0.5), -1),
    ],
    ids=["step", "phase-retrieval"],
)
def test_weights_that_depend_on_a_direction(weight: Callable[[np.ndarray], np.ndarray], place: int) -> None:
    dimension, ratio = 200, 0.25
    locations, overlaps = directional_draws(weight, dimension, ratio, 40, place)
    (prediction,) = directional_outliers(weight, ratio)
    allowance = 2.0 / dimension
    assert agrees(locations, prediction.location, allowance)
    assert agrees(overlaps, prediction.overlap_squared, allowance)
    (planted,) = directional_outliers(weight, 1.1 * ratio)
    assert not agrees(overlaps, planted.overlap_squared, allowance)
    places = np.linspace(-8.0, 8.0, 2001)
    masses = np.exp(-0.5 * places**2)
    law = WeightedLaw(weight(places), masses / masses.sum(), ratio, resolution=0.05)
    assert not agrees(overlaps, without_slope(*prediction, law), allowance)


def test_outlier_in_a_gap() -> None:
    # A thin shell of heavy samples makes a second band above; the direction shows between the bands.
    def weight(s: np.ndarray) -> np.ndarray:
        return np.array([0.02, 10.0, 0.2])[np.searchsorted([1.6, 1.62], np.abs(s))]

    dimension, ratio, seeds = 200, 0.05, 40
    (prediction,) = directional_outliers(weight, ratio)
    locations, overlaps = np.empty(seeds), np.empty(seeds)
    for seed in range(seeds):
        rows, weights = draw_directional(weight, dimension, round(dimension / ratio), seed)
        values, vectors = np.linalg.eigh(dense(rows, weights))
        # Exact separation: the upper band holds one eigenvalue per heavy sample, and the outlier is next below.
        place = dimension - int(np.sum(weights == 10.0)) - 1
        locations[seed], overlaps[seed] = values[place], vectors[0, place] ** 2
    assert agrees(locations, prediction.location, 2.0 / dimension * prediction.location)
    assert agrees(overlaps, prediction.overlap_squared, 2.0 / dimension)
    # The number of heavy samples scatters too much here for a ratio 10% off to show; the factor z' does show.
    law = WeightedLaw([0.02, 10.0, 0.2], shell_masses(1.6, 1.62), ratio)
    assert law.gaps[0, 0] < prediction.location < law.gaps[0, 1]
    assert not agrees(overlaps, without_slope(*prediction, law), 2.0 / dimension)


def shell_masses(inner: float, outer: float) -> np.ndarray:
    tails = 2.0 * norm.sf([inner, outer])
    return np.array([1.0 - tails[0], tails[0] - tails[1], tails[1]])


def test_two_hard_coordinates_with_non_unit_moments() -> None:
    # A mixture of two classes at 2 e1 and 1.5 e2, noise variance 0.6, weights that depend on the coordinates.
    dimension, samples, noise, seeds = 200, 500, 0.6, 60
    means = np.array([[2.0, 0.0], [0.0, 1.5]])

    def draw(generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = generator.integers(0, 2, count)
        coordinates = means[labels] + np.sqrt(noise) * generator.standard_normal((count, 2))
        return 1.0 / (1.0 + np.exp(-coordinates[:, 0])), coordinates

    locations, projections = np.empty((seeds, 2)), np.empty((seeds, 2))
    for seed in range(seeds):
        generator = stream_generator(seed, dimension, "mixture")
        weights, coordinates = draw(generator, samples)
        rest = np.sqrt(noise) * generator.standard_normal((samples, dimension - 2))
        top = top_eigenspace(weighted_gram(np.hstack([coordinates, rest]), weights), dimension, 2)
        locations[seed], projections[seed] = top.values, (top.vectors[:2] ** 2).sum(axis=0)
    weights, coordinates = draw(np.random.default_rng(0), 200_000)
    second, first = subspace_outliers(weights, coordinates, dimension / samples, noise)
    allowance = 1.0 / dimension
    for place, prediction in enumerate((first, second)):
        assert agrees(locations[:, place], prediction.location, allowance * prediction.location)
        assert agrees(projections[:, place], prediction.overlap_squared, allowance)
    for ratio, variance in ((1.1 * dimension / samples, noise), (dimension / samples, 1.1 * noise)):
        planted = subspace_outliers(weights, coordinates, ratio, variance)[-1]
        assert not agrees(projections[:, 0], planted.overlap_squared, allowance)


# Wrong input


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: weighted_gram(np.ones((3, 2)), np.ones(2)), "weights must be one per sample"),
        (lambda: lanczos(lambda v: v, 5, steps=6, probes=2), "steps must lie between 1 and dimension"),
        (lambda: lanczos(lambda v: v, 5, steps=2, probes=0), "probes must be at least 1"),
        (lambda: top_eigenspace(lambda v: v, 5, 5), "count must lie between 1 and dimension - 1"),
        (lambda: draw_covariance(np.array([-1.0]), 3, 0), "population must be"),
        (lambda: draw_weighted([1.0], [1.0], 0, 3, 0), "samples and dimension must be at least 1"),
        (lambda: population_spectrum(2, [1.0], [1.0], spikes=[3.0, 4.0]), "dimension must exceed"),
        (lambda: population_spectrum(5, [1.0], [0.5]), "weights must be one per value"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(make, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_one_probe_gives_a_mean_without_an_error():
    values = np.linspace(1.0, 2.0, 40)
    one, two = (lanczos(lambda v: values * v, 40, 20, probes).moments(2) for probes in (1, 2))
    assert np.isnan(one.error).all() and np.isfinite(two.error).all()
    np.testing.assert_allclose(one.mean, [values.mean(), (values**2).mean()], rtol=0.2)
