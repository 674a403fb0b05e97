"""Which of the four clouds of the XOR mixture a trained network has discovered."""

import numpy as np

from limen.problem import InputError
from limen.result import Findings, Result

LEVEL = 0.3


def occupied_clusters(result: Findings | Result, level: float = LEVEL) -> np.ndarray:
    r"""The number of occupied clusters (0..4) at the last time of a simulation or prediction, one per seed.

    A neuron occupies $\mu^\pm$ if $v_i>$ `level` and $\pm m_i^\mu>$ `level`, and $\nu^\pm$ if $v_i<-$`level` and
    $\pm m_i^\nu>$ `level`; fixed points have $v_i=|m_i|$. The mean of `occupied_clusters(run) == 4` is the measured
    success probability; it still grows with time long after the first neurons have settled.
    """
    if "second_layer" not in result.dataset or "overlap" not in result.dataset:
        raise InputError("result must be a prediction or simulation of an XorMixture.")
    last = result.dataset.isel(time=-1)
    second = last["second_layer"].values
    overlap = last["overlap"].values
    towards = np.stack([second, second, -second, -second], axis=-1)
    signed = np.stack([overlap[..., 0], -overlap[..., 0], overlap[..., 1], -overlap[..., 1]], axis=-1)
    return ((towards > level) & (signed > level)).any(axis=-2).sum(axis=-1)
