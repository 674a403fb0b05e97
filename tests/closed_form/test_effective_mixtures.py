"""XOR and Gaussian mixtures: drifts against quadrature, exact symmetries, fixed points, known spectra."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit

import limen
from limen import GaussianMixture, InputError, OverlapStart, XorMixture, effective
from limen.theory.effective.mixtures.mixture_flow import MixtureState, mixture_drift

INF = math.inf


def begun(problem, start, second_layer):
    return problem.model_copy(update={"start": start, "second_layer": second_layer})


def random_xor(width, seed=0):
    rng = np.random.default_rng(seed)
    loose = rng.standard_normal((width, width))
    return rng.standard_normal(width), 0.5 * rng.standard_normal((width, 2)), loose @ loose.T / width


def flat(drift):
    return np.concatenate([drift["v"], drift["mu"], drift["nu"], drift["R"].ravel()])


def one_neuron_drift(problem, v, mu, nu, r):
    """One neuron by quadrature over its field alone: given the field, the input is Gaussian with a linear mean."""
    variance = (mu**2 + nu**2 + r) / problem.sharpness
    moments = np.zeros(5)
    for mean, label in (((1, 0), 1.0), ((-1, 0), 1.0), ((0, 1), 0.0), ((0, -1), 0.0)):
        centre = mu * mean[0] + nu * mean[1]

        def parts(u, mean=mean, centre=centre, label=label):
            density = math.exp(-((u - centre) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
            error = expit(v * u) - label
            lean = (u - centre) / (variance * problem.sharpness)
            values = (
                error * u,
                error * (mean[0] + mu * lean),
                error * (mean[1] + nu * lean),
                error * r * lean,
                error**2,
            )
            return density * np.array(values)

        top = max(centre, 0.0) + 9 * math.sqrt(variance)
        moments += 0.25 * np.array([quad(lambda u, i=i, f=parts: f(u)[i], 0, top, limit=200)[0] for i in range(5)])
    a, c = problem.penalty, problem.step / problem.sharpness
    growth = -2 * a * r - 2 * v * moments[3] + c * v**2 * moments[4]
    return np.array([-a * v - moments[0], -a * mu - v * moments[1], -a * nu - v * moments[2], growth])


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-6])
def test_drift_of_one_neuron_is_that_of_quadrature_however_small_the_overlaps(scale):
    problem = XorMixture(1, 6.0, 0.05, 1.5)
    mu, nu = 0.7 * scale, -0.4 * scale
    exact = one_neuron_drift(problem, 1.3, mu, nu, 0.8)
    found = flat(effective.xor_drift(problem, [1.3], [mu], [nu], [[0.8]]))
    assert np.abs(found - exact).max() < 2e-4
    # The response of small overlaps is itself right, not only its size.
    assert np.allclose(found[1:3] / scale, exact[1:3] / scale, atol=4e-4)


def test_drift_of_three_neurons_is_that_of_plain_monte_carlo():
    problem = XorMixture(3, 4.0, 0.05, 1.0)
    v, m, gram = random_xor(3)
    rng, count, batches = np.random.default_rng(1), 100_000, 12
    runs = []
    for _ in range(batches):
        label, sign = rng.integers(0, 2, count), rng.choice([-1.0, 1.0], count)
        x = rng.standard_normal((count, 2)) / 2.0
        x[:, 0] += sign * label
        x[:, 1] += sign * (1 - label)
        w = rng.standard_normal((count, 3)) @ np.linalg.cholesky(gram).T / 2.0
        u = x @ m.T + w
        error = expit(np.maximum(u, 0) @ v) - label
        active = (u > 0).astype(float)
        cross = v[:, None] * ((error[:, None] * active).T @ w) / count
        square = ((error**2)[:, None] * active).T @ active / count
        moved = -0.05 * m - v[:, None] * ((error[:, None] * active).T @ x) / count
        second = -0.05 * v - (error[:, None] * np.maximum(u, 0)).mean(axis=0)
        grown = -0.1 * gram - cross - cross.T + 0.25 * np.outer(v, v) * square
        runs.append(np.concatenate([second, moved[:, 0], moved[:, 1], grown.ravel()]))
    error = np.std(runs, axis=0, ddof=1) / math.sqrt(batches)
    deviation = flat(effective.xor_drift(problem, v, m[:, 0], m[:, 1], gram)) - np.mean(runs, axis=0)
    assert np.abs(deviation).max() < 2e-3 and (np.abs(deviation) < 4.5 * error + 1e-4).all()


def test_without_second_layer_everything_decays_exactly():
    _, m, gram = random_xor(3)
    for sharpness in (5.0, INF):
        drift = effective.xor_drift(XorMixture(3, sharpness, 0.07, 1.0), np.zeros(3), m[:, 0], m[:, 1], gram)
        assert np.array_equal(drift["mu"], -0.07 * m[:, 0]) and np.array_equal(drift["nu"], -0.07 * m[:, 1])
        assert np.allclose(drift["R"], -0.14 * gram, rtol=1e-15, atol=0)


@pytest.mark.parametrize("sharpness", [5.0, INF])
def test_symmetries_of_xor(sharpness):
    problem = XorMixture(3, sharpness, 0.07, 1.0)
    v, m, gram = random_xor(3)
    plain = effective.xor_drift(problem, v, m[:, 0], m[:, 1], gram)
    swapped = effective.xor_drift(problem, -v, m[:, 1], m[:, 0], gram)
    reversed_ = effective.xor_drift(problem, v, -m[:, 0], -m[:, 1], gram)
    for name, other, sign in (("v", "v", -1), ("mu", "nu", 1), ("nu", "mu", 1), ("R", "R", 1)):
        assert np.allclose(swapped[name], sign * plain[other], atol=1e-14)
    for name, sign in (("v", 1), ("mu", -1), ("nu", -1), ("R", 1)):
        assert np.allclose(reversed_[name], sign * plain[name], atol=1e-13)


def test_sharp_drift_is_the_limit_and_slides():
    v, m, gram = random_xor(3)
    sharp = effective.xor_drift(XorMixture(3, INF, 0.05, 1.0), v, m[:, 0], m[:, 1], gram)
    nearly = effective.xor_drift(XorMixture(3, 1e8, 0.05, 1.0), v, m[:, 0], m[:, 1], gram)
    assert np.abs(flat(sharp) - flat(nearly)).max() < 2e-4
    slides = effective.xor_drift(XorMixture(1, INF, 0.05, 1.0), [1.0], [0.5], [0.0], [[1.0]])
    assert slides["nu"][0] == 0.0 and slides["mu"][0] > 0.0


def test_sharp_flow_pins_overlaps_and_ends_on_the_fixed_points():
    problem = XorMixture(5, INF, 0.05, 1.0)
    start = OverlapStart(((0.2, 0.1), (-0.2, 0.1), (0.1, 0.3), (0.1, -0.3), (0.25, -0.05)))
    run = limen.predict(begun(problem, start, (0.4, 0.4, -0.4, -0.4, 0.4)), [30.0, 400.0])
    v, m = run.dataset.second_layer.values, run.dataset.overlap.values
    assert (m[0][[0, 1, 4], 1] == 0.0).all() and (m[0][[2, 3], 0] == 0.0).all()
    mass = effective.cluster_mass(problem)
    assert np.allclose([v[1][[0, 4]] @ v[1][[0, 4]], v[1][1] ** 2, v[1][2] ** 2, v[1][3] ** 2], mass, rtol=1e-6)
    assert np.allclose(np.abs(v[1]), np.abs(m[1]).max(axis=1), rtol=1e-6)
    drift = effective.xor_drift(problem, v[1], m[1, :, 0], m[1, :, 1], np.zeros((5, 5)))
    assert np.abs(flat(drift)).max() < 1e-7
    assert np.allclose(run.dataset.orthogonal_gram.values[0], math.exp(-3.0) * np.eye(5))


def test_sharp_flow_leaves_the_origin_at_its_rate_and_records_between_events():
    problem = XorMixture(1, INF, 0.05, 1.0)
    run = limen.predict(begun(problem, OverlapStart(((1e-7, 0.0),)), (1e-7,)), [0.0, 20.0, 40.0])
    v = run.dataset.second_layer.values[:, 0]
    assert np.allclose(np.log(v[1:] / v[:-1]) / 20.0, 0.125 - 0.05, rtol=1e-5)


def test_cluster_mass_at_the_critical_penalty():
    assert effective.cluster_mass(XorMixture(1, INF, 0.125, 1.0)) == pytest.approx(0.0, abs=1e-15)
    assert effective.cluster_mass(XorMixture(1, INF, 0.05, 1.0)) == pytest.approx(math.log(4.0))


@pytest.mark.parametrize(
    ("width", "connected", "complete"), [(1, 5, 0), (2, 17, 0), (3, 35, 0), (4, 39, 24), (5, 16, 1)]
)
def test_fixed_point_sets_by_enumeration(width, connected, complete):
    places = list(itertools.product(range(5), repeat=width))
    parent = {place: place for place in places}

    def root(place):
        while parent[place] != place:
            place = parent[place]
        return place

    for place in places:
        for i, cluster in enumerate(place):
            # A neuron can fade to zero as long as another one keeps its cluster.
            if cluster and place.count(cluster) > 1:
                parent[root(place)] = root((*place[:i], 0, *place[i + 1 :]))
    sets = {root(place): len(set(place) - {0}) for place in places}
    assert (len(sets), sum(occupied == 4 for occupied in sets.values())) == (connected, complete)
    assert effective.fixed_point_sets(XorMixture(width, INF, 0.05, 1.0)) == (connected, complete)


def test_sixteen_sets_from_five_neurons_on():
    assert effective.fixed_point_sets(XorMixture(9, 20.0, 0.05, 1.0)) == (16, 1)


def test_success_probability_counts_signatures():
    assert effective.lottery_probability(XorMixture(4, INF, 0.05, 1.0)) == pytest.approx(3 / 32, abs=1e-15)
    for width in (3, 5):
        all_four = [len(set(signs)) == 4 for signs in itertools.product(range(4), repeat=width)]
        assert effective.lottery_probability(XorMixture(width, INF, 0.05, 1.0)) == pytest.approx(np.mean(all_four))
    wide = effective.lottery_probability(XorMixture(30, 20.0, 0.05, 1.0))
    assert wide == pytest.approx(1 - 4 * 0.75**30, abs=1e-8)


def test_occupied_clusters_of_a_flow():
    problem = XorMixture(4, INF, 0.05, 1.0)
    start = OverlapStart(((0.3, 0.0), (-0.3, 0.0), (0.0, 0.3), (0.0, 0.2)))
    run = limen.predict(begun(problem, start, (0.3, 0.3, -0.3, -0.3)), [200.0])
    assert effective.occupied_clusters(run) == 3


def test_mixture_drift_of_two_classes_is_that_of_quadrature():
    """Only the difference of the two logits matters: one-dimensional Gauss-Hermite, with Stein's lemma undone."""
    problem = GaussianMixture(2, 3.0, 0.04, 1.7, probabilities=(0.3, 0.7), mean_gram=((1.0, 0.3), (0.3, 2.0)))
    aligned, gram = np.array([[0.8, -0.2], [-0.5, 0.6]]), np.array([[0.9, 0.2], [0.2, 0.5]])
    nodes, masses = np.polynomial.hermite_e.hermegauss(80)
    masses = masses / masses.sum()
    gap, rest = aligned[0] - aligned[1], gram[0] - gram[1]
    deviation = math.sqrt((gap @ gap + gram[0, 0] - 2 * gram[0, 1] + gram[1, 1]) / 3.0)
    moved, grown = -0.04 * aligned, -0.08 * gram
    for a in range(2):
        field = gap @ problem.means[a] + deviation * nodes
        error = np.stack([expit(field), expit(-field)]) - np.eye(2)[a][:, None]
        # Given the field the input leans along its loading: Cov(Y, field) / Var(field).
        lean = nodes / (3.0 * deviation)
        pull = np.outer(error @ masses, problem.means[a]) + np.outer(error @ (masses * lean), gap)
        cross = np.outer(error @ (masses * lean), rest)
        square = (error * masses) @ error.T
        moved = moved - problem.weights[a] * pull
        grown = grown + problem.weights[a] * (-cross - cross.T + 1.7 / 3.0 * square)
    found = mixture_drift(problem, MixtureState(aligned, gram))
    assert np.abs(found.aligned - moved).max() < 2e-4 and np.abs(found.orthogonal_gram - grown).max() < 2e-4


