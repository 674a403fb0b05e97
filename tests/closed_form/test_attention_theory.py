"""Exact facts about attention as particles: each against an independent integration, a limit, or plain vectors."""

import math

import numpy as np
import pytest
from scipy import special
from scipy.integrate import quad, solve_ivp
from scipy.special import iv

from limen.problem.spec import InputError
from limen.theory import attention
from limen.theory.attention import layers
from limen.theory.attention.equiangular_spread import clustered_part, relative_spread


def tangent_field(x, beta, value=None, logits=None, weights=None):
    """Softmax attention on unit rows, written out."""
    d = x.shape[1]
    value = np.eye(d) if value is None else value
    scores = beta * x @ (np.eye(d) if logits is None else logits) @ x.T
    scores = np.exp(scores - scores.max(axis=1, keepdims=True)) * (1.0 if weights is None else weights)
    moved = scores / scores.sum(axis=1, keepdims=True) @ x @ value.T
    return moved - (moved * x).sum(axis=1, keepdims=True) * x


def gamma_slope(n, beta, g):
    return 2 * (1 - g) * (1 + (n - 1) * g) / (math.exp(beta * (1 - g)) + n - 1)


# Equiangular tokens


@pytest.mark.parametrize("beta, expected", [(1, 5.2703), (3, 5.8976), (5, 9.5443), (7, 32.2331)])
def test_hitting_times_of_32_tokens(beta, expected):
    assert attention.hitting_time(32, beta) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    "n, beta, gamma0", [(32, 5.0, 0.0), (3, 2.0, -0.4), (10, -3.0, 0.0), (5, 1e-9, 0.2), (2, 30.0, 0.5)]
)
def test_hitting_time_is_the_integral_of_the_differential_equation(n, beta, gamma0):
    """Quadrature in the logarithm of 1 - gamma, independent of the closed form; a change of beta is noticed."""

    def integrand(s, b):
        return math.exp(s) / gamma_slope(n, b, 1 - math.exp(s))

    def integral(b):
        return quad(integrand, math.log(1e-3), math.log1p(-gamma0), args=(b,), epsrel=1e-12, epsabs=0, limit=400)[0]

    exact = attention.hitting_time(n, beta, 1e-3, gamma0)
    assert exact == pytest.approx(integral(beta), rel=1e-10)
    assert exact != pytest.approx(integral(beta + 1e-3), rel=1e-7)


def test_cosine_against_a_stepping_solver_and_both_attentions():
    times = np.array([0.0, 0.5, 3.0, 9.0, 12.0])
    for normalized in (True, False):

        def slope(t, g, normalized=normalized):
            g = float(g[0])
            usa = 2 / 8 * math.exp(4 * g) * (1 - g) * (1 + 7 * g)
            return [gamma_slope(8, 4.0, g) if normalized else usa]

        found = attention.equiangular_cosine(8, 4.0, times, normalized=normalized)
        stepped = solve_ivp(slope, (0, 12), [0.0], "DOP853", t_eval=times, rtol=1e-11, atol=1e-13).y[0]
        np.testing.assert_allclose(found, stepped, atol=1e-9)
        back = (attention.hitting_time if normalized else attention.unnormalized_hitting_time)(8, 4.0, 1e-2)
        assert attention.equiangular_distance(8, 4.0, back, normalized=normalized) == pytest.approx(1e-2, rel=1e-10)
    closed = (np.exp(2 * times) - 1) / (np.exp(2 * times) + 7)
    np.testing.assert_allclose(attention.equiangular_cosine(8, 0.0, times), closed, atol=1e-14)
    assert attention.hitting_time(8, 0.0) == pytest.approx(0.5 * math.log((1 + 7 * 0.999) / 1e-3), rel=1e-14)


def gram_slope(gram, beta, normalized):
    weights = np.exp(beta * gram)
    weights /= weights.sum(axis=1, keepdims=True) if normalized else len(gram)
    half = weights @ gram - (weights * gram).sum(axis=1, keepdims=True) * gram
    return half + half.T


