"""One-pass SGD from random starts on targets with hard directions: rows with the noise of the samples."""

import time
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import limen
from limen.result import Findings
from limen.theory.one_pass import increments
from limen.theory.one_pass.overlap_equations import noisy_rows, overlap_ode
from limen.theory.one_pass.overlap_equations.fastest_rate import fastest_rate
from limen.theory.one_pass.overlaps import Overlaps

TIMES = np.linspace(0.0, 1.76, 9)


def committee(activation="square", rate=0.3, algorithm=limen.OnePassSGD, target="z**2", width=2):
    return limen.TwoLayer(limen.target(target, noise=0.3), limen.network(width, activation), algorithm(rate))


SIZES = (200, 400)


@lru_cache(maxsize=1)
def trained(problem, seeds, last):
    return [limen.simulate(problem, last * TIMES, d=d, seeds=seeds) for d in SIZES]


def compared(problem, seeds, last, sizes=SIZES):
    """Test losses; at two sizes, for means of rows are off by O(1/d)."""
    runs = [one for d, one in zip(SIZES, trained(problem, seeds, last), strict=True) if d in sizes]
    rows = [limen.predict(problem, last * TIMES, d=d, seeds=seeds) for d in sizes]
    return limen.compare(rows, runs, ["test_loss"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "seeds", "last"),
    [
        (committee(rate=0.1), 600, 1.5),
        (committee(algorithm=limen.SphericalSGD, rate=0.1), 600, 1.0),
        (committee("gelu", 0.8), 400, 2.0),
        # Even neurons do not see the linear part, and their own overlap is at a saddle too.
        (committee(algorithm=limen.SphericalSGD, rate=0.3, target="gelu(z)"), 600, 1.0),
    ],
)
def test_rows_agree_with_training(problem, seeds, last):
    said = compared(problem, seeds, last)
    assert said.verdict == "agrees", said.sentence


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "verdict"), [(0.0, "disagrees"), (1.0, "agrees"), (2.0, "disagrees")])
def test_another_noise_disagrees(monkeypatch, factor, verdict):
    """At the larger size alone: two sizes leave open whether a deviation falls."""
    right = noisy_rows.normals
    monkeypatch.setattr(noisy_rows, "normals", lambda *parts: factor * right(*parts))
    said = compared(committee("gelu", 0.8), 400, 2.0, SIZES[1:])
    assert said.verdict == verdict, said.sentence


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["overlaps alone", "all"])
def test_without_the_noise_between_neurons_it_disagrees(monkeypatch, kept):
    """Two even neurons on a target whose linear part they do not see, at the larger size alone."""
    right = noisy_rows.Kick
    if kept == "overlaps alone":
        between = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
        monkeypatch.setattr(noisy_rows, "Kick", lambda noise, shift: right(between * noise, shift))
    said = compared(committee(algorithm=limen.SphericalSGD, rate=0.3, target="gelu(z)"), 600, 1.0, SIZES[1:])
    assert said.verdict == ("agrees" if kept == "all" else "disagrees"), said.sentence


