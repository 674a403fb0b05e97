"""SGD on the mixtures: its step from the stated loss, chain and training on one input, blocks formed densely."""

import math
from typing import Literal

import jax
import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax

import limen
from limen import GaussianMixture, OverlapStart, XorMixture, effective
from limen.gaussian.starts.mixture_starts import drawn_start
from limen.simulation.effective.mixture_blocks import fresh_inputs, sample_weights
from limen.simulation.effective.mixture_steps import (
    Sample,
    Statistics,
    Weights,
    mixture_chain_step,
    mixture_step,
    xor_chain_step,
    xor_step,
)
from limen.simulation.effective.mixture_training import nearest_steps, rates_of
from limen.simulation.effective.xor_alignment import measure_network
from limen.simulation.effective.xor_networks import train_networks
from limen.simulation.generators import numpy_generator
from limen.theory.effective.mixtures.xor_flow import XorState, xor_path

D = 9
MEANS = np.array([[1.0, 0.2, -0.1], [0.2, 1.5, 0.3], [-0.1, 0.3, 0.8]])
MIXTURE = GaussianMixture(3, 4.0, 0.3, 1.7, probabilities=(0.5, 0.3, 0.2), mean_gram=MEANS)
XOR = XorMixture(3, 4.0, 0.3, 1.7)
STEPS = {MIXTURE: (mixture_step, mixture_chain_step, 3), XOR: (xor_step, xor_chain_step, 2)}
CENTRES = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


def weights_and_noise():
    """Rows whose parts beyond the means fill as few axes as they can, second layer, standard normal noise."""
    rng = np.random.default_rng(1)
    rows = np.zeros((3, D))
    rows[:, :3] = rng.standard_normal((3, 3))
    return rng, rows, np.array([0.9, -1.1, 0.6]), rng.standard_normal(D)


def loss(problem, rows, second, x, cloud):
    """The loss of one sample without its penalty."""
    if isinstance(problem, GaussianMixture):
        fields = rows @ x
        return logsumexp(fields) - fields[cloud]
    output = second @ np.maximum(rows @ x, 0.0)
    return np.logaddexp(0.0, output) - (cloud < 2) * output


def sample_input(problem, noise, cloud):
    """The input of a cloud: its mean on the first axes, noise of variance one over sharpness."""
    x = noise / 2.0
    if isinstance(problem, GaussianMixture):
        x[:3] += np.linalg.cholesky(MEANS)[cloud]
    else:
        x[:2] += CENTRES[cloud]
    return x


@pytest.mark.parametrize("problem", [MIXTURE, XOR], ids=["mixture", "xor"])
def test_a_step_descends_the_stated_loss(problem):
    rng, rows, second, _ = weights_and_noise()
    rows = rng.standard_normal((3, D))
    for cloud in range(3 if problem is MIXTURE else 4):
        noise = rng.standard_normal(D)
        with jax.enable_x64(True):
            after = jax.jit(STEPS[problem][0])(rates_of(problem, D), Weights(rows, second), Sample(noise, 0.0, cloud))
        x, small, gradient = sample_input(problem, noise, cloud), 1e-6, np.zeros((3, D))
        for i, j in np.ndindex(3, D):
            shift = small * np.eye(3)[i][:, None] * np.eye(D)[j]
            ahead, behind = (loss(problem, rows + sign * shift, second, x, cloud) for sign in (1, -1))
            gradient[i, j] = (ahead - behind) / (2 * small)
        delta = 1.7 / D
        assert np.allclose(after.rows, rows - delta * (gradient + 0.3 * rows), atol=1e-8)
        if problem is XOR:
            shifts = small * np.eye(3)
            slope = [
                (loss(problem, rows, second + e, x, cloud) - loss(problem, rows, second - e, x, cloud)) / (2 * small)
                for e in shifts
            ]
            assert np.allclose(after.second_layer, second - delta * (np.array(slope) + 0.3 * second), atol=1e-8)


