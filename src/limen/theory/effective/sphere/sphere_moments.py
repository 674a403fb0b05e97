"""What the limit of SGD on the sphere needs to know of a loss."""

from abc import ABC, abstractmethod

import numpy as np

# Fourth powers of a link carry their mass further out than the link itself.
REACH = 12.0
HIGHEST_EXPONENT = 40


class SpherePopulation(ABC):
    """What the limit needs to know of a loss; every method takes and returns arrays of overlaps in [-1, 1]."""

    @abstractmethod
    def loss(self, m: np.ndarray) -> np.ndarray:
        r"""$\phi(m)$."""

    @abstractmethod
    def slope(self, m: np.ndarray) -> np.ndarray:
        r"""$\phi'(m)$."""

    @abstractmethod
    def gradient_square(self, m: np.ndarray) -> np.ndarray:
        r"""$\sigma^2(m)$."""

    @abstractmethod
    def signal_noise(self, m: np.ndarray) -> np.ndarray:
        r"""$v^2(m)$."""

    @abstractmethod
    def leading(self) -> tuple[int, float]:
        r"""Information exponent $k$ and $a_k$ in $-\phi'(m)\approx a_km^{k-1}$; refused where $a_k$ is negative."""