def test_noise_of_the_overlaps_is_that_of_one_sample(monkeypatch):
    r"""Without overlap $M$ moves by the noise alone: variance $\frac{\gamma t}{dp}\Sigma_M$ for short times. For linear
    neurons on $z^2$ with label noise $\Delta$ and $Q=I$: $E[e^2z^2]=15+\Delta+\frac12$. First paths of the rows."""
    monkeypatch.setattr(noisy_rows, "row_means", lambda found, seeds, noisy: found)
    problem = limen.TwoLayer(limen.target("z**2", noise=0.5), limen.network(2, "linear"), limen.OnePassSGD(0.4))
    d, time, rows = 10**6, 1e-4, 1024
    overlap = overlap_ode.solve(problem, np.array([0.0, time]), d, range(rows)).dataset.overlap.values[..., 0]
    moved = (overlap[:, 1] - overlap[:, 0]).reshape(rows, noisy_rows.PATHS, 2)
    wanted = 0.2 * time / d * 16.0
    error = wanted * np.sqrt(2.0 / rows)
    np.testing.assert_allclose((moved[:, 0] ** 2).mean(axis=0), wanted, atol=4.0 * error)
    # Linear neurons have one slope: both are kicked alike; paths come in opposite pairs, up to the drift.
    close = {"rtol": 1e-3, "atol": 0.1 * np.sqrt(wanted)}
    np.testing.assert_allclose(moved[..., 0], moved[..., 1], **close)
    np.testing.assert_allclose(moved[:, 0], -moved[:, 1], **close)


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "verdict"), [(0.0, "disagrees"), (1.0, "agrees")])
def test_inputs_of_several_variances(monkeypatch, factor, verdict):
    right = noisy_rows.normals
    monkeypatch.setattr(noisy_rows, "normals", lambda *parts: factor * right(*parts))
    inputs = limen.Inputs(variances=(1.5, 0.5), fractions=(0.5, 0.5))
    problem = committee("gelu", 0.8).model_copy(update={"inputs": inputs})
    said = compared(problem, 400, 1.5, SIZES[1:])
    assert said.verdict == verdict, said.sentence


@pytest.mark.parametrize(("algorithm", "spherical"), [(limen.OnePassSGD, False), (limen.SphericalSGD, True)])
def test_moments_of_a_step_are_those_of_sgd(algorithm, spherical):
    """Against many single steps of SGD in plain NumPy at d = 30 from fixed weights, mean beyond the slope of the limit
    included; the covariance of the limit is another one on the sphere."""
    problem, d, p, rate, noise = committee("tanh", 8.0, algorithm, "z**2"), 30, 2, 8.0, 0.3
    random = np.random.default_rng(5)
    weights = np.zeros((p, d))
    weights[:, :3] = [[0.4, 0.9, 0.0], [-0.2, 0.5, 0.7]]
    gram, overlap = weights @ weights.T, weights[:, :1]
    samples = 400_000
    x = random.standard_normal((samples, d))
    y = x[:, 0] ** 2 + np.sqrt(noise) * random.standard_normal(samples)
    fields = x @ weights.T
    push = (y - np.tanh(fields).mean(axis=1))[:, None] * (1.0 - np.tanh(fields) ** 2)
    new = weights + rate / (d * p) * push[:, :, None] * x[:, None]
    if spherical:
        new *= np.linalg.norm(weights, axis=1)[:, None] / np.linalg.norm(new, axis=2, keepdims=True)
    scale = d * p / rate
    packed = [scale * (new[..., 0] - overlap[:, 0]), scale * (new @ new.swapaxes(1, 2) - gram).reshape(samples, -1)]
    moved = np.concatenate(packed, axis=1)
    with jax.enable_x64(True):
        state = Overlaps(*map(jnp.asarray, (gram, overlap, np.ones(p))))
        motion = overlap_ode.problem_motion(problem, np.array([0.0, 1.0]))
        sampled, now = increments.problem_increments(problem, 1 << 14), jnp.zeros(())
        steps = jax.jit(
            lambda chances: increments.whole_steps(sampled, state, motion, now, jnp.asarray(1.0 / d), chances)
        )
        shift, count = np.asarray(steps(jnp.zeros((1, 1 << 14))).shift), 1 << 11
        noise = [steps(jnp.eye(count, 1 << 14, begin)).noise for begin in range(0, 1 << 14, count)]
        covariance = np.asarray(sum(part.T @ part for part in noise))
        limit = increments.increment_covariance(sampled, state, motion, now)[:6, :6]
        slope = motion.slope(overlap_ode.population_of(problem)[0], state, now)
        mean = np.concatenate([slope.overlap.ravel(), slope.gram.ravel()]) + shift
    error = 5.0 * moved.std(axis=0).max() / np.sqrt(samples)
    np.testing.assert_allclose(mean, moved.mean(axis=0), atol=error)
    wanted = np.cov(moved.T)
    np.testing.assert_allclose(covariance, wanted, atol=0.08 * wanted.max())
    # What the limit has in their places would be seen.
    assert np.abs(np.asarray(limit) - wanted).max() > 0.1 * wanted.max()
    assert np.abs(shift).max() > 2.0 * error


