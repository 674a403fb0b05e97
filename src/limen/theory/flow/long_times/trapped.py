"""States in which training seems to stop above interpolation, looked at again with small steps."""

from dataclasses import dataclass

import numpy as np

from limen.theory.flow.history import History
from limen.theory.flow.integrator import SEED, adapt, total_rate

STILL = 1e-3  # change over the last factor of ten in time, of the train loss and of every order parameter
MOVED = 1e-2
GROWN = 10.0
CAPPED_STEPS = 150


@dataclass(frozen=True)
class Plateau:
    """A train loss that no longer changes after `since`; `step` is the cap under which it was confirmed or left."""

    since: float
    train_loss: float
    step: float
    confirmed: bool


def find_plateau(history: History, ratio: float) -> Plateau | None:
    r"""Whether the run ends in a state that has not moved over the last factor of ten in time, and stays there.

    An implicit step $h$ damps an unstable mode of rate $\lambda$ when $h\lambda\gg1$: geometric steps can sit on a
    saddle. The run is repeated with 150 steps of $1/\lambda_{\max}$ from the beginning of the plateau: a state that
    is left by more than 1% of the train loss, or along an overlap that grows tenfold, was not a trap.
    """
    n = history.count
    times, losses = history.time[:n], history.train_loss
    if times[-1] * total_rate(history.model, _size(history)) < 100.0 or losses[-1] < 1e-6 * losses[0]:
        return None
    late = times >= 0.1 * times[-1]
    scale = 1.0 + np.abs(history.second_layer[n - 1]).max()
    moved = [
        np.ptp(losses[late]) / losses[-1],
        np.ptp(history.second_layer[:n][late], axis=0).max() / scale,
        np.ptp(history.overlap[:n][late], axis=0).max(),
    ]
    if max(moved) > STILL:
        return None
    away = np.abs(losses / losses[-1] - 1.0) > 2.0 * STILL
    since = float(times[np.flatnonzero(away)[-1] + 1]) if away.any() else 0.0
    cap = 1.0 / total_rate(history.model, _size(history))
    again, outcome = adapt(history.model, since + CAPPED_STEPS * cap, ratio, since, cap)
    stays = outcome.reason == "end" and abs(again.train_loss[-1] / losses[-1] - 1.0) < MOVED
    first = int(np.searchsorted(again.time[: again.count], since))
    begins, ends = np.abs(again.overlap[first]), np.abs(again.overlap[again.count - 1])
    stays = stays and not ((ends > GROWN * begins) & (begins > SEED)).any()
    return Plateau(since, float(losses[-1]), cap, bool(stays))


def _size(history: History) -> float:
    return float(np.abs(history.second_layer[history.count - 1]).max())
