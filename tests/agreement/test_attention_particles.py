"""Particles under attention: symmetries, conserved numbers, convergence orders, and the exact laws of clustering."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from limen.attention import (
    equiangular_cosine,
    finite_dimension_hitting_time,
    hitting_time,
    layer_path,
    load_heads,
    random_matrix,
    simulate,
    uniform_tokens,
    value_matrix,
)
from limen.comparison import compare
from limen.experiments.first_passage import first_passage
from limen.problem import InputError, SelfAttention
from limen.simulation.attention.ensemble import Matrices, run_ensemble
from limen.simulation.attention.field import attention_velocity
from limen.simulation.attention.self_attention import attention_particles, ensemble
from limen.simulation.attention.self_attention import solve as run_problem
from limen.theory.attention import equiangular_problem
from limen.theory.attention.equiangular import unnormalized_hitting_time
from limen.theory.attention.equiangular_means import PairSums
from limen.theory.attention.equiangular_problem import equiangular_tokens
from limen.theory.attention.mobius import token_cross_ratios

TIMES = np.linspace(0.0, 3.0, 7)


def tokens_of(n, d, seed=0):
    return uniform_tokens(n, d, (seed,))[0]


def path(X0, beta, times=TIMES, **options):
    return simulate(X0, beta, times, tolerance=1e-11, **options).dataset.tokens.values


def symmetric(d, seed=0):
    return random_matrix("goe", d, seed) / np.sqrt(d)


# Symmetries and fixed points


@pytest.mark.parametrize("normalized", [True, False])
def test_tokens_stay_on_the_sphere(normalized):
    states = path(tokens_of(12, 4), 3.0, normalized=normalized, value=random_matrix("ginibre", 4, 1))
    assert np.abs(np.linalg.norm(states, axis=2) - 1.0).max() < 1e-14


def test_order_and_orientation_do_not_matter():
    start = tokens_of(10, 3)
    order = np.random.default_rng(0).permutation(10)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    states = path(start, 4.0)
    assert np.abs(path(start[order], 4.0) - states[:, order]).max() < 1e-9
    assert np.abs(path(start @ turn, 4.0) - states @ turn).max() < 1e-9
    # With matrices the frame matters, unless they are turned as well; the order still does not.
    matrices = {"query_key": random_matrix("ginibre", 3, 0), "value": value_matrix("ginibre", 3, 0)}
    turned = {name: turn.T @ matrix @ turn for name, matrix in matrices.items()}
    states = path(start, 2.0, **matrices)
    assert np.abs(path(start[order], 2.0, **matrices) - states[:, order]).max() < 1e-9
    assert np.abs(path(start @ turn, 2.0, **turned) - states @ turn).max() < 1e-9
    assert np.abs(path(start @ turn, 2.0, **matrices) - states @ turn).max() > 0.1


def test_equal_tokens_and_antipodal_pairs_stay_and_say_so():
    one = tokens_of(1, 5)
    for start in (np.repeat(one, 6, axis=0), np.concatenate([one, -one])):
        run = simulate(start, 2.0, [0.0, 50.0])
        assert np.abs(run.dataset.tokens.values[-1] - start).max() < 1e-12
        assert run.status.startswith("the start is stationary")
    assert not simulate(tokens_of(2, 5), 2.0, [0.0, 1.0]).status.startswith("the start")


@pytest.mark.slow
def test_identical_heads_multiply_the_speed():
    start = tokens_of(8, 3)
    three = path(start, 2.0, heads=[(None, None)] * 3)
    assert np.abs(three - path(start, 2.0, 3.0 * TIMES)).max() < 1e-9
    query_key, value = random_matrix("wigner", 3, 0), value_matrix("ginibre", 3, 1)
    two = path(start, 1.0, heads=[(query_key, value)] * 2)
    assert np.abs(two - path(start, 1.0, 2.0 * TIMES, query_key=query_key, value=value)).max() < 1e-9
    problem = SelfAttention(beta=2.0, tokens=8, dim=3, heads=2)
    once = SelfAttention(beta=2.0, tokens=8, dim=3)
    fast, slow = (ensemble(p, t, (0, 1)).energy for p, t in ((problem, TIMES), (once, 2.0 * TIMES)))
    np.testing.assert_allclose(fast, slow, rtol=1e-5)


def test_attention_sums_to_one_at_the_sharpest():
    # A coordinate that all tokens share is kept by any average of them.
    tokens = np.concatenate([tokens_of(30, 4), np.full((30, 1), 0.25)], axis=1)
    weights = np.linspace(1.0, 3.0, 30)
    mixed = attention_velocity(tokens, 1e4, [(None, None)], True, weights)
    assert np.abs(mixed[:, -1] - 0.25).max() < 1e-15
    np.testing.assert_allclose(mixed, tokens, atol=1e-12)


def test_a_weight_is_a_number_of_equal_tokens():
    start, counts = tokens_of(5, 3), np.array([1, 3, 2, 1, 4])
    for normalized in (True, False):
        many = path(np.repeat(start, counts, axis=0), 2.0, normalized=normalized, merge=0.0)
        first = np.concatenate([[0], np.cumsum(counts)[:-1]])
        if not normalized:
            # A token of weight m pulls with m/n; the pull on itself is radial.
            few = path(start, 2.0, normalized=False, merge=0.0, weights=counts)
        else:
            few = path(start, 2.0, merge=0.0, weights=counts)
        assert np.abs(many[:, first] - few).max() < 1e-8
        wrong = path(start, 2.0, normalized=normalized, merge=0.0, weights=counts[::-1].copy())
        assert np.abs(many[:, first] - wrong).max() > 1e-2


# Conserved and monotone numbers


@pytest.mark.parametrize("value", [-np.eye(3), np.array([[0.0, 1.0, 0.3], [-1.0, 0.0, 0.5], [-0.3, -0.5, 0.0]])])
def test_cross_ratios_are_conserved_without_temperature(value):
    states = simulate(tokens_of(8, 3), 0.0, np.linspace(0.0, 20.0, 11), value=value, tolerance=1e-12, merge=0.0)
    ratios = token_cross_ratios(states.dataset.tokens.values)
    assert np.abs(ratios / ratios[0] - 1.0).max() < 1e-8
    moved = simulate(tokens_of(8, 3), 0.3, np.linspace(0.0, 20.0, 11), value=value, tolerance=1e-12, merge=0.0)
    drift = token_cross_ratios(moved.dataset.tokens.values)
    assert np.abs(drift / drift[0] - 1.0).max() > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("beta", [0.0, 0.7, 4.0])
def test_energy_never_falls_when_value_is_the_symmetric_query_key(beta, normalized):
    for matrix in (None, symmetric(4), -np.eye(4)):
        run = simulate(
            tokens_of(12, 4), beta, np.linspace(0.0, 2.0, 17), query_key=matrix, value=matrix, normalized=normalized
        )
        energy = run.dataset.energy.values
        assert np.diff(energy).min() > -1e-7 * np.abs(energy).max()
        assert energy[-1] > energy[0]


# Equal angles


@pytest.mark.parametrize("beta", [0.0, 1.0, 5.0])
def test_orthogonal_tokens_keep_one_cosine(beta):
    times = np.linspace(0.0, 6.0, 13)
    gram = simulate(np.eye(8), beta, times, tolerance=1e-11, merge=0.0).dataset.gram.values
    pairs = gram[:, ~np.eye(8, dtype=bool)]
    assert np.ptp(pairs, axis=1).max() < 1e-9
    assert np.abs(pairs.mean(axis=1) - equiangular_cosine(8, beta, times)).max() < 1e-8
    assert np.abs(pairs.mean(axis=1) - equiangular_cosine(9, beta, times)).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("d, expected, error", [(512, finite_dimension_hitting_time, 0.012), (32768, None, 1e-3)])
def test_random_tokens_collapse_at_the_predicted_time(d, expected, error):
    n, beta, times = 32, 5.0, np.linspace(0.0, 12.0, 49)
    record = ensemble(SelfAttention(beta=beta, tokens=n, dim=d), times, tuple(range(16)), step=0.25)
    passages = np.array([first_passage(times, 1.0 - row, 1e-3) for row in np.asarray(record.mean_cosine).T])
    allowed = 4.0 * passages.std(ddof=1) / 4.0

    def prediction(tokens, temperature):
        return hitting_time(tokens, temperature) if expected is None else expected(tokens, d, temperature)

    right = prediction(n, beta)
    assert abs(passages.mean() - right) < allowed + error * right
    for wrong in (prediction(n, 1.1 * beta), prediction(n, 0.9 * beta), prediction(43, beta), prediction(21, beta)):
        assert abs(passages.mean() - wrong) > allowed + error * right


def test_problems_agree_with_the_limit_of_many_dimensions_and_a_planted_error_is_caught():
    times = np.linspace(0.0, 8.0, 17)
    problem = SelfAttention(beta=3.0, tokens=12, dim=100_000)
    runs = attention_particles.run_seeds(problem, times, problem.dim, tuple(range(8)))
    right = equiangular_tokens.run(problem, times)
    assert compare(right, runs, variables=("mean_cosine", "energy")).verdict == "agrees"
    for wrong in (SelfAttention(beta=3.3, tokens=12, dim=100_000), SelfAttention(beta=3.0, tokens=16, dim=100_000)):
        twin = replace(equiangular_tokens.run(wrong, times), spec=runs.spec)
        assert compare(twin, runs, variables=("mean_cosine",)).verdict == "disagrees"


@pytest.mark.parametrize(
    ("beta", "tokens", "dim", "last", "names"),
    [(2.27, 8, 151, 1.24, ("mean_cosine", "energy")), (4.0, 16, 300, 4.5, ("mean_cosine",))],
)
def test_moderate_dimensions_agree_and_the_limit_alone_does_not(beta, tokens, dim, last, names, monkeypatch):
    problem, times = SelfAttention(beta, tokens, dim), np.linspace(0.0, last, 8)
    run = attention_particles.run_seeds(problem, times, dim, tuple(range(1000)))
    right = equiangular_tokens.run(problem, times)
    assert compare(right, run, variables=names).verdict == "agrees"
    nothing = PairSums(np.zeros((2, times.size)), np.zeros((2, times.size)))
    monkeypatch.setattr(equiangular_problem, "pair_sums", lambda *_: nothing)
    limit = equiangular_tokens.run(problem, times)
    assert compare(limit, run, variables=names).verdict == "disagrees"


@pytest.mark.parametrize("n, beta, normalized", [(4, 1.1, True), (7, 1.7, False)])
def test_pairs_pass_one_after_another_and_a_planted_error_is_caught(n, beta, normalized):
    """Around the time at which all pairs would pass 0.999 at once in infinitely many dimensions."""
    problem = SelfAttention(beta, n, 40_000, normalized=normalized)
    passing = hitting_time(n, beta) if normalized else unnormalized_hitting_time(n, beta)
    times = passing * np.array([0.0, 0.99, 0.998, 1.0, 1.002, 1.01])
    runs = attention_particles.run_seeds(problem, times, problem.dim, tuple(range(400)))
    right = equiangular_tokens.run(problem, times)
    assert compare(right, runs, variables=("clustered_pairs",), tolerance=0.1).verdict == "agrees"
    wider = replace(equiangular_tokens.run(problem.model_copy(update={"dim": 8_000}), times), spec=runs.spec)
    sooner = right.dataset.clustered_pairs.shift(time=-1, fill_value=1.0)
    for wrong in (wider, replace(right, dataset=right.dataset.assign(clustered_pairs=sooner))):
        assert compare(wrong, runs, variables=("clustered_pairs",)).verdict == "disagrees"


# Orders of convergence, and one integrator against the other


@pytest.mark.parametrize("general", [False, True])
def test_the_ensemble_is_of_order_four_and_meets_the_adaptive_flow(general):
    start, times = tokens_of(6, 3), np.array([0.0, 2.4])
    pair = (random_matrix("ginibre", 3, 0), value_matrix("ginibre", 3, 0)) if general else (None, None)
    stacked = Matrices(*(None if part is None else part[None, None] for part in pair))
    exact = path(start, 2.0, times, query_key=pair[0], value=pair[1], merge=0.0)[-1]
    errors = []
    for step in (0.4, 0.2, 0.1):
        gram = np.asarray(run_ensemble(start[None], 2.0, times, stacked, step=step, keep_gram=True).gram)[-1, 0]
        errors.append(np.abs(gram - exact @ exact.T).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[-1] < 1e-4
    assert (np.abs(orders - 4.0) < 0.4).all(), orders


def test_systems_may_have_temperatures_of_their_own():
    start = uniform_tokens(6, 3, (0, 1))
    both = run_ensemble(start, np.array([0.0, 4.0]), TIMES)
    for row, beta in enumerate((0.0, 4.0)):
        alone = run_ensemble(start[row : row + 1], beta, TIMES)
        np.testing.assert_allclose(np.asarray(both.energy)[:, row], np.asarray(alone.energy)[:, 0], rtol=1e-12)
        np.testing.assert_allclose(
            np.asarray(both.mean_cosine)[:, row], np.asarray(alone.mean_cosine)[:, 0], atol=1e-12
        )


@pytest.mark.parametrize("projected", [False, True])
def test_layers_are_the_flow_to_first_order(projected):
    start = tokens_of(6, 3)
    exact = path(start, 2.0, [0.0, 2.0], merge=0.0)[-1]
    errors = [
        np.abs(layer_path(start, 2.0, round(2.0 / eta), eta, projected)[-1] - exact).max()
        for eta in (0.05, 0.025, 0.0125)
    ]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (np.abs(orders - 1.0) < 0.1).all(), orders


def test_merging_changes_nothing_that_is_seen():
    times = np.array([0.0, 5.0, 20.0])
    joined, apart = (path(tokens_of(20, 2), 4.0, times, merge=gap) for gap in (1e-7, 0.0))
    assert np.abs(joined - apart).max() < 1e-5


# Extremes


@pytest.mark.parametrize("normalized", [True, False])
def test_nothing_overflows_at_beta_1000(normalized):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = simulate(tokens_of(6, 3), 1000.0, [0.0, 1.0], normalized=normalized)
    assert run.ok
    assert np.isfinite(run.dataset.tokens.values).all()
    record = ensemble(SelfAttention(beta=1000.0, tokens=6, dim=3), np.array([0.0, 1.0]), (0,))
    assert np.isfinite(np.asarray(record.mean_cosine)).all()


# Matrices


def test_random_matrices_have_entries_of_variance_one():
    d = 200
    off = ~np.eye(d, dtype=bool)
    for name in ("ginibre", "wigner", "goe", "wishart"):
        matrix = random_matrix(name, d, 0)
        assert matrix[off].var() == pytest.approx(1.0, abs=0.03)
        assert np.array_equal(matrix, matrix.T) == (name in ("wigner", "goe")) or name == "wishart"
    diagonals = {name: np.diag(random_matrix(name, d, 0)) for name in ("wigner", "goe", "wishart")}
    assert diagonals["wigner"].var() == pytest.approx(1.0, abs=0.4)
    assert diagonals["goe"].var() == pytest.approx(2.0, abs=0.8)
    assert diagonals["wishart"].mean() == pytest.approx(np.sqrt(d), rel=0.02)
    x, y = uniform_tokens(2, d, range(400)).transpose(1, 0, 2)
    products = np.einsum("sd,de,se->s", x, random_matrix("ginibre", d, 0), y)
    assert products.var() == pytest.approx(1.0, abs=0.3)
    # As values: the circle of radius one, the semicircle on [-2, 2], Marchenko and Pastur's law up to 4.
    assert np.abs(np.linalg.eigvals(value_matrix("ginibre", d, 0))).max() == pytest.approx(1.0, abs=0.1)
    assert np.linalg.eigvalsh(value_matrix("wigner", d, 0)).max() == pytest.approx(2.0, abs=0.1)
    assert np.linalg.eigvalsh(value_matrix("wishart", d, 0)).max() == pytest.approx(4.0, abs=0.2)
    assert not np.array_equal(random_matrix("goe", 5, 0), random_matrix("goe", 5, 1))


def test_heads_of_a_trained_model_are_read_from_a_file(tmp_path):
    generator = np.random.default_rng(0)
    query, key, value = (generator.normal(size=(2, size, 6)) for size in (3, 3, 6))
    np.savez(tmp_path / "three.npz", query=query, key=key, value=value)
    np.savez(tmp_path / "two.npz", query_key=query[0].T @ key[0], value=value[0])
    heads = load_heads(tmp_path / "three.npz")
    assert len(heads) == 2
    np.testing.assert_allclose(heads[1][0], query[1].T @ key[1], atol=1e-14)
    (single,) = load_heads(tmp_path / "two.npz")
    np.testing.assert_allclose(single[0], heads[0][0], atol=1e-14)
    run = simulate(tokens_of(5, 6), 1.0, [0.0, 0.5], heads=heads)
    assert run.ok


def test_files_that_hold_no_heads_are_refused(tmp_path):
    np.savez(tmp_path / "lacking.npz", query=np.eye(3))
    np.savez(tmp_path / "uneven.npz", query_key=np.eye(3), value=np.eye(4))
    np.savez(tmp_path / "objects.npz", query_key=np.array([{}, 1], dtype=object), value=np.eye(2))
    np.savez(tmp_path / "unbounded.npz", query_key=np.eye(3), value=np.full((3, 3), np.nan))
    np.savez(tmp_path / "lines.npz", query=np.ones(3), key=np.ones(3), value=np.eye(3))
    np.savez(tmp_path / "misfit.npz", query=np.ones((2, 3)), key=np.ones((4, 3)), value=np.eye(3))
    np.save(tmp_path / "array.npy", np.eye(3))
    (tmp_path / "text.npz").write_text("query_key")
    names = ["lacking.npz", "uneven.npz", "objects.npz", "unbounded.npz", "lines.npz", "misfit.npz", "array.npy"]
    for name in [*names, "text.npz", "absent.npz"]:
        with pytest.raises(InputError) as refusal:
            load_heads(tmp_path / name)
        assert_one_sentence(refusal)


# Bad input


def assert_one_sentence(refusal):
    message = str(refusal.value)
    assert message.endswith(".")
    assert "\n" not in message
    assert ". " not in message


@pytest.mark.parametrize(
    "call, named",
    [
        (lambda: simulate(np.zeros((3, 2)), 1.0, 1.0), "X0"),
        (lambda: simulate(2.0 * np.eye(3), 1.0, 1.0), "X0"),
        (lambda: simulate(np.ones((3, 1)), 1.0, 1.0), "X0"),
        (lambda: simulate(np.ones(3), 1.0, 1.0), "X0"),
        (lambda: simulate(np.zeros((0, 3)), 1.0, 1.0), "X0"),
        (lambda: simulate([[np.nan, 1.0]], 1.0, 1.0), "X0"),
        (lambda: simulate("tokens", 1.0, 1.0), "X0"),
        (lambda: simulate(np.eye(3), np.inf, 1.0), "beta"),
        (lambda: simulate(np.eye(3), "hot", 1.0), "beta"),
        (lambda: simulate(np.eye(3), 1.0, -1.0), "times"),
        (lambda: simulate(np.eye(3), 1.0, [1.0, 0.5]), "times"),
        (lambda: simulate(np.eye(3), 1.0, 1.0, weights=[1.0, 0.0, 1.0]), "weights"),
        (lambda: simulate(np.eye(3), 1.0, 1.0, weights=[1.0, 1.0]), "weights"),
        (lambda: simulate(np.eye(3), 1.0, 1.0, query_key=np.eye(2)), "query_key"),
        (lambda: simulate(np.eye(3), 1.0, 1.0, value=np.full((3, 3), np.nan)), "value"),
        (lambda: simulate(np.eye(3), 1.0, 1.0, value=np.eye(3), heads=[(None, None)]), "heads"),
        (lambda: simulate(np.eye(3), 1.0, 1.0, heads=[]), "heads"),
        (lambda: simulate(np.eye(3), 1.0, 1.0, feed_forward=(np.eye(3), np.eye(2), [0, 0], "relu")), "feed_forward"),
        (lambda: simulate(np.eye(3), 1.0, 1.0, delta=0.0), "delta"),
        (lambda: simulate(np.eye(3), 1.0, 1.0, tolerance=0.0), "tolerance"),
        (lambda: simulate(np.eye(3), 1.0, 1.0, merge=-1.0), "merge"),
        (lambda: layer_path(np.eye(3), 1.0, -1), "layers"),
        (lambda: layer_path(np.eye(3), 1.0, 2, eta=0.0), "eta"),
        (lambda: random_matrix("circular", 3, 0), "ensemble"),
        (lambda: value_matrix("circular", 3, 0), "ensemble"),
        (lambda: SelfAttention(beta=1.0, tokens=3, dim=3, value=np.eye(2)), "value"),
        (lambda: SelfAttention(beta=1.0, tokens=1, dim=3), "tokens"),
        (lambda: SelfAttention(beta=1.0, tokens=3, dim=1), "dim"),
        (lambda: SelfAttention(beta=1.0, tokens=3, dim=3, noise=-1.0), "noise"),
        (lambda: ensemble(SelfAttention(beta=1.0, tokens=3, dim=3), TIMES, (0,), step=0.0), "step"),
        (lambda: run_problem(SelfAttention(beta=1.0, tokens=3, dim=3), TIMES, 4, 0), "d "),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_sentence(call, named):
    with pytest.raises(InputError) as refusal:
        call()
    assert named in str(refusal.value)
    assert_one_sentence(refusal)