def test_kicks_keep_the_sphere_and_gram_matrices():
    """Two eigenspaces of five dimensions each; the target's two directions lie in one each, or in both."""
    random, target = np.random.default_rng(0), np.array([[1.0, 0.4], [0.0, 0.6]])
    directions = np.zeros((2, 5, 2))
    directions[:, 0, 0], directions[:, 1, 1] = np.sqrt(target).T
    weights, kick = random.standard_normal((8, 2, 3, 5)), 0.1 * random.standard_normal((8, 30))
    between = kick[:, 12:].reshape(8, 2, 3, 3)
    between += between.swapaxes(2, 3).copy()
    kick[:, 6 + np.arange(0, 6, 2)] = 0.0  # nothing moves along what is not there
    overlap, gram = weights @ directions, weights @ weights.swapaxes(2, 3)
    state = noisy_rows.State(gram, overlap, np.ones((8, 3)))

    def beside(state, gram):
        along = state.overlap / np.where(target > 0.0, target, 1.0)[:, None]
        return np.linalg.eigvalsh(gram - along @ state.overlap.swapaxes(2, 3)).min(axis=-1)

    kicked = noisy_rows._moved(state, kick, target, False)
    np.testing.assert_allclose(kicked.overlap - overlap, kick[:, :12].reshape(8, 2, 3, 2), atol=1e-14)
    fine = beside(kicked, gram + between) > 0.0
    assert fine.sum() >= 8
    np.testing.assert_allclose((kicked.gram - gram)[fine], between[fine], atol=1e-12)
    far = noisy_rows._moved(state, 20.0 * kick, target, True)
    lengths = [np.einsum("sbii->si", part) for part in (far.gram, gram)]
    np.testing.assert_allclose(*lengths, rtol=1e-12)
    assert beside(far, far.gram).min() > -1e-9


def test_the_noise_between_kicks_is_that_of_its_time(monkeypatch):
    r"""In times in which little moves the variance of $M$ is $\frac{\gamma t}d\Sigma_M$, at the kicks and between them;
    here $\Sigma_M=15+\Delta+1$."""
    monkeypatch.setattr(noisy_rows, "row_means", lambda found, seeds, noisy: found)
    problem = limen.TwoLayer(limen.target("z**2", noise=0.5), limen.network(1, "linear"), limen.OnePassSGD(0.4))
    times, d, rows = np.linspace(0.0, 1e-4, 41), 10**6, 1024
    overlap = overlap_ode.solve(problem, times, d, range(rows)).dataset.overlap.values[..., 0, 0]
    moved = (overlap - overlap[:, :1]).reshape(rows, noisy_rows.PATHS, -1)[:, 0]
    np.testing.assert_allclose(
        (moved[:, 1:] ** 2).mean(axis=0) / (0.4 * times[1:] / d * 16.5), 1.0, atol=4.5 * np.sqrt(2.0 / rows)
    )


def test_no_time_is_later_than_the_end_of_its_piece():
    """In rounding too: a number next to the end of a piece may lie beyond its length once that is measured."""
    random, beyond = np.random.default_rng(1), 0
    for begun, length in random.uniform(0.01, 3.0, (500, 2)):
        end = begun + length
        times = np.array([0.5 * begun, begun, begun + 0.4 * length, np.nextafter(end, 0.0), end, 2.0 * end])
        inside, offsets = noisy_rows._offsets(times, begun, end)
        beyond += int((times[inside] - begun > end - begun).any())
        assert list(inside) == [2, 3, 4] and len(offsets) == noisy_rows.ROOM
        assert (np.diff(offsets) >= 0.0).all() and offsets[-1] == end - begun == offsets.max()
        np.testing.assert_allclose(offsets[:3], times[2:5] - begun, rtol=1e-14, atol=1e-14)
    # A piece ends where its room does, after its length, or at the last time, which leaves no sliver.
    many = np.linspace(0.0, 1.0, 101)
    assert noisy_rows._end(many, 0.0, 0.5) == many[noisy_rows.ROOM]
    assert noisy_rows._end(many, 0.4, 0.05) == pytest.approx(0.45) and noisy_rows._end(many, 0.9, 0.095) == 1.0


