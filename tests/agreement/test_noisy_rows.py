"""One-pass SGD from random starts on targets with hard directions: rows with the noise of the samples."""

from functools import lru_cache

import numpy as np
import pytest
import xarray as xr

import limen
from limen.result import Findings
from limen.theory.one_pass.overlap_equations import noisy_rows, overlap_ode

TIMES = np.linspace(0.0, 1.76, 9)


def committee(activation="square", rate=0.3, algorithm=limen.OnePassSGD, target="z**2", width=2):
    return limen.TwoLayer(limen.target(target, noise=0.3), limen.network(width, activation), algorithm(rate))


SIZES = (200, 400)


@lru_cache(maxsize=1)
def trained(problem, seeds, last):
    return [limen.simulate(problem, last * TIMES, d=d, seeds=seeds) for d in SIZES]


def compared(problem, seeds, last):
    """Test losses at two sizes: means of rows are off by O(1/d)."""
    rows = [limen.predict(problem, last * TIMES, d=d, seeds=seeds) for d in SIZES]
    return limen.compare(rows, trained(problem, seeds, last), ["test_loss"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "seeds", "last"),
    [
        (committee(rate=0.1), 600, 1.5),
        (committee(algorithm=limen.SphericalSGD, rate=0.1), 600, 1.0),
        (committee("gelu", 0.8), 400, 2.0),
    ],
)
def test_rows_agree_with_training(problem, seeds, last):
    said = compared(problem, seeds, last)
    assert said.verdict == "agrees", said.sentence


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.0, 2.0])
def test_another_noise_disagrees(monkeypatch, factor):
    right = noisy_rows._kick_factors
    monkeypatch.setattr(noisy_rows, "_kick_factors", lambda *parts: factor * right(*parts))
    said = compared(committee("gelu", 0.8), 400, 2.0)
    assert said.verdict == "disagrees", said.sentence


def test_noise_of_the_overlaps_is_that_of_one_sample(monkeypatch):
    r"""Without overlap $M$ moves by the noise alone: variance $\frac{\gamma t}{dp}\Sigma_M$ for short times. For linear
    neurons on $z^2$ with label noise $\Delta$ and $Q=I$: $E[e^2z^2]=15+\Delta+\frac12$. First paths of the rows."""
    monkeypatch.setattr(noisy_rows, "row_means", lambda found, seeds: found)
    problem = limen.TwoLayer(limen.target("z**2", noise=0.5), limen.network(2, "linear"), limen.OnePassSGD(0.4))
    d, time, rows = 10**6, 1e-4, 4096
    overlap = overlap_ode.solve(problem, np.array([0.0, time]), d, range(rows)).dataset.overlap.values[..., 0]
    moved = (overlap[:, 1] - overlap[:, 0]).reshape(rows, noisy_rows.PATHS, 2)
    wanted = 0.2 * time / d * 16.0
    error = wanted * np.sqrt(2.0 / rows)
    np.testing.assert_allclose((moved[:, 0] ** 2).mean(axis=0), wanted, atol=4.0 * error)
    # Linear neurons have one slope: both are kicked alike; paths come in opposite pairs, up to the drift.
    close = {"rtol": 1e-3, "atol": 0.1 * np.sqrt(wanted)}
    np.testing.assert_allclose(moved[..., 0], moved[..., 1], **close)
    np.testing.assert_allclose(moved[:, 0], -moved[:, 1], **close)


def test_kicks_keep_the_sphere_and_the_rest_of_the_neurons():
    random = np.random.default_rng(0)
    weights = random.standard_normal((8, 3, 8))
    overlap, gram = weights[..., :2], weights @ weights.transpose(0, 2, 1)
    state = overlap_ode.Overlaps(gram, overlap, np.ones((8, 3)))
    factors = np.broadcast_to(np.eye(6), (8, 6, 6))
    generators = [np.random.default_rng(i) for i in range(2)]
    kicked = noisy_rows._kicked(state, factors, generators, 0.01, False)
    rest = [np.asarray(q) - np.asarray(m) @ np.asarray(m).transpose(0, 2, 1) for q, m, _ in (state, kicked)]
    np.testing.assert_allclose(rest[0], rest[1], rtol=1e-5, atol=1e-5)
    assert np.abs(np.asarray(kicked.overlap) - overlap).max() > 0.05
    kicked = noisy_rows._kicked(state, factors, generators, 0.01, True)
    np.testing.assert_allclose(np.einsum("sii->si", kicked.gram), np.einsum("sii->si", gram), rtol=1e-5)


def test_a_row_is_lost_with_its_first_path():
    values = np.array([[1.0, 3.0, np.nan, 5.0], [np.nan, 2.0, 2.0, 2.0]]).reshape(8, 1)
    dataset = xr.Dataset({"test_loss": (("seed", "time"), values)}, {"time": [1.0], "seed": range(8)})
    found = noisy_rows.row_means(Findings(dataset, True, ""), (4, 9)).dataset
    np.testing.assert_allclose(found.test_loss, [[3.0], [np.nan]])
    assert list(found.seed) == [4, 9] and found.attrs["rows"] == "means"


def test_easy_targets_given_starts_and_schedules_have_no_noise():
    assert overlap_ode.begins_at_saddle(committee())
    assert not overlap_ode.begins_at_saddle(committee(target="z+z**2"))
    given = committee().model_copy(update={"start": limen.OverlapStart(0.3)})
    assert not overlap_ode.begins_at_saddle(given)
    assert "leave it out" in overlap_ode.known_effect(committee(rate="0.3/(1+t)"))["caveat"]
    assert overlap_ode.known_effect(committee()) == {}


def test_lost_rows_are_named_and_the_others_stay():
    found = limen.predict(committee(rate=1.5), TIMES, d=60, seeds=64)
    lost = ~np.isfinite(found.dataset.gram.values).all(axis=(1, 2, 3))
    assert not found.ok and "diverge" in found.status
    assert lost.sum() > 0
