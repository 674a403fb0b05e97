"""Attention, cases small enough to be written out: plain sums, limits and symmetries beside every formula."""

import math

import jax
import numpy as np
import pytest
from scipy import special
from scipy.integrate import solve_ivp
from scipy.stats import norm

import limen
from limen.problem import SelfAttention
from limen.problem.spec import InputError
from limen.simulation.attention.attracting_points import attracting_points
from limen.simulation.attention.ensemble import Matrices, run_ensemble
from limen.simulation.attention.growth import even_tokens
from limen.simulation.attention.mean_field_starts import axial_tokens, drawn_angles
from limen.simulation.attention.observables import CLUSTERED
from limen.simulation.attention.residual_network import draw_depth_weights
from limen.simulation.attention.self_attention import ensemble, problem_matrices
from limen.simulation.attention.starts import reduced_tokens, uniform_tokens
from limen.theory import attention
from limen.theory.attention.equiangular import equiangular_distance
from limen.theory.attention.equiangular_means import pair_sums
from limen.theory.attention.equiangular_problem import solve
from limen.theory.attention.equiangular_spread import clustered_error, clustered_part


def plain_bessel_rates(d, beta, degrees):
    """Growth rates by SciPy's scaled Bessel functions, softmax; odd orders change sign with the argument."""
    order = d / 2 - 1
    ratio = special.ive(degrees + order, abs(beta)) / special.ive(order, abs(beta)) * np.sign(beta) ** degrees
    return degrees * (degrees + d - 2) / beta * ratio


@pytest.mark.parametrize("d, beta", [(2, -3000.0), (3, -60.0), (3, 250.0), (8, -3.0)])
def test_growth_rates_at_large_temperatures_of_either_sign(d, beta):
    degrees = np.arange(1, 8)
    np.testing.assert_allclose(
        attention.growth_rates(d, beta, degrees), plain_bessel_rates(d, beta, degrees), rtol=1e-9
    )


def test_the_largest_temperature_sets_the_number_of_modes():
    alone = attention.cluster_count(6000.0, 0.0)
    assert alone == pytest.approx(math.sqrt(9000.0), rel=1e-3)
    assert attention.cluster_count([0.01, 6000.0], 0.0)[1] == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("beta", [0.0, 2.0, 6.0])
def test_time_in_a_finite_dimension_shrinks_the_plateau_alone(beta):
    """The closed form from its two parts: F out of the time without softmax, G by hand."""
    n, d, delta = 9, 40, 1e-2
    logarithm = math.log((1 + (n - 1) * (1 - delta)) / delta)
    plateau = 2.0 * math.exp(beta) * attention.unnormalized_hitting_time(n, beta, delta)
    expected = (math.exp(-(beta**2) / (2 * d)) * plateau + (n - 1) * logarithm) / (2 * n)
    assert attention.finite_dimension_hitting_time(n, d, beta, delta) == pytest.approx(expected, rel=1e-12)


def test_constant_of_the_last_approach():
    n, beta, late = 7, 2.5, 12.0
    distance = float(attention.equiangular_distance(n, beta, late))
    assert attention.log_late_time_constant(n, beta) == pytest.approx(math.log(distance) + 2 * late, abs=1e-6)
    assert attention.log_late_time_constant(n, 0.0) == pytest.approx(math.log(n), rel=1e-12)


def test_part_of_clustered_pairs_away_from_the_step():
    d, spread, distance = 25, np.array([1.0, 2.0, 50.0]), 3e-3
    found = clustered_part(np.full(3, math.log(distance)), spread, d, 1e-3)
    # One over the square root of the dimension, and never more than one.
    np.testing.assert_allclose(found, norm.cdf(math.log(1 / 3) / np.array([0.2, 0.4, 1.0])), rtol=1e-12)
    # Half of what a mean logarithm moved by v²/2 would change.
    doubt, width = clustered_error(np.full(3, math.log(distance)), spread, d, 1e-3), np.array([0.2, 0.4, 1.0])
    moved = norm.cdf((math.log(1 / 3) + 0.5e-4 * width**2) / width) - found
    np.testing.assert_allclose(2.0 * doubt, 1e4 * moved, rtol=2e-3)


