"""Descent and its thresholds, cases small enough to be written out: Gaussian laws, searches by hand, plain sums."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm
from scipy.stats import t as student

import limen
from limen import network, target
from limen.problem import GradientDescent, TwoLayer
from limen.result import Findings
from limen.theory.descent import escape
from limen.theory.descent.batches import draw_batches
from limen.theory.descent.escape import first_passage, hard_cosine, largest_cosine
from limen.theory.descent.path_error import OF_A_MEDIAN, path_error, stated_part
from limen.theory.descent.path_responses import BLOCK, PathResponses
from limen.theory.thresholds import bayes
from limen.theory.thresholds.feature_learning import _growth
from limen.theory.thresholds.information_theoretic import _cost
from limen.theory.thresholds.overlap_curve import information_and_slope
from limen.theory.thresholds.overlap_matrices import entropy
from limen.theory.thresholds.spectral_estimator import spectral_overlap, spectral_weight
from limen.theory.thresholds.success import _probability
from limen.theory.thresholds.trimming import trimmed_count

# Thresholds


@pytest.mark.parametrize("level", [-0.5, 0.0, 3.2, 7.9, 50.0])
def test_trimming_finds_the_fewest_weights_by_trying_all(level):
    edges = np.array([0.0, 0.5, 1.1, 3.2, 3.3, 5.0, 7.0, 8.0, 9.0, 9.5])
    for trim in (0.0, 0.3, 0.9):
        most = int(trim * 10)
        reached = [count for count in range(most + 1) if edges[count] >= level]
        assert trimmed_count(lambda count: float(edges[count]), 10, trim, level) == (reached[0] if reached else most)


def test_spectral_weight_of_phase_retrieval():
    """The label of z^2 is z^2 itself: T = (y - 1)/(y + eps)."""
    weight = spectral_weight("z**2", 0.05)
    labels = np.array([0.1, 0.7, 1.0, 3.0])
    np.testing.assert_allclose(weight(labels), (labels - 1) / (labels + 0.05), atol=2e-3)


@pytest.mark.parametrize("delta, epsilon", [(1.0, 0.1), (3.0, 0.3)])
def test_spectral_overlap_of_phase_retrieval_by_the_functions_of_lu_and_li(delta, epsilon):
    r"""$\phi(\lambda)=\lambda E[Tz^2/(\lambda-T)]$ meets $\psi(\lambda)=\lambda(1/\delta+E[T/(\lambda-T)])$; there the
    squared cosine is $\psi'/(\psi'-\phi')$ (Lu & Li 2020). Integrals over z by quadrature."""

    def mean(function):
        def integrand(z):
            t = (z**2 - 1) / (z**2 + epsilon)
            return 2 * function(z, t) * norm.pdf(z)

        return quad(integrand, 0, 12, epsabs=1e-12, limit=300)[0]

    def gap(x):
        return mean(lambda z, t: x * t * (z**2 - 1) / (x - t)) - x / delta

    place = brentq(gap, 1.0001, 60.0, xtol=1e-10)
    psi = 1 / delta - mean(lambda z, t: t**2 / (place - t) ** 2)
    phi = -mean(lambda z, t: z**2 * t**2 / (place - t) ** 2)
    assert psi > 0.0
    assert spectral_overlap("z**2", delta, epsilon) == pytest.approx(psi / (psi - phi), abs=4e-3)


def test_information_of_a_channel_of_two_labels_by_sums():
    """A hand-made channel on a grid: the sums of the definition, the slope by its own quadrature."""
    latents = np.linspace(-7.0, 7.0, 701)
    by_cell = np.stack([0.5 + 0.4 * np.tanh(latents), 0.5 - 0.4 * np.tanh(latents)])
    q = 0.35
    channel = SimpleNamespace(latents=latents, by_cell=by_cell)
    information, slope = information_and_slope(channel, q)  # pyright: ignore[reportArgumentType]
    known, width = np.linspace(-8.0, 8.0, 801), 0.02

    def label(z):
        return 0.5 + 0.4 * np.tanh(z)

    unknown = np.linspace(-8.0, 8.0, 801)
    z = math.sqrt(q) * known[:, None] + math.sqrt(1 - q) * unknown
    given = (label(z) * norm.pdf(unknown)).sum(axis=1) * width
    pull = (label(z) * unknown * norm.pdf(unknown)).sum(axis=1) * width
    chances = norm.pdf(known) * width
    total = chances @ given
    expected = chances @ (given * np.log(given / total) + (1 - given) * np.log((1 - given) / (1 - total)))
    assert information == pytest.approx(expected, rel=1e-6)
    squared = chances @ (pull**2 / given + pull**2 / (1 - given)) / (1 - q)
    assert slope == pytest.approx(squared, rel=1e-6)


