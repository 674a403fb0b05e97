r"""What every spectral law can be asked: edges, gaps, atom, density, distribution, quantiles, Stieltjes transform."""

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from limen.problem.spec import InputError
from limen.theory.spectra.inversion import invert_above, invert_inside, invert_outside
from limen.theory.spectra.subordination import Subordination, bisect


class SpectralLaw(ABC):
    r"""A limiting spectral measure $\mu$ obtained from a `Subordination` measure $\mu_u$.

    The two differ by their size and by zeros: $\mu=\frac1{s}\big(\mu_u-(1-s)\delta_0\big)$, where $s$ = `share` is
    the ratio of the dimensions of the two matrices that have the same non-zero eigenvalues (one if they are the
    same).
    """

    @cached_property
    @abstractmethod
    def subordination(self) -> Subordination:
        """The measure that is computed."""

    @property
    @abstractmethod
    def share(self) -> float:
        """Dimension of this matrix over that of the matrix whose measure is computed."""

    @property
    @abstractmethod
    def moments(self) -> tuple[float, float]:
        """First and second moment of the law, in closed form."""

    @abstractmethod
    def _transform(self, z: np.ndarray, w: np.ndarray) -> np.ndarray:
        """$S(z)$ given the subordination point."""

    def edges(self) -> np.ndarray:
        """Edges of the bulk, ascending: left and right end of the first band, then of the second, and so on."""
        return self.subordination.edges.ravel().copy()

    @property
    def gaps(self) -> np.ndarray:
        """Intervals free of bulk between two bands, shape `(gaps, 2)`; the atom at zero may lie in one."""
        return self.edges()[1:-1].reshape(-1, 2)

    @property
    def atom(self) -> float:
        """Mass at zero."""
        mass = (self.subordination.atom - (1.0 - self.share)) / self.share
        return mass if mass > 1e-14 else 0.0

    def edge_coefficients(self) -> np.ndarray:
        r"""$C$ of the edge law $\rho(x)\simeq C\sqrt{|x-x_e|}$, one per edge, in the order of `edges`.

        $C=\frac1{\pi s\,p_e^2}\sqrt{2/|z''(p_e)|}$ with $x_e=z(p_e)$ and `share` $s$; infinite at a hard edge $x_e=0$,
        where the density diverges as $x^{-1/2}$.
        """
        return self.subordination.edge_coefficients().ravel() / self.share

    def density(self, x: ArrayLike) -> np.ndarray:
        r"""Density of the bulk at `x` (any shape), atom not included.

        Exact to about $10^{-12}$ in a band. Points inside a spurious gap of a law that stands for a continuous one
        are smoothed with a Cauchy kernel as wide as its resolution. Cost $O(KN)$ for $K$ atoms, $N$ points.
        """
        law = self.subordination
        x = np.asarray(x, dtype=float)
        flat = x.ravel()
        result = np.zeros(flat.shape)
        inside = np.flatnonzero(np.searchsorted(law.edges.ravel(), flat) % 2 == 1)
        inside = inside[~np.isin(flat[inside], law.edges)]
        soft = self._in_soft_part(flat[inside])
        w = invert_inside(law, flat[inside[~soft]])
        result[inside[~soft]] = np.imag(w) / (np.pi * self.share * np.abs(w) ** 2)
        if soft.any():
            z = flat[inside[soft]] + 1j * law.resolution
            without_atom = law.atom / z - 1.0 / invert_above(law, z)
            result[inside[soft]] = np.imag(without_atom) / (np.pi * self.share)
        if abs(law.total_mass - 1.0) < 1e-12:
            result[flat == 0.0] = np.inf
        return result.reshape(x.shape)

    def cdf(self, x: ArrayLike) -> np.ndarray:
        r"""$\mu((-\infty,x])$, atom included; exact, without integration."""
        law = self.subordination
        x = np.asarray(x, dtype=float)
        flat = x.ravel()
        edges, bands = law.edges.ravel(), law.bands.ravel()
        place = np.searchsorted(edges, flat)
        at_edge = np.isin(flat, edges)
        inside = (place % 2 == 1) & ~at_edge
        # Outside the bulk any point of the same gap will do, on the same side of the atom w = 0.
        ends = np.concatenate([[min(bands[0], 0.0) - 1.0], bands, [max(bands[-1], 0.0) + 1.0]])
        w = np.where(at_edge | (flat >= 0.0), ends[place + 1], ends[place]).astype(complex)
        w[inside] = invert_inside(law, flat[inside])
        mass = (law.cumulative(w) - (1.0 - self.share) * (flat >= 0.0)) / self.share
        return np.clip(mass, 0.0, 1.0).reshape(x.shape)

    def quantile(self, level: ArrayLike) -> np.ndarray:
        r"""Smallest $x$ with $\mu((-\infty,x])\ge$ `level`; levels 0 and 1 give the ends of the support."""
        law = self.subordination
        level = np.asarray(level, dtype=float)
        if not ((level >= 0.0) & (level <= 1.0)).all():
            raise InputError(f"level must lie between 0 and 1, got {level.min()} to {level.max()}.")
        flat = level.ravel()
        # On the negative side of zero the two measures are proportional; on the other they differ by the zeros.
        start, end = np.full(flat.shape, law.bands[0, 0]), np.full(flat.shape, law.bands[-1, 1])

        def below(p: np.ndarray) -> np.ndarray:
            w, x = law.boundary(p)
            return law.cumulative(w) - (1.0 - self.share) * (x >= 0.0) < self.share * flat

        x = law.boundary(bisect(below, start, end))[1]
        support = [*law.edges[[0, -1], [0, 1]], *([0.0] if self.atom > 0.0 else [])]
        x = np.where(flat <= 0.0, min(support), np.where(flat >= 1.0, max(support), x))
        negative = (law.cumulative(np.array([-1e-300 + 0j]))[0] if law.total_mass < 1.0 else 0.0) / self.share
        in_atom = (self.atom > 0.0) & (flat > negative + 1e-14) & (flat <= negative + self.atom)
        return np.where(in_atom, 0.0, x).reshape(level.shape)

    def quadrature(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        r"""Nodes and weights of the bulk, `count` per band: $\int f\,d\mu_{bulk}\approx\sum_jw_jf(x_j)$.

        Midpoint rule in the angle of a cosine grid of $p$, with $\frac{dx}{dp}=\frac{|z'|^2}{\mathrm{Re}\,z'}$ along
        the boundary curve; converges geometrically for analytic $f$ (slowly if a gap is nearly closed).
        """
        if count < 1:
            raise InputError(f"count must be at least 1, got {count}.")
        law = self.subordination
        angle = np.pi * (np.arange(count) + 0.5) / count
        left, right = law.bands[:, :1], law.bands[:, 1:]
        w, x = law.boundary((0.5 * (left + right) - 0.5 * (right - left) * np.cos(angle)).ravel())
        slope = law.slope(w)
        speed = np.abs(slope) ** 2 / np.real(slope)
        width = (0.5 * (right - left) * np.sin(angle) * np.pi / count).ravel()
        return x, np.imag(w) / (np.pi * np.abs(w) ** 2) * speed * width / self.share

    def stieltjes(self, z: ArrayLike) -> np.ndarray:
        r"""$S(z)=\int\frac{d\mu(x)}{x-z}$, atom included, for complex `z` off the axis or real `z` off the support."""
        z = np.asarray(z)
        flat = z.ravel()
        if ((flat == 0.0) & (self.atom > 0.0)).any():
            raise InputError("z must differ from 0, where this law has an atom.")
        if not np.iscomplexobj(z):
            flat = flat.astype(float)
            return self._transform(flat, invert_outside(self.subordination, flat)).reshape(z.shape)
        result = np.empty(flat.shape, complex)
        axis = np.imag(flat) == 0.0
        result[axis] = self._transform(np.real(flat[axis]), invert_outside(self.subordination, np.real(flat[axis])))
        upper = np.real(flat[~axis]) + 1j * np.abs(np.imag(flat[~axis]))
        values = self._transform(upper, invert_above(self.subordination, upper))
        result[~axis] = np.where(np.imag(flat[~axis]) > 0.0, values, values.conj())
        return result.reshape(z.shape)

    def _in_soft_part(self, x: np.ndarray) -> np.ndarray:
        law = self.subordination
        if law.closed_gaps.size == 0:
            return np.zeros(x.shape, bool)
        left = law.boundary(law.closed_gaps[:, 0] - law.resolution)[1]
        right = law.boundary(law.closed_gaps[:, 1] + law.resolution)[1]
        return np.searchsorted(left, x, side="right") > np.searchsorted(right, x, side="left")
