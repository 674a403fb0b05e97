r"""Bounds on $\sup|\hat R-R|$ over a class: Rademacher complexity, finite classes, VC dimension."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from limen import checks
from limen.theory.kernel.classification.separability import log_half_space_labelings


def linear_rademacher_bound(inputs: ArrayLike, radius: float) -> float:
    r"""Bound on the Rademacher complexity of $\{x\mapsto\langle w,x\rangle:\|w\|\le\rho\}$ on `inputs` (n, d):
    $$\hat{\mathfrak R}=\frac\rho nE_\epsilon\|X^\top\epsilon\|\le\frac{\rho\|X\|_F}{n}\approx\rho\sqrt{d/n}$$
    for isotropic inputs. The mean itself is at least $1/\sqrt2$ of the bound (Latała & Oleszkiewicz 1994)."""
    design = checks.sample_matrix("inputs", inputs)
    return checks.positive("radius", radius) * float(np.linalg.norm(design)) / len(design)


def gaussian_linear_rademacher(dimension: int, samples: int, radius: float) -> float:
    r"""Exact mean over $n$ Gaussian inputs $N(0,I_d)$ of the Rademacher complexity of the linear ball:
    $\frac\rho{\sqrt n}\,\frac{\sqrt2\,\Gamma((d+1)/2)}{\Gamma(d/2)}$, since $X^\top\epsilon/\sqrt n\sim N(0,I_d)$."""
    d, n = checks.integer("dimension", dimension, 1), checks.integer("samples", samples, 1)
    length = np.sqrt(2.0) * np.exp(gammaln((d + 1) / 2) - gammaln(d / 2))
    return checks.positive("radius", radius) * float(length) / np.sqrt(n)


def two_layer_rademacher_bound(inputs: ArrayLike, second_layer: float) -> float:
    r"""Bound for two-layer networks of any width, $f=\sum_ja_j\sigma(\langle w_j,x\rangle)$ with $\|w_j\|\le1$,
    $\|a\|_1\le A$, $\sigma$ 1-Lipschitz and $\sigma(0)=0$:
    $$\hat{\mathfrak R}=\frac AnE_\epsilon\sup_{\|w\|\le1}\Big|\sum_i\epsilon_i\sigma(\langle w,x_i\rangle)\Big|\le
      \frac{2A}nE_\epsilon\|X^\top\epsilon\|\le\frac{2A\|X\|_F}n .$$
    The width does not enter: the supremum over $\|a\|_1\le A$ sits on one neuron. `second_layer` is $A$. For ReLU the
    truth is never below a quarter of the middle expression, since $\sigma(z)-\sigma(-z)=z$ (Bartlett & Mendelson 2002).
    """
    design = checks.sample_matrix("inputs", inputs)
    return 2 * checks.positive("second_layer", second_layer) * float(np.linalg.norm(design)) / len(design)


def rademacher_gap_bound(
    rademacher: float, samples: int, failure: float, lipschitz: float = 1.0, loss_range: float = 1.0
) -> float:
    r"""With probability $1-\delta$, $\sup|\hat R-R|\le2\ell_{Lip}\mathfrak R_n+b\sqrt{\frac{\log(2/\delta)}{2n}}$.

    The loss is `lipschitz`-Lipschitz in the prediction with values in an interval of length $b$ = `loss_range`;
    `rademacher` is the complexity averaged over data, `failure` $\delta$. Not valid for unbounded losses
    (Bartlett & Mendelson 2002, theorem 8).
    """
    complexity = checks.non_negative("rademacher", rademacher)
    n, delta = checks.integer("samples", samples, 1), checks.fraction("failure", failure)
    chance = checks.positive("loss_range", loss_range) * np.sqrt(np.log(2 / delta) / (2 * n))
    return float(2 * checks.positive("lipschitz", lipschitz) * complexity + chance)


def finite_class_bound(count: int, samples: int, failure: float) -> float:
    r"""With probability $1-\delta$ every one of $M$ classifiers has $|\hat R-R|\le\sqrt{\frac{\log(2M/\delta)}{2n}}$
    (Hoeffding and a union bound). `count` is $M$, `failure` $\delta$; $\hat R$ is a rate of errors."""
    classes, n, delta = (
        checks.integer("count", count, 1),
        checks.integer("samples", samples, 1),
        checks.fraction("failure", failure),
    )
    return float(np.sqrt((np.log(2 / delta) + np.log(classes)) / (2 * n)))


def vc_rate(vc_dimension: int, samples: int) -> float:
    r"""$\sqrt{d_{VC}/n}$: the order of $\sup|\hat R-R|$ over classifiers of VC dimension $d_{VC}$, up to a constant.

    Half-spaces through the origin of $\mathbb R^d$ have $d_{VC}=d$, affine ones $d+1$.
    """
    return float(np.sqrt(checks.integer("vc_dimension", vc_dimension, 1) / checks.integer("samples", samples, 1)))


def half_space_bound(dimension: int, samples: int, failure: float) -> float:
    r"""With probability $1-\delta$ all half-spaces through the origin of $\mathbb R^d$ have
    $|\hat R-R|\le\sqrt{\frac8n\log\frac{4\Pi(2n)}\delta}$, the inequality of Vapnik & Chervonenkis (1971) with the
    exact growth function $\Pi(m)=2\sum_{k<d}\binom{m-1}k$ of Cover (1965). Values above 1 say nothing."""
    n, delta = checks.integer("samples", samples, 1), checks.fraction("failure", failure)
    growth = log_half_space_labelings(2 * n, checks.integer("dimension", dimension, 1))
    return float(np.sqrt(8 / n * (np.log(4 / delta) + growth)))