def test_mixture_drift_at_the_origin_and_its_class_sums():
    k, step = 4, 1.3
    problem = GaussianMixture(k, 5.0, 0.04, step)
    at_origin = mixture_drift(problem, MixtureState(np.zeros((k, k)), np.zeros((k, k))))
    centred = np.eye(k) / k - 1 / k**2
    assert np.allclose(at_origin.aligned, centred, atol=1e-15)
    assert np.allclose(at_origin.orthogonal_gram, step / 5.0 * centred, atol=1e-15)
    rng = np.random.default_rng(0)
    aligned, loose = rng.standard_normal((k, k)), rng.standard_normal((k, k))
    other = mixture_drift(problem, MixtureState(aligned, loose @ loose.T))
    assert np.allclose(other.aligned.sum(axis=0), -0.04 * aligned.sum(axis=0), atol=1e-13)
    total = (loose @ loose.T).sum()
    assert other.orthogonal_gram.sum() == pytest.approx(-0.08 * total, abs=1e-12)


def test_sharp_mixture_comes_to_rest_at_its_fixed_point():
    problem = GaussianMixture(3, INF, 0.05, 1.0)
    a, b = effective.fixed_point(problem)
    assert 0.05 * 3 * a == pytest.approx(2 / (math.exp(1.5 * a) + 2), rel=1e-12) and b == -a / 2
    run = limen.predict(problem, [0.0, 500.0])
    assert run.dataset.overlap.dims == ("time", "class", "mean")
    assert np.allclose(run.dataset.overlap.values[-1], b + (a - b) * np.eye(3), atol=1e-6)
    assert np.allclose(run.dataset.orthogonal_gram.values[-1], 0.0, atol=1e-8)