@pytest.mark.parametrize("factor", [1.0, 10.0])
def test_the_fastest_rate_is_that_of_growth_and_of_decay(factor):
    r"""$\dot v=Av$ with the rates -7 and 2 in a skewed basis, or with the complex pair -1 ± 5i beside them."""
    basis, pair = np.random.default_rng(2).standard_normal((4, 4)), np.array([[-1.0, 5.0], [-5.0, -1.0]])
    states = np.random.default_rng(3).standard_normal((6, 4))
    for diagonal, wanted in ((-7.0, 7.0), (0.1, np.hypot(1.0, 5.0))):
        matrix = np.diag([diagonal, 2.0, 0.0, 0.0])
        matrix[2:, 2:] = pair
        matrix = factor * basis @ matrix @ np.linalg.inv(basis)
        assert fastest_rate(lambda v, a=matrix: v @ a.T, states) == pytest.approx(factor * wanted, rel=0.15)
    assert fastest_rate(np.zeros_like, states) == 0.0
    assert fastest_rate(lambda v: np.full_like(v, np.nan), states) == 0.0


def test_a_row_depends_neither_on_the_last_time_nor_on_other_seeds():
    """Kicks differ with the last time, their law does not: 256 rows, 5 standard errors; a third less noise is seen."""
    problem, times = committee(algorithm=limen.SphericalSGD, rate=0.1, width=1), np.array([0.0, 0.8, 1.6])
    long = limen.predict(problem, np.append(times, 60.0), d=500, seeds=256, theory="overlap-ode")
    short = limen.predict(problem, times, d=500, seeds=256, theory="overlap-ode")
    gap = short.dataset.test_loss.values - long.dataset.test_loss.values[:, :3]
    assert (np.abs(gap.mean(axis=0)) <= 5.0 * gap.std(axis=0) / 16.0 + 0.005).all()
    alone = limen.predict(problem, times, d=500, seeds=[7], theory="overlap-ode")
    np.testing.assert_allclose(alone.dataset.test_loss[0], short.dataset.test_loss[7], rtol=1e-6)
    assert "mean over 4 paths" in short.status and "of the time" not in short.status


@pytest.mark.parametrize("most", [512, 40])
def test_fluctuations_of_a_plateau_are_those_of_training(monkeypatch, most):
    """After the escape two square neurons keep a risk that the noise of their samples makes, with pieces far shorter
    than its memory (training: .0737 from 32 runs at t = 20); where kicks end, the flow goes on, and it is said."""
    monkeypatch.setattr(noisy_rows, "MOST_PIECES", most)
    problem = limen.TwoLayer(limen.target("z**2", noise=1.0), limen.network(2, "square"), limen.OnePassSGD(0.1))
    found = limen.predict(problem, [0.0, 12.0, 40.0], d=200, seeds=32)
    risk = found.dataset.excess_risk.mean("seed").values
    np.testing.assert_allclose(risk[1:], 0.0725, atol=0.0025)
    assert found.ok and "which ends after" in found.status


def test_kicks_of_blocks_are_symmetric():
    """Rounding in the least eigenvalues must not turn a Gram matrix: the sphere would amplify it until rows end."""
    problem = committee(algorithm=limen.SphericalSGD, rate=0.3)
    found = limen.predict(problem, TIMES, d=150, seeds=32, theory="block-overlap-ode")
    gram = found.dataset.gram.values
    assert found.ok, found.status
    np.testing.assert_allclose(gram, gram.swapaxes(2, 3), atol=1e-9)


def test_wide_networks_have_points_enough():
    easy = limen.TwoLayer("tanh(2*z)", limen.network(300, "tanh"), limen.OnePassSGD(0.3))
    found = limen.predict(easy, [0.0, 0.2], d=400, seeds=1)
    assert found.ok and "mean over" not in found.status
    wide = limen.TwoLayer("z**2", limen.network(70, "square"), limen.OnePassSGD(0.1))
    assert "as many as 70 neurons" in overlap_ode.noise_of_rows(wide)[1]["caveat"]