@pytest.mark.parametrize("n, beta, normalized", [(2, 1.0, True), (3, 2.0, False), (6, 3.0, True), (5, 1.5, False)])
def test_spread_of_the_pairs_is_the_linear_response_of_the_gram_matrix(n, beta, normalized):
    """One pair is moved at the start; by symmetry its response and those of all other pairs give the variance."""
    times, moved = np.array([0.3, 1.0]), 1e-5
    first, second = np.triu_indices(n, 1)

    def pairs(start):
        path = solve_ivp(
            lambda t, g: gram_slope(g.reshape(n, n), beta, normalized).ravel(),
            (0.0, 1.0), start.ravel(), t_eval=times, rtol=1e-12, atol=1e-13,
        )  # fmt: skip
        return path.y.reshape(n, n, 2)[first, second]

    push = np.zeros((n, n))
    push[0, 1] = push[1, 0] = moved
    response = (pairs(np.eye(n) + push) - pairs(np.eye(n) - push)) / (2 * moved)
    cosine = pairs(np.eye(n))[0]
    expected = np.sqrt((response**2).sum(axis=0)) / (1.0 - cosine)
    np.testing.assert_allclose(relative_spread(n, beta, cosine, normalized), expected, rtol=1e-5)


def test_the_part_of_clustered_pairs_is_a_step_in_many_dimensions():
    together = clustered_part(np.log([2e-3, 1e-3, 5e-4]), np.ones(3), 10**8, 1e-3)
    np.testing.assert_allclose(together, [0.0, 0.5, 1.0], atol=1e-12)


def test_transition_curve():
    curve = attention.transition_beta(32, [6.0, 10.0, 20.0, 30.0])
    np.testing.assert_allclose(curve, [3.14607, 5.10990, 6.34474, 6.90646], atol=6e-6)
    assert attention.transition_beta(128, 30.0) == pytest.approx(7.785, abs=5e-4)
    assert math.isnan(attention.transition_beta(32, 5.0))
    assert attention.hitting_time(32, attention.transition_beta(32, 1e5)) == pytest.approx(1e5, rel=1e-10)


def test_nothing_overflows():
    logs = attention.log_hitting_time(32, [500.0, 1000.0, 10000.0])
    # Large beta: t = e^beta (1/beta + (n-1)/beta) / (2n) = e^beta / (2 beta) to leading order in beta/n.
    for beta, found in zip([500.0, 1000.0, 10000.0], logs, strict=True):
        assert found == pytest.approx(beta - math.log(2 * beta), abs=70 / beta)
    assert attention.hitting_time(32, 1000.0) == math.inf
    assert np.isfinite(attention.equiangular_cosine(32, 1000.0, [0.0, 1.0, 1e6])).all()
    assert np.isfinite(attention.equiangular_cosine(32, 1000.0, [0.0, 1.0, 1e6], normalized=False)).all()
    assert math.isfinite(attention.log_two_cluster_time((1, 2), 1000.0, -0.9))
    assert math.isfinite(attention.log_lifetime(3, 1000.0))
    assert np.isfinite(attention.growth_rates(128, 1000.0, np.arange(40))).all()


def test_late_time_constant():
    assert math.exp(attention.log_late_time_constant(32, 0.0)) == pytest.approx(32, rel=1e-10)
    for beta, gamma0 in ((4.0, 0.0), (1.0, -0.05), (-2.0, 0.3)):
        late = math.log(float(attention.equiangular_distance(12, beta, 30.0, gamma0))) + 60.0
        assert attention.log_late_time_constant(12, beta, gamma0) == pytest.approx(late, abs=1e-9)


def test_finite_dimension_shortens_the_plateau_towards_the_measured_times():
    """Means of simulations of independent tokens, n = 32, delta = 1e-3; the limit itself is far off."""
    for d, beta, measured, allowed in ((128, 5, 9.19, 0.01), (512, 5, 9.43, 0.01), (512, 7, 30.6, 0.015)):
        found = attention.finite_dimension_hitting_time(32, d, beta)
        assert found == pytest.approx(measured, rel=allowed)
        assert abs(attention.hitting_time(32, beta) - measured) > 2 * abs(found - measured)
    assert attention.finite_dimension_hitting_time(32, 10**9, 5.0) == pytest.approx(
        attention.hitting_time(32, 5.0), rel=1e-6
    )


