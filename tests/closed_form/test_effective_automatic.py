"""Effective dynamics derived by sampling, against closed forms: drift, corrector, volatility, scaling, fixed points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import limen
from limen.effective import clipping, derive, momentum, preconditioner, sign

SIGNAL, CRITICAL, SMALL = 4.0, 1.0, 12


def spiked_sample(key, size):
    return jax.random.normal(key, (size, size)).at[0, 0].add(SIGNAL)


def spiked_loss(x, y):
    return jnp.sum((y - jnp.outer(x, x)) ** 2)


def overlap_and_rest(x):
    return jnp.stack([x[0], jnp.sum(x[1:] ** 2)])


def overlap_only(x):
    return x[0]


def critical_step(size):
    return CRITICAL / size


def spiked(size, **options):
    return derive(spiked_loss, spiked_sample, overlap_and_rest, critical_step, size, **options)


def spiked_closed_form(size, m, r):
    """f, g and Sigma at finite size from V = 8 R^2 I + 8 x x^T."""
    square, step = m**2 + r, CRITICAL / size
    f = np.array([-4.0 * m * (SIGNAL - square), 8.0 * square * r])
    g = np.array([0.0, step * (8.0 * square * (size - 1) + 8.0 * r)])
    cross = 16.0 * m * r
    covariance = np.array([[8.0 * square + 8.0 * m**2, cross], [cross, 32.0 * r * square + 32.0 * r**2]])
    return f, g, step * covariance


def standard_scores(dynamics, size, value):
    f, g, volatility = spiked_closed_form(size, *value)
    upper = np.triu_indices(2)
    pairs = [
        (dynamics.population_drift(value), f),
        (dynamics.corrector(value), g),
        (dynamics.effective_drift(value), g - f),
    ]
    scores = [(found.value - exact) / np.maximum(found.error, 1e-9) for found, exact in pairs]
    found, error = dynamics.volatility(value)
    scores.append((found[upper] - volatility[upper]) / error[upper])
    return np.concatenate(scores)


@pytest.fixture(scope="module")
def small():
    return spiked(SMALL)


def test_spiked_matrix_within_three_standard_errors(small):
    values = [(0.6, 0.8), (-1.2, 0.3), (0.0, 1.0), (1.7, 1.0)]
    scores = np.stack([standard_scores(small, SMALL, value) for value in values])
    assert np.abs(scores).max() < 3.0
    moving = scores[:, scores.any(axis=0)]
    assert 0.5 < np.sqrt(np.mean(moving**2)) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("size", [32, 128])
def test_spiked_matrix_at_the_sizes_of_the_check(size):
    assert np.abs(standard_scores(spiked(size), size, (0.6, 0.8))).max() < 3.0


def test_planted_errors_of_five_standard_errors_are_seen(small):
    f, _, _ = spiked_closed_form(SMALL, 0.6, 0.8)
    found = small.population_drift([0.6, 0.8])
    assert np.abs((found.value - 1.1 * f) / found.error).max() > 3.0


def test_error_falls_as_the_root_of_the_samples(small):
    more = spiked(SMALL, samples=16 * 4096)
    few, many = (one.effective_drift([0.6, 0.8]).error for one in (small, more))
    np.testing.assert_allclose(few / many, 4.0, rtol=0.25)
    assert np.abs(standard_scores(more, SMALL, (0.6, 0.8))).max() < 3.5


def test_equal_seeds_give_equal_numbers_and_estimates_unpack(small):
    value, error = spiked(SMALL).effective_drift([0.6, 0.8])
    again = small.effective_drift([0.6, 0.8])
    np.testing.assert_array_equal(value, again.value)
    np.testing.assert_array_equal(error, again.error)
    other = spiked(SMALL, seed=1).effective_drift([0.6, 0.8])
    assert (value != other.value).all()


def test_lifts_have_the_statistics_asked_for(small):
    points = small.lift([0.6, 0.8], 4)
    assert points.shape == (4, SMALL)
    np.testing.assert_allclose([[x[0], np.sum(x[1:] ** 2)] for x in points], np.tile([0.6, 0.8], (4, 1)), atol=1e-8)


def test_fixed_points_and_their_stability(small):
    found = small.fixed_points([[0.02, 0.95], [1.7, 1.0], [-1.7, 1.0], [1.75, 0.95]])
    assert len(found) == 3
    # At finite size 8 R^2 (r - c (N - 1) / N) = 8 c r / N, and R^2 = signal unless m = 0.
    rest = SIGNAL * (1 - 1 / SMALL) / (SIGNAL - 1 / SMALL)
    exact = [(0.0, 1.0), (np.sqrt(SIGNAL - rest), rest), (-np.sqrt(SIGNAL - rest), rest)]
    for point, value in zip(found, exact, strict=True):
        assert np.abs((point.value - value) / point.error).max() < 3.5
        np.testing.assert_allclose(point.value, value, atol=0.08)
    assert [point.stable for point in found] == [False, True, True]
    # Slope at (0, c): 4 (signal - c) along m and -8 c along r.
    np.testing.assert_allclose(found[0].eigenvalues.real, [4 * (SIGNAL - 1), -8.0], rtol=0.1)
    np.testing.assert_allclose(found[0].eigenvalues.imag, 0.0, atol=1e-9)


def spiked_path(size, start, times, factor=1.0):
    """The equation of the closed form at this size, growth multiplied by `factor`."""

    def slope(_, value):
        f, g, _ = spiked_closed_form(size, *value)
        return factor * (g - f)

    return solve_ivp(slope, (0.0, times[-1]), start, t_eval=times, rtol=1e-9, atol=1e-11).y.T


def test_flow_follows_the_closed_form_and_not_a_planted_error(small):
    start, times = [0.3, 0.5], np.array([0.0, 0.05, 0.1, 0.2])
    flow = small.flow(start, times)
    assert flow.ok and "volatility matters" in flow.status
    found, error = flow.dataset.statistics.values[1:], flow.dataset.error.values[1:]
    limit = 4.0 * error + 0.01
    assert (np.abs(found - spiked_path(SMALL, start, times)[1:]) <= limit).all()
    assert (np.abs(found - spiked_path(SMALL, start, times, 1.1)[1:]) > limit).any()


@pytest.mark.slow
def test_scaling_tells_the_three_regimes():
    regimes = {}
    for power in (1.0, 1.5, 0.5):
        dynamics = derive(spiked_loss, spiked_sample, overlap_and_rest, lambda size, power=power: size**-power, SMALL)
        regimes[power] = dynamics.scaling([6, SMALL], [0.6, 0.8])
    assert [regimes[power].regime for power in (1.0, 1.5, 0.5)] == ["critical", "sub-critical", "too large"]
    critical = regimes[1.0]
    assert critical.step == pytest.approx(-1.0)
    assert critical.critical_step == pytest.approx(-1.0, abs=0.15)
    assert critical.population_drift == pytest.approx(0.0, abs=0.1)
    # The noise is about N normals of variance 8 R^2, so that E|noise|^8 goes as N (N + 2) (N + 4) (N + 6), and the
    # variance of its squared length as N; the part along x, of order one, blurs both at these sizes.
    chi = np.log2(12 * 14 * 16 * 18 / (6 * 8 * 10 * 12))
    assert critical.noise_norm == pytest.approx(chi, abs=0.7)
    assert critical.curvature_noise == pytest.approx(1.0, abs=0.4)
    assert critical.projected_noise == pytest.approx(0.0, abs=0.4)


def test_statistics_that_close_and_one_that_does_not(small):
    assert small.closability([0.6, 0.8]) < 0.05
    alone = derive(spiked_loss, spiked_sample, overlap_only, critical_step, SMALL)
    assert alone.closability(0.6) > 0.3
    with pytest.raises(limen.InputError, match=r"do not close: .* differs by \d+%"):
        alone.flow(0.6, [0.0, 0.1])


def test_portrait_has_holes_where_no_point_exists(small):
    picture = small.portrait([0.0, 1.0], [-0.5, 1.0])
    drift = picture.dataset.drift
    assert np.isnan(drift.values[:, 0]).all() and np.isfinite(drift.values[:, 1]).all()
    np.testing.assert_array_equal(drift.values[1, 1], small.effective_drift([1.0, 1.0]).value)


# Noisy linear regression, the two halves of the coordinates apart: four statistics that close under every update rule.
SIZE, NOISE = 100, 0.25


def regression_sample(key):
    inputs, noise = jax.random.split(key)
    a = jax.random.normal(inputs, (SIZE,))
    return a, jnp.sum(a) / np.sqrt(SIZE) + np.sqrt(NOISE) * jax.random.normal(noise)


def regression_loss(x, y):
    return 0.5 * (y[0] @ x - y[1]) ** 2


def halves(x):
    parts = jnp.stack([x[: SIZE // 2], x[SIZE // 2 :]])
    return jnp.concatenate([parts.sum(axis=1) / np.sqrt(SIZE), jnp.sum(parts**2, axis=1)])


WEIGHTS = np.repeat([0.5, 1.5], SIZE // 2)
START = np.array([0.1, 0.3, 0.4, 0.6])


def regression_excess(value):
    return value[2:].sum() - 2.0 * value[:2].sum() + 1.0 + NOISE


def plain_drift(value, step, weights=(1.0, 1.0)):
    """f and the leading g for the direction P g: P = weights on the halves."""
    weights = np.asarray(weights)
    f = np.concatenate([weights * (value[:2] - 0.5), 2.0 * weights * (value[2:] - value[:2])])
    g = np.concatenate([np.zeros(2), step * weights**2 * regression_excess(value) * SIZE / 2])
    return f, g


@pytest.mark.slow
def test_momentum_acts_as_a_larger_step():
    beta, step = 0.8, 0.5 / SIZE
    dynamics = derive(
        regression_loss, regression_sample, halves, step, SIZE, update=momentum(beta), samples=8192, memory=32
    )
    f, g = plain_drift(START, step)
    drift, corrector = dynamics.population_drift(START), dynamics.corrector(START)
    assert np.abs((drift.value - f / (1 - beta)) / drift.error).max() < 3.5
    # Statistical error and the terms of order 1/N left out of g.
    assert (
        np.abs((corrector.value - g / (1 - beta) ** 2)[2:]).max() < 3.5 * corrector.error[2:].max() + 3 / SIZE * g.max()
    )
    assert np.abs((corrector.value - g / (1 - beta))[2:]).min() > 5 * corrector.error[2:].max()


@pytest.mark.slow
def test_memory_that_is_not_forgotten_is_refused():
    with pytest.raises(limen.InputError, match="forgotten"):
        derive(regression_loss, regression_sample, halves, 0.005, SIZE, update=momentum(0.99), memory=32)


def test_bad_input_is_a_sentence(small):
    def refused(
        match, loss=spiked_loss, sampler=spiked_sample, statistics=overlap_and_rest, step=0.1, size=SMALL, **more
    ):
        with pytest.raises(limen.InputError, match=match) as caught:
            derive(loss, sampler, statistics, step, size, **more)
        assert str(caught.value).endswith(".") and "\n" not in str(caught.value)

    refused("twice differentiable", statistics=lambda x: jnp.abs(x[0]))
    refused("twice differentiable", statistics=lambda x: jnp.sum(jnp.abs(x)))
    refused("twice differentiable", statistics=lambda x: jnp.round(3 * x[1]))
    refused("finite", statistics=lambda x: jnp.log(x[0]))
    refused("rank 1", statistics=lambda x: jnp.stack([x[0], 2.0 * x[0]]))
    refused("shape", sampler=lambda key: jax.random.normal(key, (11, 11)))
    refused("one number", loss=lambda x, y: (y - jnp.outer(x, x)) ** 2)
    refused("sampler must be a JAX function", sampler=lambda key: np.random.default_rng(int(key)).normal(size=(12, 12)))
    refused("statistics must be a vector", statistics=lambda x: jnp.outer(x, x))
    refused("step must be positive", step=-0.1)
    refused("step must be a positive number or a function", step="fast")
    refused("dimension must be", size=12.5)
    refused("samples must be at least", samples=8)
    refused("lifts must be", lifts=0)
    refused("loss must be a JAX function", loss=3)
    refused("update must give a direction", update=lambda gradient: gradient[:3])
    with pytest.raises(limen.InputError, match="u must be 2 finite numbers"):
        small.corrector([0.1, 0.2, 0.3])
    with pytest.raises(limen.InputError, match="u0 must be 2 finite numbers"):
        small.flow([0.1], 1.0)
    with pytest.raises(limen.InputError, match="was not reached"):
        small.effective_drift([0.5, -0.2])
    with pytest.raises(limen.InputError, match="at least two"):
        small.scaling([SMALL])
    with pytest.raises(limen.InputError, match="function of the dimension"):
        derive(spiked_loss, spiked_sample, overlap_and_rest, 0.1, SMALL).scaling([6, SMALL])
    for rule, bad in ((momentum, 1.0), (clipping, 0.0), (preconditioner, np.ones((2, 3)))):
        with pytest.raises(limen.InputError):
            rule(bad)


# Two-layer ReLU network on the XOR mixture.
WIDTH, INPUT, SHARPNESS, PENALTY = 3, 200, 4.0, 0.1


def xor_sample(key):
    which, noise = jax.random.split(key)
    cloud = jax.random.randint(which, (), 0, 4)
    mean = jnp.where(cloud % 2 == 0, 1.0, -1.0)
    x = jax.random.normal(noise, (INPUT,)) / np.sqrt(SHARPNESS)
    return x.at[cloud // 2].add(mean), 1.0 - cloud // 2


def xor_loss(parameters, sample):
    v, weights = parameters[:WIDTH], parameters[WIDTH:].reshape(WIDTH, INPUT)
    h = v @ jax.nn.relu(weights @ sample[0])
    return -sample[1] * h + jax.nn.softplus(h) + 0.5 * PENALTY * jnp.sum(parameters**2)


def xor_statistics(parameters):
    v, weights = parameters[:WIDTH], parameters[WIDTH:].reshape(WIDTH, INPUT)
    rest = weights[:, 2:]
    gram = (rest @ rest.T)[np.triu_indices(WIDTH)]
    return jnp.concatenate([v, weights[:, 0], weights[:, 1], gram])


@pytest.mark.slow
def test_all_drifts_of_the_xor_network():
    dynamics = derive(xor_loss, xor_sample, xor_statistics, 1.0 / INPUT, WIDTH + WIDTH * INPUT)
    v, mu, nu = np.array([0.8, -0.6, 0.5]), np.array([0.9, 0.2, -0.4]), np.array([0.1, -0.7, 0.5])
    gram = np.array([[0.5, 0.1, 0.0], [0.1, 0.7, -0.2], [0.0, -0.2, 0.4]])
    upper = np.triu_indices(WIDTH)
    found = dynamics.effective_drift(np.concatenate([v, mu, nu, gram[upper]]))
    # The noise orthogonal to both means has N - 2 coordinates.
    problem = limen.XorMixture(width=WIDTH, sharpness=SHARPNESS, penalty=PENALTY, step=(INPUT - 2) / INPUT)
    exact = limen.effective.xor_drift(problem, v, mu, nu, gram)
    wanted = np.concatenate([exact["v"], exact["mu"], exact["nu"], exact["R"][upper]])
    assert found.value.shape == (15,)
    assert np.abs((found.value - wanted) / found.error).max() < 3.0


RULES = {
    "plain": (None, 0.5 / SIZE),
    "momentum": (momentum(0.8), 0.1 / SIZE),
    "clipping": (clipping(6.0), 0.5 / SIZE),
    "sign": (sign(), 0.3 / SIZE),
    "preconditioner": (preconditioner(WEIGHTS), 0.4 / SIZE),
}


def scaled_overlap(x):
    return jnp.stack([np.sqrt(x.shape[0]) * x[0], jnp.sum(x[1:] ** 2)])


def weak_sample(key):
    return jax.random.normal(key, (32, 32)).at[0, 0].add(0.5)


@pytest.mark.slow
def test_diffusion_of_the_rescaled_overlap():
    """Near m = 0, z = sqrt(N) m is an Ornstein-Uhlenbeck process: dz = -4 (c - signal) z dt + sqrt(8 c) dB."""
    dynamics = derive(spiked_loss, weak_sample, scaled_overlap, 1 / 32, 32)
    volatility = dynamics.volatility([0.0, 1.0])
    assert abs(volatility.value[0, 0] - 8.0) < 3.5 * volatility.error[0, 0]
    time = 0.5
    result = dynamics.diffusion([0.0, 1.0], [0.0, time], paths=2000)
    assert result.ok, result.status
    variance = result.dataset.statistics.values[:, -1, 0].var()
    exact = 2.0 * (1.0 - np.exp(-4.0 * time))
    # Finite size (z^2 / N in R^2, r fluctuating about c), sampling of the drift, and 2000 paths.
    assert variance == pytest.approx(exact, rel=0.15)
    assert variance != pytest.approx(exact / 1.3, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_flow_of_every_update_rule_against_direct_sgd(name):
    update, step = RULES[name]
    times = np.array([0.0, 0.25, 0.5, 1.0]) * (0.2 if name == "momentum" else 1.0)
    dynamics = derive(regression_loss, regression_sample, halves, step, SIZE, update=update)
    flow = dynamics.flow(START, times)
    seeds = 256
    runs = limen.effective.run(
        regression_loss, regression_sample, halves, step, SIZE, times, dynamics.lift(START, seeds), seeds, update
    )
    assert flow.ok and runs.ok
    mean = runs.dataset.statistics.mean("seed").values
    error = runs.dataset.statistics.std("seed").values / np.sqrt(seeds)
    theory = flow.dataset.statistics.values
    limit = 3.5 * np.sqrt(error**2 + flow.dataset.error.values**2) + 2.0 / SIZE * np.abs(theory - START).max()
    assert (np.abs(mean - theory) <= limit).all()
    # The planted twin: all growth ten per cent too fast.
    planted = START + 1.1 * (theory - START)
    assert (np.abs(mean - planted) > limit).any()
