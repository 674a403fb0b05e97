"""What is recorded of a training: observables inside the compiled loop, and the result made of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from limen.labelled import labelled, with_variables
from limen.precision import in_double
from limen.problem import InputError, TwoLayer
from limen.simulation.population_loss import run_losses
from limen.simulation.two_layer_gradient import Weights

LARGEST_STORED_BYTES = 1e9
MOST_CORRELATIONS = 4e6


class Observables(NamedTuple):
    r"""Overlaps $\theta_j\cdot\theta_{*r}$ (m, k), Gram matrix $\theta_j\cdot\theta_l$ (m, m), second layer (m,), and
    biases (m,) where they are trained, else None."""

    overlap: Any
    gram: Any
    second_layer: Any
    bias: Any = None


def observe(weights: Weights, frame: jax.Array) -> Observables:
    """The observables of given weights; `frame` (k, d) holds the latent directions."""
    return Observables(weights.first @ frame.T, weights.first @ weights.first.T, weights.second, weights.bias)


def check_keep(keep: str, times: int, width: int, d: int) -> bool:
    """Whether trained weights are wanted: `keep` is "weights", or empty. More than fit in memory are refused."""
    if keep not in ("", "weights"):
        raise InputError(f'keep must be "weights" or left out, got {keep!r}.')
    size = 8.0 * times * width * d
    if keep and size > LARGEST_STORED_BYTES:
        raise InputError(
            f"times must be fewer to keep the weights: {times} times of {width} neurons in d = {d} take "
            f"{size / 1e9:.1f} GB, and must stay below {LARGEST_STORED_BYTES / 1e9:g} GB."
        )
    return bool(keep)


def with_weights(dataset: xr.Dataset, path: Any, frame: Any) -> xr.Dataset:
    """The dataset with `first_layer` (seed, time, neuron, input), and the `direction`s (seed, latent, input) of the
    target among the inputs; `path` (time, m, d), `frame` (k, d)."""
    weights = {
        "first_layer": (("seed", "time", "neuron", "input"), np.asarray(path)[None]),
        "direction": (("seed", "latent", "input"), np.asarray(frame)[None]),
    }
    return with_variables(dataset, weights)


def stores_weights(times: int, width: int, d: int, itemsize: int) -> bool:
    """Whether first layers at all times, and their two-time correlations, are small enough to be kept."""
    return times * width * d * itemsize <= LARGEST_STORED_BYTES and (times * width) ** 2 <= MOST_CORRELATIONS


@in_double
def two_time_correlation(path: jax.Array) -> np.ndarray:
    r"""$\theta_j(t)\cdot\theta_l(t')$, shape (time, time, m, m), of first layers `path` (time, m, d)."""
    times, m, d = path.shape
    flat = path.reshape(times * m, d)
    return np.asarray(flat @ flat.T, dtype=float).reshape(times, m, times, m).transpose(0, 2, 1, 3)


def training_dataset(
    problem: TwoLayer,
    observables: Observables,
    times: np.ndarray,
    seed: int,
    d: int,
    fields: Observables | None = None,
) -> xr.Dataset:
    """Observables along `time`, with the losses on fresh Gaussian inputs that follow from them.

    `fields` holds the covariances of the fields of a fresh input where they are not the overlaps themselves.
    """
    one, seen = (jax.tree.map(lambda part: _plain(part)[None], given) for given in (observables, fields or observables))
    return runs_dataset(problem, one, times, [seed], d, seen)


def runs_dataset(
    problem: TwoLayer,
    observables: Observables,
    times: np.ndarray,
    seeds: Sequence[int],
    d: int,
    fields: Observables | None = None,
) -> xr.Dataset:
    """`training_dataset` of many runs: every observable has a leading axis of seeds."""
    overlap, gram, second_layer, bias = map(_plain, observables)
    test, excess, error = run_losses(problem, *map(_plain, fields or observables))
    dataset = labelled(
        {
            "overlap": (("seed", "time", "neuron", "latent"), overlap),
            "gram": (("seed", "time", "neuron", "neuron2"), gram),
            "second_layer": (("seed", "time", "neuron"), second_layer),
            "test_loss": (("seed", "time"), test),
            "excess_risk": (("seed", "time"), excess),
        },
        coords={"time": times, "seed": list(seeds)},
        attrs={"d": d, "loss_error": error},
    )
    return dataset if bias is None else with_variables(dataset, {"bias": (("seed", "time", "neuron"), bias)})


def _plain(part: Any) -> Any:
    return None if part is None else np.asarray(part, dtype=float)


def stayed_finite(dataset: xr.Dataset) -> bool:
    """Whether the weights stayed finite."""
    return bool(np.isfinite(dataset["gram"].values).all() and np.isfinite(dataset["second_layer"].values).all())