def test_overlaps_do_not_depend_on_the_basis_of_the_means():
    plain = limen.predict(GaussianMixture(2, INF, 0.1, 1.0), [5.0]).dataset.overlap.values
    given = GaussianMixture(2, INF, 0.1, 1.0, probabilities=(0.5, 0.5), mean_gram=((1.0, 0.0), (0.0, 1.0)))
    assert np.allclose(limen.predict(given, [5.0]).dataset.overlap.values, plain, atol=1e-12)


ZERO = OverlapStart(0.0, gram=np.zeros((3, 3)))


@pytest.mark.parametrize("samples", [6.0, 0.5])
def test_blocks_at_zero_weights_are_spiked_marchenko_pastur(samples):
    k, sharpness, ratio = 3, 10.0, 1 / samples
    block = effective.hessian_block(GaussianMixture(k, sharpness, 0.05, 1.0), 0.0, samples, start=ZERO)
    level = (1 - 1 / k) / k / sharpness
    assert block.edge == pytest.approx(level * (1 + math.sqrt(ratio)) ** 2, rel=1e-6)
    expected = level * (1 + sharpness / k) * (1 + k * ratio / sharpness)
    assert len(block.outliers) == k and np.allclose(block.outliers, expected, rtol=5e-4)
    strength = sharpness / k
    surviving = (1 - ratio / strength**2) / (1 + ratio / strength)
    assert np.allclose(block.overlaps, surviving, rtol=2e-3) and math.isnan(block.alignment)


