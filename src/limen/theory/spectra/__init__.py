"""Spectral laws of large random matrices: bulks, edges, outliers and overlaps."""

from limen.theory.spectra.laws import CovarianceLaw, WeightedLaw
from limen.theory.spectra.marchenko_pastur import LargestEigenvalue, MarchenkoPastur
from limen.theory.spectra.outliers import Outlier, SubspaceOutlier, directional_outliers, subspace_outliers
from limen.theory.spectra.separable import SeparableLaw
from limen.theory.spectra.separable_outliers import PopulationOutlier, separable_edges, separable_outliers
from limen.theory.spectra.spectral_law import SpectralLaw
from limen.theory.spectra.subordination import Subordination

__all__ = [
    "CovarianceLaw",
    "LargestEigenvalue",
    "MarchenkoPastur",
    "Outlier",
    "PopulationOutlier",
    "SeparableLaw",
    "SpectralLaw",
    "Subordination",
    "SubspaceOutlier",
    "WeightedLaw",
    "directional_outliers",
    "separable_edges",
    "separable_outliers",
    "subspace_outliers",
]