@pytest.mark.parametrize("beta", [-2.0, 0.0, 1.3])
@pytest.mark.parametrize("normalized", [True, False])
def test_energy_of_equiangular_tokens_is_the_sum_over_pairs(beta, normalized):
    problem = SelfAttention(tokens=5, dim=10_000_000, beta=beta, normalized=normalized)
    dataset = solve(problem, np.array([0.0, 0.4, 2.0])).dataset
    for cosine, energy in zip(dataset.mean_cosine.values, dataset.energy.values, strict=True):
        gram = np.full((5, 5), cosine) + (1 - cosine) * np.eye(5)
        kernel = np.expm1(beta * gram) / beta if beta else gram
        assert energy == pytest.approx(0.5 * kernel.mean(), rel=3e-6)
    heads = solve(problem.model_copy(update={"heads": 3}), np.array([0.0, 0.4 / 3, 2.0 / 3])).dataset
    np.testing.assert_allclose(heads.mean_cosine, dataset.mean_cosine, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "beta", "normalized"), [(2, 1.2, True), (5, 1.3, True), (4, -0.8, False), (6, 0.0, True)]
)
def test_one_unequal_pair_against_the_whole_gram_matrix(n, beta, normalized):
    """Even powers of the start of a pair in the sums over pairs, by differences of the Gram matrix's own equation."""
    times = np.array([0.0, 0.3, 1.1, 2.0])
    upper = np.triu_indices(n, 1)

    def sums(start):
        def slope(_, flat):
            gram = flat.reshape(n, n)
            weights = np.exp(beta * gram)
            weights = weights / (weights.sum(axis=1, keepdims=True) if normalized else n)
            moved = weights @ gram - (weights * gram).sum(axis=1, keepdims=True) * gram
            return (moved + moved.T).ravel()

        begin = np.eye(n)
        begin[0, 1] = begin[1, 0] = start
        path = solve_ivp(slope, (0.0, 2.0), begin.ravel(), "DOP853", t_eval=times, rtol=1e-12, atol=1e-13)
        cosines = path.y.reshape(n, n, -1)[upper]
        energies = np.expm1(beta * cosines) / beta if beta else cosines
        return np.array([cosines.sum(axis=0), energies.sum(axis=0)])

    even = {step: 0.5 * (sums(step) + sums(-step)) - sums(0.0) for step in (0.02, 0.04)}
    fourth = (even[0.04] / 0.0016 - even[0.02] / 0.0004) / (0.0016 - 0.0004)
    second = even[0.02] / 0.0004 - 0.0004 * fourth
    found = pair_sums(n, beta, equiangular_distance(n, beta, times, normalized=normalized), normalized)
    np.testing.assert_allclose(found.second, second, atol=2e-5 * (1.0 + np.abs(second).max()))
    np.testing.assert_allclose(found.fourth, fourth, atol=2e-2 * (1.0 + np.abs(fourth).max()))
    # At the start: nothing of the cosines, the exponential's own powers of the energies.
    np.testing.assert_allclose(found.second[:, 0], [0.0, beta / 2.0], atol=1e-12)
    np.testing.assert_allclose(found.fourth[:, 0], [0.0, beta**3 / 24.0], atol=1e-12)


@pytest.mark.parametrize("gamma", [-0.15, 0.0, 0.6])
@pytest.mark.parametrize("beta", [-4.0, -0.5, 0.0])
def test_layers_of_actual_vectors_that_repel(gamma, beta):
    n, eta = 6, 0.7
    gram = np.full((n, n), gamma) + (1 - gamma) * np.eye(n)
    x = np.linalg.cholesky(gram)
    weights = np.exp(beta * x @ x.T)
    pull = weights / weights.sum(axis=1, keepdims=True) @ x
    for update, mapped in (
        (pull, attention.layer_map(gamma, n, beta, eta)),
        (pull - (pull * x).sum(axis=1, keepdims=True) * x, attention.projected_layer_map(gamma, n, beta, eta)),
    ):
        moved = x + eta * update
        moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        np.testing.assert_allclose((moved @ moved.T)[~np.eye(n, dtype=bool)], mapped, atol=1e-13)


@pytest.mark.parametrize("delta, gamma0", [(0.2, 0.0), (0.03, 0.3), (0.5, -0.2)])
def test_layers_are_counted_up_to_the_asked_distance(delta, gamma0):
    n, beta, eta = 5, 2.0, 0.3
    for count, step in (
        (attention.layers_to_collapse, attention.layer_map),
        (attention.projected_layers_to_collapse, attention.projected_layer_map),
    ):
        cosine, layers = gamma0, 0
        while cosine < 1.0 - delta:
            cosine, layers = step(cosine, n, beta, eta), layers + 1
        assert count(n, beta, eta, delta, gamma0) == layers


def test_weighted_clusters_meet_at_the_time_of_the_differential_equation():
    """At beta = 0 two clusters of any weights close their angle as tanh(y), y' = 1: the time is closed."""
    for weights in ((1.0, 1.0), (5.0, 2.0)):
        time = attention.two_cluster_time(weights, 0.0, -0.5, 1e-2)
        assert time == pytest.approx(math.atanh(0.99) - math.atanh(-0.5), rel=1e-10)
        assert attention.log_two_cluster_time(weights, 0.0, -0.5, 1e-2) == pytest.approx(math.log(time), abs=1e-12)
    cosines = attention.two_cluster_cosine((5.0, 2.0), 0.0, -0.5, [0.0, 0.3, 1.1])
    np.testing.assert_allclose(cosines, np.tanh(math.atanh(-0.5) + np.array([0.0, 0.3, 1.1])), atol=1e-10)


