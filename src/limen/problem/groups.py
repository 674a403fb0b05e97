"""Groups of neurons that start alike: neurons of a group stay statistically equal, so one of them stands for all."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from limen.problem.families.two_layer import TwoLayer
from limen.problem.spec import InputError
from limen.problem.starts import OverlapStart, overlap_matrix


@dataclass(frozen=True, eq=False)
class NeuronGroups:
    r"""A partition of the neurons $j$ into groups $g$, and where each group starts.

    `label` (m,) is the group of every neuron, `sizes` (G,) count them, `second_layer` (G,) is $a_g(0)$, `overlap`
    (G, k) the overlaps $v_g(0)$ with the target, `gram` (G, G) the overlap of two *different* neurons of groups
    $g,h$ (1 on the diagonal for a group of one neuron).
    """

    label: np.ndarray
    sizes: np.ndarray
    second_layer: np.ndarray
    overlap: np.ndarray
    gram: np.ndarray

    def means(self, values: np.ndarray) -> np.ndarray:
        """Means over each group of `values` whose *last* axis is the neuron; the last axis becomes the group."""
        return values @ self._averages()

    def pair_means(self, gram: np.ndarray) -> np.ndarray:
        """Means of `gram` (..., m, m) over pairs of different neurons of two groups, (..., G, G).

        The diagonal of a group of one neuron is that neuron's own entry.
        """
        average = self._averages()
        means = np.einsum("...ij,ig,jh->...gh", gram, average, average, optimize=True)
        own = self.means(np.diagonal(gram, axis1=-2, axis2=-1))
        several = self.sizes > 1
        rest = np.where(several, self.sizes - 1.0, 1.0)
        inside = np.diagonal(means, axis1=-2, axis2=-1)
        diagonal = np.where(several, (self.sizes * inside - own) / rest, own)
        g = np.arange(self.sizes.size)
        means[..., g, g] = diagonal
        return means

    def _averages(self) -> np.ndarray:
        return (self.label[:, None] == np.arange(self.sizes.size)) / self.sizes


def neuron_groups(problem: TwoLayer, sizes: Sequence[int] | None = None) -> NeuronGroups:
    """The fewest groups of neurons with equal second layer and equal start, in order of first appearance.

    `sizes` asks for groups of that many consecutive neurons instead; neurons that start differently cannot share one.
    A random start has no overlaps; without `gram` two neurons overlap by the product of their overlaps with the target.
    """
    start, m = problem.start, problem.network.width
    second_layer = np.broadcast_to(np.asarray(problem.network.second_layer, dtype=float), (m,))
    overlap = np.zeros((m, problem.target.latents))
    if isinstance(start, OverlapStart):
        overlap = overlap_matrix(start, m, problem.target.latents)
    rows = np.column_stack([second_layer, overlap])
    gram = np.asarray(start.gram, dtype=float) if isinstance(start, OverlapStart) and start.gram is not None else None
    if sizes is None:
        label = _first_appearance(rows)
        if gram is not None and not _alike(_partition(label, rows, gram), rows, gram):
            label = np.arange(m)
        return _partition(label, rows, gram)
    found = _partition(_consecutive(sizes, m), rows, gram)
    if not _alike(found, rows, gram):
        raise InputError("groups must hold neurons with equal second_layer and equal start.")
    return found


def _first_appearance(rows: np.ndarray) -> np.ndarray:
    if (rows == rows[0]).all():
        return np.zeros(len(rows), dtype=int)
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.reshape(-1)]


def _consecutive(sizes: Sequence[int], m: int) -> np.ndarray:
    counts = np.asarray(sizes)
    if counts.ndim != 1 or counts.size == 0 or counts.dtype.kind not in "iu" or (counts < 1).any():
        raise InputError(f"groups must be a list of whole numbers of neurons, each at least 1, got {sizes!r}.")
    if counts.sum() != m:
        raise InputError(f"groups must add up to the width {m}, got {counts.sum()}.")
    return np.repeat(np.arange(counts.size), counts)


def _partition(label: np.ndarray, rows: np.ndarray, gram: np.ndarray | None) -> NeuronGroups:
    sizes = np.bincount(label)
    _, first = np.unique(label, return_index=True)
    overlap = rows[first, 1:]
    mutual = overlap @ overlap.T
    np.fill_diagonal(mutual, np.where(sizes > 1, np.diagonal(mutual), 1.0))
    found = NeuronGroups(label, sizes, rows[first, 0].copy(), overlap.copy(), mutual)
    if gram is None:
        return found
    return NeuronGroups(label, sizes, found.second_layer, found.overlap, found.pair_means(gram))


def _alike(groups: NeuronGroups, rows: np.ndarray, gram: np.ndarray | None) -> bool:
    """Whether all neurons of each group start alike."""
    if not np.array_equal(rows, np.column_stack([groups.second_layer, groups.overlap])[groups.label]):
        return False
    if gram is None:
        return True
    expected = groups.gram[np.ix_(groups.label, groups.label)]
    different = ~np.eye(len(rows), dtype=bool)
    return bool(np.allclose(gram[different], expected[different], atol=1e-12))
