"""Mean answers given the latent coordinates: closed forms and plain NumPy, smooth, kinked and with jumps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf, ndtr

from limen.precision import in_double
from limen.simulation.label_means import label_means

SPREADS = np.array([0.0, 1e-5, 1e-3, 0.04, 0.3, 1.0, 4.0])
RNG = np.random.default_rng(11)
POINTS = RNG.standard_normal((2, 400, 2))
OVERLAP = RNG.standard_normal((SPREADS.size, 2))
BIAS = RNG.uniform(-0.5, 0.5, SPREADS.size)


def ramp(u, s):
    """Mean of relu(u + s y)."""
    s = max(s, 1e-9)
    return u * ndtr(u / s) + s * np.exp(-0.5 * (u / s) ** 2) / (2 * np.pi) ** 0.5


def by_trapezoid(u, s):
    y = np.linspace(-9, 9, 1001)
    weights = np.exp(-0.5 * y**2)
    return np.tanh(u[..., None] + s * y) @ (weights / weights.sum())


CASES = {
    "erf": (jax.scipy.special.erf, (), lambda u, s: erf(u / (1 + 2 * s * s) ** 0.5)),
    "tanh": (jnp.tanh, (), by_trapezoid),
    "relu": (lambda z: jnp.maximum(z, 0), (0.0,), ramp),
    "hard tanh": (lambda z: jnp.clip(z, -1, 1), (1.0, -1.0), lambda u, s: ramp(u + 1, s) - ramp(u - 1, s) - 1),
    "step": (lambda z: 1.0 * (z > 0.51), (0.51,), lambda u, s: ndtr((u - 0.51) / max(s, 1e-9))),
}


def found(name, kinks=None):
    activation, own, _ = CASES[name]
    each = np.concatenate([np.eye(400)[None]] * 2)
    items = (OVERLAP, BIAS, SPREADS)
    means = [
        in_double(label_means)(activation, own if kinks is None else kinks, POINTS, each[:, i], items)
        for i in range(0, 400, 40)
    ]
    return np.stack(means, axis=-1)


def expected(name):
    known = np.einsum("snk,ik->isn", POINTS, OVERLAP)[..., ::40] + BIAS[:, None, None]
    return np.stack([CASES[name][2](u, s) for u, s in zip(known, SPREADS, strict=True)])


@pytest.mark.parametrize("name", CASES)
def test_closed_forms(name):
    # A jump is smoothed over a spread of at least 1e-6; no point lies so near.
    np.testing.assert_allclose(found(name), expected(name), atol=3e-6 if name == "step" else 2e-6)


@pytest.mark.parametrize("name", ["relu", "step"])
def test_a_kink_that_is_not_told_is_seen(name):
    assert np.abs(found(name, kinks=()) - expected(name)).max() > 1e-4
