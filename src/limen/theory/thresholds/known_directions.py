r"""Eigenvalues of the Hessian along the directions that training has taken, and along the second layer.

$H=\frac1n\sum_iG_i\otimes x_ix_i^\top$ with $m\times m$ weights $G_i$ that know $x_i$ through its components $u$ along
the directions the neurons have taken: target, start, every gradient. By Gaussian conditioning the rest of the inputs is
fresh, but for one thing: gradients pulled back from the sample, $X^\top\varphi_c$, lie in those directions, so that the
rest is orthogonal to the forces $\varphi_c$. With $\alpha=\frac1d\mathrm{tr}_d(H-z)^{-1}$ of the bulk,
$\beta=\alpha/\delta$ and $K=G(1+\beta G)^{-1}$, the Schur complement on the known directions is

$$D(z)=-z+E[K\otimes uu^\top]+E[K\otimes u\varphi^\top]
\big(\beta^{-1}\otimes E[\varphi\varphi^\top]-E[K\otimes\varphi\varphi^\top]\big)^{-1}E[K\otimes\varphi u^\top],$$

and every eigenvalue of $H$ outside the bulk is a $z$ at which it is singular. Parameters beside the first layer add
rows: with mixed derivatives $c$ $(m)$ in the fields and $e$ among themselves, $K\otimes uu^\top$ becomes
$e-c^\top\beta(1-K\beta)c$ there, and $Ku$ becomes $(1-K\beta)c$.
"""

from typing import NamedTuple

import numpy as np

from limen.theory.thresholds.matrix_resolvent import BranchPoint, LeftBranch, find_root


class OwnRows(NamedTuple):
    r"""Second derivatives of $m\ell$ that involve `p` parameters beside the first layer: `mixed` (N, m, p) with the
    fields, `own` (p, p) among themselves, averaged over the samples."""

    mixed: np.ndarray
    own: np.ndarray


class Top(NamedTuple):
    """The largest eigenvalues, descending (count,), and the right edge of the bulk, which stands where there is no
    outlier more."""

    values: np.ndarray
    edge: float


def top_eigenvalues(
    weights: np.ndarray,
    coordinates: np.ndarray,
    forces: np.ndarray,
    samples_per_dim: float,
    count: int = 1,
    rows: OwnRows | None = None,
) -> Top:
    r"""The `count` largest eigenvalues of $H$ and the right edge of its bulk, from paths: weights $G$ (N, m, m),
    coordinates $u$ (c, N), forces $\varphi$ (f, N) with mean square one, `rows` of other parameters.

    Below its bulk, $D$ of $-H$ decreases in $z$: as many of its eigenvalues as are negative at the edge pass zero
    further left, once each.
    """
    if not weights.any():
        # Neurons all of whose slopes vanish: nothing but the other parameters is left.
        own = np.zeros(0) if rows is None else np.linalg.eigvalsh(rows.own)[::-1]
        return Top(np.append(own, np.zeros(count))[:count], 0.0)
    branch = LeftBranch(-weights, samples_per_dim)
    edge = branch.edge
    if edge is None:
        return Top(np.zeros(count), 0.0)
    mirrored = None if rows is None else OwnRows(-rows.mixed, -rows.own)
    known = np.concatenate([coordinates, forces]).astype(float)
    split, overlaps = len(coordinates), forces.astype(float) @ forces.T.astype(float) / weights.shape[0]

    def levels(x: float) -> np.ndarray:
        return np.linalg.eigvalsh(_complement(branch.at(x), samples_per_dim, known, split, overlaps, mirrored))

    inside = edge.x * (1.0 + 1e-9)
    outliers = min(count, int((levels(inside) < 0.0).sum()))
    far = branch.start.x
    while outliers and levels(far)[0] <= 0.0:
        far *= 2.0
    found = [-branch.at(find_root(lambda x, j=j: float(levels(x)[j]), inside, far)).z for j in range(outliers)]
    return Top(np.array(found + [-edge.z] * (count - outliers)), -edge.z)


def _complement(
    point: BranchPoint,
    delta: float,
    known: np.ndarray,
    split: int,
    overlaps: np.ndarray,
    rows: OwnRows | None,
) -> np.ndarray:
    """D(z): neurons times the first `split` of the known coordinates, then the other parameters."""
    kernels, beta = point.kernels, point.alpha / delta
    m, size, samples = len(beta), len(known), known.shape[1]
    means = np.empty((m, size, m, size))
    for i in range(m):
        for j in range(i + 1):
            means[i, :, j] = (known * kernels[i, j]) @ known.T / samples
            means[j, :, i] = means[i, :, j].T
    block = means[:, :split, :, :split].reshape(m * split, m * split)
    cross = means[:, :split, :, split:].reshape(m * split, -1)
    if rows is not None:
        # (1 - K beta) c of every other parameter, (N, m, p).
        pushed = rows.mixed - np.einsum("ijn,jk,nkp->nip", kernels, beta, rows.mixed, optimize=True)
        along = np.einsum("nip,cn->pic", pushed, known, optimize=True) / samples
        own = rows.own - np.einsum("nip,ij,njq->pq", rows.mixed, beta, pushed, optimize=True) / samples
        others = along[:, :, :split].reshape(len(own), -1)
        block = np.block([[block, others.T], [others, own]])
        cross = np.concatenate([cross, along[:, :, split:].reshape(len(own), -1)])
    if cross.shape[1]:
        inner = np.kron(np.linalg.inv(beta), overlaps) - means[:, split:, :, split:].reshape(cross.shape[1], -1)
        block = block + cross @ np.linalg.solve(inner, cross.T)
    return 0.5 * (block + block.T) - point.z * np.eye(len(block))