# Layers


def simplex(n, gamma):
    gram = (1 - gamma) * np.eye(n) + gamma
    return np.linalg.cholesky(gram)


@pytest.mark.parametrize("gamma", [-0.15, 0.0, 0.4, 0.99])
@pytest.mark.parametrize("eta", [0.1, 1.0])
def test_layer_maps_are_layers_of_actual_vectors(gamma, eta):
    n, beta = 6, 3.0
    x = simplex(n, gamma)
    weights = np.exp(beta * x @ x.T)
    pull = weights / weights.sum(axis=1, keepdims=True) @ x
    for update, mapped in (
        (pull, attention.layer_map(gamma, n, beta, eta)),
        (pull - (pull * x).sum(axis=1, keepdims=True) * x, attention.projected_layer_map(gamma, n, beta, eta)),
    ):
        moved = x + eta * update
        moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        cosines = (moved @ moved.T)[~np.eye(n, dtype=bool)]
        np.testing.assert_allclose(cosines, mapped, atol=1e-13)


def test_layers_to_collapse(monkeypatch):
    assert attention.layers_to_collapse(32, 5, 0.1) == 104
    # Near consensus a layer multiplies 1 - gamma by (1 + eta)^-2, and for small steps layers are the flow.
    ratio = (1 - attention.layer_map(1 - 1e-7, 32, 5.0, 0.1)) / 1e-7
    assert ratio == pytest.approx(1.1**-2, rel=1e-5)
    for count in (attention.layers_to_collapse, attention.projected_layers_to_collapse):
        errors = [count(32, 5, eta) * eta - attention.hitting_time(32, 5) for eta in (0.01, 0.005, 0.0025)]
        slopes = np.array(errors) / np.array([0.01, 0.005, 0.0025])
        assert np.ptp(slopes) < 1.5  # order one, up to the whole number of layers
    exact = attention.layers_to_collapse(32, 12.0, 0.1)
    monkeypatch.setattr(layers, "COUNTED_ONE_BY_ONE", 0)
    assert abs(attention.layers_to_collapse(32, 12.0, 0.1) - exact) <= 1
    with pytest.raises(InputError, match="layers"):
        attention.layers_to_collapse(32, 60.0, 0.1)


# Two clusters


def test_two_clusters():
    gamma0 = math.cos(2.8)
    assert attention.two_cluster_time((1, 1), 6.0, gamma0, 1e-3) == pytest.approx(35327.1476, abs=1e-4)
    equal = attention.log_two_cluster_time((5, 5), 800.0, gamma0)
    assert equal == pytest.approx(attention.log_hitting_time(2, 800.0, 1e-3, gamma0), abs=1e-11)
    duration = attention.two_cluster_time((3, 1), 2.0, gamma0)
    assert attention.two_cluster_cosine((3, 1), 2.0, gamma0, [duration])[0] == pytest.approx(0.999, abs=1e-10)


def test_two_clusters_are_weighted_tokens():
    x0 = np.array([[1.0, 0.0], [math.cos(2.0), math.sin(2.0)]])

    def end(weights):
        def slope(t, state):
            return tangent_field(state.reshape(2, 2), 1.5, weights=np.array(weights)).ravel()

        x = solve_ivp(slope, (0, 3), x0.ravel(), "DOP853", rtol=1e-10, atol=1e-12).y[:, -1].reshape(2, 2)
        return x[0] @ x[1]

    predicted = attention.two_cluster_cosine((3.0, 1.0), 1.5, math.cos(2.0), [3.0])[0]
    assert predicted == pytest.approx(end([3.0, 1.0]), abs=1e-8)
    assert abs(predicted - end([2.5, 1.0])) > 1e-3


# beta = 0


