r"""The law behind every spectrum of this chapter, $z(w)=w+c\,E[\frac{\tau w}{w-\tau}]$, for discrete signed $\tau$."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

BLOCK_ELEMENTS = 32_768
BISECTIONS = 100
NEWTON_STEPS = 80


@dataclass(frozen=True, eq=False)
class Subordination:
    r"""The measure whose Stieltjes transform $u$ solves $z=-\frac1u+c\,E\big[\frac{\tau}{1+\tau u}\big]$.

    In the subordination variable $w=-1/u$,
    $$z(w)=w+c\,E\Big[\frac{\tau w}{w-\tau}\Big],\qquad z'(w)=1-c\,E\Big[\frac{\tau^2}{(w-\tau)^2}\Big].$$
    (Marchenko & Pastur 1967; Silverstein & Choi 1995.) With $w=p+iq$ and $h(p,q)=c\,E\frac{\tau^2}{(p-\tau)^2+q^2}$ one
    has $\mathrm{Im}\,z=q(1-h)$, and $h$ decreases in $q$. The upper side of the real axis is therefore the graph of
    a function: $q(p)$ is the only root of $h(p,q)=1$ where $h(p,0)>1$, and zero elsewhere; $x(p)=\mathrm{Re}\,z$
    increases along it, and the density is $\rho_u=\frac{q}{\pi(p^2+q^2)}$. No branch is ever chosen.

    `atoms` are the values of $\tau$: non-zero, distinct, ascending. `masses` are $c\,P(\tau=\cdot)$, all positive;
    a part of $\tau$ at zero enters nowhere. `resolution` is the spacing of atoms when they stand for a
    continuous law: gaps narrower than that (in $p$) are artefacts and are closed. Sums cost $O(K)$ per point.
    """

    atoms: np.ndarray
    masses: np.ndarray
    resolution: float = 0.0

    @classmethod
    def from_law(
        cls, values: np.ndarray, probabilities: np.ndarray, factor: float, resolution: float = 0.0
    ) -> "Subordination":
        r"""From distinct values of $\tau$, their probabilities and `factor` $c$."""
        moves = (values != 0.0) & (probabilities > 0.0)
        order = np.argsort(values[moves])
        return cls(values[moves][order], factor * probabilities[moves][order], resolution)

    @cached_property
    def total_mass(self) -> float:
        r"""$c\,P(\tau\ne0)=h(0,0)$; below one, the measure has an atom $1-c\,P(\tau\ne0)$ at zero."""
        return float(self.masses.sum())

    @property
    def atom(self) -> float:
        """Mass at zero."""
        return max(0.0, 1.0 - self.total_mass)

    @cached_property
    def strengths(self) -> np.ndarray:
        r"""$c\,P(\tau)\,\tau^2$, the residues of $h(\cdot,0)$."""
        return self.masses * self.atoms**2

    @cached_property
    def spread(self) -> float:
        r"""$\sqrt{c\,E\tau^2}$: further than this from every atom, $h<1$."""
        return float(np.sqrt(self.strengths.sum()))

    @cached_property
    def _smallest_atom(self) -> float:
        return float(np.abs(self.atoms).min(initial=np.inf))

    def map(self, w: np.ndarray) -> np.ndarray:
        """$z(w)$, elementwise, real or complex."""
        return self._in_blocks(lambda block: self.map_and_slope(block)[0], w)

    def slope(self, w: np.ndarray) -> np.ndarray:
        """$z'(w)$, elementwise; on the real axis it is $1-h(w,0)$."""
        return self._in_blocks(lambda block: self.map_and_slope(block)[1], w)

    def curvature(self, w: np.ndarray) -> np.ndarray:
        r"""$z''(w)=2c\,E\frac{\tau^2}{(w-\tau)^3}$, elementwise."""

        def block_curvature(block: np.ndarray) -> np.ndarray:
            inverse = 1.0 / (block[:, None] - self.atoms)
            return 2.0 * (inverse * inverse * inverse) @ self.strengths

        return self._in_blocks(block_curvature, w)

    def map_and_slope(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """$z(w)$ and $z'(w)$ together, for one short vector `w`; holds `len(w)` times the number of atoms in memory."""
        inverse = 1.0 / (w[:, None] - self.atoms)
        factor = 1.0 + inverse @ (self.masses * self.atoms)
        small = np.abs(w) < self._smallest_atom
        if small.any():
            # The same number; only this form keeps its digits near w = 0, where a total mass of one cancels.
            factor[small] = (1.0 - self.total_mass) + w[small] * (inverse[small] @ self.masses)
        inverse *= inverse
        return w * factor, 1.0 - inverse @ self.strengths

    def blocks(self, count: int) -> list[slice]:
        """Slices of `count` points short enough for points times atoms to stay in cache."""
        size = max(1, BLOCK_ELEMENTS // max(1, self.atoms.size))
        return [slice(start, start + size) for start in range(0, count, size)]

    def height(self, p: np.ndarray) -> np.ndarray:
        r"""$q(p)\ge0$: the root of $h(p,q)=1$, or zero where $h(p,0)\le1$.

        As a function of $q^2$, $1/h$ is increasing and concave (it is a parallel sum), so Newton on
        $1/h=1$ climbs to the root from any point below it; the largest single term gives such a point.
        """
        return np.sqrt(self._in_blocks(self._squared_height, np.asarray(p, dtype=float)))

    def boundary(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The point $w=p+iq(p)$ above each $p$, and the $x(p)$ of the real axis that it stands for."""
        w = p + 1j * self.height(p)
        return w, np.real(self.map(w))

    @cached_property
    def gaps(self) -> np.ndarray:
        """Intervals of $p$ between consecutive bands, shape `(gaps, 2)`, wider than the resolution."""
        return self._gaps_between(np.diff(self.atoms) > self.resolution, lambda width: width > self.resolution)

    @cached_property
    def closed_gaps(self) -> np.ndarray:
        """Intervals of $p$ where a discretised continuous law has a spurious gap, shape `(gaps, 2)`."""
        if self.resolution == 0.0:
            return np.empty((0, 2))
        return self._gaps_between(np.full(self.atoms.size - 1, True), lambda width: width <= self.resolution)

    @cached_property
    def bands(self) -> np.ndarray:
        """Intervals of $p$ that carry the bulk, ascending, shape `(bands, 2)`."""
        if self.atoms.size == 0:
            return np.empty((0, 2))
        left, right = self._edge(self.atoms[:1], -1.0), self._edge(self.atoms[-1:], 1.0)
        return np.concatenate([left, self.gaps.ravel(), right]).reshape(-1, 2)

    @cached_property
    def edges(self) -> np.ndarray:
        """Band edges on the axis of eigenvalues, ascending, shape `(bands, 2)`."""
        return self.map(self.bands)

    def edge_coefficients(self) -> np.ndarray:
        r"""$C$ of $\rho_u(x)\simeq C\sqrt{|x-x_e|}$ at each edge: $C=\frac1{\pi p_e^2}\sqrt{2/|z''(p_e)|}$."""
        with np.errstate(divide="ignore"):
            return np.sqrt(2.0 / np.abs(self.curvature(self.bands))) / (np.pi * self.bands**2)

    def resolvent_sum(self, w: np.ndarray) -> np.ndarray:
        r"""$c\,E\big[\frac1{w-\tau};\tau\ne0\big]\cdot\frac wz$, regular at $w=0$ when the total mass is below one."""

        def block_sum(block: np.ndarray) -> np.ndarray:
            total = (1.0 / (block[:, None] - self.atoms)) @ self.masses
            return total / ((1.0 - self.total_mass) + block * total)

        return self._in_blocks(block_sum, w)

    def cumulative(self, w: np.ndarray) -> np.ndarray:
        r"""Mass of the measure at or below the point of the axis that $w$ stands for, atom included; exact.

        $\int u\,dz=-\int\frac{z'(w)}w\,dw$ is elementary, and its imaginary part gives
        $$F=1-\frac1\pi\Big[(1-c)\arg w+c\,E\Big(\arg(w-\tau)+\mathrm{Im}\frac\tau{w-\tau}\Big)\Big],$$
        the expectation and $c$ restricted to $\tau\ne0$.
        """

        def block_mass(block: np.ndarray) -> np.ndarray:
            away = block[:, None] - self.atoms
            turns = np.angle(away) - self.atoms * np.imag(away) / (np.real(away) ** 2 + np.imag(away) ** 2)
            return 1.0 - ((1.0 - self.total_mass) * np.angle(block) + turns @ self.masses) / np.pi

        return np.real(self._in_blocks(block_mass, np.asarray(w, dtype=complex)))

    def _squared_height(self, p: np.ndarray) -> np.ndarray:
        squares = (p[:, None] - self.atoms) ** 2
        height = np.maximum((self.strengths - squares).max(axis=1, initial=0.0), 0.0)
        for _ in range(NEWTON_STEPS):
            inverse = 1.0 / (squares + height[:, None])
            h = inverse @ self.strengths
            inverse *= inverse
            step = np.maximum((h - 1.0) * h / (inverse @ self.strengths), 0.0)
            height += step
            if (step <= 1e-15 * height).all():
                break
        return height

    def _gaps_between(self, candidates: np.ndarray, keep: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        roots = np.cbrt(self.strengths)
        # The two neighbours a < b alone give h >= (sum of cube roots)^3 / (b - a)^2 between them.
        chosen = candidates & ((roots[:-1] + roots[1:]) ** 3 < np.diff(self.atoms) ** 2)
        left, right = self.atoms[:-1][chosen], self.atoms[1:][chosen]
        # h(., 0) is convex between atoms, and z'' = -h' changes sign from plus to minus at its minimum.
        bottom = bisect(lambda p: self.curvature(p) > 0.0, left, right)
        open_ = self.slope(bottom) > 1e-14
        found = np.stack([self._edge(left[open_], 1.0), self._edge(right[open_], -1.0)], axis=-1)
        return found[keep(found[:, 1] - found[:, 0])]

    def _edge(self, atom: np.ndarray, side: float) -> np.ndarray:
        r"""Where $h(p,0)=1$ on one `side` ($\pm1$) of each atom given, next to it.

        $h^{-1/2}$ is concave between atoms (a power mean of the distances), so Newton on $h^{-1/2}=1$ climbs to the
        root from any point on the atom's side of it; the atom's own term gives such a point.
        """
        away = np.sqrt(self.strengths[np.searchsorted(self.atoms, atom)])
        for _ in range(BISECTIONS):
            p = atom + side * away
            h, curvature = 1.0 - self.slope(p), self.curvature(p)
            step = np.maximum(2.0 * h * (np.sqrt(h) - 1.0) / (side * curvature), 0.0)
            away = away + step
            if (step <= 1e-16 * away).all():
                break
        return atom + side * away

    def _in_blocks(self, function: Callable[[np.ndarray], np.ndarray], points: np.ndarray) -> np.ndarray:
        points = np.asarray(points)
        flat = points.ravel()
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [function(flat[block]) for block in self.blocks(flat.size)]
        return np.concatenate(parts).reshape(points.shape) if parts else np.empty(points.shape, flat.dtype)


def bisect(holds: Callable[[np.ndarray], np.ndarray], true_end: np.ndarray, false_end: np.ndarray) -> np.ndarray:
    """The last point, from `true_end` towards `false_end`, at which a monotone condition holds (to rounding)."""
    yes, no = np.array(true_end, dtype=float), np.array(false_end, dtype=float)
    for _ in range(BISECTIONS):
        middle = 0.5 * (yes + no)
        if ((middle == yes) | (middle == no)).all():
            break
        true = holds(middle)
        yes, no = np.where(true, middle, yes), np.where(true, no, middle)
    return yes
