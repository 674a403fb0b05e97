r"""The Hessian seen by one neuron on inputs of several variances, and what a prior of several variances is worth.

With $x\sim N(0,\Sigma)$ the Hessian $\frac1n\sum_iG_ix_ix_i^\top$ has the law of `separable_outliers`. In whitened
inputs a target $z=\theta_*\cdot x$ is an isotropic one whose direction is known to have variance $\tau_b=p_b/w_b$ in
eigenspace $b$ ($p_b$ its share of the variance of $z$, $w_b$ the fraction of dimensions). To first order in the overlap
that is worth $E\tau^2=\sum_bp_b^2/w_b\ge1$: message passing that knows $\Sigma$ leaves its uninformed fixed point at
$$\delta_{alg}(\Sigma)=\delta_{alg}(I)\Big/\sum_b\frac{p_b^2}{w_b},$$
and at the same $\delta$ the leading eigenvector of $\frac1n\sum_iT(y_i)x_ix_i^\top$ leaves the bulk for an evenly
spread target ($p_b=w_bs_b$), of which $\Sigma$ itself is the right preconditioner.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from limen.checks import positive
from limen.problem.inputs import Inputs
from limen.problem.spec import InputError
from limen.theory.spectra.sampled_law import compress_samples
from limen.theory.spectra.separable import SeparableLaw
from limen.theory.spectra.separable_outliers import PopulationOutlier, PopulationWeights, population_weights
from limen.theory.thresholds.hessian_law import checked_coordinates, checked_level
from limen.theory.thresholds.trimming import trimmed_count

BINS, SMOOTHING = 200, 5e-3


def target_profile(inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    r"""$\tau_b=p_b/w_b$ and $w_b$, each (S,): how the whitened direction of the target is spread."""
    s, w = inputs.spectrum
    shares = s * w if inputs.target_shares is None else np.asarray(inputs.target_shares, dtype=float)
    rows = np.atleast_2d(shares)
    if np.abs(rows - rows[0]).max() > 1e-12:
        raise InputError(
            "target_shares must be one row for all latent directions: directions spread differently cross different "
            "thresholds, and which comes first depends on how they mix."
        )
    return rows[0] / rows[0].sum() / w, w


@dataclass(frozen=True, eq=False)
class PopulationHessianLaw:
    r"""Spectrum of $H=\frac1n\sum_iG_ix_ix_i^\top$, $x_i\sim N(0,\Sigma)$, as $n,d\to\infty$, $n/d\to\delta$.

    Edges, stability and outliers as `HessianLaw` has them for one variance; `level` is where an eigenvalue starts to be
    unstable. $\Psi=Q^{-1}+B$ of `separable_outliers` takes the place of its $\Psi$: the inverse of the resolvent
    between the hard directions $\Sigma^{1/2}u$.
    """

    law: PopulationWeights
    level: float
    trimmed: float
    minimum_weight: float

    @cached_property
    def left_edge(self) -> float:
        """Left end of the bulk, zeros included."""
        e = self.law.edge()
        return 0.0 if np.isinf(e) else self.law.at(e).z

    @cached_property
    def right_edge(self) -> float:
        """Right end of the bulk, zeros included."""
        law = self.law.mirrored()
        e = law.edge()
        return 0.0 if np.isinf(e) else -law.at(e).z

    @cached_property
    def stability(self) -> np.ndarray:
        r"""Ascending eigenvalues of $\Psi$ at the left edge or at `level`, whichever is lower, shape (r,): negative
        ones are outliers below both."""
        edge = self.law.edge()
        if np.isinf(edge):
            return np.zeros(self.law.u.shape[1])
        e = edge if self.left_edge <= self.level else self._reaching(self.level, edge)
        return np.linalg.eigvalsh(self.law.characteristic(e, self.law.at(e)))

    @property
    def kappa(self) -> float:
        """The lowest of `stability`: negative iff an informative outlier lies below bulk and `level`."""
        return float(self.stability.min(initial=np.inf))

    @cached_property
    def found(self) -> list[PopulationOutlier]:
        """Informative outliers left and right of the bulk, ascending."""
        if self.law.u.shape[1] == 0:
            return []
        right = [one._replace(location=-one.location) for one in self.law.mirrored().outliers_left()]
        return [*self.law.outliers_left(), *reversed(right)]

    @property
    def outliers(self) -> np.ndarray:
        """Their places, shape (outliers,)."""
        return np.array([one.location for one in self.found])

    @property
    def alignment(self) -> np.ndarray:
        """Squared cosine of each eigenvector with the direction of the target it leans on, shape (outliers,)."""
        return np.array([one.overlap_squared for one in self.found])

    def density(self, x: ArrayLike) -> np.ndarray:
        """Density of the bulk at `x`, smoothed by a Cauchy kernel of half a per cent of its width."""
        nodes, masses, _ = compress_samples(self.law.g, BINS)
        bulk = SeparableLaw(*self._population(), nodes, masses, self.law.ratio)
        return bulk.density(x, SMOOTHING * (self.right_edge - self.left_edge))

    def zero_levels(self, epsilon: float = 0.02) -> np.ndarray:
        r"""Eigenvalues of $\mathrm{Re}\,\Psi$ at `level` $+i\epsilon$, ascending, shape (r,): see `zero_levels`."""
        z = complex(self.level, positive("epsilon", epsilon))
        one = self.law
        bulk = SeparableLaw(*self._population(), one.g, one.mass, one.ratio)
        e, a = bulk.inner_transforms(z)
        weights = one.mass * one.g / (1.0 + one.ratio * one.g * e)
        q = (one.p * one.s) @ (1.0 / (a * one.s - z))
        block = np.real((one.u * weights[:, None]).T @ one.u + np.diag(1.0 / q - a))
        return np.linalg.eigvalsh(0.5 * (block + block.T))

    def _population(self) -> tuple[np.ndarray, np.ndarray]:
        """Variances and fractions, those without variance included."""
        one, rest = self.law, 1.0 - float(self.law.w.sum())
        return (np.append(one.s, 0.0), np.append(one.w, rest)) if rest > 1e-12 else (one.s, one.w)

    def _reaching(self, level: float, edge: float) -> float:
        """$e$ with $z(e)=$ `level`, left of the bulk."""
        low, high = 0.0, edge
        for _ in range(80):
            middle = 0.5 * (low + high) if low > 0.0 else 0.25 * high
            low, high = (middle, high) if self.law.at(middle).z < level else (low, middle)
        return 0.5 * (low + high)


def population_hessian(
    weights: ArrayLike,
    hard_coordinates: ArrayLike,
    samples_per_dim: float,
    inputs: Inputs,
    trim: float = 0.0,
    level: float = 0.0,
) -> PopulationHessianLaw:
    """The law on `inputs` of several variances from samples of weights (N,) and hard coordinates (N, r); `trim` and
    `level` as for `hessian_law`."""
    values = np.asarray(weights, dtype=float)
    coordinates = checked_coordinates(hard_coordinates, values.size)
    s, w = inputs.spectrum
    profile, _ = target_profile(inputs)
    delta, order = positive("samples_per_dim", samples_per_dim), np.argsort(values, kind="stable")

    def without(count: int) -> PopulationWeights:
        kept = values.copy()
        kept[order[:count]] = 0.0
        return population_weights(kept, coordinates, s, w, 1.0 / delta, profile * w)

    def edge(count: int) -> float:
        law = without(count)
        e = law.edge()
        return 0.0 if np.isinf(e) else law.at(e).z

    count = trimmed_count(edge, values.size, trim, checked_level(level))
    return PopulationHessianLaw(without(count), level, count / values.size, float(values.min()))
