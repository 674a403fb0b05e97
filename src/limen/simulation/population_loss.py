"""Test loss of a network from its overlaps: exact in law for Gaussian inputs, at a cost independent of d."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm, qmc

from limen.precision import in_double
from limen.problem import TwoLayer

LOG2_POINTS = 14
# Trapezoid rule for one neuron and one latent coordinate: spectral for smooth functions; kinked ones, where the error
# is of second order in the step, take a finer one.
REACH, SMOOTH_STEP, KINKED_STEP = 9.0, 0.25, 0.1


@in_double
def population_losses(
    problem: TwoLayer, overlap: np.ndarray, gram: np.ndarray, second_layer: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Test loss and excess risk at each time, on fresh Gaussian inputs.

    The fields $(\lambda_1..\lambda_m,z_1..z_k)$ of a fresh input are Gaussian with covariance
    $\begin{pmatrix}Q&M\\M^\top&I\end{pmatrix}$, so a fixed set of points replaces a test set: a product rule for one
    neuron and one latent coordinate, else scrambled Sobol points with all signs flipped together and exact second
    moments (error about $10^{-3}$ of the loss). Test loss $=E\,\ell(y,f)$ with label noise; excess risk
    $=E\,\ell(y,f)$ without the additive noise. Shapes: `overlap` (time, m, k), `gram` (time, m, m), `second_layer`
    (time, m).
    """
    target, square = problem.target, problem.loss.name == "square"
    # For square loss additive noise only adds noise/2: no dimension is spent on it.
    extra = int(target.uses_inner_noise) + int(target.noise > 0.0 and not square)
    kinked = bool(problem.network.activation.breakpoints or target.breakpoints)
    points, weights = _points(problem.network.width + target.latents + extra, KINKED_STEP if kinked else SMOOTH_STEP)
    test, excess = _losses(
        (problem.network.activation.function, target.function, problem.loss.function),
        target.uses_inner_noise,
        jnp.asarray(points),
        jnp.asarray(weights),
        jnp.asarray(0.0 if square else target.noise),
        jnp.asarray(problem.network.per_neuron("bias")),
        jnp.asarray(overlap),
        jnp.asarray(gram),
        jnp.asarray(second_layer),
    )
    return np.asarray(test) + (0.5 * target.noise if square else 0.0), np.asarray(excess)


@lru_cache(maxsize=16)
def _points(dimension: int, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Points of the standard normal law in this many dimensions, and their weights; `step` of a product rule."""
    if dimension <= 2:
        nodes = np.arange(-REACH, REACH + step / 2, step)
        weights = norm.pdf(nodes)
        grid = np.stack(np.meshgrid(*[nodes] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
        product = np.prod(np.meshgrid(*[weights / weights.sum()] * dimension, indexing="ij"), axis=0).ravel()
        return grid, product
    uniform = qmc.Sobol(dimension, rng=20_240_521).random_base2(LOG2_POINTS)
    half = norm.ppf(np.clip(uniform, 2.0**-33, 1.0 - 2.0**-33))
    points = np.concatenate([half, -half])
    points = points @ np.linalg.inv(np.linalg.cholesky(points.T @ points / len(points))).T
    return points, np.full(len(points), 1.0 / len(points))


@partial(jax.jit, static_argnums=(0, 1))
def _losses(functions, inner_noise, points, weights, noise, bias, overlap, gram, second_layer):
    activation, link, loss = functions
    m, k = overlap.shape[1:]
    z, own = points[:, :k], points[:, k : k + m]
    inner = points[:, k + m] if inner_noise else jnp.zeros(len(points))
    clean = link(z, inner)
    noisy = clean + jnp.sqrt(noise) * points[:, -1]

    def at_time(parts):
        overlap, gram, second_layer = parts
        values, vectors = jnp.linalg.eigh(gram - overlap @ overlap.T)
        root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))
        fields = z @ overlap.T + own @ root.T + bias
        output = activation(fields) @ second_layer / m
        return weights @ loss(noisy, output), weights @ loss(clean, output)

    return jax.lax.map(at_time, (overlap, gram, second_layer))
