r"""Leaps of a multi-index link: how far up in Hermite degree the next direction hides.

$E_0=\{0\}$. The next leap is the least $\ell$ with $E[He_\ell(P_E^\perp z)\,T]\ne0$ for some statistic $T$; the span of
these tensors is added to $E$, and so on until every direction that enters the link is found. *The* leap is the
largest.

- information: $T=y\,g(P_Ez)$, what correlating with the label sees (Abbe, Boix-Adserà & Misiakiewicz 2023); for a
  single index it is the information exponent of the link.
- generative: $T=g(y,P_Ez)$, any function of the label (Damian, Lee & Bruna 2025); for a single index the generative
  exponent of Damian, Pillaud-Vivien, Lee & Bruna 2024.

One or two: order $d$ samples are enough for some algorithm; from three on, no known polynomial algorithm succeeds
with a number of samples proportional to $d$.
"""

from functools import lru_cache
from typing import Any, Literal

import numpy as np

from limen.gaussian.sobol import sobol_normals
from limen.link.hard_subspace import generative_statistics
from limen.link.label_points import checked_target, link_values
from limen.link.staircase import Statistics, complement, random_cosines, readable, staircase_points, staircase_step
from limen.problem.spec import InputError
from limen.problem.targets import Target

# Moments of degree six of more coordinates do not fit into memory.
MOST_DIRECTIONS = 8
LARGEST_LEAP = 6
NEGLIGIBLE_CHANGE = 1e-3


def leap(target: Any, kind: Literal["information", "generative"] = "information") -> float:
    r"""The information or generative leap, an int; infinite when a direction that enters is not found by degree 6.

    Directions along which the link is constant are no part of it. The generative leap is never larger than the
    information leap. Moments by the same Sobol points and tests as `hard_subspace`, so a coefficient that is not zero
    but below about $2\cdot10^{-3}$ of the label's standard deviation is passed over. Additive noise does not matter
    for the information leap. Takes 0.3 to 5 s, the last for eight directions that hide completely.
    """
    if kind not in ("information", "generative"):
        raise InputError(f"kind must be 'information' or 'generative', got {kind!r}.")
    link = checked_target(target)
    if link.latents > MOST_DIRECTIONS:
        raise InputError(f"target must have at most {MOST_DIRECTIONS} directions for its leap, got {link.latents}.")
    if kind == "information":
        # Noise of mean zero leaves every moment of the label as it is, and only blurs the estimate.
        return _largest(link.model_copy(update={"noise": 0.0}), _information_statistics)
    return _largest(link, generative_statistics)


@lru_cache(maxsize=64)
def first_degree(target: Target) -> float:
    r"""The least $\ell\ge1$ with $E[He_\ell(z)\,y]\ne0$: the information exponent of a link of several directions.
    Infinite if there is none up to degree 6; points and tests are those of `leap`."""
    known = np.zeros((target.latents, 0))
    points = staircase_points(target.model_copy(update={"noise": 0.0}), known, _information_statistics)
    degrees = range(1, LARGEST_LEAP + 1)
    return next((degree for degree in degrees if staircase_step(points, known, degree).directions.shape[1]), np.inf)


@lru_cache(maxsize=64)
def _largest(target: Target, statistics: Statistics) -> float:
    known, angle, largest = np.zeros((target.latents, 0)), 0.0, 0
    while known.shape[1] < target.latents and _enters(target, complement(known)):
        points = staircase_points(target, known, statistics)
        for degree in range(1, LARGEST_LEAP + 1):
            step = staircase_step(points, known, degree)
            if step.directions.shape[1]:
                break
        else:
            return np.inf
        largest, angle = max(largest, degree), max(angle, step.angle)
        known = readable(np.hstack([known, step.directions]), 4.0 * angle)
    return largest if largest else np.inf


def _information_statistics(labels: np.ndarray, known: np.ndarray) -> np.ndarray:
    spread = labels.std()
    centred = (labels - labels.mean()) / (spread if spread > 0 else 1.0)
    return centred[:, None] * random_cosines(known) if known.shape[1] else centred[:, None]


def _enters(target: Target, directions: np.ndarray) -> bool:
    """Whether the label changes when the coordinates along some directions are drawn anew."""
    k = target.latents
    points = sobol_normals(1 << 14, 2 * k + 1, 3)
    z, other, inner = points[:, :k], points[:, k : 2 * k], points[:, -1]
    moved = z + (other - z) @ directions @ directions.T
    before, after = link_values(target, z, inner), link_values(target, moved, inner)
    spread = np.var(before)
    return bool(spread > 0 and np.mean((after - before) ** 2) > NEGLIGIBLE_CHANGE * spread)
