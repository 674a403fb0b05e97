"""What is recorded of a training on inputs of several variances: observables inside each eigenspace."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from limen.problem import TwoLayer
from limen.simulation.training_record import Observables, training_dataset
from limen.simulation.two_layer_gradient import Weights


def observe_blocks(weights: Weights, frame: jax.Array, blocks: tuple[int, ...]) -> Observables:
    """Overlaps (S, m, k) and Gram matrices (S, m, m) inside each eigenspace; `blocks` are their dimensions."""
    ends = np.cumsum(blocks)
    parts = [
        (weights.first[:, end - size : end], frame[:, end - size : end]) for end, size in zip(ends, blocks, strict=True)
    ]
    overlap = jnp.stack([first @ latent.T for first, latent in parts])
    return Observables(overlap, jnp.stack([first @ first.T for first, _ in parts]), weights.second, weights.bias)


def block_dataset(problem: TwoLayer, observables: Observables, times: np.ndarray, seed: int, d: int) -> xr.Dataset:
    r"""Sums over eigenspaces as for isotropic inputs, and their parts `block_overlap`, `block_gram` along `block`.

    Observables have the axes (time, S, ...). The fields of a fresh input have the covariances $\sum_bs_bC^b$.
    """
    overlap, gram, second, bias = (None if part is None else np.asarray(part, dtype=float) for part in observables)
    assert overlap is not None and gram is not None

    def weighted(weights: np.ndarray) -> Any:
        sums = (np.einsum("b,tb...->t...", weights, part) for part in (overlap, gram))
        return Observables(*sums, second, bias)  # pyright: ignore[reportCallIssue, reportArgumentType]

    variances = problem.inputs.spectrum.values
    dataset = training_dataset(problem, weighted(np.ones_like(variances)), times, seed, d, weighted(variances))
    dims = ("seed", "time", "block", "neuron")
    return dataset.assign(block_overlap=((*dims, "latent"), overlap[None]), block_gram=((*dims, "neuron2"), gram[None]))
