r"""When to stop: the minimum of the test error along training, and what happens after it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from limen.labelled import mean_over_runs
from limen.problem.spec import InputError
from limen.result import Findings, Result

Verdict = Literal["overfits", "trapped", "still training"]
# A test error this much above its minimum counts as overfitting.
RISE = 0.01
# A training error below this part of the test error has begun to fit the noise.
UNFITTED = 0.5
# A training error that falls by less than this over the last factor 10 of time has stopped moving.
STILL = 0.003


@dataclass(frozen=True)
class EarlyStopping:
    """The best stop on a training curve.

    Attributes:
        time: where the test error is least.
        test_loss: its value there.
        train_loss: the training error there.
        final_test_loss: the test error at the last time.
        verdict: `trapped` when the training error has fallen by less than 0.3% over the last decade of time and is
            still more than half the test error: the noise is not fitted and will not be. Else `overfits` when the
            test error ends more than 1% above its minimum, else `still training`.
        interior: whether the minimum lies between the first and the last time.
    """

    time: float
    test_loss: float
    train_loss: float
    final_test_loss: float
    verdict: Verdict
    interior: bool

    def __str__(self) -> str:
        best = f"least test loss {self.test_loss:.6g} at t = {self.time:.6g}"
        return f"{best}, {self.final_test_loss:.6g} at the end: {self.verdict}."


def early_stopping(result: Findings | Result) -> EarlyStopping:
    r"""Time and value of the least `test_loss` of a solved or simulated flow, and whether training overfits after it.

    The minimum is that of the parabola in $\log t$ through the three lowest neighbouring times (in $t$ when the first
    is 0); with 30 times a decade it is known to 0.1% in time for smooth curves. Several seeds are averaged first. The
    verdict speaks of the times that were solved: `still training` asks for longer ones, `trapped` is a minimum near
    that of the population risk which the flow does not leave (its test error can end somewhat above the least one).
    """
    dataset = result.dataset
    for name in ("train_loss", "test_loss"):
        if name not in dataset or "time" not in dataset[name].dims:
            raise InputError(f"result must have {name} against time, as limen.flow.solve gives it.")
    train, test = (mean_over_runs(dataset[name]) for name in ("train_loss", "test_loss"))
    # A solver that could not go on leaves later times empty.
    solved = np.isfinite(train) & np.isfinite(test)
    t, train, test = dataset["time"].values[solved], train[solved], test[solved]
    if t.size < 4:
        raise InputError(f"result must have 4 solved times or more, got {t.size}.")
    lowest = int(np.argmin(test))
    interior = 0 < lowest < t.size - 1
    when, value, fitted = float(t[lowest]), float(test[lowest]), float(train[lowest])
    if interior:
        near = slice(lowest - 1, lowest + 2)
        scale = np.log(t[near]) if t[lowest - 1] > 0.0 else t[near]
        when, value = _vertex(scale, test[near])
        fitted = float(np.interp(when, scale, train[near]))
        when = float(np.exp(when)) if t[lowest - 1] > 0.0 else when
    return EarlyStopping(when, value, fitted, float(test[-1]), _verdict(t, train, test, value), interior)


def _verdict(t: np.ndarray, train: np.ndarray, test: np.ndarray, least: float) -> Verdict:
    before = float(np.interp(0.1 * t[-1], t, train))
    if before - train[-1] <= STILL * before and train[-1] > UNFITTED * test[-1]:
        return "trapped"
    return "overfits" if test[-1] > (1.0 + RISE) * least else "still training"


def _vertex(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    a, b, c = np.polyfit(x - x[1], y, 2)
    if not a > 0.0:
        return float(x[1]), float(y[1])
    at = float(np.clip(-0.5 * b / a, x[0] - x[1], x[2] - x[1]))
    return float(x[1]) + at, float(a * at**2 + b * at + c)
