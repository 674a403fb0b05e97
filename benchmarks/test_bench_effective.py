"""Speed of effective dynamics: the automatic drift at one value of the statistics."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from limen.effective import derive

SIZE = 200


def sample(key):
    inputs, noise = jax.random.split(key)
    a = jax.random.normal(inputs, (SIZE,))
    return a, jnp.tanh(a[0]) + 0.1 * jax.random.normal(noise)


def loss(x, y):
    return 0.5 * (jnp.tanh(y[0] @ x) - y[1]) ** 2


def statistics(x):
    return jnp.stack([x[0], jnp.sum(x[1:] ** 2)])


def test_drift_at_one_value_with_4096_samples() -> None:
    dynamics = derive(loss, sample, statistics, 1.0 / SIZE, SIZE)
    dynamics.effective_drift([0.1, 0.9])
    seconds = []
    for overlap in np.linspace(0.2, 0.6, 5):
        start = time.process_time()
        dynamics.effective_drift([overlap, 0.8])
        seconds.append(time.process_time() - start)
    assert min(seconds) <= 0.5
