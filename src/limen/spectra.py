"""Spectra of large random matrices: laws in the limit, and tools that measure them at finite size."""

from limen.simulation.spectra.random_matrices import (
    draw_covariance,
    draw_directional,
    draw_weighted,
    population_spectrum,
)
from limen.simulation.spectra.spectrum import (
    Eigenspace,
    Estimate,
    LanczosSpectrum,
    bottom_eigenspace,
    lanczos,
    top_eigenspace,
    weighted_gram,
)
from limen.theory.spectra import (
    CovarianceLaw,
    LargestEigenvalue,
    MarchenkoPastur,
    Outlier,
    SeparableLaw,
    SubspaceOutlier,
    WeightedLaw,
    directional_outliers,
    subspace_outliers,
)

__all__ = [
    "CovarianceLaw",
    "Eigenspace",
    "Estimate",
    "LanczosSpectrum",
    "LargestEigenvalue",
    "MarchenkoPastur",
    "Outlier",
    "SeparableLaw",
    "SubspaceOutlier",
    "WeightedLaw",
    "bottom_eigenspace",
    "directional_outliers",
    "draw_covariance",
    "draw_directional",
    "draw_weighted",
    "lanczos",
    "population_spectrum",
    "subspace_outliers",
    "top_eigenspace",
    "weighted_gram",
]
