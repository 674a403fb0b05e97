r"""When interpolation is harmless: the effective ranks of a covariance, beside the exact risk of the interpolator."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limen import checks
from limen.problem.spec import InputError
from limen.theory.kernel.ridge import ridge

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EffectiveRanks:
    r"""`tail_rank` $r_k=\frac{\sum_{i>k}\lambda_i}{\lambda_{k+1}}$ and `spread_rank`
    $R_k=\frac{(\sum_{i>k}\lambda_i)^2}{\sum_{i>k}\lambda_i^2}$ for $k=0,1,\dots$: how many equal directions the tail
    behind the first $k$ eigenvalues amounts to. Always $1\le r_k\le R_k\le r_k^2$."""

    tail_rank: Floats
    spread_rank: Floats

    def split(self, samples: float, constant: float = 1.0) -> float:
        r"""$k^*=\min\{k:r_k\ge bn\}$, $b$ = `constant`; infinite if no tail is that wide."""
        wide = np.flatnonzero(self.tail_rank >= constant * samples)
        return float(wide[0]) if wide.size else float("inf")


@dataclass(frozen=True)
class BenignOverfitting:
    r"""The least-norm interpolator of $n$ samples: `bias` and `variance` of its excess risk; `split` $k^*$; `estimate`
    $\sigma^2(\frac{k^*}n+\frac n{R_{k^*}})$, right up to constants; `bound`, which `variance` never exceeds."""

    bias: float
    variance: float
    split: float
    estimate: float
    bound: float

    @property
    def test(self) -> float:
        """Excess risk, the sum of bias and variance."""
        return self.bias + self.variance


def effective_ranks(eigenvalues: ArrayLike) -> EffectiveRanks:
    r"""$r_k$ and $R_k$ of a covariance with these positive eigenvalues (any order), for $k=0,\dots,p-1$.

    Source: Bartlett, Long, Lugosi & Tsigler 2020. Cost: a sort.
    """
    values = np.sort(checks.vector("eigenvalues", eigenvalues))
    if values[0] <= 0:
        raise InputError(f"eigenvalues must be positive, got {values[0]}.")
    # Summed from the smallest upwards: short tails keep their relative precision.
    tails, squares = np.cumsum(values)[::-1], np.cumsum(values**2)[::-1]
    return EffectiveRanks(tails / values[::-1], tails**2 / squares)


def benign_overfitting(
    eigenvalues: ArrayLike, samples: int, noise: float, signal: ArrayLike | None = None
) -> BenignOverfitting:
    r"""Is it harmless to interpolate $n$ = `samples` noisy labels $y=X\beta+\varepsilon$ by $b=X^+y$?

    Inputs are $\Sigma^{1/2}z$ with iid entries of $z$, $\Sigma$ has the $p>n$ `eigenvalues` $\lambda_i$; `signal` are
    the squares $\beta_i^2$ in the same order (none: 0, only the harm of the noise); `noise` is $\sigma^2$. With
    $\sum_i\frac{\lambda_i}{\lambda_i+\kappa}=n$ the risk is that of `ridge` at penalty 0:
    $$\frac{\text{variance}}{\sigma^2}=\frac{V}{1-V},\qquad V=\frac1n\sum_i\frac{\lambda_i^2}{(\lambda_i+\kappa)^2}.$$
    Split $V$ behind the $k$ largest eigenvalues. These give at most $\frac kn$. As
    $n\ge\sum_{i>k}\frac{\lambda_i}{\lambda_{k+1}+\kappa}$, one has
    $\kappa\ge\frac1n\big(1-\frac n{r_k}\big)\sum_{i>k}\lambda_i$, so for every $k$ with $r_k>n$
    $$V\le\frac kn+\frac n{R_k}\Big(1-\frac n{r_k}\Big)^{-2}:$$
    the noise is absorbed by a tail of many small, nearly equal directions ($R_k\gg n$), if few directions stand above
    it ($k\ll n$). `bound` is the least over $k$, infinite where that is 1 or more. `estimate` is the quantity
    of the theorem of Bartlett, Long, Lugosi & Tsigler 2020 without its constants ($b=1$).

    The three kinds of Mallinar et al. 2022 as $n\to\infty$: benign (variance $\to0$), tempered (powers
    $\lambda_i=i^{-\alpha}$: $\sigma^2(\alpha-1)$), catastrophic (geometric $\lambda_i=e^{-i/\tau}$: $\sigma^2n/\tau$).
    The equivalent is exact as $n\to\infty$ where many eigenvalues lie near $\kappa$; $\tau$ of them leave a relative
    $O(1/\tau)$. Cost: about 20 sums over $p$.
    """
    values = checks.vector("eigenvalues", eigenvalues)
    count = checks.integer("samples", samples, 1)
    variance = checks.non_negative("noise", noise)
    if count >= values.size:
        raise InputError(
            f"samples must be fewer than the eigenvalues ({values.size}), got {count}: else nothing is overfit."
        )
    energies = np.zeros(values.size) if signal is None else checks.vector("signal", signal)
    checks.same_length("eigenvalues", values, "signal", energies)
    ranks = effective_ranks(values)
    risk = ridge(values.size / count, 0.0, variance, values, np.full(values.size, 1 / values.size), energies)
    split = ranks.split(count)
    harm = float("inf") if np.isinf(split) else float(split / count + count / ranks.spread_rank[int(split)])
    return BenignOverfitting(risk.bias, risk.variance, split, variance * harm, variance * _bound(ranks, count))


def _bound(ranks: EffectiveRanks, samples: int) -> float:
    wide = np.flatnonzero(ranks.tail_rank > samples)
    left = 1.0 - samples / ranks.tail_rank[wide]
    most = np.min(wide / samples + samples / ranks.spread_rank[wide] / left**2, initial=np.inf)
    return float(most / (1.0 - most)) if most < 1.0 else float("inf")
