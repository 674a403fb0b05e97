"""What the fields of attention can be given: densities of tokens, and temperatures whose speed is still a number."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limen.problem.spec import InputError

LARGEST_UNNORMALIZED_BETA = 700.0


def density_values(density: Callable[[Any], Any], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """A density evaluated on an array of points: non-negative, finite, not zero everywhere."""
    if not callable(density):
        raise InputError(f"density must be a function of an array of points, got {type(density).__name__}.")
    try:
        values = np.broadcast_to(np.asarray(density(points), dtype=float), points.shape)
    except (TypeError, ValueError):
        raise InputError("density must return one number per point of the array it is given.") from None
    if not np.isfinite(values).all() or (values < 0.0).any() or not values.any():
        found = values[~np.isfinite(values)] if not np.isfinite(values).all() else values
        raise InputError(f"density must be non-negative, finite and not zero everywhere, got {float(found.min())}.")
    return values


def beta_without_normalization(beta: float, normalized: bool) -> None:
    """Refuses the flow without softmax where its speed, of order $e^\\beta$, is no longer a double."""
    if not normalized and abs(beta) > LARGEST_UNNORMALIZED_BETA:
        raise InputError(
            f"beta must be at most {LARGEST_UNNORMALIZED_BETA:g} in size without normalization, got {beta}: "
            "the speed of order exp(beta) is not a double."
        )
