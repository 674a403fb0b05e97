r"""The Marchenko–Pastur law in closed form, with the fluctuation of its largest eigenvalue."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from limen.checks import positive
from limen.problem.spec import InputError

TRACY_WIDOM_MEAN = -1.2065335745820
TRACY_WIDOM_DEVIATION = 1.2679811693


class LargestEigenvalue(NamedTuple):
    r"""$\lambda_{\max}\approx\mu+\varsigma\,TW_1$: `location` $\mu$ and `scale` $\varsigma$."""

    location: float
    scale: float

    @property
    def mean(self) -> float:
        r"""$\mu+\varsigma\,E[TW_1]$."""
        return self.location + TRACY_WIDOM_MEAN * self.scale

    @property
    def standard_deviation(self) -> float:
        r"""$\varsigma$ times the standard deviation of $TW_1$."""
        return TRACY_WIDOM_DEVIATION * self.scale


@dataclass(frozen=True)
class MarchenkoPastur:
    r"""Spectrum of $\hat\Sigma=\frac1nX^\top X$ as $n,p\to\infty$ with $\gamma=p/n$ fixed.

    $X\in\mathbb R^{n\times p}$ has independent centred entries of variance $s^2$. The bulk lies on
    $[\lambda_-,\lambda_+]$, $\lambda_\pm=s^2(1\pm\sqrt\gamma)^2$, with density
    $$\rho(x)=\frac{\sqrt{(\lambda_+-x)(x-\lambda_-)}}{2\pi\gamma s^2x},$$
    and an atom of mass $\max(0,1-1/\gamma)$ sits at zero (Marchenko & Pastur 1967).

    `ratio` is $\gamma$, dimension over samples; `variance` is $s^2$.
    """

    ratio: float
    variance: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", positive("ratio", self.ratio))
        object.__setattr__(self, "variance", positive("variance", self.variance))

    @property
    def edges(self) -> tuple[float, float]:
        r"""$(\lambda_-,\lambda_+)$."""
        root = np.sqrt(self.ratio)
        return self.variance * float((1.0 - root) ** 2), self.variance * float((1.0 + root) ** 2)

    @property
    def atom(self) -> float:
        r"""Mass at zero, $\max(0,1-1/\gamma)$."""
        return max(0.0, 1.0 - 1.0 / self.ratio)

    def density(self, x: ArrayLike) -> np.ndarray:
        r"""Density of the bulk at `x` (any shape), the atom not included; infinite at $x=0$ when $\gamma=1$."""
        x = np.asarray(x, dtype=float)
        left, right = self.edges
        inside = (x > left) & (x < right)
        safe = np.where(inside, x, right)
        values = np.sqrt((right - safe) * (safe - left)) / (2.0 * np.pi * self.ratio * self.variance * safe)
        hard = (x == 0.0) & (left == 0.0)
        return np.where(hard, np.inf, np.where(inside, values, 0.0))

    def stieltjes(self, z: ArrayLike) -> np.ndarray:
        r"""$S(z)=\int\frac{d\mu(x)}{x-z}$, atom included, for `z` off the support.

        The root of $1+zS=s^2S/(1+\gamma s^2S)$ that decays as $-1/z$,
        $$S=\frac{b+r}{2\gamma s^2z}=\frac2{b-r},\qquad b=s^2(1-\gamma)-z,\quad r=\sqrt{z-\lambda_-}\sqrt{z-\lambda_+}$$
        (two principal roots). Of the two forms the one that does not cancel is used, so that
        $S(0)=1/(s^2(1-\gamma))$ for $\gamma<1$ comes out exactly. Real `z` gives real values.
        """
        z = np.asarray(z)
        left, right = self.edges
        if not np.iscomplexobj(z):
            z = z.astype(float)
            pole = (z == 0.0) & (self.atom > 0.0)
            if ((z >= left) & (z <= right) | pole).any():
                raise InputError(f"z must lie outside the support [{left}, {right}] and its atom, or be complex.")
            return np.real(self._stieltjes(z.astype(complex)))
        return self._stieltjes(z)

    def companion(self, z: ArrayLike) -> np.ndarray:
        r"""Stieltjes transform of the $n\times n$ Gram matrix $\frac1nXX^\top$: $v(z)=\gamma S(z)-(1-\gamma)/z$.

        Evaluated as the law of ratio $1/\gamma$ and variance $\gamma s^2$, which is the same without cancellation.
        """
        return MarchenkoPastur(1.0 / self.ratio, self.ratio * self.variance).stieltjes(z)

    def quadrature(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        r"""Nodes and weights of the bulk: $\int f\,d\mu_{bulk}\approx\sum_jw_jf(x_j)$.

        Midpoint rule in $\theta$ with $x=s^2(1+\gamma+2\sqrt\gamma\cos\theta)$. For analytic $f$ the error decays
        like $\min(\gamma,1/\gamma)^m$, $m$ = `count`; it stays spectral at $\gamma=1$, because the factor
        $1/x$ of the density is then cancelled by $\sin^2\theta$. Weights sum to $\min(1,1/\gamma)$.
        """
        if count < 1:
            raise InputError(f"count must be at least 1, got {count}.")
        angle = np.pi * (np.arange(count) + 0.5) / count
        # (1 - sqrt)^2 + 4 sqrt cos^2(angle / 2) is 1 + ratio + 2 sqrt cos(angle) without cancellation near zero.
        root = np.sqrt(self.ratio)
        nodes = (1.0 - root) ** 2 + 4.0 * root * np.cos(0.5 * angle) ** 2
        return self.variance * nodes, 2.0 * np.sin(angle) ** 2 / (count * nodes)

    def largest_eigenvalue(self, samples: int) -> LargestEigenvalue:
        r"""Law of $\lambda_{\max}$ at finite size $n$ = `samples`, $p=\gamma n$ (Gaussian entries).

        $\mu=\frac{s^2}n(\sqrt{n-\frac12}+\sqrt{p-\frac12})^2$,
        $\varsigma=\frac{s^2}n(\sqrt{n-\frac12}+\sqrt{p-\frac12})
        \big((n-\frac12)^{-1/2}+(p-\frac12)^{-1/2}\big)^{1/3}$,
        the centring of Johnstone (2001) with the half-integer shifts of Ma (2012), which make the
        approximation accurate to second order.
        """
        dimension = self.ratio * samples
        if samples < 1 or dimension < 1.0:
            raise InputError(f"samples must leave at least one sample and one dimension, got {samples}.")
        first, second = np.sqrt(samples - 0.5), np.sqrt(dimension - 0.5)
        factor = self.variance / samples
        scale = factor * (first + second) * (1.0 / first + 1.0 / second) ** (1.0 / 3.0)
        return LargestEigenvalue(float(factor * (first + second) ** 2), float(scale))

    def _stieltjes(self, z: np.ndarray) -> np.ndarray:
        left, right = self.edges
        shift = self.variance * (1.0 - self.ratio) - z
        root = np.sqrt(z - left) * np.sqrt(z - right)
        cancels = np.abs(shift + root) < np.abs(shift - root)
        # numerator * conjugate = 4 ratio variance z, so 2 / conjugate is the same number without cancellation.
        with np.errstate(divide="ignore", invalid="ignore"):
            direct = (shift + root) / (2.0 * self.ratio * self.variance * z)
        return np.where(cancels, 2.0 / np.where(cancels, shift - root, 1.0), direct)