def drift_of_cross_ratios(beta, value):
    x0 = np.random.default_rng(1).normal(size=(7, 3))
    x0 /= np.linalg.norm(x0, axis=1, keepdims=True)

    def slope(t, state):
        return tangent_field(state.reshape(7, 3), beta, value).ravel()

    x = solve_ivp(slope, (0, 2), x0.ravel(), "DOP853", rtol=1e-12, atol=1e-14).y[:, -1].reshape(7, 3)
    assert np.abs(x - x0).max() > 0.1
    np.testing.assert_allclose(attention.cross_ratios(x @ x.T), attention.token_cross_ratios(x), rtol=1e-8)
    return np.abs(attention.token_cross_ratios(x) / attention.token_cross_ratios(x0) - 1).max()


def test_cross_ratios_are_conserved_at_beta_zero_for_any_value_matrix():
    assert drift_of_cross_ratios(0.0, np.eye(3)) < 1e-9
    assert drift_of_cross_ratios(0.0, np.random.default_rng(2).normal(size=(3, 3))) < 1e-9
    assert drift_of_cross_ratios(0.1, np.eye(3)) > 1e-3


def test_ott_antonsen_and_zonal_shift():
    assert attention.ott_antonsen(0.3, 0.0) == pytest.approx(0.3)
    assert attention.ott_antonsen(0.0, 5.0) == 0.0
    grid = np.array([0.0, 1.0, 4.0])
    stepped = solve_ivp(lambda t, r: 0.5 * r * (1 - r**2), (0, 4), [0.3], t_eval=grid, rtol=1e-11, atol=1e-13).y[0]
    np.testing.assert_allclose(attention.ott_antonsen(0.3, grid), stepped, atol=1e-9)
    # On the circle a Poisson kernel is a law symmetric about an axis: two reductions of one flow.
    poisson = attention.zonal_shift(lambda u: 0.91 / (1.09 - 0.6 * u), 2, grid)[1]
    np.testing.assert_allclose(poisson, stepped, atol=1e-8)


# Uniform law


def test_growth_rates_thresholds_and_limits():
    np.testing.assert_allclose(attention.growth_rates(2, 5, [1, 2, 3]), [0.178677, 0.514117, 0.682678], atol=6e-7)
    np.testing.assert_allclose(attention.growth_rates(3, 5, [1, 2, 3]), [0.320036, 0.623935, 0.672349], atol=6e-7)
    for d in (2, 3, 17):
        np.testing.assert_allclose(attention.growth_rates(d, 0.0, [0, 1, 2, 3]), [0, (d - 1) / d, 0, 0], atol=1e-15)
        assert attention.growth_rates(d, 3000.0, np.arange(1, 200)).max() == pytest.approx(2 / math.e, rel=1e-3)
        degrees = np.arange(1, 6)
        bessel = math.gamma(d / 2) * (2 / 4.0) ** (d / 2 - 1) * iv(degrees + d / 2 - 1, 4.0)
        expected = degrees * (degrees + d - 2) / 4.0 * bessel
        np.testing.assert_allclose(attention.growth_rates(d, 4.0, degrees, normalized=False), expected, rtol=1e-12)
        noisy = attention.growth_rates(d, 4.0, degrees, noise=0.1)
        np.testing.assert_allclose(attention.growth_rates(d, 4.0, degrees) - noisy, 0.1 * degrees * (degrees + d - 2))
    known = [1.044457, 3.165434, 6.211298, 10.228483, 15.236277]
    np.testing.assert_allclose(attention.mode_thresholds(2, [1, 2, 3, 4, 5]), known, atol=6e-7)
    assert attention.mode_thresholds(128, 1) == pytest.approx(85.29, abs=5e-3)
    for beta, degree in ((1.0, 1), (1.1, 2), (3.1, 2), (3.2, 3)):
        assert attention.fastest_degree(2, beta) == degree
    assert attention.growth_rates(4, [1.0, 2.0], [1, 2, 3]).shape == (2, 3)


