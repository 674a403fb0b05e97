"""Sums and differences over groups of equal neurons, beside the neurons themselves."""

import numpy as np


class Modes:
    r"""What turns modes of groups into pairs of neurons, as matrices over the $P=G+G^2$ rows of both.

    Rows of modes are the relative modes $X_{2,g}$, then the collective ones $\hat X_{gh}$; rows of neurons are a neuron
    with itself $X_{d,g}$, then with another one $X_{o,gh}$ (see `History`). `first`, `second` (P,) are the groups of
    the two neurons of a row, `both` (2, P) the two together. `to_neurons` and `to_modes` (P, P) are inverse to each
    other. `pairs` (P,) counts the pairs of neurons of a row over $m^2$; `partners` (G, P) the neurons that one of a
    group meets there over $m$, and `alike` (G, P) those of its own group.
    """

    def __init__(self, sizes: np.ndarray) -> None:
        groups, width = sizes.size, float(sizes.sum())
        group = np.arange(groups)
        self.first = np.concatenate([group, np.repeat(group, groups)])
        self.second = np.concatenate([group, np.tile(group, groups)])
        self.both = np.stack([self.first, self.second])
        own, pair = np.eye(groups), np.eye(groups * groups)
        equal = pair[:: groups + 1]  # rows of pairs within a group
        root = np.sqrt(sizes[self.first] * sizes[self.second])[groups:]
        others = pair / root[:, None]
        share = own / sizes[:, None]
        self.to_neurons = np.block([[own - share, equal @ others], [-(equal.T @ share), others]])
        self.to_modes = np.block([[own, -equal], [equal.T, pair * root[:, None] - equal.T @ equal]])
        counts = np.outer(sizes, sizes) - np.diag(sizes)
        self.pairs = np.concatenate([sizes, counts.ravel()]) / width**2
        met = np.concatenate([np.ones(groups), (sizes - own).ravel()]) / width
        self.partners = np.where(self.first == group[:, None], met, 0.0)
        self.alike = np.where(self.second == group[:, None], self.partners, 0.0)
