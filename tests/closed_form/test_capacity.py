"""Capacity: bounds against enumeration, Cover's count in exact integers, the uniform gap against its own integrals."""

from fractions import Fraction
from itertools import product
from math import comb, log, log1p

import numpy as np
import pytest
from scipy.optimize import linprog, minimize, minimize_scalar

from limen.problem import InputError
from limen.simulation.kernel.capacity import linear_rademacher, quadratic_supremum, relu_rademacher_lower
from limen.simulation.kernel.separability import is_separable, perceptron, separable_count
from limen.theory.kernel.classification.capacity import (
    finite_class_bound,
    gaussian_linear_rademacher,
    half_space_bound,
    linear_rademacher_bound,
    rademacher_gap_bound,
    two_layer_rademacher_bound,
    vc_rate,
)
from limen.theory.kernel.classification.max_margin import max_margin
from limen.theory.kernel.classification.separability import (
    capacity_transition,
    log_half_space_labelings,
    log_separable_probability,
    perceptron_mistake_bound,
    separable_probability,
)
from limen.theory.kernel.classification.uniform_gap import least_squares_gap, uniform_gap
from limen.theory.spectra import MarchenkoPastur


def count(samples, dimension):
    return 2 * sum(comb(samples - 1, k) for k in range(dimension))


@pytest.mark.parametrize(
    ("samples", "dimension"), [(1, 1), (5, 2), (7, 7), (9, 12), (60, 20), (2001, 700), (3000, 1700)]
)
def test_cover_in_exact_integers(samples, dimension):
    missing = Fraction(2**samples - count(samples, dimension), 2**samples)
    exact = log1p(-missing) if missing < 0.5 else log(count(samples, dimension)) - samples * log(2)
    assert log_separable_probability(samples, dimension) == pytest.approx(exact, rel=1e-11, abs=1e-16)
    assert log_half_space_labelings(samples, dimension) == pytest.approx(log(count(samples, dimension)), rel=1e-12)
    if exact > -600:
        assert separable_probability(samples, dimension) == pytest.approx(np.exp(exact), rel=1e-10)


def test_cover_at_large_sizes():
    total, terms, term = 0, 20_000, 1
    for k in range(terms):
        total += term
        term = term * (99_999 - k) // (k + 1)
    assert log_separable_probability(100_000, terms) == pytest.approx(log(2 * total) - 100_000 * log(2), abs=1e-8)
    for dimension in (1, 10, 1000, 50_000):
        assert separable_probability(capacity_transition(dimension), dimension) == pytest.approx(0.5, rel=1e-10)
    assert separable_probability(19_000, 10_000) > 1 - 1e-10
    assert separable_probability(21_000, 10_000) < 1e-10


def test_counting_labelings_one_by_one():
    points = np.random.default_rng(0).standard_normal((7, 3))
    found = sum(is_separable(points * np.array(labels)[:, None]) for labels in product((-1.0, 1.0), repeat=7))
    assert found == count(7, 3)
    assert found != count(7, 4)


def test_perceptron_bound_is_attained_by_orthogonal_points():
    run = perceptron(np.eye(9))
    assert run.separated
    assert run.mistakes == 9
    assert perceptron_mistake_bound(np.eye(9)) == pytest.approx(9, rel=1e-12)


def test_perceptron_never_exceeds_its_bound():
    generator = np.random.default_rng(3)
    shares = []
    for dimension in (2, 3, 5, 10):
        for _ in range(5):
            inputs, teacher = generator.standard_normal((30, dimension)), generator.standard_normal(dimension)
            rows = inputs * np.sign(inputs @ teacher)[:, None]
            run = perceptron(rows)
            assert run.separated
            assert (rows @ run.weights).min() > 0
            shares.append(run.mistakes / perceptron_mistake_bound(rows))
    assert max(shares) <= 1
    assert not perceptron([[1.0, 0.0], [-1.0, 0.0]], largest_passes=50).separated


def test_separability_agrees_with_linear_programming_and_with_the_margin_problem():
    generator = np.random.default_rng(4)
    found = []
    for _ in range(40):
        rows = generator.standard_normal((9, 4))
        try:
            margin = max_margin(rows).margin
        except InputError:
            margin = 0.0
        feasible = linprog(np.zeros(4), A_ub=-rows, b_ub=-np.ones(9), bounds=(None, None)).status == 0
        assert is_separable(rows) == feasible == (margin > 0)
        found.append(feasible)
    assert 0 < sum(found) < 40


def test_points_are_separable_up_to_the_count():
    counts = [separable_count(seed, 20, 5) for seed in range(10)]
    assert min(counts) >= 5
    assert len(set(counts)) > 2
    assert separable_count(0, 4, 5) == 4
    with pytest.raises(InputError, match="none zero"):
        is_separable([[0.0, 0.0], [1.0, 0.0]])


