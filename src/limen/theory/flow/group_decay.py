r"""Regularisation as groups of equal neurons see it: $\Lambda_t$ in their relative and collective modes."""

from dataclasses import dataclass

import numpy as np

from limen.problem.algorithms import GradientFlow
from limen.problem.decays import Regularization
from limen.problem.families.two_layer import TwoLayer
from limen.problem.groups import NeuronGroups
from limen.problem.spec import InputError

# Times at which entries of a matrix with formulas are held against each other.
PROBED = (0.0, 0.37, 2.9, 31.0)


@dataclass(frozen=True, eq=False)
class GroupDecay:
    r"""$\frac nd\Lambda_t$ with equal entries over each pair of groups, and $\frac nd\lambda_t$ of the second layer.

    With $\Lambda_d$ of a neuron with itself and $\Lambda_{o,gh}$ of different neurons, the relative mode decays at
    $\Lambda_{d,g}-\Lambda_{o,gg}$ and the collective ones at $\delta_{gh}(\Lambda_{d,g}-\Lambda_{o,gg})
    +\sqrt{n_gn_h}\,\Lambda_{o,gh}$: they stand beside $\nu$ in the two-time equations, which absorbs the diagonal.
    """

    regularization: Regularization
    speed: float
    label: np.ndarray
    sizes: np.ndarray

    def blocks(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        r"""$\frac nd\Lambda_d$ (G,) and $\frac nd\Lambda_o$ (G, G), 0 on the diagonal of a group of one neuron."""
        matrix, groups = self.speed * self.regularization.matrix(time), self.sizes.size
        members = [np.flatnonzero(self.label == g) for g in range(groups)]
        own = np.array([matrix[part[0], part[0]] for part in members])
        pairs = np.zeros((groups, groups))
        for g, first in enumerate(members):
            for h, second in enumerate(members):
                if g != h or second.size > 1:
                    pairs[g, h] = matrix[first[0], second[1 if g == h else 0]]
        return own, pairs

    def modes(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Rates of the relative (G,) and collective modes (G, G)."""
        own, pairs = self.blocks(time)
        relative = own - np.diagonal(pairs)
        return relative, np.diag(relative) + np.sqrt(np.outer(self.sizes, self.sizes)) * pairs

    def second_layer(self, time: float) -> float:
        """Rate of the second layer."""
        return self.speed * self.regularization.second_layer(time)


def decay_of(problem: TwoLayer, groups: NeuronGroups) -> GroupDecay | None:
    """What the regularisation of a flow does to groups; refused where its entries differ inside a pair of them."""
    if not isinstance(problem.algorithm, GradientFlow):
        return None
    regularization = problem.algorithm.regularization(problem.network.width)
    if regularization is None:
        return None
    speed = float(problem.samples_per_dim or 0.0)
    found = GroupDecay(regularization, speed, groups.label, groups.sizes.astype(float))
    if not _alike(found):
        raise InputError(
            "weight_decay must have equal entries for neurons that start alike, or groups must be smaller: give "
            f"groups=[1, 1, ...], {problem.network.width} of them, to follow every neuron."
        )
    return found


def _alike(decay: GroupDecay) -> bool:
    if not isinstance(decay.regularization.first, tuple):
        return True
    different = ~np.eye(decay.label.size, dtype=bool)
    for time in PROBED if decay.regularization.changes else PROBED[:1]:
        matrix = decay.speed * decay.regularization.matrix(time)
        _, pairs = decay.blocks(time)
        expected = pairs[np.ix_(decay.label, decay.label)]
        if not np.allclose(matrix[different], expected[different], rtol=1e-12, atol=1e-12):
            return False
    return True
