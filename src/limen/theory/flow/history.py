"""Everything the past has left behind: two-time kernels as matrices on the nodes of the time grid."""

import numpy as np

from limen.theory.flow.model import GaussianModel
from limen.theory.flow.modes import Modes


class History:
    r"""Kernels on the nodes $t_0<\dots<t_{n-1}$ reached so far; row and column index are times.

    Causal kernels are operators on nodal values, $K_{nj}=\int K(t_n,s)\,\mathrm{hat}_j(s)\,ds$ with piecewise linear
    hat functions: $\delta(t-s)$ is the identity and a convolution a matrix product. For every kernel $X$, $X_d$ belongs
    to a neuron with itself and $X_{o,gh}$ to different neurons of groups $g,h$; the relative mode is
    $X_{2,g}=X_{d,g}-X_{o,gg}$, the collective one $\hat X_{gh}=\delta_{gh}X_{2,g}+\sqrt{n_gn_h}X_{o,gh}$, and products
    over neurons are products of modes. Shapes, with N the capacity and G groups:

    `relative` (2, G, N, N): correlation and response of the differences within a group;
    `collective` (2, N G, N G): of the sums over groups, time outside, group inside;
    `stacks`: both once more, as arrays (2, B, N g, N g) of B independent modes of g groups each: one array for a single
    group, whose two modes obey the same equations, else one for each kind;
    `residual` (2, N, N): $C_A$ and $R_A$ of a sample's residual, `source` (N, N): its $\Sigma_C$;
    `second_layer` (N, G), `overlap` (N, G, k), `multiplier` (N, G), `rho` (N,), `part` (N,): $a,v,\nu,\int R_A$ and
    $\frac1m\sum_jn_ja_j\hat\varphi(v_j)$.
    """

    def __init__(self, model: GaussianModel, capacity: int = 64) -> None:
        groups, latents = model.overlap.shape
        self.model, self.count, self.capacity = model, 0, capacity
        self.time = np.zeros(capacity)
        self.modes = Modes(model.sizes)
        self._make_modes(capacity)
        self.residual = np.zeros((2, capacity, capacity))
        self.source = np.zeros((capacity, capacity))
        self.second_layer = np.zeros((capacity, groups))
        self.overlap = np.zeros((capacity, groups, latents))
        self.multiplier = np.zeros((capacity, groups))
        self.rho = np.zeros(capacity)
        self.part = np.zeros(capacity)
        self._begin()

    def _make_modes(self, capacity: int) -> None:
        groups = self.model.groups
        if groups == 1:
            both = np.zeros((2, 2, capacity, capacity))
            self.relative, self.collective, self.stacks = both[:, :1], both[:, 1], (both,)
            return
        self.relative = np.zeros((2, groups, capacity, capacity))
        self.collective = np.zeros((2, capacity * groups, capacity * groups))
        self.stacks = self.relative, self.collective[:, None]

    def _begin(self) -> None:
        model, groups = self.model, self.model.groups
        own, mutual = 1.0, model.gram
        relative = own - np.diagonal(mutual)
        self.relative[0, :, 0, 0] = np.where(model.sizes > 1, relative, 0.0)
        root = np.sqrt(model.sizes)
        collective = np.outer(root, root) * mutual
        np.fill_diagonal(collective, own + (model.sizes - 1) * np.diagonal(mutual))
        self.collective[0, :groups, :groups] = collective
        self.second_layer[0], self.overlap[0] = model.second_layer, model.overlap
        self.residual[1, 0, 0] = self.rho[0] = 1.0
        self.part[0] = model.fractions @ (model.second_layer * model.link.value(model.overlap))
        total = np.outer(model.sizes * model.second_layer, model.sizes * model.second_layer) / model.width**2
        squares = model.sizes * model.second_layer**2 / model.width**2
        dual_own, dual_mutual = model.dual(np.ones(groups))[0], model.dual(mutual.ravel())[0].reshape(groups, groups)
        power = (total * dual_mutual).sum() + (squares * (dual_own - np.diagonal(dual_mutual))).sum()
        self.source[0, 0] = self.residual[0, 0, 0] = model.label_power - 2 * self.part[0] + power
        self.count = 1

    def reserve(self) -> None:
        """Makes room for one more row."""
        if self.count < self.capacity:
            return
        old, new, groups = self.capacity, 2 * self.capacity, self.model.groups
        self.capacity = new
        for name in ("time", "second_layer", "overlap", "multiplier", "rho", "part"):
            values = getattr(self, name)
            setattr(self, name, np.concatenate([values, np.zeros_like(values)]))
        for name in ("residual", "source"):
            values = getattr(self, name)
            grown = np.zeros((*values.shape[:-2], new, new))
            grown[..., :old, :old] = values
            setattr(self, name, grown)
        relative, collective = self.relative, self.collective
        self._make_modes(new)
        self.relative[..., :old, :old] = relative
        self.collective[:, : old * groups, : old * groups] = collective

    def stacks_until(self, n: int) -> list[np.ndarray]:
        """Views of `stacks` with the first n times, (2, B, n g, n g)."""
        sizes = [n * (stack.shape[-1] // self.capacity) for stack in self.stacks]
        return [stack[:, :, :size, :size] for stack, size in zip(self.stacks, sizes, strict=True)]

    @property
    def train_loss(self) -> np.ndarray:
        r"""$\frac12C_A(t,t)$ at the nodes."""
        return 0.5 * np.diagonal(self.residual[0])[: self.count]

    @property
    def test_loss(self) -> np.ndarray:
        r"""$\frac12\Sigma_C(t,t)$ at the nodes."""
        return 0.5 * np.diagonal(self.source)[: self.count]

    @property
    def gram(self) -> np.ndarray:
        """Overlap of two different neurons of two groups at equal times, (n, G, G); 1 for a group of one neuron."""
        groups, n = self.model.groups, self.count
        blocks = self.collective[0, : n * groups, : n * groups].reshape(n, groups, n, groups)
        equal = np.einsum("igih->igh", blocks).copy()
        diagonal = np.arange(groups)
        equal[:, diagonal, diagonal] -= np.einsum("gii->ig", self.relative[0, :, :n, :n])
        return equal / np.sqrt(np.outer(self.model.sizes, self.model.sizes))

    @property
    def own_correlation(self) -> np.ndarray:
        """Overlap of a neuron with itself at another time, (G, n, n)."""
        groups, n, sizes = self.model.groups, self.count, self.model.sizes
        blocks = self.collective[0, : n * groups, : n * groups].reshape(n, groups, n, groups)
        collective = np.einsum("igjg->gij", blocks)
        share = (1.0 / sizes)[:, None, None]
        return share * collective + (1.0 - share) * self.relative[0, :, :n, :n]
