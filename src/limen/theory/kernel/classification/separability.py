r"""How many random points a half-space can label at will (Cover), and how many mistakes a perceptron makes."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaln

from limen import checks
from limen.theory.kernel.classification.max_margin import labelled_rows, max_margin


def separable_probability(samples: int, dimension: int) -> float:
    r"""Probability that $n$ points in general position in $\mathbb R^d$ with random labels are separated by a
    hyperplane through the origin: $2^{1-n}\sum_{k<d}\binom{n-1}k$.

    It is $\frac12$ at $n=2d$ for every $d$, and a step there as $d\to\infty$, of width $\sqrt{n}$ (Cover 1965, theorem
    1). With an affine hyperplane replace $d$ by $d+1$. Evaluated as the incomplete beta function
    $I_{1/2}(n-d,d)$; `log_separable_probability` goes below $10^{-300}$.
    """
    n, d = checks.integer("samples", samples, 1), checks.integer("dimension", dimension, 1)
    return 1.0 if n <= d else float(betainc(n - d, d, 0.5))


def log_separable_probability(samples: int, dimension: int) -> float:
    r"""$\log$ of `separable_probability`, without underflow, to $10^{-10}$ up to $n\sim10^5$.

    For $d\le n/2$ the terms of the sum decrease from the last one, $\binom{n-1}{d-1}$, by the ratios
    $\frac{k}{n-k}$; beyond, the sum is a probability above $\frac12$.
    """
    n, d = checks.integer("samples", samples, 1), checks.integer("dimension", dimension, 1)
    if 2 * d >= n:
        return float(np.log(separable_probability(n, d)))
    return _log_partial_sum(n - 1, d - 1) - (n - 1) * float(np.log(2))


def log_half_space_labelings(samples: int, dimension: int) -> float:
    r"""$\log$ of the number of labelings of $n$ points in general position in $\mathbb R^d$ by half-spaces through the
    origin, $2\sum_{k<d}\binom{n-1}k$: their growth function. It is $n\log2$ for $n\le d$, so $d_{VC}=d$."""
    return log_separable_probability(samples, dimension) + checks.integer("samples", samples, 1) * float(np.log(2))


def capacity_transition(dimension: int) -> int:
    r"""$n=2d$, where half of all labelings of $n$ points in general position are separable."""
    return 2 * checks.integer("dimension", dimension, 1)


def perceptron_mistake_bound(rows: ArrayLike) -> float:
    r"""The perceptron errs at most $(R/\gamma_{\max})^2$ times, whatever the order of the points and however often
    they are shown: `rows` (n, d) are $y_ix_i$, $R$ the largest norm of a row (Novikoff 1962)."""
    points = labelled_rows(rows)
    return float((np.linalg.norm(points, axis=1).max() / max_margin(points).margin) ** 2)


def _log_partial_sum(total: int, last: int) -> float:
    """log of the sum of the binomial coefficients of `total` up to `last`, at most half of it."""
    below = np.arange(last, 0, -1)
    terms = np.cumprod(below / (total - below + 1.0))
    largest = -np.log(total + 1.0) - betaln(total - last + 1.0, last + 1.0)
    return float(largest + np.log1p(terms.sum()))
