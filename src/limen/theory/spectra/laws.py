r"""Bulk spectra of sample covariances and of weighted Gram matrices."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from limen.checks import positive
from limen.problem.spec import InputError
from limen.theory.spectra.discrete_law import Numbers, discrete_law
from limen.theory.spectra.outliers import Outlier
from limen.theory.spectra.sampled_law import compress_samples
from limen.theory.spectra.spectral_law import SpectralLaw
from limen.theory.spectra.subordination import Subordination


@dataclass(frozen=True, eq=False)
class CovarianceLaw(SpectralLaw):
    r"""Spectrum of $\hat\Sigma=\frac1nX^\top X$, rows of covariance $\Sigma$, as $n,p\to\infty$, $\gamma=p/n$ fixed.

    `values` and `weights` are the eigenvalues of $\Sigma$ and their proportions (a law $H$), `ratio` is
    $\gamma$. The companion transform $v=\gamma S-(1-\gamma)/z=-1/w$ solves
    $z=-\frac1v+\gamma E_H\big[\frac{s}{1+sv}\big]$ (Marchenko & Pastur 1967; Silverstein 1995). The atom at zero is
    $\max(H(\{0\}),1-1/\gamma)$.
    """

    values: np.ndarray
    weights: np.ndarray
    ratio: float

    def __init__(self, values: Numbers, weights: Numbers, ratio: float) -> None:
        atoms, probabilities = discrete_law(values, weights, "values", "weights")
        if atoms[0] < 0.0:
            raise InputError(f"values must not be negative (they are eigenvalues of a covariance), got {atoms[0]}.")
        if atoms[-1] == 0.0:
            raise InputError("values must contain a positive eigenvalue, got only 0.0.")
        object.__setattr__(self, "values", atoms)
        object.__setattr__(self, "weights", probabilities)
        object.__setattr__(self, "ratio", positive("ratio", ratio))

    @cached_property
    def subordination(self) -> Subordination:
        r"""The law of the $n\times n$ Gram matrix: $\tau\sim H$, $c=\gamma$."""
        return Subordination.from_law(self.values, self.weights, self.ratio)

    @property
    def share(self) -> float:
        r"""$p/n$: the density is that of the Gram matrix divided by $\gamma$."""
        return self.ratio

    @property
    def moments(self) -> tuple[float, float]:
        r"""$E_Hs$ and $E_Hs^2+\gamma(E_Hs)^2$."""
        first, second = float(self.weights @ self.values), float(self.weights @ self.values**2)
        return first, second + self.ratio * first**2

    def outlier(self, spike: float) -> Outlier | None:
        r"""Where an isolated population eigenvalue $\ell$ = `spike` shows, and how much of its eigenvector survives.

        It leaves the bulk iff $z'(\ell)>0$, at $z(\ell)$, with squared overlap
        $|\langle v,\hat v\rangle|^2=\ell z'(\ell)/z(\ell)$; otherwise `None`. For $H=\delta_1$ this is
        $|\ell-1|>\sqrt\gamma$, $\ell(1+\frac\gamma{\ell-1})$, $\frac{1-\gamma/(\ell-1)^2}{1+\gamma/(\ell-1)}$
        (Baik, Ben Arous & Péché 2005; Baik & Silverstein 2006; Paul 2007; Bai & Yao 2012).
        """
        spike = positive("spike", spike)
        if spike in self.values:
            return None
        point = np.array([spike])
        slope, location = float(self.subordination.slope(point)[0]), float(self.subordination.map(point)[0])
        return Outlier(location, spike * slope / location) if slope > 0.0 else None

    def _transform(self, z: np.ndarray, w: np.ndarray) -> np.ndarray:
        transform = -self.subordination.resolvent_sum(w) / self.ratio
        return transform if self.values[0] > 0.0 else transform - self.weights[0] / z


@dataclass(frozen=True, eq=False)
class WeightedLaw(SpectralLaw):
    r"""Spectrum of $W=\frac1n\sum_ig_ix_ix_i^\top$, $x_i\sim N(0,I_d)$, as $n,d\to\infty$, $\gamma=d/n$ fixed.

    The weights $g_i$ may have any sign and are independent of $x_i$ up to finitely many directions, as in Hessians of
    single- and multi-index losses. `weights` and `probabilities` give the law of $g$; `ratio` is $\gamma$. The
    Stieltjes transform solves $z=-\frac1S+E\big[\frac{g}{1+\gamma gS}\big]$ (Marchenko & Pastur 1967; Silverstein &
    Bai 1995). The atom at zero is $\max(0,1-P(g\ne0)/\gamma)$.

    `resolution` is positive only for laws that stand for a continuous one; see `from_samples`.
    """

    weights: np.ndarray
    probabilities: np.ndarray
    ratio: float
    resolution: float = 0.0

    def __init__(self, weights: Numbers, probabilities: Numbers, ratio: float, resolution: float = 0.0) -> None:
        atoms, masses = discrete_law(weights, probabilities, "weights", "probabilities")
        if not np.any(atoms):
            raise InputError("weights must contain a non-zero value, got only 0.0.")
        if not 0.0 <= resolution < np.inf:
            raise InputError(f"resolution must be at least 0, got {resolution}.")
        object.__setattr__(self, "weights", atoms)
        object.__setattr__(self, "probabilities", masses)
        object.__setattr__(self, "ratio", positive("ratio", ratio))
        object.__setattr__(self, "resolution", float(resolution))

    @classmethod
    def from_samples(cls, samples: Numbers, ratio: float, bins: int = 400) -> "WeightedLaw":
        r"""The law for weights known by samples of $g$, for instance on trajectories of a dynamical theory.

        More than $2\cdot$`bins` samples are gathered into at most that many nodes that keep the first three moments
        of every bin, so edges and outliers far from the support of $g$ are those of the samples to about the fourth
        power of the bin width. The resolution in $g$ is the range divided by `bins`/2: gaps narrower than $\gamma$
        times that (in $w$) are closed, and the density near them is smoothed over that width. A bulk edge that is set
        by the last few samples of a tail is as uncertain as they are.
        """
        nodes, masses, resolution = compress_samples(samples, bins)
        return cls(nodes, masses, ratio, resolution)

    @cached_property
    def subordination(self) -> Subordination:
        r"""$\tau=\gamma g$, $c=1/\gamma$."""
        scaled, factor = self.ratio * self.weights, 1.0 / self.ratio
        return Subordination.from_law(scaled, self.probabilities, factor, self.ratio * self.resolution)

    @property
    def share(self) -> float:
        """One: the measure computed is that of the matrix itself."""
        return 1.0

    @property
    def moments(self) -> tuple[float, float]:
        r"""$E g$ and $(E g)^2+\gamma E g^2$."""
        first, second = float(self.probabilities @ self.weights), float(self.probabilities @ self.weights**2)
        return first, first**2 + self.ratio * second

    def _transform(self, z: np.ndarray, w: np.ndarray) -> np.ndarray:
        return -1.0 / w
