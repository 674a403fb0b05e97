r"""Easy and hard directions of a link: what any function of the labels can and cannot see at first order.

A subspace $U$ of the latent space is hard when $E[P_Uz\mid y,P_U^\perp z]=0$. Its complement is climbed by a staircase,
$E_0=\{0\}$, $E_{i+1}=E_i+\mathrm{span}\{E[P_{E_i}^\perp z\mid y,P_{E_i}z]\}$, which ends after at most $k$ stages; the
maximal hard subspace is unique and equals $E_\infty^\perp$, since for a hard $U\perp E_i$ the tower property gives
$E[P_Uz\mid y,P_{E_i}z]=0$.

Source: the staircase of Abbe, Boix-Adserà & Misiakiewicz 2022, with all functions of the label as in Montanari &
Wang 2026, "Phase Transitions for Feature Learning in Neural Networks".
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from limen.link.label_points import checked_target, normal_scores
from limen.link.staircase import complement, random_cosines, readable, staircase_points, staircase_step
from limen.problem.targets import Target


@dataclass(frozen=True, eq=False)
class HardSubspace:
    r"""The decomposition of the latent space of a link.

    `basis` (k, r) and `easy_basis` (k, k-r): orthonormal columns, along the coordinate axes or simple combinations
    where the accuracy allows. `singular_values`: one descending array per stage, of the moments
    $E[T_f(y,z_E)\,P_E^\perp z]$ of 100 statistics $T_f$, those that were dropped included. `errors`: per stage, the
    size below which a singular value counts as zero. `stages`: how many stages added a direction.
    """

    basis: np.ndarray
    easy_basis: np.ndarray
    singular_values: tuple[np.ndarray, ...]
    errors: tuple[float, ...]
    stages: int

    @property
    def dimension(self) -> int:
        """Number $r$ of hard directions."""
        return self.basis.shape[1]


def hard_subspace(target: Any) -> HardSubspace:
    r"""The maximal hard subspace of a link, additive label noise included.

    Labels enter as normal scores of their mid-ranks, $T_f$ are random cosines of (score, $z_E$); moments from six
    Sobol scrambles of $2^{15}$ points, fixed once and for all, so that equal links give equal answers. A direction is
    easy when its singular value stands above six standard errors and above 0.02 (the largest possible is about
    7). What is easy but weaker than that is called hard: look at `singular_values`.

    A direction that does not enter the link at all is hard: it is independent of $y$, and nothing can learn it.
    "Easy" means that some statistic sees it; a given loss and activation may still miss it. Takes 0.5 to 3 s; the
    last 64 answers are kept.
    """
    return _decompose(checked_target(target))


@lru_cache(maxsize=64)
def _decompose(target: Target) -> HardSubspace:
    easy = np.zeros((target.latents, 0))
    singular_values, errors, angle = [], [], 0.0
    while easy.shape[1] < target.latents:
        step = staircase_step(staircase_points(target, easy, generative_statistics), easy, 1)
        singular_values.append(step.singular_values)
        errors.append(step.error)
        if step.directions.shape[1] == 0:
            break
        angle = max(angle, step.angle)
        easy = readable(np.hstack([easy, step.directions]), 4.0 * angle)
    found = len(singular_values) - (easy.shape[1] < target.latents)
    basis = readable(complement(easy), 1e-9)
    for array in (basis, easy, *singular_values):
        array.setflags(write=False)
    return HardSubspace(basis, easy, tuple(singular_values), tuple(errors), found)


def generative_statistics(labels: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Random cosines of the score of the label and of the coordinates already known."""
    return random_cosines(np.column_stack([normal_scores(labels), known]))
