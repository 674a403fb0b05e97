r"""Ridge regression on random features of a finite population: real data, drawn without replacement."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from limen import checks
from limen.problem.spec import InputError


@dataclass(frozen=True)
class PopulationRisk:
    r"""Mean squares, numbers or arrays of the broadcast shape: `test` over the members left out, against the target
    itself; `train` over the members drawn, against their labels. `kappa` is the effective ridge, `degrees` the
    effective number of parameters $T$."""

    kappa: Any
    degrees: Any
    test: Any
    train: Any


def finite_population_risk(
    eigenvalues: ArrayLike,
    coefficients: ArrayLike,
    samples: ArrayLike,
    features: ArrayLike,
    ridge: ArrayLike,
    noise: ArrayLike = 0.0,
    attenuation: ArrayLike = 1.0,
) -> PopulationRisk:
    r"""Risk when $n$ of the $M$ members of a data set are drawn for training and the other $M-n$ are for testing.

    `eigenvalues` $\eta_k$ are the $M$ eigenvalues of $K/M$, $K$ the kernel matrix of the whole set, and `coefficients`
    $c_k^2=\langle v_k,y\rangle^2/M$ the energies of the target $y$ along its unit eigenvectors (summed over outputs).
    Labels are $s\,y_i+\sigma\varepsilon_i$, $s$ = `attenuation`, $\sigma^2$ = `noise`: labels replaced at random with
    probability $q$ have $s=1-q$. There are $p$ = `features` random features $\frac1{\sqrt p}\varphi_j$ with
    $E\varphi_j\varphi_j^\top=K$ ($p=\infty$ is the kernel itself), and the loss is $\sum_i(\cdot)^2+\delta\|a\|^2$.

    A draw without replacement is, for eigenvectors that are spread over all members, a random projection of rank
    $n$. Free compression then gives $S^\top(SKS^\top+\delta)^{-1}S\simeq(K+\mu)^{-1}$ with $\delta=\mu\frac{n-T}{M-T}$,
    and after averaging the features
    $$\delta=\kappa\Big(1-\frac Tp\Big)(n-T)\frac M{M-T},\qquad T=\sum_k\frac{\eta_k}{\eta_k+\kappa}.$$
    Let $g=\frac1{1-T/p}\sum_k\frac{c_k^2}{\eta_k+\kappa}$ and $h=\frac{n-T}\delta$, the equivalents of
    $y^\top S^\top(SKS^\top+\delta)^{-1}Sy$ and of $\mathrm{tr}(SKS^\top+\delta)^{-1}$. Then
    $$\text{train}=-\frac{\delta^2}n\,\partial_\delta(s^2g+\sigma^2h),\qquad
      E\big(f-sy\big)^2=\frac{\text{train}}{(1-T/n)^2}-\sigma^2,$$
    the second by leaving one out. Against the target itself the test error is larger by $(1-s)^2\sum c_k^2+2s(1-s)U$,
    $U=\frac1{M-n}\big[M\sum_k\frac{c_k^2\kappa}{\eta_k+\kappa}-\delta g\big]$. As $M\to\infty$ at fixed spectrum this
    is `random_features_spectrum`; at $n\asymp M$ it differs by a relative $O(n/M)$.

    $\delta>0$ and $n<M$. `samples`, `features`, `ridge`, `noise`, `attenuation` broadcast. Cost: points times $M$,
    about 40 times. Sources: Dobriban & Liu 2019 and LeJeune et al. 2022 for orthogonal sketches; Craven & Wahba 1979
    for leaving one out.
    """
    values = np.maximum(checks.vector("eigenvalues", eigenvalues), 0.0)
    energies = checks.vector("coefficients", coefficients)
    checks.same_length("eigenvalues", values, "coefficients", energies)
    if not values.any():
        raise InputError("eigenvalues must contain a positive number.")
    points = checks.broadcast(
        samples=checks.positives("samples", samples),
        features=checks.positives_or_infinite("features", features),
        ridge=checks.positives("ridge", ridge),
        noise=checks.non_negatives("noise", noise),
        attenuation=checks.non_negatives("attenuation", attenuation),
    )
    if points[0].max() >= values.size:
        raise InputError(f"samples must be less than the population ({values.size}), got {points[0].max():g}.")
    rows = np.array([_risk(values, energies, *point) for point in zip(*map(np.ravel, points), strict=True)])
    return PopulationRisk(*(checks.plain(row.reshape(points[0].shape)) for row in rows.T))


def _risk(
    values: np.ndarray, energies: np.ndarray, samples: float, features: float, ridge: float, noise: float, scale: float
) -> tuple[float, float, float, float]:
    size = values.size
    kappa = _effective_ridge(values, samples, features, ridge)
    total = values + kappa
    degrees, slope = np.sum(values / total), -np.sum(values / total**2)
    left, free = 1.0 - degrees / features, samples - degrees
    # d log(delta) / d kappa
    growth = 1 / kappa - slope / features / left - slope / free + slope / (size - degrees)
    signal = np.sum(energies / total) / left
    signal_slope = -np.sum(energies / total**2) / left + signal * slope / features / left
    trace = free / ridge
    trace_slope = trace * (-slope / free - growth)
    train = -ridge / samples * (scale**2 * signal_slope + noise * trace_slope) / growth
    around_mean = train / (free / samples) ** 2 - noise
    unlearnt = (size * np.sum(energies * kappa / total) - ridge * signal) / (size - samples)
    test = around_mean + (1 - scale) ** 2 * energies.sum() + 2 * scale * (1 - scale) * unlearnt
    return kappa, float(degrees), float(test), float(train)


def _effective_ridge(values: np.ndarray, samples: float, features: float, ridge: float) -> float:
    """The only root above the point where the degrees of freedom reach the samples or the features."""
    size, most = values.size, min(samples, features)

    def room(log: float) -> float:
        return float(np.sum(values / (values + np.exp(log)))) - most

    def excess(log: float) -> float:
        kappa = np.exp(log)
        degrees = np.sum(values / (values + kappa))
        factors = (1 - degrees / features) * (samples - degrees) * size / (size - degrees)
        return float(np.log(max(kappa * factors, 1e-300) / ridge))

    # Far above: kappa times samples exceeds the ridge, with hardly a degree of freedom used.
    high = float(np.log(2 * (ridge / samples + values.sum()) * (1 + size / samples)))
    while excess(high) <= 0:
        high += 1.0
    low = float(np.log(values.max())) - 60.0
    if room(low) > 0:
        low = float(brentq(room, low, high, xtol=1e-14))  # pyright: ignore[reportArgumentType]
    return float(np.exp(float(brentq(excess, low, high, xtol=1e-14))))  # pyright: ignore[reportArgumentType]