def test_what_knowledge_costs_is_the_entropy_of_a_gaussian():
    """On one variance -(q + log(1 - q))/2, for matrices the sum over eigenvalues, whatever their directions. On several
    the cost grows by half the precision r per overlap q, which holds for both as functions of r."""
    q = np.array([0.01, 0.3, 0.9])
    single = -0.5 * (q + np.log(1.0 - q))
    np.testing.assert_allclose(_cost(q, np.ones(1), np.ones(1)), single, rtol=1e-9)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    assert entropy((turn * q) @ turn.T) == pytest.approx(single.sum(), rel=1e-9)
    profile, fractions, r = np.array([0.2, 1.8]), np.array([0.5, 0.5]), 0.7
    near = np.array([r - 1e-4, r + 1e-4])[:, None]
    overlaps = (profile**2 * near / (1.0 + profile * near)) @ fractions
    assert np.diff(_cost(overlaps, profile, fractions)) / np.diff(overlaps) == pytest.approx(0.5 * r, rel=1e-5)


@pytest.mark.parametrize("samples_per_dim, best", [(0.5, 0.6), (0.3, 0.0), (2.0, 0.6)])
def test_an_overlap_is_best_where_it_tells_more_than_it_costs(samples_per_dim, best):
    """A label that tells 0.8 q, and knowledge 0.6 that costs 0.158: worth it from 0.33 samples per dimension on."""
    grid = np.linspace(0.001, 0.999, 999)
    curve = bayes.OverlapCurve(grid, np.ones(999), 0.8 * grid, 1.0, np.inf)
    assert bayes._best(curve, samples_per_dim, [0.6]) == best


@pytest.mark.parametrize("information, best", [(0.9, 0.6), (0.3, 0.1)])
def test_the_best_of_two_overlaps_gains_the_most(information, best, monkeypatch):
    """From full knowledge 0.6, from none 0.1 times the identity, which tells 0.05: entropies 0.316 and 0.005."""
    told = {0.6: information, 0.1: 0.05}
    starts = {"full": 0.6 * np.eye(2), "faint": 0.1 * np.eye(2)}
    for name in starts:
        monkeypatch.setattr(bayes, f"{name}_start", lambda _, name=name: name)
    monkeypatch.setattr(
        bayes, "fixed_point", lambda _, delta, start: SimpleNamespace(overlap=starts[start], settled=True)
    )
    monkeypatch.setattr(bayes, "information_and_slope", lambda _, q: (told[round(q[0, 0], 6)], None))
    found = bayes._of_several(target("z1 + z2", noise=0.1), 0.5)
    np.testing.assert_allclose(found.information_theoretic, best * np.eye(2))
    np.testing.assert_allclose(found.algorithmic, 0.1 * np.eye(2))


def linear_law(variances, lengths):
    """A prediction whose neurons' overlaps are independent: (time, neuron) each, one hard direction."""
    times, width = variances.shape
    hard = np.zeros((times, width, width, 1, 1))
    gram = np.zeros((times, width, width))
    for j in range(width):
        hard[:, j, j, 0, 0], gram[:, j, j] = variances[:, j], lengths[:, j]
    dims = ("time", "neuron", "other", "hard", "hard2")
    dataset = xr.Dataset({"hard_variance": (dims, hard), "gram": (dims[:3], gram)})
    return SimpleNamespace(dataset=dataset)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_probability_of_success_of_independent_neurons(width):
    """The largest over time of one minus the product of the chances to fail."""
    d = 50
    variances = np.array([[1.0, 2.0, 0.5], [8.0, 3.0, 6.0], [2.0, 1.0, 1.0]])[:, :width]
    lengths = np.array([[1.0, 1.2, 0.8], [1.5, 0.7, 1.0], [1.0, 1.0, 1.0]])[:, :width]
    prediction = linear_law(variances, lengths)
    problem = SimpleNamespace(network=SimpleNamespace(width=width))
    typical = np.sqrt(variances / (d * lengths))
    np.testing.assert_allclose(hard_cosine(prediction, d), typical, rtol=1e-12)  # pyright: ignore
    fails = np.prod(1.0 - 2.0 * norm.cdf(-0.5 / typical), axis=1)
    found = _probability(problem, prediction, d)  # pyright: ignore[reportArgumentType]
    assert found == pytest.approx((1.0 - fails).max(), abs=1e-12 if width == 1 else 3e-3)