def test_cluster_count():
    assert attention.cluster_count(2000.0, 0.0) == pytest.approx(math.sqrt(3000.0), rel=1e-3)
    assert attention.cluster_count(9.0, 0.0) == pytest.approx(3.66, abs=5e-3)
    assert attention.cluster_count(16.0, 0.0) == pytest.approx(4.89, abs=5e-3)
    assert attention.cluster_count(16.0, 2.0) == pytest.approx(5.3, abs=0.05)
    assert attention.cluster_count(16.0, 500.0) == pytest.approx(6.0, abs=1e-3)
    assert attention.cluster_count(16.0, math.inf) == 6.0 == attention.fastest_degree(2, 16.0)
    # By SciPy's Bessel functions, every temperature at its own place.
    betas, k = np.array([[9.0, 0.5, 16.0], [2.0, 40.0, 1.0]]), np.arange(1, 80)
    ratios = special.ive(k, betas[..., None]) / special.ive(0, betas[..., None])
    rates = k**2 * ratios / betas[..., None]
    for time in (0.0, 1.5):
        spectrum = ratios**2 * np.exp(2.0 * time * rates)
        expected = np.sqrt((spectrum @ k**4.0) / (spectrum @ k**2.0))
        np.testing.assert_allclose(attention.cluster_count(betas, time), expected, rtol=1e-9)
    np.testing.assert_array_equal(attention.fastest_degree(2, betas), 1 + rates.argmax(axis=-1))


def test_critical_noise():
    for d in (2, 3, 9):
        assert attention.critical_noise(d, 0.0) == pytest.approx(1 / d)
        for normalized in (True, False):
            critical = attention.critical_noise(d, 3.0, normalized)
            rates = [attention.growth_rates(d, 3.0, [1, 2, 3], normalized, c * critical).max() for c in (0.999, 1.001)]
            assert rates[0] > 0 > rates[1]
    assert attention.discontinuous_transition_beta(2) == pytest.approx(2.446918, abs=1e-6)
    assert iv(2, 2.446918) / iv(1, 2.446918) == pytest.approx(0.5, abs=1e-6)


# Polygons


@pytest.mark.parametrize("k, beta", [(2, 1.0), (3, 5.0), (5, 3.0), (4, -1.0)])
def test_polygon_rates_are_eigenvalues_of_the_particle_field(k, beta):
    """Two tokens in every cluster, so that collective and internal rates are both in the Jacobian."""
    angles = np.repeat(2 * np.pi * np.arange(k) / k, 2)

    def field(theta, beta):
        difference = theta[None, :] - theta[:, None]
        weights = np.exp(beta * np.cos(difference))
        return (weights * np.sin(difference)).sum(axis=1) / weights.sum(axis=1)

    def spectrum(beta):
        steps = 1e-5 * np.eye(2 * k)
        jacobian = np.array([(field(angles + s, beta) - field(angles - s, beta)) / 2e-5 for s in steps]).T
        return np.sort(np.linalg.eigvals(jacobian).real)

    rates, internal = attention.polygon_rates(k, beta)
    expected = np.sort(np.concatenate([rates, [0.0], np.full(k, internal)]))
    np.testing.assert_allclose(spectrum(beta), expected, atol=1e-8)
    assert np.abs(spectrum(beta + 0.01) - expected).max() > 1e-5


def test_polygon_numbers():
    rates, internal = attention.polygon_rates(3, 5.0)
    np.testing.assert_allclose(rates, 0.00704403, atol=5e-9)
    assert internal == pytest.approx(-0.994199, abs=5e-7)
    assert attention.polygon_rates(2, 1.3)[0][0] == pytest.approx(1 - math.tanh(1.3), rel=1e-13)
    np.testing.assert_allclose(attention.polygon_rates(3, -2 / 3)[0], 0.0, atol=1e-15)
    assert (attention.polygon_rates(3, -0.67)[0] < 0).all() and (attention.polygon_rates(3, -0.66)[0] > 0).all()
    assert attention.lifetime(3, -1.0) == math.inf
    assert attention.lifetime(3, 5.0, 1e-3) == pytest.approx(math.log(1e3) / 0.00704403, rel=1e-6)
    slope = (attention.log_lifetime(5, 900.0) - attention.log_lifetime(5, 800.0)) / 100
    assert slope == pytest.approx(1 - math.cos(2 * math.pi / 5), abs=2e-3)


# General matrices


