"""The overlap chain against training in d dimensions, in law; and twins with a planted error."""

import time

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf
from scipy.stats import kstest, norm

import limen
from limen.gaussian.starts.start_weights import start_overlaps
from limen.problem import InputError
from limen.simulation.one_pass import chain_steps, overlap_chain
from limen.simulation.one_pass.overlap_chain import chain

D, SEEDS, STEPS, RATE, NOISE = 60, 4000, (30, 90), 3.0, 0.3
Q0 = np.array([[1.0, 0.2], [0.2, 0.8]])
M0 = np.array([[0.4], [0.1]])
P = np.array([[1.2]])
A, A_STAR = np.array([1.0, -0.7]), np.array([1.5])


def full_sgd(spherical: bool) -> dict[str, np.ndarray]:
    """Plain SGD with vectors of d coordinates, all seeds side by side: Q, M, a at the recorded steps."""
    rng = np.random.default_rng(7)
    rest = np.linalg.cholesky(Q0 - M0 @ M0.T / P[0, 0])
    students = np.zeros((SEEDS, 2, D))
    students[:, :, 0] = M0[:, 0] / np.sqrt(P[0, 0])
    students[:, :, 1:3] = rest
    second = np.tile(A, (SEEDS, 1))
    found = {"gram": [], "overlap": [], "second_layer": []}
    for step in range(1, STEPS[-1] + 1):
        x = rng.normal(size=(SEEDS, D))
        fields = np.einsum("sid,sd->si", students, x)
        label = A_STAR[0] * erf(np.sqrt(P[0, 0]) * x[:, 0] / np.sqrt(2)) + np.sqrt(NOISE) * rng.normal(size=SEEDS)
        values, slopes = erf(fields / np.sqrt(2)), np.sqrt(2 / np.pi) * np.exp(-(fields**2) / 2)
        error = RATE / (2 * D) * (label - (second * values).mean(axis=1))
        students += (error[:, None] * second * slopes)[:, :, None] * x[:, None, :]
        second = second + error[:, None] * values
        if spherical:
            students *= np.sqrt(np.diag(Q0))[:, None] / np.linalg.norm(students, axis=2, keepdims=True)
        if step in STEPS:
            found["gram"].append(np.einsum("sid,sjd->sij", students, students))
            found["overlap"].append(np.sqrt(P[0, 0]) * students[:, :, :1])
            found["second_layer"].append(second)
    return {name: np.stack(parts, axis=1) for name, parts in found.items()}


def short_chain(spherical: bool) -> dict[str, np.ndarray]:
    result = chain(Q0, M0, P, A, A_STAR, "saad-solla", RATE, NOISE, D, STEPS, SEEDS, spherical, train_second_layer=True)
    return {name: result.dataset[name].values for name in ("gram", "overlap", "second_layer")}


def worst_score(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """Largest |z| over means, variances and two-time covariances of all order parameters."""

    def features(parts: dict[str, np.ndarray]) -> np.ndarray:
        flat = np.concatenate([part.reshape(SEEDS, len(STEPS), -1) for part in parts.values()], axis=2)
        flat = flat[:, :, flat[:, -1].std(axis=0) > 1e-9]
        centred = flat - flat.mean(axis=0)
        parts_ = [flat, centred**2, centred[:, :1] * centred[:, 1:]]
        return np.concatenate([part.reshape(SEEDS, -1) for part in parts_], axis=1)

    first, second = features(one), features(other)
    error = np.sqrt((first.var(axis=0) + second.var(axis=0)) / SEEDS)
    return float(np.max(np.abs(first.mean(axis=0) - second.mean(axis=0)) / error))


@pytest.fixture(scope="module", params=[False, True], ids=["free", "sphere"])
def spherical_and_full(request):
    return request.param, full_sgd(request.param)


def test_means_variances_and_two_time_covariances_agree(spherical_and_full):
    spherical, full = spherical_and_full
    # About 40 numbers are compared: the largest of 40 normal scores is below 4.2 with probability 0.999.
    assert worst_score(full, short_chain(spherical)) < 4.2


def test_a_dropped_square_norm_is_caught(spherical_and_full, monkeypatch):
    spherical, full = spherical_and_full
    right = chain_steps._draw_block

    def wrong(*arguments):
        key, draws = right(*arguments)
        return key, draws._replace(gram=0.0 * draws.gram)

    monkeypatch.setattr(chain_steps, "_draw_block", wrong)
    chain_steps.run.clear_cache()
    assert worst_score(full, short_chain(spherical)) > 6.0
    chain_steps.run.clear_cache()


def linear_chain(d: int, steps: int, extra_freedom: int = 0) -> tuple[np.ndarray, float]:
    """|u - u*|^2 of a linear neuron after some steps, over seeds, and its exact mean."""
    rate, noise, many = 1.0, 0.4, 20_000
    right = overlap_chain.run
    wrong = lambda f, r, s, n, free, *rest: right(f, r, s, n, free + extra_freedom, *rest)  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap_chain, "run", wrong)
        found = chain([[0.5]], [[0.2]], [[1.0]], [1.0], [1.0], "linear", rate, noise, d, [steps], many).dataset
    distance = (found.gram[:, -1, 0, 0] - 2 * found.overlap[:, -1, 0, 0] + 1.0).values
    eta, mean = rate / d, 0.5 - 0.4 + 1.0
    for _ in range(steps):
        mean = mean * (1 - 2 * eta + eta**2 * (d + 2)) + eta**2 * d * noise
    return distance, mean