def test_hard_directions_add_up_to_the_typical_cosine():
    """Squares of the overlaps along both; how the two are correlated does not matter, nor what other neurons do."""
    hard = np.array(
        [[[[5.0, 1.5], [1.5, 3.0]], [[9.0, 9.0], [9.0, 9.0]]], [[[9.0] * 2] * 2, [[1.0, -0.5], [-0.5, 2.0]]]]
    )
    dims, gram = ("time", "neuron", "other", "hard", "hard2"), np.array([[[2.0, 7.0], [7.0, 0.5]]])
    dataset = xr.Dataset({"hard_variance": (dims, hard[None]), "gram": (dims[:3], gram)})
    found = hard_cosine(SimpleNamespace(dataset=dataset), 50)  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(found, [[math.sqrt(8.0 / 100.0), math.sqrt(3.0 / 25.0)]], rtol=1e-12)


def test_probability_of_success_along_two_directions():
    """One neuron of two has equal variances along both: its squared overlap is exponential."""
    hard = np.zeros((1, 2, 2, 2, 2))
    hard[0, 1, 1], gram = 9.0 * np.eye(2), np.array([[[1.0, 0.3], [0.3, 1.4]]])
    dims = ("time", "neuron", "other", "hard", "hard2")
    dataset = xr.Dataset({"hard_variance": (dims, hard), "gram": (dims[:3], gram)})
    problem, prediction = SimpleNamespace(network=SimpleNamespace(width=2)), SimpleNamespace(dataset=dataset)
    found = _probability(problem, prediction, 50)  # pyright: ignore[reportArgumentType]
    assert found == pytest.approx(math.exp(-0.25 * 50 * 1.4 / (2.0 * 9.0)), abs=3e-3)


def test_the_growth_of_a_cosine_is_its_exponent():
    """Overlaps along two directions and the length are powers of time: exponents of cosines, the larger first."""
    time = np.arange(11.0)
    variance, coefficients = np.zeros((11, 2, 2, 2, 2)), np.ones((11, 2, 3, 1))
    variance[:, 1, 1, 0, 0], variance[:, 1, 1, 1, 1] = 0.01 * time**0.6, 5.0 * time**1.4
    coefficients[:, 1] *= time[:, None, None] ** 0.2
    one = SimpleNamespace(found=SimpleNamespace(coefficients=coefficients))
    np.testing.assert_allclose(_growth(one, variance, 10, 1), [0.7 - 0.2, 0.3 - 0.2], rtol=1e-9)  # pyright: ignore
    np.testing.assert_allclose(_growth(one, variance, 7, 1), [0.5, 0.1], rtol=1e-9)  # pyright: ignore
    assert np.isnan(_growth(one, variance, 1, 1)).all()  # pyright: ignore[reportArgumentType]


# Escape, batches and the error of paths


def test_the_error_of_an_average_is_that_between_sets(monkeypatch):
    """Three runs a set: only the means of sixteen sets count, with Student's t of fifteen degrees of freedom."""
    values = np.random.default_rng(1).normal(0.3, 0.2, size=(48, 2))
    data: dict = {name: (("seed", "time"), values) for name in ("train_loss", "test_loss", "cosine")}
    data["escape_time"] = (("seed",), np.full(48, np.inf))
    runs = Findings(xr.Dataset(data, coords={"time": [0.0, 1.0]}), True, "")
    monkeypatch.setattr(escape, "escaping_runs", lambda *_: runs)
    problem = TwoLayer("z**2", network(1, "tanh"), GradientDescent(step=0.1), 2.0)
    found = escape.average_run(problem, 1, 100, 48).dataset
    passed = np.stack([values[:, 0] > 0.5, (values > 0.5).any(axis=1)], axis=1)
    wider = student.ppf(0.995, 15) / norm.ppf(0.995)
    for name, each in (("train_loss", values), ("escaped", passed)):
        np.testing.assert_allclose(found[name], each.mean(axis=0), rtol=1e-12)
        means = each.reshape(16, 3, 2).mean(axis=1)
        np.testing.assert_allclose(found[f"{name}_error"], wider * means.std(axis=0, ddof=1) / 4, rtol=1e-4)