def test_consensus_rate():
    assert attention.consensus_rate(np.diag([2.0, -3.0])) == 2.0
    assert attention.consensus_rate([[0.5, -4.0], [4.0, 0.5]]) == pytest.approx(0.5)
    # Tokens at distance 1e-6 around the leading eigenvector, whatever the logits.
    rng = np.random.default_rng(3)
    value = np.diag([1.0, 0.4, -0.5])
    logits = rng.normal(size=(3, 3))
    x0 = np.array([1.0, 0, 0]) + 1e-6 * rng.normal(size=(4, 3))
    x0 /= np.linalg.norm(x0, axis=1, keepdims=True)

    def slope(t, state):
        return tangent_field(state.reshape(4, 3), 2.0, value, logits).ravel()

    x = solve_ivp(slope, (0, 2), x0.ravel(), "DOP853", rtol=1e-12, atol=1e-16).y[:, -1].reshape(4, 3)
    shrunk = np.linalg.norm(x[0] - x[1]) / np.linalg.norm(x0[0] - x0[1])
    assert -math.log(shrunk) / 2 == pytest.approx(attention.consensus_rate(value), abs=1e-4)


def test_bipolar_threshold_and_identity():
    matrix = np.diag([2.0, 1.6, 0.5, -1.0])
    assert not attention.bipolar_stability(matrix, matrix, 0.549306 - 1e-5).stable
    found = attention.bipolar_stability(matrix, matrix, 0.549306 + 1e-5)
    assert found.stable and found.eigenvalue == 2.0
    np.testing.assert_allclose(np.abs(found.pole), [1, 0, 0, 0], atol=1e-12)
    identity = attention.bipolar_stability(np.eye(3), np.eye(3), 1.0)
    assert not identity.stable and identity.growth == pytest.approx(1 - math.tanh(1.0))
    # The most negative eigenvalue carries the state if V and B both point that way.
    leftmost = attention.bipolar_stability(np.diag([-3.0, 1.0, 0.5]), np.diag([-3.0, 1.0, 0.5]), 2.0)
    assert leftmost.stable and leftmost.eigenvalue == -3.0


@pytest.mark.parametrize("plus, minus", [(3, 3), (4, 2)])
def test_bipolar_rates_are_eigenvalues_of_the_particle_field(plus, minus):
    rng = np.random.default_rng(5)
    value = np.array([[1.5, 0.0, 0.0], [0.0, 0.3, -0.8], [0.0, 0.6, 0.1]])
    logits = rng.normal(size=(3, 3)) + 2 * np.eye(3)
    found = attention.bipolar_stability(value, logits, 0.7, plus / (plus + minus))
    sign = np.array([1.0] * plus + [-1.0] * minus)
    x = sign[:, None] * found.pole
    frame = np.linalg.svd(found.pole[None])[2][1:]

    def field(shift):
        moved = x + shift.reshape(-1, 2) @ frame
        moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        return (tangent_field(moved, 0.7, value, logits) @ frame.T).ravel()

    count = 2 * (plus + minus)
    jacobian = np.array([(field(1e-5 * e) - field(-1e-5 * e)) / 2e-5 for e in np.eye(count)]).T
    internal = np.repeat(found.internal, [2 * (plus - 1), 2 * (minus - 1)])
    expected = np.sort_complex(np.concatenate([found.rates, internal]).astype(complex))
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(jacobian).real), np.sort(expected.real), atol=1e-8)
    assert found.growth == pytest.approx(np.linalg.eigvals(jacobian).real.max(), abs=1e-8)


# Hemispheres


def test_hemisphere_probability():
    for n in (2, 5, 40):
        assert attention.hemisphere_probability(n, 40) == 1.0
    assert attention.hemisphere_probability(3, 2) == pytest.approx(0.75)
    assert attention.hemisphere_probability(4, 3) == pytest.approx(7 / 8)
    for n in (5, 11, 60):
        assert attention.hemisphere_probability(n, 2) == pytest.approx(n / 2 ** (n - 1), rel=1e-12)
        assert attention.log_hemisphere_probability(n, 2) == pytest.approx(
            math.log(n) - (n - 1) * math.log(2), abs=1e-9
        )
    assert attention.log_hemisphere_probability(10**6, 3) < -6e5
    # On the circle: a gap of more than half a turn between neighbours.
    angles = np.sort(np.random.default_rng(0).uniform(0, 2 * np.pi, (20000, 5)), axis=1)
    gaps = np.diff(np.concatenate([angles, angles[:, :1] + 2 * np.pi], axis=1), axis=1)
    assert (gaps.max(axis=1) > np.pi).mean() == pytest.approx(attention.hemisphere_probability(5, 2), abs=0.012)


