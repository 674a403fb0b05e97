"""Before and after a flow on the sphere: its numbers, what is refused, and the result, neurons seen by groups."""

import numpy as np
import xarray as xr

from limen.labelled import labelled, with_coordinates, with_variables
from limen.problem import GradientFlow, InputError, TwoLayer
from limen.problem.decays import check_decay_until
from limen.problem.groups import neuron_groups
from limen.simulation.flow.sphere_flow import FlowPath, FlowRule

MOST_CORRELATIONS = 4e6
LARGEST_PATH_BYTES = 2e9


def flow_rule(problem: TwoLayer, n: int, d: int, tolerance: float) -> FlowRule:
    """The numbers of the flow of a problem on `n` samples."""
    speed = n / d
    second = speed if problem.network.train_second_layer else 0.0
    radius, flow = np.asarray(problem.start_lengths)[:, None], problem.algorithm
    if not isinstance(flow, GradientFlow):
        return FlowRule(speed, second, radius, float(tolerance))
    regularization = flow.regularization(problem.network.width)
    return FlowRule(speed, second, radius, float(tolerance), flow.spherical, regularization)


def check_flow(problem: TwoLayer, last: float) -> None:
    """Refuses a decay that is not defined up to the last time."""
    if isinstance(problem.algorithm, GradientFlow):
        for name in ("weight_decay", "second_layer_decay"):
            check_decay_until(getattr(problem.algorithm, name), last, name)


def check_tolerance(tolerance: float) -> None:
    """Refuses a tolerance that double precision cannot keep, or that keeps nothing."""
    if not 1e-10 <= tolerance <= 1e-2:
        raise InputError(f"tolerance must be between 1e-10 and 1e-2, got {tolerance!r}.")


def check_path(times: int, width: int, d: int) -> None:
    """Refuses more recorded weights than fit in memory."""
    size = 8.0 * times * width * (d + width)
    if size > LARGEST_PATH_BYTES:
        raise InputError(
            f"times must be fewer: the weights of {width} neurons in d = {d} at {times} times take "
            f"{size / 1e9:.1f} GB, and must stay below {LARGEST_PATH_BYTES / 1e9:g} GB."
        )


def group_dataset(
    problem: TwoLayer,
    times: np.ndarray,
    seed: int,
    path: FlowPath,
    test_loss: np.ndarray,
    overlap: np.ndarray,
    gram: np.ndarray,
) -> xr.Dataset:
    r"""Losses, and means over groups of neurons of the weights along `path`, of their overlaps with the target
    (time, m, k) and of their Gram matrices (time, m, m).

    `second_layer`, `overlap`: means over the neurons of a group; `gram`: mean of $\langle w_i,w_j\rangle$ over pairs of
    *different* neurons of two groups (the squared norm for a group of one); `correlation`: mean over all neurons of
    $\langle w_j(t),w_j(t')\rangle$, left out above 2000 times; of a free flow `own_gram`, mean of $|w_j|^2$.
    """
    groups = neuron_groups(problem)
    count, width, d = path.first.shape
    latent_last = np.swapaxes(groups.means(np.swapaxes(overlap, 1, 2)), 1, 2)
    dataset = labelled(
        {
            "train_loss": (("seed", "time"), path.risk[None]),
            "test_loss": (("seed", "time"), test_loss[None]),
            "second_layer": (("seed", "time", "group"), groups.means(path.second)[None]),
            "overlap": (("seed", "time", "group", "latent"), latent_last[None]),
            "gram": (("seed", "time", "group", "group2"), groups.pair_means(gram)[None]),
        },
        coords={"time": times, "seed": [seed], "group_size": ("group", groups.sizes)},
        attrs={"d": d},
    )
    if not getattr(problem.algorithm, "spherical", True):
        own = groups.means(np.diagonal(gram, axis1=1, axis2=2))
        dataset = with_variables(dataset, {"own_gram": (("seed", "time", "group"), own[None])})
    if count**2 <= MOST_CORRELATIONS:
        flat = path.first.reshape(count, width * d)
        correlation = (flat @ flat.T / width)[None]
        dataset = with_variables(dataset, {"correlation": (("seed", "time", "time2"), correlation)})
        dataset = with_coordinates(dataset, {"time2": times})
    return dataset


def flow_outcome(path: FlowPath, what: str) -> tuple[str, dict[str, float]]:
    """Status and statistics of a flow."""
    statistics = {"steps": float(path.steps), "gradients": float(path.gradients)}
    if not path.finished:
        return f"the last time was not reached in {path.steps} steps: take a shorter time.", statistics
    return what, statistics
