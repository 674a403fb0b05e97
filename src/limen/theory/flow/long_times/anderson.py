"""Anderson acceleration of a fixed-point iteration."""

from math import sqrt

import numpy as np
from scipy.linalg.lapack import dgesv  # pyright: ignore[reportAttributeAccessIssue]


class Anderson:
    r"""Mixes the last `depth` iterates of $x\mapsto g(x)$ so that the residual $g(x)-x$ is smallest in least squares.

    With $f_i=g(x_i)-x_i$ and $\gamma$ minimising $|f_n-\sum_i\gamma_i(f_{i+1}-f_i)|$, the next point is
    $g(x_n)-\sum_i\gamma_i(g(x_{i+1})-g(x_i))$. Source: Anderson 1965; Walker & Ni 2011.
    """

    def __init__(self, size: int, depth: int = 12) -> None:
        self._residuals = np.empty((depth, size))
        self._images = np.empty((depth, size))
        # The normal equations are regularised: nearly parallel differences carry only rounding.
        self._normal = np.zeros((depth, depth))
        self._depth, self._count = depth, 0
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def next(self, image: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """The next point after `image` $=g(x)$; `residual` is $g(x)-x$ times the weights it is measured with."""
        if self._last is None:
            self._last = residual, image
            return image
        slot = self._count % self._depth
        self._count += 1
        used = min(self._count, self._depth)
        difference, step, residuals = self._residuals[slot], self._images[slot], self._residuals[:used]
        np.subtract(residual, self._last[0], out=difference)
        np.subtract(image, self._last[1], out=step)
        # Both in units of the length of the difference, so that the normal equations have a diagonal of ones.
        unit = 1.0 / (sqrt(difference @ difference) + 1e-300)
        difference *= unit
        step *= unit
        self._last = residual, image
        self._normal[:used, slot] = self._normal[slot, :used] = residuals @ difference
        self._normal[slot, slot] += 1e-12
        # The routine itself: what NumPy does around it takes ten times as long at this size.
        *_, mix, _ = dgesv(self._normal[:used, :used], residuals @ residual)
        return image - mix @ self._images[:used]