def test_linear_rademacher_by_enumeration():
    inputs = np.random.default_rng(0).standard_normal((10, 3))
    exact = np.mean([np.linalg.norm(np.array(e) @ inputs) for e in product((-1.0, 1.0), repeat=10)]) * 0.7 / 10
    sampled = linear_rademacher(inputs, 0.7, draws=4000)
    assert abs(sampled.value - exact) < 4 * sampled.error
    assert sampled.error < 0.01 * exact
    bound = linear_rademacher_bound(inputs, 0.7)
    assert bound / np.sqrt(2) <= exact <= bound


def test_linear_rademacher_of_gaussian_inputs():
    values = [
        linear_rademacher(np.random.default_rng(s).standard_normal((40, 5)), 1.0, draws=40, seed=s).value
        for s in range(80)
    ]
    error = np.std(values, ddof=1) / np.sqrt(80)
    assert abs(np.mean(values) - gaussian_linear_rademacher(5, 40, 1.0)) < 3.5 * error
    # the root of the mean square is 5 % larger, and would be seen
    assert abs(np.mean(values) - np.sqrt(5 / 40)) > 5 * error
    assert gaussian_linear_rademacher(10_000, 40_000, 2.0) == pytest.approx(1.0, rel=1e-4)


def test_relu_complexity_against_a_scan_of_all_directions():
    inputs = np.random.default_rng(1).standard_normal((12, 2))
    angles = np.linspace(0, 2 * np.pi, 4001)
    active = np.maximum(np.stack([np.cos(angles), np.sin(angles)], axis=1) @ inputs.T, 0)
    signs = np.random.default_rng(2).choice([-1.0, 1.0], (4000, 12))
    scanned = np.abs(signs @ active.T).max(axis=1) / 12
    climbed = relu_rademacher_lower(inputs, 1.0, draws=250, starts=4)
    # a lower bound, and in two dimensions the climb finds the supremum
    assert abs(climbed.value - scanned.mean()) < 4 * climbed.error
    assert climbed.error < 0.03 * climbed.value


def test_two_layer_complexity_lies_between_its_bounds():
    inputs = np.random.default_rng(0).standard_normal((100, 20))
    climbed = relu_rademacher_lower(inputs, 3.0, draws=20)
    linear = linear_rademacher(inputs, 3.0, draws=20)
    assert 0.5 * linear.value < climbed.value < 2 * linear.value
    assert climbed.value < two_layer_rademacher_bound(inputs, 3.0)


def test_bounds_by_hand():
    assert finite_class_bound(1000, 500, 0.05) == pytest.approx(np.sqrt(np.log(40_000) / 1000), rel=1e-14)
    assert vc_rate(9, 100) == pytest.approx(0.3)
    assert rademacher_gap_bound(0.1, 200, 0.1, 2.0, 3.0) == pytest.approx(0.4 + 3 * np.sqrt(np.log(20) / 400))
    growth = log(4 / 0.1) + log(count(2000, 5))
    assert half_space_bound(5, 1000, 0.1) == pytest.approx(np.sqrt(8 / 1000 * growth), rel=1e-12)


def test_finite_class_bound_holds_and_is_not_loose():
    generator = np.random.default_rng(0)
    worst = np.abs(generator.binomial(100, 0.5, (2000, 50)) / 100 - 0.5).max(axis=1)
    assert np.mean(worst > finite_class_bound(50, 100, 0.1)) < 0.1
    assert np.mean(worst > 0.7 * finite_class_bound(50, 100, 0.1)) > 0.1


def test_bad_input_is_refused():
    for call in (
        lambda: separable_probability(0, 3),
        lambda: separable_probability(3, 2.5),  # pyright: ignore[reportArgumentType]
        lambda: finite_class_bound(10, 10, 1.5),
        lambda: finite_class_bound(10, 10, 0.0),
        lambda: linear_rademacher_bound(np.eye(2), -1.0),
        lambda: linear_rademacher_bound(np.zeros(3), 1.0),
        lambda: uniform_gap(0.0, 1.0, 0.1),
        lambda: uniform_gap(0.5, 0.0, 0.1),
        lambda: least_squares_gap(1.0, 0.1),
        lambda: linear_rademacher(np.eye(2), 1.0, draws=1),
        lambda: perceptron(np.zeros(3)),
        lambda: quadratic_supremum(np.ones(2), np.ones(2), 0.0),
    ):
        with pytest.raises(InputError):
            call()


def by_integrals(sign, ratio, radius, noise, signal):
    law = MarchenkoPastur(ratio)
    nodes, weights = law.quadrature(4000)
    nodes, weights = np.append(nodes, 0.0), np.append(weights, law.atom)
    level = sign * (nodes - 1)
    energy = signal**2 * level**2 + noise * ratio * nodes
    ends = law.edges if law.atom == 0 else (0.0, law.edges[1])
    top = max(sign * (end - 1) for end in ends)

    def dual(logarithm):
        mu = top + np.exp(logarithm)
        return radius**2 * mu + np.sum(weights * energy / (mu - level))

    best = minimize_scalar(dual, bounds=(-25, 15), method="bounded", options={"xatol": 1e-10})
    mu = top + np.exp(best.x)
    length = np.sum(weights * energy / (mu - level) ** 2)
    primal = np.sum(weights * energy * (level / (mu - level) ** 2 + 2 / (mu - level)))
    return best.fun, primal, length


