"""Training on a fixed sample: what it starts from, what is recorded, and the result made of it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from limen.gaussian.eigenspaces import coordinate_variances
from limen.gaussian.starts.block_starts import spectral_weights
from limen.gaussian.starts.start_weights import start_weights
from limen.labelled import with_coordinates, with_variables
from limen.problem import GradientDescent, InputError, TwoLayer
from limen.problem.algorithms import Descent, Entrywise, beyond_plain, plain_units
from limen.result import Findings
from limen.simulation.data import shuffled_rows, spread
from limen.simulation.descent.fixed_sample import Sample, draw_sample, labelled_sample, sample_size
from limen.simulation.descent.sharded_sample import draw_sharded
from limen.simulation.descent.target_frame import carried, target_frame
from limen.simulation.record import diverged
from limen.simulation.training_record import (
    Observables,
    observe,
    stayed_finite,
    stores_weights,
    training_dataset,
    two_time_correlation,
)
from limen.simulation.two_layer_gradient import Weights


class Setting(NamedTuple):
    """Everything a training needs, of one explicit dtype.

    `deviations` (d,): standard deviations of the coordinates of the inputs, None where all are 1. `counts`: 1 for rows
    of a sharded sample that belong to it and 0 for those that fill it up, None where all count.
    """

    sample: Sample
    start: Weights
    bias: jax.Array
    frame: jax.Array
    deviations: jax.Array | None = None
    counts: jax.Array | None = None


class Record(NamedTuple):
    """Along recorded times: observables, empirical risk, first layers (time, m, d) where they are kept, and the
    covariances of the fields of a fresh input where they are not the overlaps."""

    observables: Observables
    train_loss: jax.Array
    path: jax.Array | None
    fields: Observables | None


def refuses(problem: object) -> str | None:
    """Why training on a fixed sample cannot run the problem, or None."""
    if not isinstance(problem, TwoLayer):
        return "it trains two-layer networks."
    if not isinstance(problem.algorithm, Descent):
        return f"it runs descent on a fixed sample, not {type(problem.algorithm).__name__}."
    return None


def refuses_plain(problem: object) -> str | None:
    """Why training by plain gradient descent on the whole sample cannot run the problem, or None."""
    reason = refuses(problem)
    if reason is not None:
        return reason
    assert isinstance(problem, TwoLayer)
    if not isinstance(problem.algorithm, GradientDescent):
        return f"it runs GradientDescent, not {type(problem.algorithm).__name__}."
    if problem.network.train_bias:
        return "it needs fixed biases, and train_bias is set."
    return beyond_plain(problem.algorithm)


def prepare(
    problem: TwoLayer,
    d: int,
    seed: int,
    dtype: str,
    mesh: Mesh | None = None,
) -> Setting:
    """Sample and first weights of one seed. The size of the inputs is checked before they are drawn.

    The directions of the target are the first axes where nothing can tell; with rules that treat entries alone, or
    entries of a law of their own, they are drawn; with several variances they have the same weight per dimension in
    every eigenspace. With a `mesh` the rows of the inputs are spread over its devices.
    """
    n = sample_size(problem, d, dtype, 1 if mesh is None else mesh.size)
    network, k = problem.network, problem.target.latents

    def array(value: Any) -> jax.Array:
        return jnp.asarray(value, dtype)

    frame, first, deviations = np.eye(k, d), start_weights(problem, d, seed), None
    law, spectrum = problem.inputs.law, problem.inputs.spectrum
    seen_entries = isinstance(problem.algorithm, Entrywise) or problem.target.entries != "gaussian"
    along_axes = not (seen_entries and spectrum.isotropic and law == "gaussian")
    if not along_axes:
        frame = target_frame(problem.target, d, seed)
        first = carried(first, frame)
    elif spectrum.isotropic and problem.inputs.rows is None:
        frame, first = (spread(vectors, k, seed, law) for vectors in (frame, first))
    else:
        first, frame = spectral_weights(problem, d, seed)
        deviations = array(np.sqrt(coordinate_variances(problem.inputs, d)))
    bias = array(network.per_neuron("bias"))
    start = Weights(array(first), array(network.per_neuron("second_layer")), bias if network.train_bias else None)
    counts = None
    if problem.inputs.rows is not None:
        if mesh is not None:
            raise InputError("devices must be left out where the inputs are rows of data.")
        rows = shuffled_rows(problem.inputs.rows, seed, n, "samples_per_dim")
        sample = labelled_sample(problem.target, array(rows), array(frame), seed)
    elif mesh is None:
        sample = draw_sample(problem.target, n, array(frame), seed, law, deviations, along_axes)
    else:
        sample, counts = draw_sharded(mesh, problem.target, n, array(frame), seed, law, deviations, along_axes)
    return Setting(sample, start, bias, array(frame), deviations, counts)


def keeps_path(setting: Setting, times: np.ndarray) -> bool:
    """Whether the first layers at all `times` are few enough for two-time correlations."""
    width, d = setting.start.first.shape
    return stores_weights(times.size, width, d, setting.start.first.dtype.itemsize)


def recorded_with_path(weights: Weights, train_loss: jax.Array, setting: Setting) -> Record:
    """`recorded`, and the first layer."""
    return recorded(weights, train_loss, setting)._replace(path=weights.first)


def recorded(weights: Weights, train_loss: jax.Array, setting: Setting) -> Record:
    r"""The record of one time. Fields of inputs of covariance $\Sigma$ have covariances $\theta_j^\top\Sigma\theta_l$
    and $\theta_j^\top\Sigma\theta_{*r}$."""
    fields = None
    if setting.deviations is not None:
        scaled = weights._replace(first=weights.first * setting.deviations)
        fields = observe(scaled, setting.frame * setting.deviations)
    return Record(observe(weights, setting.frame), train_loss, None, fields)


def training_findings(
    problem: TwoLayer,
    setting: Setting,
    record: Record,
    times: np.ndarray,
    seed: int,
    what: str,
) -> Findings:
    """What was found of one seed; `what` names the training in the status."""
    d = setting.sample.x.shape[1]
    n = setting.sample.x.shape[0] if setting.counts is None else round(float(setting.counts.sum()))
    dataset = training_dataset(problem, record.observables, times, seed, d, record.fields)
    dataset = with_coordinates(dataset, {"step": ("time", times.astype(np.int64))}).assign_attrs(n=n)
    train_loss = np.asarray(record.train_loss, dtype=float)[None]
    dataset = with_variables(dataset, {"train_loss": (("seed", "time"), train_loss)})
    status = f"{what} on n = {n} samples in d = {d}."
    if isinstance(problem.algorithm, Entrywise):
        status = f"{status[:-1]}; {plain_units(problem.algorithm, d)}."
    if record.path is None or not keeps_path(setting, times):
        status = f"{status[:-1]}; two-time correlations left out (too many times and neurons: take fewer times)."
    else:
        dims = ("seed", "time", "time2", "neuron", "neuron2")
        dataset = with_variables(dataset, {"correlation": (dims, two_time_correlation(record.path)[None])})
        dataset = with_coordinates(dataset, {"time2": times})
    finite = stayed_finite(dataset)
    if not finite:
        status = diverged(d)
    return Findings(dataset, finite, status)