def test_test_samples_needed_at_zero_weights():
    problem = GaussianMixture(3, 10.0, 0.05, 1.0)
    assert effective.samples_for_outlier(problem, 0.0, 1, start=ZERO) == pytest.approx((3 / 10) ** 2, rel=2e-3)
    assert effective.samples_for_outlier(problem, 0.0, 3, start=ZERO) == pytest.approx((3 / 10) ** 2, rel=2e-3)
    assert effective.samples_for_outlier(problem, 0.0, 4, start=ZERO) == math.inf
    few = effective.hessian_block(problem, 0.0, 0.08, start=ZERO)
    assert len(few.outliers) == 0


def test_blocks_after_training():
    problem = GaussianMixture(3, 10.0, 0.05, 1.0)
    block = effective.hessian_block(problem, 10.0, 6.0)
    assert np.allclose(block.outliers, [0.0843, 0.0582, 0.0529], atol=2e-4)
    assert block.alignment == pytest.approx(0.8465, abs=2e-3) and not block.soft
    more = [effective.samples_for_outlier(problem, 10.0, j, points=1 << 8) for j in (1, 2, 3)]
    assert sorted(more) == more and more[-1] < 6.0
    gradient = effective.gradient_block(problem, 10.0, 6.0)
    assert gradient.soft and len(gradient.outliers) == 1