def test_cosines_and_first_passages_by_hand():
    """Two neurons, an easy and a hard latent: only the part along the second counts, against the neuron's length."""
    problem = SimpleNamespace(target=target("z1 + z2**2 - 1"))
    overlap = np.array([[[[3.0, 0.2], [0.0, 0.6]], [[1.0, 0.9], [0.0, 0.1]]]])
    gram = np.array([[[[16.0, 0.0], [0.0, 4.0]], [[2.25, 0.0], [0.0, 4.0]]]])
    dims = ("seed", "time", "neuron", "latent")
    dataset = xr.Dataset({"overlap": (dims, overlap), "gram": (("seed", "time", "neuron", "other"), gram)})
    cosine = largest_cosine(problem, dataset)  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(cosine, [[0.3, 0.6]], rtol=1e-6)
    grid = np.array([0.0, 2.0, 5.0])
    cosines = np.array([[0.1, 0.5, 0.51], [0.6, 0.1, 0.9], [0.1, 0.2, 0.5]])
    np.testing.assert_array_equal(first_passage(grid, cosines), [5.0, 0.0, np.inf])


@pytest.mark.parametrize("fraction", [0.5, 0.3])
def test_batches_have_mean_one_given_the_past(fraction):
    """By epochs every path is seen once, or sits out; given that it was not seen yet, its chance is what `expected`
    says."""
    algorithm = GradientDescent(step=0.1, batch_fraction=fraction, replacement=False)
    count, paths = int(1 / fraction), 40_000
    batches = draw_batches(algorithm, 2 * count, paths, [np.random.default_rng(0)])
    assert batches is not None
    seen, expected = batches.row(0)
    assert set(np.unique(seen)) == {np.float32(0.0), np.float32(1 / fraction)}
    error = 4 * math.sqrt((1 / fraction - 1) / paths)
    np.testing.assert_allclose(seen.mean(axis=1), 1.0, atol=error)
    np.testing.assert_allclose(expected.mean(axis=1), 1.0, atol=error)
    for epoch in (seen[:count], seen[count:]):
        assert ((epoch > 0).sum(axis=0) <= 1).all()
        assert ((epoch > 0).sum(axis=0) == 1).mean() == pytest.approx(count * fraction, abs=4 * 0.5 / math.sqrt(paths))
    # The second turn of the first epoch: nobody who was seen, all others alike.
    waiting = seen[0] == 0
    assert not expected[1][~waiting].any()
    np.testing.assert_allclose(expected[1][waiting], 1 / (1 - fraction), rtol=1e-6)


def test_batches_with_replacement_and_none():
    algorithm = GradientDescent(step=0.1, batch_fraction=0.25, replacement=True)
    batches = draw_batches(algorithm, 3, 40_000, [np.random.default_rng(1), np.random.default_rng(2)])
    assert batches is not None and batches.seen.shape == (2, 3, 40_000)
    np.testing.assert_allclose(batches.seen.mean(axis=2), 1.0, atol=4 * math.sqrt(3 / 40_000))
    assert (batches.expected == 1.0).all()
    assert draw_batches(GradientDescent(step=0.1), 3, 10, [np.random.default_rng(0)]) is None


