"""Losses of two latent coordinates at 25 times: one compiled loop against a spline for every time and neuron."""

import time

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import limen
from limen.precision import in_double
from limen.simulation.conditional_means import answers
from limen.simulation.label_means import label_means
from limen.simulation.population_loss import latent_points

RNG = np.random.default_rng(0)
COUNT = 100
ITEMS = (0.5 * RNG.standard_normal((COUNT, 2)), np.zeros(COUNT), RNG.uniform(0.1, 1.0, COUNT))


def one_by_one(activation, kinks, points, weighted, items):
    """The same means, a cubic spline on 401 nodes and 121 around each kink built for every item."""
    found = []
    kinks = np.asarray(kinks, dtype=float)
    for overlap, bias, rest in zip(*items, strict=True):
        known = points @ overlap + bias
        low, high = known.min() - 1e-6, known.max() + 1e-6
        layers = (kinks[:, None] + min(rest, 1.0) * np.linspace(-9, 9, 121)).ravel()
        inside = layers[(layers > low) & (layers < high)]
        nodes = np.unique(np.concatenate([np.linspace(low, high, 401), inside]))
        nodes = nodes[np.concatenate([[True], np.diff(nodes) > 1e-9])]
        padded = np.pad(nodes, (0, 401 + 121 * len(kinks) - len(nodes)), mode="edge")
        values = np.asarray(answers(activation, jnp.asarray(kinks), jnp.asarray(padded), jnp.asarray(rest)))
        found.append(np.sum(weighted * CubicSpline(nodes, values[: len(nodes)])(known), axis=1))
    return np.stack(found)


@pytest.mark.parametrize(
    ("target", "activation", "least"), [("z1*z2", "tanh", 4.0), ("z1*z2", "relu", 4.0), ("sign(z1+z2)", "relu", 2.0)]
)
@in_double
def test_items_together(target, activation, least):
    """At least `least` times less processor time than one by one, best of 3, interleaved; means equal to 1e-7."""
    latent, parts = latent_points(limen.target(target)), limen.network(1, activation).activation
    given = (parts.function, parts.breakpoints, latent.points, latent.weights * latent.labels, ITEMS)
    seconds = {label_means: np.inf, one_by_one: np.inf}
    np.testing.assert_allclose(label_means(*given), one_by_one(*given), atol=1e-7)
    for _ in range(3):
        for way in seconds:
            began = time.process_time()
            way(*given)
            seconds[way] = min(seconds[way], time.process_time() - began)
    print({way.__name__: f"{1e3 * value / COUNT:.2f} ms" for way, value in seconds.items()})
    assert seconds[one_by_one] > least * seconds[label_means]
