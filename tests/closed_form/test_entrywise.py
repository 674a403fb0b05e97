"""The theory of entrywise rules: published numbers, equal rules, limits, convergence in the paths."""

import jax.numpy as jnp
import numpy as np
import pytest

import limen
from limen.theory.descent.entrywise import run_set, solve
from limen.theory.descent.solve import conditioned_set


def problem(algorithm, entries="gaussian", width=1, **options):
    fields = {"second_layer": (1.0, -0.5, 2.0), "train_second_layer": True} if width == 3 else {}
    return limen.TwoLayer(
        limen.target("tanh(2*z) + 0.5*(z**2 - 1)", noise=0.1, entries=entries),
        limen.network(width, "tanh", **fields),
        algorithm,
        2.0,
        **options,
    )


ADAM = limen.Adam(0.1, 0.9, 0.99, 0.01)
HEAVY_BALL = limen.GradientDescent(0.2, momentum=0.8)


def values(result, name):
    return result.dataset[name].values.ravel()


def test_reference_numbers_of_adam():
    """Another method (responses propagated path by path, medians of 4 sets of 16384), checked there by training."""
    found = solve(problem(ADAM), [1, 10, 30], paths=65536, scrambles=2)
    assert found.ok
    np.testing.assert_allclose(values(found, "train_loss"), [0.7578, 0.4356, 0.2718], atol=2e-3)
    np.testing.assert_allclose(values(found, "overlap"), [0.0467, 0.4217, 0.8749], atol=2e-3)
    np.testing.assert_allclose(values(found, "gram"), [0.9707, 1.109, 2.049], rtol=5e-3)


def test_reference_numbers_of_the_heavy_ball():
    """The same method. Its |θ|² at step 30 differs by 2% between its sets, and by 1.6% from the many paths here; the
    overlap there, in proportion to the square root, by 0.4%."""
    found = limen.predict(problem(HEAVY_BALL), [1, 10, 30], paths=65536, scrambles=3)
    assert found.ok
    np.testing.assert_allclose(values(found, "train_loss"), [0.7082, 0.2730, 0.2148], atol=2e-3)
    np.testing.assert_allclose(values(found, "overlap")[:2], [0.0884, 1.219], atol=3e-3)
    np.testing.assert_allclose(values(found, "gram")[:2], [0.9492, 3.330], rtol=5e-3)
    np.testing.assert_allclose(values(found, "overlap")[2], 1.532, rtol=1e-2)
    np.testing.assert_allclose(values(found, "gram")[2], 5.443, rtol=2.5e-2)


@pytest.mark.slow
def test_reference_numbers_of_sparse_targets():
    """Training at d = 800, 12 seeds, by another program: .085 .165 .301(9); dense .226 .422 .702 by its theory."""
    times = [5, 10, 20]
    sparse = values(solve(problem(ADAM, "sparse:0.05"), times, paths=32768, scrambles=2), "overlap")
    dense = values(solve(problem(ADAM), times, paths=32768, scrambles=2), "overlap")
    np.testing.assert_allclose(sparse, [0.085, 0.165, 0.301], rtol=0.02)
    np.testing.assert_allclose(dense, [0.226, 0.422, 0.702], atol=2e-3)


@pytest.mark.parametrize("width", [1, 3])
def test_heavy_ball_is_that_of_the_linear_theory(width):
    """Weights on entries of their own, or as coefficients: equal within the spread between sets of either."""
    given = problem(HEAVY_BALL, width=width)
    two_sided = solve(given, [1, 10, 20], scrambles=4, paths=8192)
    linear = limen.predict(given, [1, 10, 20], theory="descent", scrambles=4, paths=8192)
    for name in ("train_loss", "overlap", "gram", "second_layer", "correlation"):
        error = np.hypot(values(two_sided, f"{name}_spread"), values(linear, f"{name}_spread"))
        assert (np.abs(values(two_sided, name) - values(linear, name)) <= 3.0 * error + 1e-5).all(), name
        assert error.max() < 0.02 * np.abs(values(linear, name)).max()


def test_adam_without_memory_is_the_soft_sign():
    adam = solve(problem(limen.Adam(0.1, 0.0, 0.0, 0.05)), 8, paths=2048, scrambles=1)
    sign = solve(problem(limen.SignDescent(0.1, 0.05)), 8, paths=2048, scrambles=1)
    own = solve(problem(limen.EntrywiseDescent(0.1, lambda g: g / (jnp.abs(g) + 0.05))), 8, paths=2048, scrambles=1)
    for other in (sign, own):
        np.testing.assert_allclose(values(adam, "overlap"), values(other, "overlap"), atol=2e-5)
        np.testing.assert_allclose(values(adam, "train_loss"), values(other, "train_loss"), atol=2e-5)


def test_adam_as_a_rule_of_ones_own():
    def rule(gradient, memory):
        mean, square, count = 0.9 * memory[0] + 0.1 * gradient, 0.99 * memory[1] + 0.01 * gradient**2, memory[2] + 1.0
        root = jnp.sqrt(square / (1.0 - 0.99**count))
        return mean / (1.0 - 0.9**count) / (root + 0.01), jnp.stack([mean, square, count])

    mine = solve(problem(limen.EntrywiseDescent(0.1, rule, 3)), 8, paths=2048, scrambles=1)
    adam = solve(problem(ADAM), 8, paths=2048, scrambles=1)
    np.testing.assert_allclose(values(mine, "overlap"), values(adam, "overlap"), atol=2e-4)


