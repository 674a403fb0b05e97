"""How far trainings of any network have come along the hard directions of their target."""

import numpy as np

from limen.link import hard_subspace
from limen.problem import TwoLayer
from limen.simulation.descent.trained_weights import trained_weights


def largest_hard_cosine(problem: TwoLayer, times: np.ndarray, d: int, seed: int) -> np.ndarray:
    r"""$\max_j|P_H\theta_j|/|\theta_j|$ at `times` (whole steps) of one training, $P_H$ the projector on the hard
    subspace; shape (time,)."""
    found = trained_weights(problem, times, d, seed)
    hard = hard_subspace(problem.target).basis.T @ found.directions
    along = np.linalg.norm(found.first_layer @ hard.T, axis=-1)
    return (along / np.linalg.norm(found.first_layer, axis=-1)).max(axis=-1)
