r"""Data of a single-index model: Gaussian inputs, labels that depend on their first coordinate."""

import jax
import numpy as np

from limen.problem import InputError
from limen.problem.targets import Target
from limen.simulation.spectra.random_matrices import stream_generator


def draw_single_index(
    target: Target, samples_per_dim: float, dimension: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    r"""Rows $x_i\sim N(0,I_d)$ `(n, d)` and labels $y_i=h(x_{i1},e_i)+\sqrt{\text{noise}}\,\varepsilon_i$ `(n,)`.

    $n=\delta d$ rounded. The direction is the first axis, which loses nothing: Gaussian inputs prefer no axis.
    """
    if target.latents != 1:
        raise InputError(f"target must have one latent direction here, and {target.label!r} has {target.latents}.")
    if not samples_per_dim > 0:
        raise InputError(f"samples_per_dim must be positive, got {samples_per_dim}.")
    samples = max(1, round(samples_per_dim * dimension))
    rows = stream_generator(seed, dimension, "inputs").standard_normal((samples, dimension))
    inner, noise = stream_generator(seed, dimension, "label noise").standard_normal((2, samples))
    with jax.enable_x64(True):
        labels = np.asarray(target.function(rows[:, :1], inner), dtype=np.float64)
    return rows, labels + np.sqrt(target.noise) * noise