@pytest.mark.parametrize("d", [2, 3, 6])
def test_the_linear_neuron_has_its_exact_mean_and_one_wrong_degree_of_freedom_does_not(d):
    """Closed recursion of E|u - u*|^2; the twin takes chi^2_d for chi^2_{d-n}."""
    distance, mean = linear_chain(d, 8)
    assert abs(distance.mean() - mean) < 4 * distance.std() / np.sqrt(distance.size)
    distance, mean = linear_chain(d, 8, extra_freedom=2)
    assert abs(distance.mean() - mean) > 6 * distance.std() / np.sqrt(distance.size)


def two_layer(**changes):
    parts = {
        "target": limen.target("z1*z2 + 0.3*e", noise=0.1),
        "network": limen.network(3, "tanh", bias=(0.1, 0.0, -0.2), train_second_layer=True),
        "algorithm": limen.OnePassSGD(rate=3.0, batch=4, second_layer_ratio=2.0),
        "loss": "huber:0.5",
        "start": limen.OverlapStart(0.3),
    }
    return limen.TwoLayer(**{**parts, **changes})


@pytest.mark.slow
def test_the_chain_agrees_with_the_simulator_on_any_target_loss_and_batch():
    """A product target with inner noise, Huber loss, batches of 4, biases, trained second layer; d = 12."""
    problem, seeds = two_layer(), 150
    full = limen.simulate(problem, [1.0, 3.0], d=12, seeds=seeds, simulator="one-pass-sgd").dataset
    short = limen.simulate(problem, [1.0, 3.0], d=12, seeds=range(400), simulator="overlap-chain").dataset
    assert np.array_equal(full.step, short.step) and np.array_equal(full.samples, 4 * full.step)
    for name in ("overlap", "gram", "second_layer", "excess_risk"):
        one, other = full[name], short[name]
        error = np.sqrt(one.var("seed") / seeds + other.var("seed") / 400)
        assert float(np.abs((one.mean("seed") - other.mean("seed")) / error).max()) < 4.2, name
        spread = np.abs(np.log(one.std("seed") / other.std("seed")))
        assert float(spread.max()) < 0.35, name


@pytest.mark.slow
def test_starts_are_those_of_full_training():
    problem = two_layer(start=limen.RandomStart())
    full = limen.simulate(problem, [0.0, 0.1], d=50, seeds=3, simulator="one-pass-sgd").dataset
    short = limen.simulate(problem, [0.0, 0.1], d=50, seeds=3, simulator="overlap-chain").dataset
    np.testing.assert_allclose(full.gram[:, 0], short.gram[:, 0], atol=1e-6)
    np.testing.assert_allclose(full.overlap[:, 0], short.overlap[:, 0], atol=1e-6)


@pytest.mark.slow
def test_paths_depend_neither_on_recorded_times_nor_on_other_seeds():
    problem = two_layer()
    fine = limen.simulate(problem, np.linspace(0.0, 2.0, 21), d=100, seeds=2, simulator="overlap-chain").dataset
    coarse = limen.simulate(problem, [1.0, 2.0], d=100, seeds=[1], simulator="overlap-chain").dataset
    np.testing.assert_allclose(fine.gram.values[1, [10, 20]], coarse.gram.values[0], rtol=1e-10)


@pytest.mark.slow
def test_a_billion_dimensions_in_seconds():
    problem = two_layer(start=limen.RandomStart(), algorithm=limen.OnePassSGD(rate=3.0))
    began = time.perf_counter()
    run = limen.simulate(problem, [0.0, 1e-6, 2e-5], d=10**9, seeds=4)
    assert time.perf_counter() - began < 30.0
    assert "overlap chain" in run.status and run.ok
    assert int(run.dataset.step[-1]) == 20_000
    assert float(np.abs(run.dataset.overlap).max()) < 1e-3
    moved = run.dataset.second_layer[:, -1] - 1.0
    assert 0.0 < float(np.abs(moved).max()) < 1e-3
    by_name = limen.simulate(problem, [0.0, 1e-3], d=25_000, seeds=1, simulator="one-pass-sgd")
    assert "full SGD" in by_name.status


