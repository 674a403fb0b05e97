"""What a run reports, at the times that were asked for rather than at the nodes of its grid."""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import make_interp_spline

from limen.theory.flow.history import History


@dataclass(frozen=True, eq=False)
class Observables:
    """Losses (T,), second layer (T, G), overlap (T, G, k), gram (T, G, G), and the neurons' mean correlation (T, T)."""

    train_loss: np.ndarray
    test_loss: np.ndarray
    second_layer: np.ndarray
    overlap: np.ndarray
    gram: np.ndarray
    correlation: np.ndarray


def mean_correlation(history: History) -> np.ndarray:
    """Overlap of a neuron with itself between two nodes, averaged over all neurons, (n, n)."""
    return np.einsum("g,gij->ij", history.model.fractions, history.own_correlation)


def observe(history: History, times: np.ndarray, offset: float) -> Observables:
    r"""Quintic splines in $\log(t+\text{offset})$ through the nodes; after the last node everything is constant.

    The train loss is interpolated in its logarithm, since it may decay exponentially.
    """
    nodes = np.log(history.time[: history.count] + offset)
    at = np.log(np.minimum(times, history.time[history.count - 1]) + offset)
    degree = min(5, history.count - 1)

    def interpolate(values: np.ndarray) -> np.ndarray:
        return np.asarray(make_interp_spline(nodes, values, degree)(at))

    two_time = interpolate(interpolate(mean_correlation(history)).T)
    floor = np.finfo(float).tiny
    return Observables(
        np.exp(interpolate(np.log(np.maximum(history.train_loss, floor)))),
        interpolate(history.test_loss),
        interpolate(history.second_layer[: history.count]),
        interpolate(history.overlap[: history.count]),
        interpolate(history.gram),
        0.5 * (two_time + two_time.T),
    )


def extrapolate(coarse: Observables, fine: Observables) -> Observables:
    r"""The limit of vanishing steps from two grids, one twice as fine: errors are of second order in the step."""

    def limit(name: str) -> np.ndarray:
        return getattr(fine, name) + (getattr(fine, name) - getattr(coarse, name)) / 3.0

    names = ("test_loss", "second_layer", "overlap", "gram", "correlation")
    train = fine.train_loss * np.cbrt(fine.train_loss / coarse.train_loss)
    return Observables(train, **{name: limit(name) for name in names})


def grid_error(coarse: Observables, fine: Observables) -> np.ndarray:
    r"""Estimated error of the finer grid, (T,): the largest over losses, $a/(1+|a|)$, overlaps and gram."""
    scale = 1.0 + np.abs(fine.second_layer)
    parts = [
        np.abs(fine.train_loss - coarse.train_loss)[:, None],
        np.abs(fine.test_loss - coarse.test_loss)[:, None],
        np.abs(fine.second_layer - coarse.second_layer) / scale,
        np.abs(fine.overlap - coarse.overlap).reshape(len(scale), -1),
        np.abs(fine.gram - coarse.gram).reshape(len(scale), -1),
    ]
    return np.concatenate(parts, axis=1).max(axis=1) / 3.0