def test_a_row_is_lost_with_its_first_path():
    values = np.array([[1.0, 3.0, np.nan, 5.0], [np.nan, 2.0, 2.0, 2.0]]).reshape(8, 1)
    dataset = xr.Dataset({"test_loss": (("seed", "time"), values)}, {"time": [1.0], "seed": range(8)})
    found = noisy_rows.row_means(Findings(dataset, True, ""), (4, 9), 1.0).dataset
    np.testing.assert_allclose(found.test_loss, [[3.0], [np.nan]])
    assert list(found.seed) == [4, 9] and "rows" not in found.attrs


def test_where_nothing_pulls_is_a_saddle():
    assert overlap_ode.begins_at_saddle(committee())
    # Even neurons see no linear part; odd ones, and kinked ones, do.
    assert overlap_ode.begins_at_saddle(committee(target="z+z**2"))
    assert not overlap_ode.begins_at_saddle(committee("tanh", target="z+z**2"))
    assert not overlap_ode.begins_at_saddle(committee("relu", target="z+z**2"))
    # A statistic of its labels sees the third Hermite polynomial, square loss does not.
    assert overlap_ode.begins_at_saddle(committee("tanh", target="z**3-3*z"))
    # Of two latent directions all neurons see one and the same.
    assert overlap_ode.begins_at_saddle(committee("tanh", target="z1+tanh(z2)"))
    given = committee().model_copy(update={"start": limen.OverlapStart(0.3)})
    assert not overlap_ode.begins_at_saddle(given)


def test_where_the_noise_is_left_out_it_is_said():
    found = overlap_ode.solve(committee(rate="0.3/(1+t)"), TIMES, 200, range(2))
    assert "a rate that changes in time" in found.dataset.attrs["caveat"]
    assert overlap_ode.noise_of_rows(committee()) == (True, {})
    inputs = limen.Inputs(variances=(0.5, 1.5), fractions=(0.5, 0.5))
    for width, said in ((2, False), (12, True)):
        problem = committee("tanh", width=width).model_copy(update={"inputs": inputs})
        found = limen.predict(problem, TIMES[:2], d=200, seeds=2)
        assert ("as many as 12 neurons" in found.dataset.attrs.get("caveat", "")) == said


def test_lost_rows_are_named_and_the_others_stay():
    found = limen.predict(committee(rate=1.5), TIMES, d=60, seeds=64)
    lost = ~np.isfinite(found.dataset.gram.values).all(axis=(1, 2, 3))
    assert not found.ok and "diverge" in found.status
    assert lost.sum() > 0


@pytest.mark.slow
def test_rows_that_diverge_come_back():
    """A square neuron whose flow from the start of every row leaves the finite numbers, as its training does."""
    problem = limen.TwoLayer(limen.target("cos(z)+0.5*z"), limen.network(1, "z**2-1"), limen.OnePassSGD(0.452))
    began = time.process_time()
    found = limen.predict(problem, np.linspace(0.0, 4.6, 9), d=186, seeds=16)
    assert time.process_time() - began < 30.0
    assert not found.ok and "diverge" in found.status
    assert not limen.simulate(problem, np.linspace(0.0, 4.6, 9), d=186, seeds=4).ok


def test_a_row_over_points_of_its_own_depends_not_on_other_seeds():
    """Kinked neurons have sampled averages: the pilot, by which pieces are cut, has points that no row brings along."""
    problem = limen.TwoLayer("z**2-1", limen.network(2, "relu"), limen.SphericalSGD(0.5))
    alone, beside = (limen.predict(problem, [0.0, 1.0, 3.0], d=200, seeds=seeds) for seeds in ([1], [0, 1]))
    np.testing.assert_allclose(alone.dataset.overlap.sel(seed=1), beside.dataset.overlap.sel(seed=1), rtol=1e-6)