def test_large_starts_have_the_law_of_explicit_vectors(monkeypatch):
    problem = limen.TwoLayer(
        limen.target("z1*z2"), limen.network(3, "tanh", initial_norm=1.5), limen.OnePassSGD(rate=1.0)
    )
    d, many = 30_000, 600
    starts = [start_overlaps(problem, d, seed) for seed in range(many)]
    overlap, gram = (np.stack(part) for part in zip(*starts, strict=True))
    np.testing.assert_allclose(np.einsum("sii->si", gram), 2.25)
    assert kstest(overlap.ravel() * np.sqrt(d) / 1.5, norm.cdf).pvalue > 1e-3
    assert kstest(gram[:, 0, 2] * np.sqrt(d) / 2.25, norm.cdf).pvalue > 1e-3
    joint = gram - overlap @ overlap.transpose(0, 2, 1)
    assert np.linalg.eigvalsh(joint).min() > 0
    given = problem.model_copy(update={"start": limen.OverlapStart(0.5)})
    overlap, gram = start_overlaps(given, d, 0)
    assert np.all(overlap == 0.5) and np.allclose(np.diag(gram), 2.25)
    assert 0 < abs(gram[0, 1] - 0.5) < 0.1
    exact = problem.model_copy(update={"start": limen.OverlapStart(0.1, gram=np.eye(3))})
    assert np.array_equal(start_overlaps(exact, d, 0)[1], np.eye(3))
    # The same code at a small d, against start_weights.
    monkeypatch.setattr("limen.gaussian.starts.start_weights.LARGEST_D_WITH_WEIGHTS", 0)
    small = np.array([start_overlaps(problem, 6, seed)[0] for seed in range(many)])
    assert np.mean(small**2) == pytest.approx(2.25 / 6, rel=0.1)


def test_order_parameters_follow_the_one_step_mean():
    """After one step the mean of M and Q is that of Isserlis for the square; singular covariance included."""
    gamma, d, many = 0.5, 40, 40_000
    for overlap in (0.6, 1.0):
        found = chain([[1.0]], [[overlap]], [[1.0]], [1.0], [1.0], "square", gamma, 0.2, d, [1], many).dataset
        v = np.diag([-1.0, 1.0])
        c = np.array([[1.0, overlap], [overlap, 1.0]])
        t1, b = np.trace(c @ v), c @ v @ c
        t2 = np.trace(c @ v @ c @ v)
        drift = 2 * (t1 * c + 2 * b)
        noise = 4 * ((t1**2 + 2 * t2) * c + 4 * t1 * b + 8 * c @ v @ b)[0, 0] * (1 + 6 / d) + 0.2 * 4 * (1 + 2 / d)
        for values, mean in (
            (found.overlap[:, -1, 0, 0] - overlap, drift[0, 1]),
            (found.gram[:, -1, 0, 0] - 1.0, 2 * drift[0, 0] + gamma * noise),
        ):
            scaled = values.values * d / gamma
            assert abs(scaled.mean() - mean) < 4.5 * scaled.std() / np.sqrt(many)


def test_dependent_teachers_and_a_perfect_student_stay_put():
    teacher = np.array([[1.0, 1.0], [1.0, 1.0]])
    found = chain(teacher, teacher, teacher, [1.0, 1.0], [1.0, 1.0], "tanh", 1.0, 0.0, 10, [50], 3).dataset
    np.testing.assert_allclose(found.gram[:, -1], np.tile(teacher, (3, 1, 1)), atol=1e-9)
    np.testing.assert_allclose(found.overlap[:, -1], np.tile(teacher, (3, 1, 1)), atol=1e-9)


def test_what_is_refused():
    with pytest.raises(InputError, match="d must be a whole number between p \\+ k = 3"):
        chain(Q0, M0, P, A, A_STAR, "erf", 1.0, 0.0, 2, 10, 2)
    with pytest.raises(InputError, match=r"positive semidefinite, got eigenvalue -0\.5"):
        chain([[1.0]], [[1.5]], [[1.0]], [1.0], [1.0], "erf", 1.0, 0.0, 20, 10, 2)
    with pytest.raises(InputError, match="M0 must have shape"):
        chain(Q0, M0.T, P, A, A_STAR, "erf", 1.0, 0.0, 20, 10, 2)
    with pytest.raises(InputError, match="rate must be positive"):
        chain(Q0, M0, P, A, A_STAR, "erf", 0.0, 0.0, 20, 10, 2)
    with pytest.raises(InputError, match="noise must not be negative"):
        chain(Q0, M0, P, A, A_STAR, "erf", 1.0, -1.0, 20, 10, 2)
    with pytest.raises(InputError, match="steps must be"):
        chain(Q0, M0, P, A, A_STAR, "erf", 1.0, 0.0, 20, [3, 2], 2)
    with pytest.raises(InputError, match="seeds must be"):
        chain(Q0, M0, P, A, A_STAR, "erf", 1.0, 0.0, 20, 3, [1, 1])


def test_divergence_is_said():
    found = chain([[1.0]], [[0.1]], [[1.0]], [1.0], [1.0], "z**3", 5.0, 0.0, 20, [400], 2)
    assert not found.ok and "smaller rate than 5" in found.status
    assert not jnp.isfinite(found.dataset.gram[:, -1].values).all()