def test_momentum_zero_and_the_whole_sample_is_plain_descent():
    plain = solve(problem(limen.GradientDescent(0.2)), 6, paths=2048, scrambles=1)
    trivial = limen.GradientDescent(0.2, momentum=0.0, nesterov=True, batch_fraction=1.0, replacement=False)
    same = solve(problem(trivial), 6, paths=2048, scrambles=1)
    np.testing.assert_array_equal(values(plain, "train_loss"), values(same, "train_loss"))


def test_entries_of_the_target_matter_for_adam_only():
    overlap = {}
    for name, algorithm in {"adam": ADAM, "heavy ball": HEAVY_BALL}.items():
        for entries in ("gaussian", "sparse:0.05"):
            overlap[name, entries] = values(
                solve(problem(algorithm, entries), [10], paths=8192, scrambles=3), "overlap"
            )[0]
    assert overlap["heavy ball", "sparse:0.05"] == pytest.approx(overlap["heavy ball", "gaussian"], rel=0.01)
    assert overlap["adam", "sparse:0.05"] < 0.5 * overlap["adam", "gaussian"]


@pytest.mark.parametrize("algorithm", [ADAM, HEAVY_BALL], ids=["adam", "heavy ball"])
def test_order_of_convergence_in_the_paths(algorithm):
    """The error of a set of N paths, spread and bias together, falls as N to the -1/2 or faster."""
    given, steps = problem(algorithm), 8

    def of(paths, seed):
        if algorithm is ADAM:
            return run_set(given, steps, paths, seed).train_loss
        return conditioned_set(given, steps, paths, seed).train_loss

    reference = np.median([of(32768, 50 + i) for i in range(3)], axis=0)
    sizes = [256, 1024, 4096]
    errors = [np.sqrt(np.mean([(of(n, i) - reference)[1:] ** 2 for i in range(8)])) for n in sizes]
    order = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert 0.45 < order < 1.3, errors


def test_a_kink_and_a_jump_are_no_trouble():
    relu = limen.TwoLayer("sign(z)", limen.network(2, "relu"), limen.SignDescent(0.1, 1e-6), 3.0)
    found = limen.predict(relu, 5, paths=4096, scrambles=3)
    assert found.ok and np.isfinite(values(found, "train_loss")).all()


def test_what_it_says():
    assert limen.theories(problem(ADAM))["entrywise"] == "applies"
    found = limen.predict(problem(ADAM), 2, paths=1024, scrambles=2)
    assert "in plain units step 0.1/√d, epsilon 0.01/√d" in found.status
    square = limen.TwoLayer("z", limen.network(1, "square"), limen.EntrywiseDescent(1e4, lambda g: g), 2.0)
    wild = limen.predict(square, 6, paths=1024, scrambles=2)
    assert not wild.ok and "diverge before step" in wild.status
    rough = limen.predict(problem(ADAM), 30, paths=256, scrambles=5)
    assert rough.ok or "take more paths" in rough.status
    with pytest.raises(limen.InputError, match="scrambles must be a whole number of at least 1"):
        limen.predict(problem(ADAM), 2, scrambles=0)
    spectrum = limen.Inputs(variances=(0.5, 1.5), fractions=(0.5, 0.5))
    with pytest.raises(limen.InputError, match="inputs of one variance"):
        limen.predict(problem(ADAM, inputs=spectrum), 2)


def test_paths_are_raised_where_sets_differ():
    """A problem of the campaign whose sets of 16384 paths differ by more than 2% of a small range."""
    problem = limen.TwoLayer(
        limen.target("z**2", noise=0.174),
        limen.network(1, "erf", initial_norm=0.904),
        limen.Adam(0.0854, beta1=0.745, beta2=0.722, epsilon=0.1),
        samples_per_dim=5.0,
        start=limen.OverlapStart(((0.118,),), gram=((0.424805,),)),
    )
    few, enough = limen.predict(problem, 7, paths=16384), limen.predict(problem, 7)
    assert not few.ok and "take more paths" in few.status
    assert enough.ok and "65536 samples" in enough.status


def test_the_sphere_keeps_every_neuron_at_its_own_length():
    """Neurons that are pulled differently, of different first lengths."""
    gram = ((1.0, 0.1), (0.1, 4.0))
    given = limen.TwoLayer(
        limen.target("tanh(2*z)", noise=0.1),
        limen.network(2, "tanh", (2.0, -0.5)),
        limen.GradientDescent(1.0, spherical=True),
        2.0,
        start=limen.OverlapStart(((0.2,), (0.0,)), gram),
    )
    found = solve(given, [0, 1, 4], paths=2048, scrambles=1).dataset.gram.values
    np.testing.assert_allclose(np.einsum("tjj->tj", found), [[1.0, 4.0]] * 3, rtol=1e-4)
    assert abs(found[-1, 0, 1] - 0.1) > 0.02
