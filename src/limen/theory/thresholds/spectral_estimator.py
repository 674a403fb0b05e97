r"""The spectral estimator that finds a hard direction as soon as anything efficient can.

The leading eigenvector of $\frac1n\sum_iT(y_i)\,x_ix_i^\top$ with
$$T(y)=\frac{E[z^2-1\mid y]}{E[z^2\mid y]+\epsilon}$$
leaves the bulk at $\delta_{alg}$ as $\epsilon\to0$; $\epsilon>0$ keeps the weights bounded below.

Source: Mondelli & Montanari 2019; Luo, Alghamdi & Lu 2019, "Optimal spectral initialization for signal recovery with
applications to phase retrieval".
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from limen.link.label_points import checked_target
from limen.problem.inputs import Inputs
from limen.problem.spec import InputError
from limen.theory.spectra.outliers import subspace_outliers
from limen.theory.spectra.separable_outliers import population_weights
from limen.theory.thresholds.label_channel import LabelChannel, target_channel
from limen.theory.thresholds.overlap_curve import single_index
from limen.theory.thresholds.population_hessian import target_profile

CELLS = 512
GRID = 1 << 11


@dataclass(frozen=True, eq=False)
class SpectralWeight:
    """$T(y)$ as a function of labels, interpolated between the cells in which it was computed."""

    labels: np.ndarray
    values: np.ndarray

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        return np.interp(labels, self.labels, self.values)


def spectral_weight(target: Any, regularisation: float = 0.01) -> SpectralWeight:
    r"""$T(y)$ of a single-index target; `regularisation` is $\epsilon>0$."""
    channel = _channel(target, regularisation)
    return SpectralWeight(channel.labels, _values(channel, regularisation))


def spectral_overlap(
    target: Any, samples_per_dim: float, regularisation: float = 0.01, inputs: Inputs | None = None
) -> float:
    r"""Squared cosine of the leading eigenvector with the direction as $n,d\to\infty$, $n/d$ = `samples_per_dim`.

    By the outlier law of $\frac1n\sum_ig_ix_ix_i^\top$ with weights that depend on one coordinate, in which only
    $E[z^2\mid y]$ enters; 0 when no eigenvalue leaves the bulk on the right.

    On `inputs` of several variances the matrix is that of the inputs as they are, and the direction $\theta_*$; by the
    law of `separable_outliers`.
    """
    if not (np.isfinite(samples_per_dim) and samples_per_dim > 0):
        raise InputError(f"samples_per_dim must be positive, got {samples_per_dim}.")
    channel = _channel(target, regularisation)
    weights = _values(channel, regularisation)
    kept = channel.masses > 1e-12
    masses = channel.masses[kept] / channel.masses[kept].sum()
    ratio, sizes = 1.0 / samples_per_dim, np.sqrt(channel.second_moments[kept])
    if inputs is not None and not inputs.isotropic:
        profile, fractions = target_profile(inputs)
        law = population_weights(
            weights[kept], sizes, inputs.spectrum.values, fractions, ratio, profile * fractions, masses
        )
        leading = law.mirrored().outliers_left()
        return float(leading[0].overlap_squared) if leading else 0.0
    found = subspace_outliers(weights[kept], sizes, ratio, probabilities=masses)
    # Everything right of the bulk's mean is right of the bulk: weights have at most one informative eigenvalue there.
    mean = float(masses @ weights[kept])
    right = [outlier for outlier in found if outlier.location > mean]
    return float(right[-1].overlap_squared) if right else 0.0


def _channel(target: Any, regularisation: float) -> LabelChannel:
    if not regularisation > 0:
        raise InputError(f"regularisation must be positive, got {regularisation}.")
    return target_channel(single_index(checked_target(target)), GRID, CELLS)


def _values(channel: LabelChannel, regularisation: float) -> np.ndarray:
    return (channel.second_moments - 1.0) / (channel.second_moments + regularisation)
