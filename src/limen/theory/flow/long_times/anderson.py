"""Anderson acceleration of a fixed-point iteration."""

import numpy as np


class Anderson:
    r"""Mixes the last `depth` iterates of $x\mapsto g(x)$ so that the residual $g(x)-x$ is smallest in least squares.

    With $f_i=g(x_i)-x_i$ and $\gamma$ minimising $|f_n-\sum_i\gamma_i(f_{i+1}-f_i)|$, the next point is
    $g(x_n)-\sum_i\gamma_i(g(x_{i+1})-g(x_i))$. Source: Anderson 1965; Walker & Ni 2011.
    """

    def __init__(self, size: int, depth: int = 12) -> None:
        self._residuals = np.empty((depth, size))
        self._images = np.empty((depth, size))
        self._gram = np.zeros((depth, depth))
        self._depth, self._count = depth, 0
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def next(self, point: np.ndarray, image: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The next point after `image` = g(`point`); residuals are measured times `weight`."""
        residual = (image - point) * weight
        if self._last is None:
            self._last = residual, image
            return image
        slot = self._count % self._depth
        self._residuals[slot] = residual - self._last[0]
        self._images[slot] = image - self._last[1]
        self._last = residual, image
        self._count += 1
        used = min(self._count, self._depth)
        column = self._residuals[:used] @ self._residuals[slot]
        self._gram[:used, slot] = self._gram[slot, :used] = column
        gram = self._gram[:used, :used]
        scale = np.sqrt(np.diagonal(gram)) + 1e-300
        # The normal equations are regularised: nearly parallel differences carry only rounding.
        normal = gram / np.outer(scale, scale) + 1e-12 * np.eye(used)
        mix = np.linalg.solve(normal, (self._residuals[:used] @ residual) / scale) / scale
        return image - mix @ self._images[:used]