def test_limits_without_the_denominator_hold_for_both_signs():
    for beta in (701.0, -701.0):
        with pytest.raises(InputError, match="beta"):
            attention.stationary_law(beta, 1.0, normalized=False)


def test_a_noisy_law_on_the_circle_solves_its_equation():
    """The returned density against the integral it must satisfy, summed on the grid without any Fourier series."""
    for beta, normalized in ((3.0, True), (1.5, False)):
        noise = 0.4 * attention.critical_noise(2, beta, normalized)
        found = attention.stationary_law(beta, noise, normalized).dataset
        angles, density = found.angle.values, found.density.values
        width = 2 * np.pi / angles.size
        assert density.sum() * width == pytest.approx(1.0, rel=1e-12)
        field = np.exp(beta * np.cos(angles[:, None] - angles)) @ density * width
        law = field ** (1 / (beta * noise)) if normalized else np.exp(field / (beta * noise))
        np.testing.assert_allclose(density, law / (law.sum() * width), rtol=1e-8)
        assert float(found.order_parameter) == pytest.approx((density * np.cos(angles)).sum() * width, abs=1e-12)
        assert float(found.order_parameter) > 0.3


@pytest.mark.parametrize("k", [2, 3, 7])
def test_sharp_polygons_neither_overflow_nor_move(k):
    for beta in (2000.0, 20000.0):
        rates, internal = attention.polygon_rates(k, beta)
        assert internal == pytest.approx(-1.0, rel=1e-12)
        np.testing.assert_allclose(rates, 0.0, atol=1e-300)


def test_a_sharp_kernel_does_not_overflow_on_the_sphere():
    found = attention.zonal_flow(lambda u: 1.0 + u, 3, 800.0, [0.0, 0.02], nodes=16).dataset
    assert np.isfinite(found.height.values).all() and (np.abs(found.height.values) <= 1.0).all()
    assert float(found.mean_height[0]) == pytest.approx(1 / 3, rel=1e-10)


# What the simulator starts from and measures


def test_tokens_have_length_one_and_pairs_the_variance_of_the_sphere():
    for draw, n, d in ((uniform_tokens, 6, 9), (reduced_tokens, 6, 9), (reduced_tokens, 6, 4)):
        tokens = draw(n, d, range(30))
        np.testing.assert_allclose(np.linalg.norm(tokens, axis=-1), 1.0, rtol=1e-12)
        pairs = (tokens @ np.swapaxes(tokens, 1, 2))[:, *np.triu_indices(n, 1)]
        # 450 cosines of variance 1/d: four standard errors.
        assert pairs.var() == pytest.approx(1 / d, rel=4 * math.sqrt(2 / pairs.size))
        assert abs(pairs.mean()) < 4 / math.sqrt(d * pairs.size)


def test_the_value_matrix_of_the_query_key_is_divided_by_the_root_of_the_dimension():
    problem = SelfAttention(tokens=3, dim=5, query_key="ginibre", value="query-key", heads=2, beta=1.0)
    matrices = problem_matrices(problem, (0, 1))
    np.testing.assert_allclose(matrices.value * math.sqrt(5), matrices.query_key, rtol=1e-12)


def test_what_the_ensemble_records_is_what_plain_sums_give():
    """At time 0, before anything moves: cosines, close pairs and the energy of the drawn tokens."""
    problem = SelfAttention(tokens=5, dim=3, beta=1.7)
    record = ensemble(problem, np.array([0.0]), (0, 1, 2))
    gram = (tokens := reduced_tokens(5, 3, (0, 1, 2))) @ np.swapaxes(tokens, 1, 2)
    pairs = gram[:, *np.nonzero(~np.eye(5, dtype=bool))]
    np.testing.assert_allclose(np.asarray(record.mean_cosine)[0], pairs.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(record.clustered_pairs)[0], (pairs >= 1 - CLUSTERED).mean(axis=1))
    expected = 0.5 * np.expm1(1.7 * gram).mean(axis=(1, 2)) / 1.7
    np.testing.assert_allclose(np.asarray(record.energy)[0], expected, rtol=1e-12)


