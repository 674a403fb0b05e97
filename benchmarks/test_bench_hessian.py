"""Products with the Hessian of a classifier against forward over backward differentiation by JAX, 6464 parameters.

Which of the two is faster depends on the machine: our own took .7 to .8 of JAX's time on one, 1.1 of it on another.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from limen.simulation.effective.classifier_hessian import hessian_operator
from limen.simulation.kernel.classifier import class_targets, training_loss

PRODUCTS = 50


def test_products_cost_about_what_they_cost_by_jax():
    """n = 2000, float32; best of 5, interleaved, processor time."""
    rng = np.random.default_rng(0)
    weights = tuple(rng.standard_normal(shape).astype(np.float32) for shape in ((64, 64), (64, 32), (32, 10)))
    inputs, labels = rng.standard_normal((2000, 64)).astype(np.float32), rng.integers(0, 10, 2000)
    flat, layers = ravel_pytree(weights)
    targets, given = jnp.asarray(class_targets(labels, 10, "square"), jnp.float32), jnp.asarray(inputs)

    @jax.jit
    def differentiated(flat, given, targets, vector):
        slope = jax.grad(lambda at: training_loss(layers(at), given, targets, "square"))
        return jax.jvp(slope, (flat,), (vector,))[1]

    vector = rng.standard_normal(flat.size).astype(np.float32)
    ways = {
        "limen": hessian_operator(weights, inputs, labels, "square", "float32"),
        "jax": lambda v: np.asarray(differentiated(flat, given, targets, jnp.asarray(v))),
    }
    np.testing.assert_allclose(ways["limen"](vector), ways["jax"](vector), atol=1e-4)
    best = dict.fromkeys(ways, np.inf)
    for _ in range(5):
        for name, product in ways.items():
            began = time.process_time()
            for _ in range(PRODUCTS):
                product(vector)
            best[name] = min(best[name], (time.process_time() - began) / PRODUCTS)
    print({name: f"{1e3 * value:.2f} ms" for name, value in best.items()})
    assert best["limen"] < 1.3 * best["jax"]