def test_time_counts_steps_by_their_constant():
    """t = steps c/d."""
    assert nearest_steps(XorMixture(2, 4.0, 0.1, 2.0), np.array([0.0, 3.0]), 16).tolist() == [0, 24]


@pytest.mark.slow
def test_the_sum_over_classes_decays_in_time_whatever_the_step():
    """It sees no data: exp(-penalty t), to first order in the step."""
    start = OverlapStart(((0.9, 0.1, 0.2), (0.3, 0.8, 0.1), (0.2, 0.4, 0.7)))
    run = limen.simulate(
        MIXTURE.model_copy(update={"start": start}), [0.0, 2.0], d=200, seeds=1, simulator="mixture-sgd"
    ).dataset
    totals = run.overlap.isel(seed=0).sum("class").values
    assert np.allclose(totals[1], math.exp(-0.3 * 2.0) * totals[0], rtol=5e-3)


@pytest.mark.parametrize("problem", [MIXTURE, XOR], ids=["mixture", "xor"])
def test_the_chain_takes_the_step_of_training_on_the_same_input(problem):
    rng, rows, second, _ = weights_and_noise()
    step, chain_step, q = STEPS[problem]
    factor = np.linalg.cholesky(np.array([[1.1, 0.3, -0.2], [0.3, 0.7, 0.1], [-0.2, 0.1, 0.9]]))
    rows[:, :q], rows[:, q:] = rng.standard_normal((3, q)), 0.0
    rows[:, q : q + 3] = factor
    for cloud in range(3 if problem is MIXTURE else 4):
        noise = rng.standard_normal(D)
        remainder = np.array([noise[q + 3 :] @ noise[q + 3 :]])
        begin = Statistics(rows[:, :q, None], (factor @ factor.T)[..., None], second[:, None])
        with jax.enable_x64(True):
            rates = rates_of(problem, D)
            full = jax.jit(step)(rates, Weights(rows, second), Sample(noise, 0.0, cloud))
            drawn = Sample(noise[: q + 3, None], remainder, np.array([cloud]))
            chain = jax.jit(chain_step)(rates, begin, drawn)
        rest = np.asarray(full.rows)[:, q:]
        assert np.allclose(chain.aligned[..., 0], np.asarray(full.rows)[:, :q], atol=1e-12)
        assert np.allclose(chain.rest[..., 0], rest @ rest.T, atol=1e-12)
        assert np.allclose(chain.second_layer[..., 0], full.second_layer, atol=1e-12)


@pytest.mark.parametrize("problem", [MIXTURE, XOR], ids=["mixture", "xor"])
def test_fresh_inputs_have_their_law(problem):
    count, chances = 40_000, np.array([0.5, 0.3, 0.2]) if problem is MIXTURE else np.full(4, 0.25)
    inputs, clouds = fresh_inputs(problem, 5, count, np.random.default_rng(0))
    found = np.bincount(clouds, minlength=len(chances)) / count
    assert np.all(np.abs(found - chances) < 4 * np.sqrt(chances * (1 - chances) / count))
    centres = np.array([inputs[clouds == one].mean(axis=0) for one in range(len(chances))])
    gram = MEANS if problem is MIXTURE else CENTRES @ CENTRES.T
    assert np.allclose(centres @ centres.T, gram, atol=0.05)
    assert np.allclose(np.cov((inputs - centres[clouds]).T), np.eye(5) / 4, atol=0.01)