def test_tokens_without_attention_are_brownian_motions():
    """No value matrix to pull them: the mean cosine of tokens that start together falls as exp(-2 D (d - 1) t)."""
    systems, n, d, noise = 200, 4, 3, 0.2
    tokens = np.broadcast_to(np.eye(d)[0], (systems, n, d))
    still = Matrices(None, np.zeros((systems, 1, d, d)))
    times = np.array([0.25, 0.5])
    keys = jax.random.split(jax.random.key(3), systems)
    record = run_ensemble(tokens, 1.0, times, still, noise=noise, keys=keys, step=0.01)
    cosines = np.asarray(record.mean_cosine)
    error = cosines.std(axis=1) / math.sqrt(systems)
    # The steps are of first order: 1% for them.
    assert (np.abs(cosines.mean(axis=1) - np.exp(-2 * noise * (d - 1) * times)) < 4 * error + 0.01).all()
    assert error.max() < 0.03


def test_even_tokens_integrate_harmonics_exactly():
    for d in (2, 3):
        tokens, weights = even_tokens(d)
        np.testing.assert_allclose(np.linalg.norm(tokens, axis=1), 1.0, rtol=1e-12)
        mean = weights / weights.sum()
        np.testing.assert_allclose(mean @ tokens, 0.0, atol=1e-14)
        np.testing.assert_allclose((tokens * mean[:, None]).T @ tokens, np.eye(d) / d, atol=1e-13)
        fourth = {2: 3 / 8, 3: 1 / 5}[d]
        np.testing.assert_allclose(mean @ tokens**4, fourth, atol=1e-13)


@pytest.mark.parametrize("d", [3, 5])
def test_axial_tokens_have_the_moments_of_their_law(d):
    """Stratified heights of the law 1 + u: mean height 1/d, and nothing across the axis."""
    tokens = axial_tokens(lambda u: 1.0 + u, 4000, d, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(tokens, axis=1), 1.0, rtol=1e-12)
    assert tokens[:, -1].mean() == pytest.approx(1 / d, abs=2e-3)
    assert (tokens[:, -1] ** 2).mean() == pytest.approx(1 / d, abs=2e-3)
    np.testing.assert_allclose(tokens[:, :-1].mean(axis=0), 0.0, atol=0.02)
    np.testing.assert_allclose((tokens[:, :-1] ** 2).mean(axis=0), 1 / d, atol=0.02)


def test_quantiles_of_a_density():
    found = drawn_angles(lambda angle: 1.0 + 0.0 * angle, np.array([0.0, 0.25, 1.0]))
    np.testing.assert_allclose(found, [-np.pi, -np.pi / 2, np.pi], atol=1e-12)
    half = drawn_angles(np.sin, np.array([0.5, 0.25]), 0.0, np.pi)
    np.testing.assert_allclose(half, [np.pi / 2, np.pi / 3], atol=1e-7)


def test_attracting_points_of_two_clouds():
    """Clouds at opposite angles: one maximum each while they are told apart, one in all when the kernel is wide."""
    angles = np.array([[0.0, 0.01, np.pi, np.pi + 0.02], [0.3, 0.3, 0.3, 0.3]])
    np.testing.assert_array_equal(attracting_points(angles, np.array([9.0])), [[2, 1]])
    near = np.array([[-0.5, 0.5]])
    # Two equal bumps exp(beta cos) at distance 1 join where the second derivative between them changes sign.
    middle = np.cos(0.5) / np.sin(0.5) ** 2
    np.testing.assert_array_equal(attracting_points(near, np.array([0.95, 1.05]) * middle)[:, 0], [1, 2])


def test_depth_weights_have_order_one():
    d, hidden = 30, 40
    draws = [draw_depth_weights(d, hidden, seed) for seed in range(40)]
    count = draws[0].bias.shape[0]
    for name, variance in (("outer", hidden * count), ("inner", d * count), ("bias", count)):
        values = np.stack([getattr(draw, name) for draw in draws])
        assert values.var() * variance == pytest.approx(1.0, rel=5 * math.sqrt(2 / values.size))


@pytest.mark.parametrize(("dim", "stands"), [(2, False), (3, False), (512, True)])
def test_a_limit_of_large_dimension_says_where_the_dimension_is_small(dim, stands):
    found = limen.predict(limen.SelfAttention(4.0, 64, dim), [3.0, 10.0])
    trained = limen.simulate(limen.SelfAttention(4.0, 64, dim), [10.0], seeds=4).dataset.mean_cosine.mean()
    assert found.ok == stands
    assert (abs(float(found.dataset.mean_cosine[-1] - trained)) < 0.1) == stands
    assert stands or f"dim = {dim} from time 3 on" in found.status


@pytest.mark.parametrize("times", [[0.0], [1e-40], [0.0, 1e-3]])
def test_the_start_of_tokens_is_answered_alone(times):
    found = limen.predict(limen.SelfAttention(1.0, 8, 64), times)
    assert found.ok and abs(float(found.dataset.mean_cosine[0])) < 1e-9
