"""Test loss of a network from its overlaps: exact in law for Gaussian inputs, at a cost independent of d."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm, qmc

from limen.precision import in_double
from limen.problem import TwoLayer

LOG2_POINTS = 13


@in_double
def population_losses(
    problem: TwoLayer, overlap: np.ndarray, gram: np.ndarray, second_layer: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Test loss and excess risk at each time, on fresh Gaussian inputs.

    The fields $(\lambda_1..\lambda_m,z_1..z_k)$ of a fresh input are Gaussian with covariance
    $\begin{pmatrix}Q&M\\M^\top&I\end{pmatrix}$, so a fixed set of $2^{13}$ scrambled Sobol points replaces a test
    set. Test loss $=E\,\ell(y,f)$ with label noise; excess risk $=E\,\ell(y,f)$ without the additive noise
    (for square loss: noise/2 less). Shapes: `overlap` (time, m, k), `gram` (time, m, m), `second_layer` (time, m).
    """
    m, k = problem.network.width, problem.target.latents
    uniform = qmc.Sobol(m + k + 2, seed=20_240_521).random_base2(LOG2_POINTS)
    normals = norm.ppf(np.clip(uniform, 2.0**-33, 1.0 - 2.0**-33))
    bias = jnp.asarray(problem.network.per_neuron("bias"))
    functions = (problem.network.activation.function, problem.target.function, problem.loss.function)
    test, excess = _losses(
        functions, jnp.asarray(normals), jnp.asarray(problem.target.noise), bias,
        jnp.asarray(overlap), jnp.asarray(gram), jnp.asarray(second_layer),
    )  # fmt: skip
    return np.asarray(test), np.asarray(excess)


@partial(jax.jit, static_argnums=0)
def _losses(functions, normals, noise, bias, overlap, gram, second_layer):  # noqa: ANN001, ANN202
    activation, link, loss = functions
    m, k = overlap.shape[1:]
    z, own, inner, outer = normals[:, :k], normals[:, k : k + m], normals[:, k + m], normals[:, k + m + 1]
    clean = link(z, inner)
    noisy = clean + jnp.sqrt(noise) * outer

    def at_time(parts):  # noqa: ANN001, ANN202
        overlap, gram, second_layer = parts
        values, vectors = jnp.linalg.eigh(gram - overlap @ overlap.T)
        root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))
        fields = z @ overlap.T + own @ root.T + bias
        output = activation(fields) @ second_layer / m
        return loss(noisy, output).mean(), loss(clean, output).mean()

    return jax.lax.map(at_time, (overlap, gram, second_layer))