@pytest.mark.parametrize(
    "n, d, beta, theorem, holds",
    [
        (5, 8, 3.0, "hemisphere", True),
        (50, 3, 9.0, "sphere", True),
        (50, 2, -0.1, "circle", True),
        (50, 2, -0.4, "open", False),
        (50, 2, -0.7, "false", False),
        (50, 3, -1.0, "open", False),
    ],
)
def test_clustering_guarantee(n, d, beta, theorem, holds):
    found = attention.clustering_guarantee(n, d, beta)
    assert (found.theorem, found.holds) == (theorem, holds)
    assert str(found).endswith(".")


# Bad input


@pytest.mark.parametrize(
    "call, word",
    [
        (lambda: attention.hitting_time(1, 2.0), "n must"),
        (lambda: attention.hitting_time(5, 2.0, delta=0.0), "delta"),
        (lambda: attention.hitting_time(5, 2.0, delta=1.5), "delta"),
        (lambda: attention.hitting_time(5, 2.0, gamma0=-0.25), "gamma0"),
        (lambda: attention.hitting_time(5, 2.0, gamma0=0.9995), "gamma0"),
        (lambda: attention.hitting_time(5, float("nan")), "beta"),
        (lambda: attention.finite_dimension_hitting_time(10, 5, 1.0), "n must be at most"),
        (lambda: attention.transition_beta(5, -1.0), "time"),
        (lambda: attention.equiangular_cosine(5, 1.0, [-1.0]), "times"),
        (lambda: attention.layers_to_collapse(5, 1.0, 0.0), "eta"),
        (lambda: attention.projected_layers_to_collapse(5, 1.0, 1.5), "eta"),
        (lambda: attention.layer_map(1.0, 5, 1.0, 0.1), "gamma"),
        (lambda: attention.two_cluster_time((1, -1), 1.0, 0.0), "weights"),
        (lambda: attention.two_cluster_time((1, 1), 1.0, -1.0), "antipodal"),
        (lambda: attention.cross_ratios(np.eye(3)), "gram"),
        (lambda: attention.cross_ratios(np.eye(5), [[0, 1, 2, 2]]), "quadruples"),
        (lambda: attention.ott_antonsen(1.5, 0.0), "r0"),
        (lambda: attention.growth_rates(1, 1.0, 1), "d must"),
        (lambda: attention.growth_rates(2, 1.0, -1), "degrees"),
        (lambda: attention.growth_rates(2, 1.0, 1.5), "degrees"),
        (lambda: attention.mode_thresholds(2, 0), "degrees"),
        (lambda: attention.cluster_count(-1.0, 0.0), "beta"),
        (lambda: attention.cluster_count(1.0, -1.0), "time"),
        (lambda: attention.polygon_rates(1, 1.0), "k must"),
        (lambda: attention.lifetime(3, 1.0, 2.0), "perturbation"),
        (lambda: attention.consensus_rate([1.0, 2.0]), "V must"),
        (lambda: attention.bipolar_stability(np.eye(2), np.eye(3), 1.0), "B must"),
        (lambda: attention.bipolar_stability([[0.0, -1.0], [1.0, 0.0]], np.eye(2), 1.0), "real eigenvalue"),
        (lambda: attention.bipolar_stability(np.eye(2), np.eye(2), 1.0, 1.0), "fraction"),
        (lambda: attention.hemisphere_probability(5, 1), "d must"),
        (lambda: attention.clustering_guarantee(1, 3, 1.0), "n must"),
        (lambda: attention.critical_noise("two", 1.0), "d must"),
    ],
)
def test_bad_input_is_a_sentence(call, word):
    with pytest.raises(InputError, match=word) as caught:
        call()
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
