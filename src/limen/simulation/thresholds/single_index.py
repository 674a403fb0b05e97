r"""Data of a single-index model: Gaussian inputs, labels that depend on their first coordinate."""

import jax
import numpy as np

from limen.problem import InputError
from limen.problem.inputs import Inputs
from limen.problem.targets import Target
from limen.simulation.spectra.random_matrices import stream_generator


def draw_single_index(
    target: Target, samples_per_dim: float, dimension: int, seed: int, inputs: Inputs | None = None
) -> tuple[np.ndarray, np.ndarray]:
    r"""Rows $x_i\sim N(0,I_d)$ `(n, d)` and labels $y_i=h(x_{i1},e_i)+\sqrt{\text{noise}}\,\varepsilon_i$ `(n,)`.

    $n=\delta d$ rounded. The direction is the first axis, which loses nothing: Gaussian inputs prefer no axis.
    With `inputs` of several variances coordinates have these variances, eigenspace by eigenspace, and the direction is
    `planted_direction`.
    """
    if target.latents != 1:
        raise InputError(f"target must have one latent direction here, and {target.label!r} has {target.latents}.")
    if not samples_per_dim > 0:
        raise InputError(f"samples_per_dim must be positive, got {samples_per_dim}.")
    samples = max(1, round(samples_per_dim * dimension))
    rows = stream_generator(seed, dimension, "inputs").standard_normal((samples, dimension))
    inner, noise = stream_generator(seed, dimension, "label noise").standard_normal((2, samples))
    along = rows[:, :1]
    if inputs is not None and not inputs.isotropic:
        rows = rows * np.sqrt(_variances(inputs, dimension))
        along = rows @ planted_direction(inputs, dimension)[:, None]
    with jax.enable_x64(True):
        labels = np.asarray(target.function(along, inner), dtype=np.float64)
    return rows, labels + np.sqrt(target.noise) * noise


def planted_direction(inputs: Inputs, dimension: int) -> np.ndarray:
    r"""$\theta_*$ (d,) with $\theta_*\cdot x$ of variance 1, its parts on the first axis of each eigenspace."""
    counts = eigenspace_sizes(inputs, dimension)
    direction = np.zeros(dimension)
    direction[np.cumsum([0, *counts[:-1]])] = np.sqrt(inputs.latent_blocks(1)[:, 0])
    return direction


def eigenspace_sizes(inputs: Inputs, dimension: int) -> list[int]:
    """Dimensions of the eigenspaces, which sum to `dimension`."""
    ends = np.rint(np.cumsum(inputs.fractions) * dimension).astype(int)
    sizes = np.diff(ends, prepend=0).tolist()
    if min(sizes) < 1:
        raise InputError(f"dimension must give every eigenspace one axis at least, got {dimension} for {sizes}.")
    return sizes


def _variances(inputs: Inputs, dimension: int) -> np.ndarray:
    return np.repeat(inputs.variances, eigenspace_sizes(inputs, dimension))