def test_sharp_blocks_at_the_fixed_point():
    k = 3
    problem = GaussianMixture(k, INF, 0.05, 1.0)
    a, b = effective.fixed_point(problem)
    q = 1 / (1 + (k - 1) * math.exp(b - a))
    r = (1 - q) / (k - 1)
    for find, one, others in (
        (effective.hessian_block, q * (1 - q), r * (1 - r)),
        (effective.gradient_block, (1 - q) ** 2, r**2),
    ):
        block = find(problem, 500.0, 4.0)
        assert np.allclose(block.outliers, np.array([one, others, others]) / k, rtol=1e-5)
        assert block.edge == 0.0 and block.alignment == pytest.approx(1.0, abs=1e-8)


def test_off_diagonal_blocks_have_two_edges():
    """With two classes the off-diagonal block is minus the diagonal one."""
    problem = GaussianMixture(2, 8.0, 0.05, 1.0)
    diagonal = effective.hessian_block(problem, 5.0, 4.0)
    crossed = effective.hessian_block(problem, 5.0, 4.0, block=(0, 1))
    assert crossed.lower_edge == pytest.approx(-diagonal.edge) and crossed.edge == pytest.approx(-diagonal.lower_edge)
    assert np.allclose(crossed.lower_outliers, -diagonal.outliers) and len(crossed.outliers) == 0
    assert crossed.alignment == pytest.approx(diagonal.alignment)
    signed = effective.gradient_block(GaussianMixture(3, 8.0, 0.05, 1.0), 1.0, 4.0, block=(0, 1))
    assert signed.lower_edge < 0.0 < signed.edge


def test_outliers_separate_along_training():
    problem = GaussianMixture(3, 10.0, 0.05, 1.0)
    path = effective.block_path(problem, [0.0, 1.0, 10.0], 6.0).dataset
    gaps = path.eigenvalue.values[:, 0] - path.eigenvalue.values[:, 1]
    assert (path.outliers == 3).all() and gaps[0] < 0.1 * gaps[1] < 0.1 * gaps[2]
    assert path.alignment.values[0] < 0.06 and (np.diff(path.alignment.values) > 0).all()


PLACES = np.array([[0.8, 0.0], [-0.8, 0.0], [0.0, 0.8], [1e-4, 1e-4]])
FOUR = OverlapStart(PLACES, gram=PLACES @ PLACES.T + 1e-6 * np.eye(4))


def test_second_layer_blocks_of_sharp_clouds_have_the_rank_of_what_was_discovered():
    problem = XorMixture(4, INF, 0.05, 1.0)
    v = np.array([0.9, 0.9, -0.9, 1e-5])
    seen = np.array([[0.8, 0, 0, 1e-4], [0, 0.8, 0, 0], [0, 0, 0.8, 1e-4], [0, 0, 0, 0]])
    labels = np.array([1.0, 1.0, 0.0, 0.0])
    chance = expit(seen @ v)
    for kind, weights in (("hessian", chance * (1 - chance)), ("gradient", (chance - labels) ** 2)):
        block = effective.second_layer_block(problem, 0.0, kind, start=FOUR, second_layer=v)
        assert np.allclose(block.matrix, 0.25 * (seen * weights[:, None]).T @ seen, atol=1e-15)
        assert block.eigenvalues[2] > 1e-3 and block.eigenvalues[3] < 1e-10 and block.alignment > 0.999


def test_dead_neurons_are_flagged():
    problem = XorMixture(4, 20.0, 0.05, 1.0)
    v = (0.9, 0.9, -0.9, 1e-5)
    blocks = [effective.hessian_block(problem, 0.0, 6.0, start=FOUR, second_layer=v, neuron=i) for i in (0, 3)]
    assert not blocks[0].dead and blocks[0].alignment > 0.9 and len(blocks[0].outliers) == 2
    assert blocks[1].dead
    silent = effective.gradient_block(problem, 0.0, 6.0, start=FOUR, second_layer=(0.9, 0.9, -0.9, 0.0), neuron=3)
    assert silent.dead and math.isnan(silent.alignment) and silent.outliers.size == 0


def test_half_of_the_samples_of_a_relu_block_weigh_nothing():
    """At zero output all active weights are v^2/4: Marchenko-Pastur on half the samples, plus the means it sees."""
    problem = XorMixture(1, 4.0, 0.05, 1.0)
    start = OverlapStart(0.0, gram=((1e-12,),))
    block = effective.hessian_block(problem, 0.0, 8.0, start=start, second_layer=(0.2,), points=1 << 12)
    assert block.edge == pytest.approx(0.01 / 4 * 0.5 * (1 + math.sqrt(2 / 8)) ** 2, rel=1e-3)
    assert len(block.outliers) == 2