@pytest.mark.parametrize("block", [(1, 1), (0, 2), (2, 1)])
@pytest.mark.parametrize("problem", [MIXTURE, XOR], ids=["mixture", "xor"])
def test_sample_weights_are_derivatives_of_the_loss(problem, block):
    """Along the input itself, divided by its square, a row's field moves at unit speed."""
    rng, rows, second, _ = weights_and_noise()
    inputs = rng.standard_normal((12, D))
    clouds = rng.integers(0, 3 if problem is MIXTURE else 4, 12)
    small = 1e-3
    if problem is XOR:
        rows = rows * np.sign((inputs[:1] @ rows.T).T)

    def moved(sample, first, other):
        x = inputs[sample]
        shifted = rows.copy()
        shifted[block[0]] += first * x / (x @ x)
        shifted[block[1]] += other * x / (x @ x)
        return loss(problem, shifted, second, x, clouds[sample])

    hessian, gradient = [], []
    for sample in range(12):
        corners = [moved(sample, a * small, b * small) for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
        hessian.append((corners[0] - corners[1] - corners[2] + corners[3]) / (4 * small**2))
        slopes = [(moved(sample, *ahead) - moved(sample, *back)) / 2e-5
                  for ahead, back in (((1e-5, 0), (-1e-5, 0)), ((0, 1e-5), (0, -1e-5)))]  # fmt: skip
        gradient.append(slopes[0] * slopes[1])
    for matrix, expected in (("hessian", hessian), ("gradient", gradient)):
        found = sample_weights(problem, rows, second, inputs, clouds, matrix, block)
        assert np.abs(found).max() > 0.02 and np.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("block", [(1, 1), (0, 2)])
def test_measured_blocks_are_those_formed_densely(block):
    """At time 0 the weights are the start: overlaps on the first axes, the root of their Gram matrix on the next."""
    d, ratio, seed = 40, 2.0, 4
    overlaps = np.array([[1.2, -0.5, -0.3], [-0.6, 1.0, 0.0], [-0.2, 0.1, 0.8]])
    problem, rows = GaussianMixture(3, 4.0, 0.3, 1.7, probabilities=(0.5, 0.3, 0.2)), np.zeros((3, d))
    rows[:, :3], rows[:, 3:6] = overlaps, np.eye(3)
    inputs, classes = fresh_inputs(problem, d, 80, numpy_generator(seed, d, "mixture test"))
    chances = softmax(inputs @ rows.T, axis=1)
    b, c = block
    errors = chances - np.eye(3)[classes]
    cases: dict[Literal["hessian", "gradient"], np.ndarray] = {
        "hessian": (chances[:, b] if b == c else 0.0) - chances[:, b] * chances[:, c],
        "gradient": errors[:, b] * errors[:, c],
    }
    for matrix, weights in cases.items():
        values, vectors = np.linalg.eigh(inputs.T @ (weights[:, None] * inputs) / 80)
        order = np.argsort(-np.abs(values))[:3]
        run = effective.measure_block(problem, [0.0], ratio, d, [seed], matrix, block, OverlapStart(overlaps)).dataset
        assert np.allclose(run.eigenvalue.values[0, 0], values[order], rtol=1e-8)
        projected = np.linalg.norm(vectors[:, order].T @ rows[b]) / np.linalg.norm(rows[b])
        assert run.alignment.values[0, 0] == pytest.approx(projected, rel=1e-6)


def test_both_layers_of_the_network_are_those_formed_densely():
    d, ratio, seed, neuron, width = 40, 4.0, 2, 1, 6
    rng = np.random.default_rng(0)
    problem, second = XorMixture(width, 4.0, 0.1, 1.0), rng.standard_normal(width)
    overlaps, rows = rng.standard_normal((width, 2)), np.zeros((width, d))
    rows[:, :2], rows[:, 2 : 2 + width] = overlaps, np.eye(width)
    inputs, clouds = fresh_inputs(problem, d, 160, numpy_generator(seed, d, "mixture test"))
    active = np.maximum(inputs @ rows.T, 0.0)
    chances = expit(active @ second)
    given = {"start": OverlapStart(overlaps), "second_layer": second}
    whole = measure_network(problem, np.array([0.0]), ratio, d, seed, neuron, **given).dataset.isel(seed=0, time=0)
    assert np.allclose(whole.overlap, overlaps) and np.allclose(whole.second_layer, second)
    cases: dict[Literal["hessian", "gradient"], np.ndarray] = {
        "hessian": chances * (1 - chances),
        "gradient": (chances - (clouds < 2)) ** 2,
    }
    for matrix, output in cases.items():
        found = whole.sel(matrix=matrix)
        layer = np.linalg.eigh(active.T @ (output[:, None] * active) / 160)
        weights = second[neuron] ** 2 * output * (active[:, neuron] > 0)
        first = np.linalg.eigh(inputs.T @ (weights[:, None] * inputs) / 160)
        leading = layer.eigenvectors[:, -4:].T @ second
        own = first.eigenvectors[:, -2:].T @ rows[neuron]
        run = effective.measure_second_layer(problem, [0.0], ratio, d, [seed], matrix, **given).dataset
        for values, aligned in (
            (found.second_eigenvalue.values, found.second_alignment),
            (run.eigenvalue.values[0, 0], run.alignment[0, 0]),
        ):
            assert np.allclose(values, layer.eigenvalues[::-1], atol=1e-12)
            assert float(aligned) == pytest.approx(np.linalg.norm(leading) / np.linalg.norm(second), rel=1e-8)
        assert np.allclose(found.first_eigenvalue, first.eigenvalues[:-3:-1], rtol=1e-8)
        assert float(found.first_alignment) == pytest.approx(
            np.linalg.norm(own) / np.linalg.norm(rows[neuron]), rel=1e-6
        )


@pytest.mark.slow
def test_starts_are_those_of_gaussian_weights():
    """Rows N(0, I/d): d times an overlap's square is chi-square of 1, d times the rest's squared length of d - q."""
    d, q, count = 20, 2, 800
    drawn = drawn_start(3, q, d, range(count))
    squares = d * drawn.aligned**2
    assert abs(squares.mean() - 1.0) < 5 * math.sqrt(2 / squares.size)
    assert abs((drawn.second_layer**2).mean() - 1.0) < 5 * math.sqrt(2 / drawn.second_layer.size)
    gram = drawn.orthogonal_gram
    lengths, crossed = np.diagonal(gram, axis1=1, axis2=2), gram[:, 0, 1]
    assert abs(lengths.mean() - (d - q) / d) < 5 * math.sqrt(2 * (d - q) / d**2 / lengths.size)
    assert lengths.var() == pytest.approx(2 * (d - q) / d**2, rel=0.1)
    assert crossed.var() == pytest.approx((d - q) / d**2, rel=0.15) and abs(crossed.mean()) < 0.02


@pytest.mark.slow
def test_networks_without_noise_follow_the_sharp_flow_from_their_own_starts():
    """Clouds are drawn at random: deviations of order d^(-1/2), their mean over networks smaller still."""
    problem, d, time, count = XorMixture(2, math.inf, 0.05, 2.0), 2000, 5.0, 24
    begin = train_networks(problem, 0.0, d, count, 1).dataset.isel(time=0)
    # Chi-square of as many degrees of freedom as there are overlaps.
    assert abs(d * float((begin.overlap**2).mean()) - 1.0) < 3.5 * math.sqrt(2 / begin.overlap.size)
    end = train_networks(problem, time, d, count, 1).dataset.isel(time=0)
    moved, errors = [], []
    for n in range(count):
        state = XorState(begin.second_layer.values[n], begin.overlap.values[n], np.zeros((2, 2)))
        path = xor_path(problem, state, np.array([time]))
        moved.append(np.abs(path.overlap[0] - state.overlap).max())
        errors.append(np.concatenate([
            (end.second_layer.values[n] - path.second_layer[0]), (end.overlap.values[n] - path.overlap[0]).ravel()
        ]))  # fmt: skip
    assert np.mean(moved) > 0.3 and np.abs(np.mean(errors, axis=0)).max() < 0.02
    assert np.sqrt(np.mean(np.square(errors))) < 0.05
