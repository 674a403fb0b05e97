"""Symmetries of a start that the overlap equations cannot leave: zero overlap, exchangeable units."""

import jax.numpy as jnp
import numpy as np

from limen.theory.one_pass.overlap_equations.integration import Motion
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.population import Population

# Equal to this part of their size, two units count as exchangeable.
SAME = 1e-13


def lasting_symmetry(
    start: Overlaps, motion: Motion, population: Population, teacher_weights: np.ndarray | None
) -> str | None:
    """A symmetry of the start that the flow keeps for ever, in words, or None."""
    gram, overlap, second_layer = (np.asarray(part) for part in start)
    if not overlap.any() and not np.asarray(motion.slope(population, start, jnp.asarray(0.0)).overlap).any():
        return "the overlap with the target starts at zero and stays there for ever"
    students = _exchangeable(gram, np.column_stack([overlap, second_layer]))
    if students is not None:
        return f"students {students[0]} and {students[1]} start with equal overlaps and stay equal for ever"
    if teacher_weights is not None:
        columns = np.column_stack([overlap.T, teacher_weights])
        teachers = _exchangeable(np.asarray(population.teacher_gram), columns)
        if teachers is not None:
            return f"every student overlaps equally with teachers {teachers[0]} and {teachers[1]}, and will for ever"
    return None


def _exchangeable(gram: np.ndarray, rows: np.ndarray) -> tuple[int, int] | None:
    """Two units whose exchange changes neither the Gram matrix nor the order of the rows."""
    scale = SAME * (1.0 + np.abs(rows).max())
    for i in range(len(gram)):
        for j in range(i):
            if np.abs(rows[i] - rows[j]).max() > scale or abs(gram[i, i] - gram[j, j]) > SAME * gram[i, i]:
                continue
            others = np.delete(np.arange(len(gram)), [i, j])
            if np.abs(gram[i, others] - gram[j, others]).max(initial=0.0) <= SAME * gram[i, i]:
                return j, i
    return None
