"""When a curve of gaps first falls to a level, between the points at which it was recorded."""

import numpy as np


def first_passage(at: np.ndarray, gaps: np.ndarray, level: float) -> float:
    """The first point of `at` at which `gaps`, positive and recorded there, is at most `level`; nan if it never is.

    Between records the logarithm of the gap is taken as linear: exact where it falls exponentially.
    """
    below = np.flatnonzero(gaps <= level)
    if below.size == 0:
        return float("nan")
    last = int(below[0])
    if last == 0:
        return float(at[0])
    before, after = np.log(np.maximum(gaps[[last - 1, last]], 1e-300))
    share = (before - np.log(level)) / (before - after)
    return float(at[last - 1] + share * (at[last] - at[last - 1]))
