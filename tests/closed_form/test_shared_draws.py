"""Starts and labels that theory and simulation share, against plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limen
from limen.gaussian.starts.start_weights import start_overlaps, start_weights
from limen.simulation.data import draw_labels

LABELS = {
    "z+0.3*z**2": (1, lambda z, e: z[:, 0] + 0.3 * z[:, 0] ** 2),
    "sign(z+0.3*e)": (1, lambda z, e: np.sign(z[:, 0] + 0.3 * e)),
    "z+0.5*z*e": (1, lambda z, e: z[:, 0] + 0.5 * z[:, 0] * e),
    "z>0.5": (1, lambda z, e: 1.0 * (z[:, 0] > 0.5)),
    "parity:2": (2, lambda z, e: np.sign(z[:, 0]) * np.sign(z[:, 1])),
    "max(z1,z2)": (2, lambda z, e: np.maximum(z[:, 0], z[:, 1])),
    "relu(z1)-0.5*relu(z2)": (2, lambda z, e: np.maximum(z[:, 0], 0.0) - 0.5 * np.maximum(z[:, 1], 0.0)),
}


def moments(labels, z):
    """Mean, square, and products with the first coordinate: each a mean and its standard error."""
    parts = np.stack([labels, labels**2, labels * z[:, 0], labels * z[:, 0] ** 2])
    return parts.mean(axis=1), parts.std(axis=1) / np.sqrt(parts.shape[1])


@pytest.mark.parametrize("formula", LABELS)
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_labels_have_the_law_of_their_formula(formula, noise):
    latents, by_hand = LABELS[formula]
    target, count = limen.target(formula, noise=noise), 100_000
    z = np.random.default_rng(1).standard_normal((count, latents)).astype(np.float32)
    drawn = np.asarray(draw_labels(jax.random.key(2), target, jnp.asarray(z)), dtype=float)
    own = np.random.default_rng(3)
    expected = by_hand(z, own.standard_normal(count)) + np.sqrt(noise) * own.standard_normal(count)
    if noise == 0.0 and not target.uses_inner_noise:
        np.testing.assert_allclose(drawn, expected, atol=1e-5)
    (ours, our_error), (theirs, their_error) = moments(drawn, z), moments(expected, z)
    assert (np.abs(ours - theirs) < 4.5 * np.hypot(our_error, their_error) + 1e-6).all()


def overlap_problem(start, width=3, norm=1.0, formula="z1*z2"):
    network = limen.network(width, "tanh", initial_norm=norm)
    return limen.TwoLayer(limen.target(formula), network, limen.OnePassSGD(0.1), None, "square", start)


def test_a_random_start_is_uniform_on_its_sphere():
    d, seeds, norm = 30, 400, 1.3
    starts = np.stack([start_weights(overlap_problem(limen.RandomStart(), norm=norm), d, s) for s in range(seeds)])
    np.testing.assert_allclose((starts**2).sum(axis=2), norm**2, rtol=1e-12)
    own = np.random.default_rng(0).standard_normal((20_000, d))
    own *= norm / np.linalg.norm(own, axis=1, keepdims=True)
    for power in (1, 2, 4):
        ours, theirs = (part[..., 0].ravel() ** power for part in (starts, own))
        error = np.hypot(ours.std() / ours.size**0.5, theirs.std() / theirs.size**0.5)
        assert abs(ours.mean() - theirs.mean()) < 4.5 * error
    products = np.einsum("sd,sd->s", starts[:, 0], starts[:, 1])
    assert abs(products.mean()) < 4.5 * products.std() / seeds**0.5
    # Of unit vectors of independent directions the square of the product has the mean 1/d.
    squares = products**2 / norm**4
    assert abs(squares.mean() - 1.0 / d) < 4.5 * squares.std() / seeds**0.5


@pytest.mark.parametrize("d", [40, 30_000])
def test_given_overlaps_are_exact_and_the_rest_is_free(d):
    overlap = np.array([[0.5, 0.1], [0.0, 0.3], [-0.2, 0.2]])
    rest = 0.6 * np.random.default_rng(5).standard_normal((3, 5)) / np.sqrt(5)
    gram = overlap @ overlap.T + rest @ rest.T
    found, products = start_overlaps(overlap_problem(limen.OverlapStart(overlap, gram)), d, 7)
    np.testing.assert_allclose(found, overlap, atol=1e-12)
    np.testing.assert_allclose(products, gram, atol=1e-9)
    seeds = 200
    free = [start_overlaps(overlap_problem(limen.OverlapStart(overlap)), d, seed)[1] for seed in range(seeds)]
    left = np.array(free) - overlap @ overlap.T
    lengths = 1.0 - (overlap**2).sum(axis=1)
    np.testing.assert_allclose(np.einsum("sjj->sj", left), np.tile(lengths, (seeds, 1)), atol=1e-9)
    cosine = left[:, 0, 1] / np.sqrt(lengths[0] * lengths[1])
    assert abs(cosine.mean()) < 4.5 * cosine.std() / seeds**0.5
    # Free directions live in d - 2 dimensions.
    assert abs((cosine**2).mean() * (d - 2) - 1.0) < 4.5 * (cosine**2).std() * (d - 2) / seeds**0.5