WRONG = [
    (lambda: XorMixture(4, 0.0, 0.05, 1.0), "sharpness must be greater than 0"),
    (lambda: XorMixture(4, math.nan, 0.05, 1.0), "sharpness must be greater than 0"),
    (lambda: XorMixture(0, 1.0, 0.05, 1.0), "width must be at least 1"),
    (lambda: GaussianMixture(1, 1.0, 0.05, 1.0), "classes must be at least 2"),
    (lambda: GaussianMixture(2, 1.0, 0.05, 1.0, probabilities=(0.5, 0.6)), "probabilities must be 2 positive"),
    (lambda: GaussianMixture(2, 1.0, 0.05, 1.0, mean_gram=((1, 1), (1, 1))), "linearly independent"),
    (lambda: GaussianMixture(2, 1.0, 0.05, 1.0, mean_gram=((1, 0),)), "mean_gram must have shape"),
    (lambda: GaussianMixture(2, 1.0, 0.05, 1.0, mean_gram=((1, 0.1), (0.2, 1))), "mean_gram must be symmetric"),
    (lambda: effective.fixed_point_sets(XorMixture(4, 1.0, 0.125, 1.0)), "only the origin"),
    (lambda: effective.lottery_probability(XorMixture(4, 1.0, 0.2, 1.0)), "penalty must lie between 0 and 1/8"),
    (lambda: effective.cluster_mass(XorMixture(4, 1.0, 0.0, 1.0)), "penalty must lie between 0 and 1/8"),
    (lambda: effective.fixed_point(GaussianMixture(3, INF, 0.0, 1.0)), "penalty must be positive"),
    (lambda: effective.fixed_point(GaussianMixture(3, 5.0, 0.1, 1.0)), "sharpness must be inf"),
    (lambda: effective.xor_drift(XorMixture(2, 1.0, 0.1, 1.0), [1, 1], [0, 0], [0, 0], [[1, 2], [2, 1]]), "R must be"),
    (lambda: effective.xor_drift(XorMixture(2, 1.0, 0.1, 1.0), [1], [0, 0], [0, 0], np.eye(2)), "v must be 2"),
    (lambda: effective.xor_drift(XorMixture(1, 1.0, 0.1, 1.0), [1], [0], [0], [[1]], points=100), "power of two"),
    (lambda: limen.predict(XorMixture(2, 1.0, 0.1, 1.0), 1.0), "nothing is learnt"),
    (
        lambda: XorMixture(2, 1.0, 0.1, 1.0, OverlapStart(((1.0, 0.0, 0.0),))),
        "overlap must be",
    ),
    (lambda: limen.simulate(XorMixture(4, 1.0, 0.1, 1.0), 1.0, d=6, seeds=1), "d must exceed 6"),
    (lambda: limen.simulate(GaussianMixture(3, 1.0, 0.1, 1.0), 1.0, d=6, seeds=1), "d must exceed 6"),
    (lambda: effective.hessian_block(GaussianMixture(3, 1.0, 0.1, 1.0), 1.0, 0.0), "test_samples_per_dim must be"),
    (lambda: effective.hessian_block(GaussianMixture(3, 1.0, 0.1, 1.0), -1.0, 1.0), "time must not be negative"),
    (lambda: effective.hessian_block(GaussianMixture(3, 1.0, 0.1, 1.0), 1.0, 1.0, block=(0, 3)), "block must be two"),
    (lambda: effective.hessian_block(GaussianMixture(3, 1.0, 0.1, 1.0), 1.0, 1.0, neuron=0), "neuron must be left"),
    (lambda: effective.hessian_block(XorMixture(3, 1.0, 0.1, 1.0), 1.0, 1.0, d=50), "d and seed must be given"),
    (lambda: effective.block_path(GaussianMixture(3, 1.0, 0.1, 1.0), 1.0, 1.0, "fisher"), "matrix must be"),
    (
        lambda: effective.measure_block(GaussianMixture(3, 1.0, 0.1, 1.0), 1.0, 0.0, 50),
        "test_samples_per_dim must give",
    ),
]


@pytest.mark.parametrize(("mistake", "said"), WRONG)
def test_mistakes_are_said_in_one_sentence(mistake, said):
    with pytest.raises(InputError) as caught:
        mistake()
    assert said in str(caught.value)