@pytest.mark.parametrize(
    ("ratio", "radius", "noise", "signal"),
    [
        (0.25, 1.0, 0.25, 1.0),
        (0.25, 1e-3, 0.25, 1.0),
        (2.0, 0.7, 0.3, 1.0),
        (1.0, 1.0, 0.5, 1.0),
        (0.9, 3.0, 0.1, 0.2),
        (3.0, 1.0, 0.0, 1.0),
        (0.5, 0.7, 0.3, 0.0),
    ],
)
def test_uniform_gap_is_its_integral(ratio, radius, noise, signal):
    gap = uniform_gap(ratio, radius, noise, signal)
    for value, sign in ((gap.empirical_above, 1), (gap.true_above, -1)):
        dual, primal, length = by_integrals(sign, ratio, radius, noise, signal)
        assert value == pytest.approx(dual, rel=1e-11)
        assert length == pytest.approx(radius**2, rel=1e-4)
        assert value == pytest.approx(primal, rel=1e-4)


def test_uniform_gap_of_the_literature_and_of_least_squares():
    gap = uniform_gap(0.25, 1.0, 0.25)
    assert gap.empirical_above == pytest.approx(1.8402, abs=5e-5)
    assert gap.true_above == pytest.approx(1.3909, abs=5e-5)
    assert gap.largest == gap.empirical_above
    fit = least_squares_gap(0.25, 0.25)
    assert fit.gap == pytest.approx(0.145833333, rel=1e-8)
    # the ball that holds the fit is a little larger, and uniform convergence overshoots ten times
    assert fit.squared_norm == pytest.approx(13 / 12, rel=1e-12)
    assert uniform_gap(0.25, np.sqrt(fit.squared_norm), 0.25).true_above / fit.gap > 9


def test_uniform_gap_without_signal():
    # no noise either: the extreme eigenvalues of the covariance minus one
    for ratio in (0.3, 2.0):
        left, right = MarchenkoPastur(ratio).edges
        gap = uniform_gap(ratio, 2.0, 0.0, 0.0)
        assert gap.empirical_above == pytest.approx(4 * (right - 1), rel=1e-12)
        assert gap.true_above == pytest.approx(4 * (1 if ratio > 1 else 1 - left), rel=1e-12)
    # interpolating pure noise with d > n: risk noise + rho^2 against nothing, once the ball is large enough
    assert uniform_gap(2.0, 1.0, 0.3, 0.0).true_above == pytest.approx(1.3, rel=1e-12)
    # and it is continuous there
    assert uniform_gap(2.0, 1.0, 0.3, 1e-6).true_above == pytest.approx(1.3, rel=1e-5)


def test_uniform_gap_grows_with_everything():
    base = uniform_gap(0.5, 1.0, 0.2)
    for other in (uniform_gap(0.6, 1.0, 0.2), uniform_gap(0.5, 1.1, 0.2), uniform_gap(0.5, 1.0, 0.3)):
        assert other.empirical_above > base.empirical_above
        assert other.true_above > base.true_above


def test_trust_region_against_a_general_optimiser():
    generator = np.random.default_rng(0)
    for shift in (-3.0, 0.0, 3.0):
        matrix = generator.standard_normal((5, 5))
        matrix = matrix + matrix.T + shift * np.eye(5)
        vector = 0.3 * generator.standard_normal(5)
        values, vectors = np.linalg.eigh(matrix)
        best = 0.0
        for start in np.concatenate([vectors.T, -vectors.T]):
            found = minimize(
                lambda u, m=matrix, b=vector: -(u @ m @ u + 2 * b @ u),
                1.2 * start,
                method="SLSQP",
                constraints={"type": "ineq", "fun": lambda u: 1.5**2 - u @ u},
                options={"ftol": 1e-13, "maxiter": 500},
            )
            best = max(best, -found.fun)
        assert quadratic_supremum(values, vectors.T @ vector, 1.5) == pytest.approx(best, rel=1e-6)


def test_trust_region_in_the_hard_case():
    # no pull along the top direction: the rest of the length goes there
    assert quadratic_supremum(np.array([0.0, 2.0]), np.array([1.0, 0.0]), 3.0) == pytest.approx(2 * 9 + 0.5)
    # concave and a large ball: the maximum is inside
    assert quadratic_supremum(np.array([-1.0, -2.0]), np.array([1.0, 1.0]), 50.0) == pytest.approx(1.5)
    assert quadratic_supremum(np.array([-1.0, 2.0]), np.zeros(2), 3.0) == pytest.approx(18)