def test_error_of_paths_by_hand():
    """Losses against their largest size so far, an overlap near zero against the neuron's length."""
    values = {"train_loss": [4.0, 2.0, 1.0], "test_loss": [1.0, 1.0, 1.0], "second_layer": [1.0, 1.0, 1.0]}
    spreads = {"train_loss": [0.0, 0.0, 0.4], "test_loss": [0.0, 0.0, 0.0], "second_layer": [0.0, 0.0, 0.0]}
    data = {name: (("time",), np.array(one)) for name, one in values.items()}
    data |= {f"{name}_spread": (("time",), np.array(one)) for name, one in spreads.items()}
    gram = np.full((3, 1, 1), 9.0)
    data |= {"gram": (("time", "neuron", "other"), gram), "gram_spread": (("time", "neuron", "other"), 0.0 * gram)}
    overlap = np.zeros((3, 1, 1))
    data["overlap"] = (("time", "neuron", "latent"), overlap)
    data["overlap_spread"] = (("time", "neuron", "latent"), np.array([0.0, 0.15, 0.0]).reshape(3, 1, 1))
    found = path_error(xr.Dataset(data, coords={"time": [0.0, 1.0, 2.0]}), 4, 0.04)
    # 0.4 of 4 at the last time, 0.15 of a length 3 at the one before.
    assert found.largest == pytest.approx(0.1 * OF_A_MEDIAN / 2, rel=1e-9)
    assert found.first == 2.0
    np.testing.assert_allclose(OF_A_MEDIAN, math.sqrt(math.pi / 2), atol=1e-4)
    later = path_error(xr.Dataset(data, coords={"time": [0.0, 1.0, 2.0]}), 4, 0.02)
    assert later.first == 1.0
    assert path_error(xr.Dataset(data, coords={"time": [0.0, 1.0, 2.0]}), 4, 0.1).first is None


@pytest.mark.parametrize("width", [1, 3])
def test_path_responses_are_the_inverse_of_one_plus_memory_times_jacobian(width):
    steps, paths = 2 * BLOCK + 3, 5
    generator = np.random.default_rng(3)
    memory = generator.standard_normal((steps, steps, width, width)) / steps
    jacobians = generator.standard_normal((steps, width, width, paths))
    weights = np.stack([np.ones(paths), generator.standard_normal(paths)], axis=1)
    size = steps * width
    earlier = np.tril(np.ones((steps, steps)), -1)[:, None, :, None]
    kernel = (earlier * memory.transpose(0, 2, 1, 3)).reshape(size, size)
    wanted = np.zeros((2, steps, steps, width, width))
    for n in range(paths):
        blocks = np.zeros((steps, width, steps, width))
        blocks[np.arange(steps), :, np.arange(steps)] = jacobians[..., n]
        jacobian = blocks.reshape(size, size)
        one = (jacobian @ np.linalg.inv(np.eye(size) + kernel @ jacobian)).reshape(steps, width, steps, width)
        wanted += weights[n][:, None, None, None, None] * one.transpose(0, 2, 1, 3) / paths
    responses = PathResponses(steps, width, paths)
    for t in range(steps):
        found = responses.means(t, memory[t, :t], jacobians[t].astype(np.float32), weights)
        assert np.allclose(found, wanted[:, t, : t + 1], rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("sets", [5, 10])
def test_medians_of_few_sets_lie_within_the_stated_errors(sets):
    """99% of 40,000 medians within 2.576 stated errors; with the plain standard error one in twenty of five is not."""
    draws = np.random.default_rng(4).standard_normal((40_000, sets))
    ratio = np.abs(np.median(draws, axis=1)) / draws.std(axis=1, ddof=1)
    outside = (ratio > 2.576 * stated_part(sets)).mean()
    assert 0.004 < outside < 0.015
    assert (ratio > 2.576 * OF_A_MEDIAN / sets**0.5).mean() > 2.0 * outside


def test_sets_are_added_where_five_do_not_know_their_error_well():
    problem = limen.TwoLayer("z", limen.network(1, "relu"), limen.GradientDescent(0.5), 4.0)
    few = limen.descent.solve(problem, 3, paths=1024, tolerance=0.5)
    error = few.statistics["path_error"]
    more = limen.descent.solve(problem, 3, paths=1024, tolerance=1.5 * error)
    lost = limen.descent.solve(problem, 3, paths=1024, tolerance=0.5 * error)
    asked = limen.descent.solve(problem, 3, paths=1024, tolerance=1.5 * error, scrambles=5)
    said = [one.status.split(" paths")[0] for one in (few, more, asked)]
    assert said == ["median of 5 sets of 1024", "median of 10 sets of 1024", "median of 5 sets of 1024"]
    assert not lost.ok and "more than the tolerance" in lost.status
    np.testing.assert_array_equal(few.dataset.gram, asked.dataset.gram)
