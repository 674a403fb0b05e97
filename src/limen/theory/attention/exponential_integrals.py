r"""Exponential integrals without their exponential factor, so that no argument overflows.

$e^{-x}\mathrm{Ei}(x)$ for every real $x\ne0$; for negative $x$, $\mathrm{Ei}(x)=-E_1(-x)$. Beyond $|x|=60$ the
asymptotic series $\frac1x\sum_k k!/x^k$ is summed to 40 terms, whose remainder is below $10^{-23}$ relative.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import exp1, expi

SERIES_FROM = 60.0
TERMS = 40


def scaled_ei(x: Any) -> NDArray[np.float64]:
    r"""$e^{-x}\,\mathrm{Ei}(x)$, real $x\ne0$ of any size and shape."""
    argument = np.asarray(x, dtype=float)
    large = np.abs(argument) > SERIES_FROM
    moderate = np.where(large, 1.0, argument)
    near = np.where(moderate > 0.0, expi(np.abs(moderate)), -exp1(np.abs(moderate))) * np.exp(-moderate)
    far_argument = np.where(large, argument, SERIES_FROM)
    far = np.ones_like(far_argument)
    for k in range(TERMS, 0, -1):
        far = 1.0 + far * k / far_argument
    return np.where(large, far / far_argument, near)
