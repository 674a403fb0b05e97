r"""Exponents in the dimension: whether a step is sub-critical, critical or too large.

At one fixed value of the statistics, least squares of $\ln$ against $\ln N$ gives the exponents of $\|f\|$,
$\|g\|/\delta$, $\|\Sigma\|/\delta$ and of the three moment conditions of localizability (Ben Arous, Gheissari &
Jagannath 2022, Definition 2.1), which ask with $\delta\sim N^{-s}$ that
$$E\|\nabla H\|^8\lesssim\delta^{-4},\qquad E\langle\nabla H,\nabla u_i\rangle^4\lesssim\delta^{-2},\qquad
E\langle\nabla^2u_i,\nabla H\otimes\nabla H-V\rangle^2=o(\delta^{-3}).$$
Critical: $g$ or $\Sigma$ neither vanishes nor grows. Sub-critical: both vanish, and gradient flow is left. Too large:
one grows, or a moment condition fails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import ArrayLike

from limen.precision import in_double
from limen.problem.families.user_model import UserModel
from limen.problem.spec import InputError

Regime = Literal["sub-critical", "critical", "too large"]
# Exponents closer than this to a boundary are taken to lie on it.
RESOLUTION = 0.2


@dataclass(frozen=True)
class Scaling:
    r"""Exponents $a$ of $N^a$; `step` is that of $\delta$; a term that is zero at every dimension has $-\infty$.

    `corrector` and `volatility` are those of $g/\delta$ and $\Sigma/\delta$; `noise_norm`, `projected_noise` and
    `curvature_noise` those of the three moments, as is and not relative to the step. `regime` is the verdict and
    `sentence` says why; `critical_step` is the exponent at which the step would be critical.
    """

    dimensions: tuple[int, ...]
    u: tuple[float, ...]
    step: float
    population_drift: float
    corrector: float
    volatility: float
    noise_norm: float
    projected_noise: float
    curvature_noise: float
    critical_step: float
    regime: Regime
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def fit_scaling(
    model: UserModel, dimensions: Sequence[int], u: ArrayLike | None, at_dimension: Callable[[int], Any]
) -> Scaling:
    """Fits all exponents from estimates in each of `dimensions`, at least two of them."""
    sizes = sorted({int(dimension) for dimension in dimensions})
    if len(sizes) < 2:
        raise InputError(f"dimensions must hold at least two different ones, got {list(dimensions)!r}.")
    if not callable(model.step):
        raise InputError(f"step must be a function of the dimension for a scaling, got the number {model.step!r}.")
    try:
        family = [at_dimension(size) for size in sizes]
    except InputError as error:
        raise InputError(f"the functions must fit every dimension, as sampler(key, dimension) does: {error}") from None
    value = family[0].check(_random_value(family[0]) if u is None else u)
    found = [dynamics.moments(value) for dynamics in family]
    steps = np.array([dynamics.model.delta for dynamics in family])
    exponents = {
        "step": _exponent(sizes, steps),
        "population_drift": _exponent(sizes, [_size(part.population_drift) for part in found]),
        "corrector": _exponent(sizes, [_size(part.corrector) for part in found] / steps),
        "volatility": _exponent(sizes, [_size(part.volatility) for part in found] / steps),
        "noise_norm": _exponent(sizes, [_size(part.noise_norm) for part in found]),
        "projected_noise": _exponent(sizes, [_size(part.projected_noise) for part in found]),
        "curvature_noise": _exponent(sizes, [_size(part.curvature_noise) for part in found]),
    }
    regime, sentence = _verdict(exponents)
    critical = -max(exponents["corrector"], exponents["volatility"])
    return Scaling(tuple(sizes), tuple(value.tolist()), **exponents, critical_step=critical, regime=regime,
                   sentence=sentence)  # fmt: skip


def _verdict(exponents: dict[str, float]) -> tuple[Regime, str]:
    s = -exponents["step"]
    left = {name: exponents[name] - s for name in ("corrector", "volatility")}
    largest = max(left, key=lambda name: left[name])
    described = f"with a step of order N^{-s:.2f}, the {largest} is of order N^{left[largest]:.2f}"
    excess = {
        "E|noise|^8": exponents["noise_norm"] - 4.0 * s,
        "E<noise, grad u>^4": exponents["projected_noise"] - 2.0 * s,
        "the variance of <noise, hess u noise>": exponents["curvature_noise"] - 3.0 * s,
    }
    # An eighth power of the noise has four times the exponent, and four times its error, of the corrector.
    broken = [name for name, amount in excess.items() if amount > 4.0 * RESOLUTION]
    if left[largest] > RESOLUTION:
        return "too large", f"The step is too large: {described} and grows."
    if broken:
        return "too large", f"The step is too large: {described}, but {broken[0]} breaks localizability."
    if left[largest] < -RESOLUTION:
        return "sub-critical", f"The step is sub-critical: {described} and vanishes, gradient flow is left."
    return "critical", f"The step is critical: {described} and stays."


def _size(groups: np.ndarray) -> float:
    return float(np.linalg.norm(groups.mean(axis=(0, 1))))


def _exponent(sizes: Sequence[int], values: ArrayLike) -> float:
    array = np.asarray(values, dtype=float)
    if array.max() <= 1e-12:
        return -np.inf
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(array, 1e-300)), 1)[0])


@in_double
def _random_value(dynamics: Any) -> np.ndarray:
    return np.asarray(dynamics.model.measure(dynamics.model.random_point(jax.random.key(dynamics.sampling.seed))))
