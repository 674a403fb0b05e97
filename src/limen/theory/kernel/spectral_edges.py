r"""Where the non-zero limiting spectrum of a feature Gram matrix begins and ends."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from limen.problem.spec import InputError
from limen.theory.kernel.equivalent import KernelSpectrum, effective_ridge


class SpectralEdges(NamedTuple):
    """Ends of the hull of the non-zero spectrum."""

    left: float
    right: float


def spectral_edges(spectrum: KernelSpectrum, features: float, samples: float) -> SpectralEdges:
    r"""$(\lambda_-,\lambda_+)$, the hull of the non-zero spectrum of $A$, whose resolvent at $-\lambda$ has effective
    ridge $\kappa(\lambda)$.

    $\lambda(\kappa)=\kappa(1-T/P)(1-T/N)$ is real off the spectrum; the bulk ends where $\lambda'(\kappa)=0$, first
    met from $\kappa_0$ downwards ($\lambda_-$) and from $\kappa=-\infty$ upwards ($\lambda_+$). With a tail and
    $P=\infty$ (a kernel) the samples beyond the rank of the bulk form an atom at $\eta_{tail}/N$, where $\kappa=0$.
    The lower edge is 0 when the spectrum reaches 0 (as many samples as features or dimensions).
    """

    def ridge(kappa: float) -> float:
        degrees = float(spectrum.degrees(np.asarray(kappa)))
        return kappa * (1 - degrees / features) * (1 - degrees / samples)

    def slope(kappa: Any) -> Any:
        degrees, fall = spectrum.degrees(np.asarray(kappa)), spectrum.slope(np.asarray(kappa))
        a, b = 1 - degrees / features, 1 - degrees / samples
        return a * b + fall * (a / samples + b / features)

    unlimited = np.isinf(features) or np.isinf(samples)
    atom = spectrum.tail / min(features, samples)
    if not len(spectrum.eigenvalues) and unlimited:
        return SpectralEdges(atom, atom)
    top = float(spectrum.eigenvalues.max(initial=0.0))
    reach = spectrum.trace * (1 + 1 / features + 1 / samples)
    last = _first_root(slope, -top - reach * np.geomspace(1e6, 1e-14, 600))
    if last is None:
        # The slope tends to -infinity at the top eigenvalue, so there is a root, beyond what doubles can tell.
        raise InputError(
            f"features and samples must be nearer to the dimensions they share: with {features:.3g} and {samples:.3g} "
            "per unit the edge of the spectrum is lost in rounding."
        )
    right = -ridge(last)
    start = float(effective_ridge(spectrum, np.asarray(features), np.asarray(samples), np.asarray(0.0)).kappa)
    lowest = -float(spectrum.eigenvalues.min()) if unlimited or not spectrum.tail else 0.0
    first = _first_root(slope, lowest + (start - lowest) * np.geomspace(1.0, 1e-14, 600))
    if first is None:
        return SpectralEdges(0.0, right)
    left = atom if unlimited and spectrum.tail and first < 0 else -ridge(first)
    return SpectralEdges(left if left > 1e-13 * right else 0.0, right)


def _first_root(function: Callable[[Any], Any], points: NDArray[np.float64]) -> float | None:
    negative = np.flatnonzero(function(points) <= 0)
    if len(negative) == 0 or negative[0] == 0:
        return None
    inner, outer = points[negative[0]], points[negative[0] - 1]
    return float(brentq(lambda point: float(function(point)), inner, outer, xtol=1e-300, rtol=1e-14))  # pyright: ignore[reportArgumentType]
