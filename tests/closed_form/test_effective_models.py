"""Single-index losses on the sphere and spiked tensors: closed forms, limits, and what is refused."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import limen
from limen import BinaryMixture, InputError, OnlinePCA, OverlapStart, SingleIndex, SpikedTensor, effective
from limen.simulation.effective.tensor_sgd import sample_gradient
from limen.theory.effective.search.search_law import SearchRates, survival
from limen.theory.effective.sphere.sphere_drift import SphereDrift

M = np.array([-0.6, 0.0, 0.3, 0.9])
QUARTILES = np.array([0.25, 0.5, 0.75])
HE3 = "z**3-3*z"


@pytest.mark.parametrize(
    "link, size, degree, noise",
    [("z", 2.0, 1, 0.3), ("z**2", 4.0, 2, 0.0), (HE3, 12.0, 3, 0.2), ("hermite:3", 2, 3, 0)],
)
def test_population_loss_of_one_hermite_degree(link, size, degree, noise):
    problem = SingleIndex(link, noise=noise)
    np.testing.assert_allclose(effective.population_loss(problem, M), size * (1 - M**degree) + noise, atol=1e-11)
    slope = -size * degree * M ** (degree - 1)
    np.testing.assert_allclose(effective.population_slope(problem, M), slope, atol=1e-10)
    assert effective.drift_exponent(problem) == degree
    assert SphereDrift(problem).leading == pytest.approx(size * degree, rel=1e-12)


def test_relu_and_a_general_pair():
    relu = SingleIndex("relu")
    np.testing.assert_allclose(
        effective.population_slope(relu, M), -(np.pi - np.arccos(M)) / np.pi, rtol=1e-12, atol=1e-14
    )
    assert effective.drift_exponent(relu) == 1
    # sign against z: E[sign(G1) G2] = m sqrt(2/pi)
    pair = SingleIndex("sign(z)", "z", noise=0.5)
    expected = 1 + 1 + 0.5 - 2 * M * np.sqrt(2 / np.pi)
    np.testing.assert_allclose(effective.population_loss(pair, M), expected, atol=1e-11)


def test_gradient_noise_of_the_table():
    linear, square = SingleIndex("z", noise=0.3), SingleIndex("z**2", noise=0.1)
    np.testing.assert_allclose(effective.gradient_noise(linear, M)[0], 8 * (1 - M) + 4 * 0.3, rtol=1e-12)
    np.testing.assert_allclose(effective.gradient_noise(square, M)[0], 192 * (1 - M**2) + 16 * 0.1, rtol=1e-12)
    np.testing.assert_allclose(effective.gradient_noise(SingleIndex(HE3), 0.0), (13824.0, 16416.0), rtol=1e-11)
    np.testing.assert_allclose(effective.gradient_noise(OnlinePCA(2.0, 0.5), M)[0], 4 * (1 + 2 * M**2), rtol=1e-14)


@pytest.mark.parametrize(
    "problem", [SingleIndex("relu", "tanh", noise=0.2), OnlinePCA(1.5, 0.1), BinaryMixture(0.7, 0.1)]
)
def test_slope_and_gradient_noise_against_samples(problem):
    """Half a million samples drawn as the definitions say: z-scores of the slope, sigma^2 and v^2 below 4."""
    m, count = 0.4, 500_000
    generator = np.random.default_rng(0)
    along, across = generator.standard_normal((2, count))
    if isinstance(problem, OnlinePCA):
        along = np.sqrt(1 + problem.signal) * along
    if isinstance(problem, BinaryMixture):
        along = along + np.where(generator.random(count) < problem.weight, 1.0, -1.0)
    s = m * along + np.sqrt(1 - m * m) * across
    match problem:
        case SingleIndex():
            y = np.maximum(along, 0) + np.sqrt(problem.noise) * generator.standard_normal(count)
            c = -2 * (y - np.tanh(s)) / np.cosh(s) ** 2
        case OnlinePCA():
            c = -2 * s
        case _:
            c = -np.tanh(s + problem.field)
    samples = np.stack([c * (along - m * s), c**2, c**2 * (along - m * s) ** 2])
    mean, error = samples.mean(axis=1), samples.std(axis=1) / np.sqrt(count)
    slope = effective.population_slope(problem, m) * (1 - m * m)
    theory = np.array([slope, *effective.gradient_noise(problem, m)])
    assert np.abs((mean - theory) / error).max() < 4.0


def test_binary_mixture():
    fair, biased = BinaryMixture(0.5, 0.1), BinaryMixture(0.8, 0.1)
    assert effective.population_slope(fair, 0.0) == 0.0
    step = 1e-4
    curvature = (effective.population_slope(fair, step) - effective.population_slope(fair, -step)) / (2 * step)
    assert curvature == pytest.approx(-0.6057055, abs=2e-7)
    assert SphereDrift(fair).leading == pytest.approx(0.6057055, abs=5e-8)
    assert (effective.drift_exponent(fair), effective.drift_exponent(biased)) == (2, 1)
    difference = effective.population_loss(biased, 0.3 + 1e-5) - effective.population_loss(biased, 0.3 - 1e-5)
    assert effective.population_slope(biased, 0.3) == pytest.approx(difference / 2e-5, rel=1e-8)
    # the other component is the same problem
    np.testing.assert_allclose(
        effective.population_slope(BinaryMixture(0.2, 0.1), M), effective.population_slope(biased, M), atol=1e-13
    )


def test_online_pca():
    problem = OnlinePCA(2.0, 0.5)
    np.testing.assert_allclose(effective.population_loss(problem, M), -1 - 2 * M**2, rtol=1e-15)
    assert effective.fixed_point(problem) == pytest.approx(np.sqrt(1.5 / 3.0), rel=1e-14)
    assert effective.fixed_point(OnlinePCA(2.0, 1e-12)) == pytest.approx(1.0, abs=1e-11)
    # the closed form is a zero of the drift, found by the general route too
    assert SphereDrift(problem).stable_overlap() == pytest.approx(effective.fixed_point(problem), abs=1e-12)
    assert effective.critical_signal(problem) == 0.5
    # logistic equation of m^2
    start, times = 0.2, np.linspace(0.0, 2.0, 9)
    rate, limit = 2 * (2.0 - 0.5), 0.5
    q = start**2 / (limit - start**2) * np.exp(2 * rate * times)
    flow = limen.predict(problem.model_copy(update={"start": OverlapStart(start)}), times).dataset["overlap"].values
    np.testing.assert_allclose(flow**2, limit * q / (1 + q), rtol=1e-8)
    field = limen.predict(OnlinePCA(2.0, 0.5, OverlapStart(start)), times).dataset["overlap"].values
    np.testing.assert_array_equal(field, flow)


def test_hitting_times_of_online_pca_are_the_closed_form():
    problem, level, size = OnlinePCA(2.0, 0.5), 0.5, 10_000
    limit, zeta = 0.5, -ndtri(QUARTILES / 2)
    q = level**2 / (limit - level**2)
    expected = np.log(q * size * limit**2 / zeta**2) / (4 * (2.0 - 0.5))
    np.testing.assert_allclose(effective.hitting_time(problem, size, level, QUARTILES), expected, rtol=1e-8)
    np.testing.assert_allclose(effective.hitting_probability(problem, size, level, expected), QUARTILES, rtol=1e-7)
    assert effective.hitting_time(problem, size, level, 0.5) == pytest.approx(expected[1], rel=1e-8)


def test_fixed_points_of_linear_and_square_links():
    for step, noise in ((0.5, 0.1), (2.0, 0.3), (0.9, 0.0), (1.0, 0.0), (1.5, 0.0), (3.0, 0.0)):
        m = effective.fixed_point(SingleIndex("z", noise=noise, step=step))
        assert (2 * step - 1) * m**2 - (2 * step + step * noise) * m + 1 == pytest.approx(0.0, abs=1e-9)
        if noise == 0.0:
            assert m == pytest.approx(1.0 if step <= 1.0 else 1 / (2 * step - 1), abs=1e-9)
    assert effective.fixed_point(SingleIndex("z**2", step=0.083)) == pytest.approx(1.0)
    with pytest.raises(InputError, match=r"step must be less than 0.0833333"):
        effective.fixed_point(SingleIndex("z**2", step=0.084))


def test_exponent_one_hits_when_the_ode_does():
    problem = SingleIndex("z", step=0.4, noise=0.1)
    times = effective.hitting_time(problem, 1000, 0.6, QUARTILES)
    assert np.ptp(times) == 0.0
    assert limen.predict(problem, times[:1]).dataset["overlap"].values[0] == pytest.approx(0.6, abs=1e-8)


def test_critical_signals_and_fixed_points_of_tensors():
    assert effective.critical_signal(SpikedTensor(3, 1.0, 1.0)) == pytest.approx(16 * np.sqrt(3) / 9, rel=1e-14)
    assert effective.critical_signal(SpikedTensor(2, 1.0, 0.7)) == 0.7
    assert effective.fixed_point(SpikedTensor(2, 3.0, 1.0)) == pytest.approx(np.sqrt(2.0), rel=1e-14)
    for order, c in ((3, 1.0), (4, 0.6), (6, 1.3)):
        critical = effective.critical_signal(SpikedTensor(order, 1.0, c))
        # at the critical signal the two roots merge at m^2 = c (k-2)/k
        below, above = effective.tensor_fixed_points(SpikedTensor(order, critical * (1 + 1e-8), c))
        assert below == pytest.approx(np.sqrt(c * (order - 2) / order), rel=1e-3)
        assert above == pytest.approx(below, rel=1e-3)
        assert effective.tensor_fixed_points(SpikedTensor(order, critical * 0.999, c)) == ()
        problem = SpikedTensor(order, 1.5 * critical, c)
        low, high = effective.tensor_fixed_points(problem)
        for start, end in ((0.99 * low, 0.0), (1.01 * low, high), (2 * high, high)):
            m, r = effective.tensor_flow(problem, start, c, [0.0, 60.0])
            assert (m[-1], r[-1]) == (pytest.approx(end, abs=1e-6), pytest.approx(c, rel=1e-8))


def test_several_starts_of_a_tensor_each_follow_their_own_flow():
    problem, times = SpikedTensor(2, 1.0, 0.5), np.array([0.1, 0.3, 0.7])
    starts_m, starts_r = np.array([[0.2], [0.6]]), np.array([0.5, 1.2, 0.1])
    m, r = effective.tensor_flow(problem, starts_m, starts_r, times)
    assert m.shape == r.shape == (2, 3, 3)
    # For matrices u = m^2 obeys du/dt = 8 u (1 - u - r); at r = c it is logistic, the rest tends to r = c.
    u, rest = 0.36, 1.0 - 0.5
    logistic = rest / (1.0 + (rest / u - 1.0) * np.exp(-8.0 * rest * times))
    np.testing.assert_allclose(m[1, 0] ** 2, logistic, rtol=1e-8)
    np.testing.assert_allclose(r[:, 0], 0.5, rtol=1e-12)
    for i, j in np.ndindex(2, 3):
        alone = effective.tensor_flow(problem, float(starts_m[i, 0]), float(starts_r[j]), times)
        np.testing.assert_allclose([m[i, j], r[i, j]], alone, rtol=1e-8)


def test_flow_of_the_spiked_matrix_in_closed_form():
    signal, c, times = 3.0, 0.7, np.linspace(0.0, 1.0, 11)
    problem = SpikedTensor(2, signal, c)
    m, r = effective.tensor_flow(problem, 0.05, c, times)
    q = 0.05**2 / (signal - c - 0.05**2) * np.exp(8 * (signal - c) * times)
    np.testing.assert_allclose(m**2, (signal - c) * q / (1 + q), rtol=1e-7)
    np.testing.assert_allclose(r, c, rtol=1e-12)
    m, r = effective.tensor_flow(problem, 0.0, 1.0, times)
    np.testing.assert_allclose(r, c / (1 + (c - 1) * np.exp(-8 * c * times)), rtol=1e-8)
    assert not m.any()


@pytest.mark.parametrize("order", [2, 3])
def test_gradient_covariance_of_tensors(order):
    """Drift and trace of V from explicit noise tensors."""
    problem, d, count = SpikedTensor(order, 2.0, 1.0), 8, 4000
    generator = np.random.default_rng(1)
    x = np.tile(generator.standard_normal(d) / 3.0, (count, 1))
    gradients = sample_gradient(x, generator.standard_normal((count, d**order)), order, problem.signal)
    square, m = (x[0] ** 2).sum(), x[0, 0]
    mean = 2 * order * square ** (order - 1) * x[0]
    mean[0] -= 2 * order * problem.signal * m ** (order - 1)
    noise = gradients - mean
    variance = 4 * order * square ** (order - 1) + 4 * order * (order - 1) * square ** (order - 2) * x[0] ** 2
    assert np.abs(noise.mean(axis=0) / np.sqrt(variance / count)).max() < 4.0
    assert np.abs(noise.var(axis=0) / variance - 1).max() < 4.0 * np.sqrt(2 / count)
    trace = effective.gradient_covariance_trace(problem, d, square)
    assert trace == pytest.approx(4 * order * square ** (order - 1) * (d + order - 1))
    assert trace == pytest.approx(variance.sum(), rel=1e-12)


def test_stationary_variances():
    assert effective.stationary_variance(SpikedTensor(2, 0.5, 1.0)) == pytest.approx(2.0)
    assert effective.stationary_variance(SpikedTensor(2, 0.5, 2.0)) == pytest.approx(4.0 / 1.5)
    assert effective.stationary_variance(SpikedTensor(3, 0.5, 0.7)) == 0.7
    assert effective.stationary_variance(OnlinePCA(1.0, 2.0)) == pytest.approx(2.0 * 2.0 / 1.0)
    paths = effective.search_diffusion(SpikedTensor(2, 0.5, 2.0), 1000, [3.0], paths=20_000).dataset
    assert paths["rescaled_overlap"].values.var() == pytest.approx(4.0 / 1.5, rel=4 * np.sqrt(2 / 20_000))


def test_hitting_times_of_the_spiked_matrix():
    """c = 1 in the closed form of the source; another c against sampled paths of the diffusion and saturation."""
    signal, size, level = 3.0, 10_000, 0.5
    zeta = -ndtri(QUARTILES / 2)
    q = level**2 / (signal - 1 - level**2)
    expected = np.log(q * (signal - 1) ** 2 * size / (signal * zeta**2)) / (8 * (signal - 1))
    np.testing.assert_allclose(
        effective.hitting_time(SpikedTensor(2, signal, 1.0), size, level, QUARTILES), expected, rtol=1e-12
    )
    problem, t = SpikedTensor(2, signal, 0.6), 1.5
    paths = effective.search_diffusion(problem, size, [t], paths=40_000).dataset["rescaled_overlap"].values[:, 0]
    growth, gap = 8 * (signal - 0.6), signal - 0.6
    median = effective.hitting_time(problem, size, level, 0.5)
    # r has relaxed by t: the median square of the linear amplitude, carried to the median time, must hit there
    square = np.median(paths**2) / size * np.exp(growth * (median - t))
    assert gap * square / (gap + square) == pytest.approx(level**2, rel=0.03)


def test_survival_of_brownian_motion():
    """Second order: reflection principle, from a normal start, below 3."""
    times = np.array([0.5, 1.0, 2.0])
    x = np.linspace(-9.0, 3.0, 100_001)
    density = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    exact = [np.trapezoid(density * 2 * ndtr(-(3.0 - x) / np.sqrt(t)), x) + ndtr(-3.0) for t in times]
    errors = []
    for cells, growth in ((200, 0.04), (400, 0.02), (800, 0.01)):
        law = survival(lambda t: SearchRates(0.0, 0.0, 1.0), 3, 3.0, 2.0, cells=cells, growth=growth)
        errors.append(np.abs(1 - law(times) - exact).max())
    assert errors[-1] < 2e-6
    assert np.log2(errors[0] / errors[1]) > 1.7 and np.log2(errors[1] / errors[2]) > 1.7


def test_escape_of_a_tensor_search_against_sampled_paths():
    problem, size = SpikedTensor(3, 0.3 * 1000**0.5, 1.0), 1000
    times = np.array([0.25, 0.5, 1.0])
    theory = effective.hitting_probability(problem, size, 20.0 / size**0.5, times)
    np.testing.assert_allclose(theory, (0.0013, 0.0178, 0.0785), atol=0.0015)
    paths = effective.search_diffusion(problem, size, times, paths=10_000).dataset["rescaled_overlap"].values
    measured = (paths > 20.0).mean(axis=0)
    # paths fall back from 20 with negligible probability
    assert np.abs((measured - theory) / np.sqrt(theory * (1 - theory) / 10_000)).max() < 4.0


def test_search_law_does_not_depend_on_the_dimension():
    """delta = c N^{-1/2} for exponent 3: times in units of N^{1/2} agree up to the descent, which takes O(1)."""
    medians = []
    for size in (10**6, 10**8):
        problem = SingleIndex("hermite:3", step=0.05 / size**0.5)
        medians.append(effective.hitting_time(problem, size, 0.5, 0.5) / size**0.5)
    assert medians[0] == pytest.approx(medians[1], rel=2e-3)


def test_search_takes_more_and_more_of_the_samples():
    steps = {"z": lambda n: 0.3, "z**2": lambda n: 0.01, "hermite:3": lambda n: 0.05 / n**0.5}
    fractions = {
        link: [effective.search_fraction(SingleIndex(link, step=step(n)), n) for n in (10**3, 10**6)]
        for link, step in steps.items()
    }
    assert fractions["z"][0] == fractions["z"][1] < 0.5
    assert 0.5 < fractions["z**2"][0] < fractions["z**2"][1] < 1.0
    assert fractions["hermite:3"][1] > 0.99


def test_critical_sample_complexity():
    assert effective.critical_samples_per_dim(1000, 1) == 1.0
    assert effective.critical_samples_per_dim(1000, 2) == pytest.approx(np.log(1000))
    assert effective.critical_samples_per_dim(1000, 4) == pytest.approx(1e6)


def test_random_starts_need_a_dimension_where_zero_repels():
    with pytest.raises(InputError, match="d and seeds"):
        limen.predict(OnlinePCA(2.0, 0.5), 1.0)
    with pytest.raises(InputError, match="together"):
        limen.predict(OnlinePCA(2.0, 0.5), 1.0, d=100)
    # exponent 3 and matrices below the transition stay at zero
    assert not limen.predict(SingleIndex("hermite:3", step=0.1), [0.0, 1.0]).dataset["overlap"].values.any()
    assert not limen.predict(SpikedTensor(2, 0.5, 1.0), [0.0, 1.0]).dataset["overlap"].values.any()
    # matrices from random starts at d: the closed form of the source in distribution
    problem, size = SpikedTensor(2, 3.0, 1.0), 10_000
    predicted = limen.predict(problem, [0.0, 5.0], d=size, seeds=4).dataset["overlap"].values
    assert (np.abs(predicted[:, 1]) <= np.sqrt(2.0)).all() and predicted.shape == (4, 2)


def test_large_problems_are_run_by_the_chain():
    assert "exact" in limen.simulate(OnlinePCA(2.0, 0.5), [0.0, 0.001], d=30_000, seeds=2).status
    assert "full" in limen.simulate(OnlinePCA(2.0, 0.5), [0.0, 0.1], d=50, seeds=2).status
    assert "exact" in limen.simulate(SpikedTensor(3, 2.0, 1.0), [0.0, 0.01], d=200, seeds=2).status
    run = limen.simulate(SpikedTensor(3, 2.0, 1.0), [0.0, 0.05], d=10, seeds=2)
    assert "full" in run.status and run.dataset["orthogonal_square"].dims == ("seed", "time")


def test_a_seed_has_its_own_numbers():
    problem, times = SingleIndex("relu", noise=0.1, step=0.5), [0.0, 0.3, 1.0]
    many = limen.simulate(problem, times, d=300, seeds=5, simulator="spherical-chain").dataset["overlap"]
    one = limen.simulate(problem, [1.0], d=300, seeds=[3], simulator="spherical-chain").dataset["overlap"]
    assert one.values[0, 0] == many.sel(seed=3, time=1.0).item()


def test_an_exploding_tensor_is_reported():
    run = limen.simulate(SpikedTensor(3, 6.0, 0.5), [0.0, 1.0, 2.0], d=20, seeds=4, simulator="tensor-chain")
    assert not run.ok and "diverged" in run.status and "smaller step" in run.status


@pytest.mark.parametrize(
    "call, sentence",
    [
        (lambda: OnlinePCA(-1.0, 0.1), "signal must be greater than 0"),
        (lambda: OnlinePCA(1.0, 0.0), "step must be greater than 0"),
        (lambda: BinaryMixture(1.0, 0.1), "weight must be less than 1"),
        (lambda: SpikedTensor(1, 1.0, 1.0), "order must be at least 2"),
        (lambda: SpikedTensor(2, 0.0, 1.0), "signal must be greater than 0"),
        (lambda: SingleIndex("z", noise=-1.0), "noise must be at least 0"),
        (lambda: SingleIndex("z", start=OverlapStart(1.5)), "overlap must be between -1 and 1"),
        (lambda: SpikedTensor(2, 1.0, 1.0, OverlapStart(2.0)), "overlap must be at most the norm"),
        (lambda: effective.fixed_point(OnlinePCA(0.5, 0.5)), "step must be less than 0.5"),
        (lambda: effective.hitting_time(OnlinePCA(1.0, 2.0), 1000, 0.1, 0.5), "step must be less than 1"),
        (lambda: effective.hitting_time(OnlinePCA(2.0, 0.5), 1000, 0.8, 0.5), "level must be between 0 and the stable"),
        (lambda: effective.hitting_time(OnlinePCA(2.0, 0.5), 1000, 0.5, 1.0), "quantiles must lie between 0 and 1"),
        (lambda: effective.hitting_time(OnlinePCA(2.0, 0.5), 2, 0.5, 0.5), "N must be a whole number"),
        (lambda: effective.fixed_point(SpikedTensor(3, 2.0, 1.0)), "signal must be greater than the critical 3.0792"),
        (lambda: effective.drift_exponent(SingleIndex("z", "-z")), "repelled"),
        (lambda: effective.drift_exponent(SingleIndex("z**2", "-z**2")), "repelled"),
        (lambda: effective.drift_exponent(SingleIndex("z", "z**2")), "share none"),
        (lambda: effective.population_loss(SingleIndex("z", "sign(z)"), 0.5), "student_link must be continuous"),
        (lambda: effective.population_loss(OnlinePCA(1.0, 0.1), 1.5), "between -1 and 1"),
        (lambda: effective.population_loss(SpikedTensor(2, 1.0, 1.0), 0.5), "problem must be a SingleIndex"),
        (lambda: effective.stationary_variance(SpikedTensor(2, 1.5, 1.0)), "signal must be less than step"),
        (lambda: effective.stationary_variance(SingleIndex("z")), "exponent must be at least 2"),
        (lambda: effective.tensor_flow(SpikedTensor(2, 1.0, 1.0), 0.1, -1.0, [1.0]), "r0 must be at least 0"),
        (lambda: effective.critical_signal(SingleIndex("z")), "problem must be a SpikedTensor"),
        (lambda: effective.simulated_hitting_times(OnlinePCA(1.0, 0.1), 2, 0.5, 4, 1.0), "d must be between 3"),
        (lambda: limen.simulate(SpikedTensor(4, 1.0, 1.0), 1.0, d=200, simulator="tensor-sgd"), "tensor-chain"),
        (lambda: limen.predict(OnlinePCA(1.0, 0.1), 1.0, start=0.1), "start is not an option"),
    ],
)
def test_mistakes_are_answered_with_one_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)
