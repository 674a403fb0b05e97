r"""Responses of the force of every path to its field at earlier steps, one row of them at a time.

Along a path $\delta V=\delta W-K\,\delta F$ and $\delta F(s)=J(s)\,\delta V(s)$, with
$K(u,s)=\frac\eta\delta R_\theta(u,s)$ the same for all paths. Thus $D=\partial V/\partial W=(1+KJ)^{-1}$, and from
$D(1+KJ)=1$ a row of it is found by substitution backwards in time,

$$D(t,t)=1,\qquad D(t,s)=-\sum_{u=s+1}^tD(t,u)\,K(u,s)\,J(s),$$

without the rows before: only the Jacobians $J$ are kept. Steps are taken in blocks, so that nearly all of the sum is a
product of large matrices.
"""

import numpy as np

BLOCK = 16


class PathResponses:
    r"""$E[J(t)D(t,s)]$ for steps in order.

    Keeps $J$ (T, m, m, paths) in float32 and one row of $D$, index (s, j) by (i, path) for $D_{ij}(t,s)$: $8NTm^2$
    bytes. A row takes $N(tm)^2m$ operations.
    """

    def __init__(self, steps: int, width: int, paths: int) -> None:
        self.width, self.paths = width, paths
        self.jacobians = np.empty((steps, width, width, paths), np.float32)
        self.row = np.empty((steps * width, width * paths), np.float32)
        # The transpose of -K: index (s, j) by (u, l).
        self.kernel = np.zeros((steps * width, steps * width), np.float32)

    def means(self, t: int, memory: np.ndarray, jacobian: np.ndarray, path_weights: np.ndarray) -> np.ndarray:
        r"""The means under `path_weights` (paths, c) for $s\le t$, shape (c, t+1, m, m).

        `memory` (t, m, m) is $K(t,s)$ for $s<t$, `jacobian` (m, m, paths) is $J(t)$; both are kept for later steps.
        """
        m, kernel, row = self.width, self.kernel, self.row
        self.jacobians[t] = jacobian
        kernel[: t * m, t * m : (t + 1) * m] = -memory.transpose(0, 2, 1).reshape(t * m, m)
        row[t * m : (t + 1) * m] = np.repeat(np.eye(m, dtype=np.float32), self.paths, axis=1)
        # J(t) and the weights together: index (i, path) by (p, c) for the mean of (J D)_pj.
        weighted = (jacobian.transpose(1, 2, 0)[..., None] * path_weights[:, None, :]).reshape(m * self.paths, -1)
        found = np.empty(((t + 1) * m, weighted.shape[1]))
        found[t * m :] = row[t * m : (t + 1) * m].astype(float) @ weighted
        for first in range((t - 1) // BLOCK * BLOCK, -1, -BLOCK):
            end = min(first + BLOCK, t)
            block = slice(first * m, end * m)
            self._substitute(first, end, kernel[block, end * m : (t + 1) * m] @ row[end * m : (t + 1) * m])
            found[block] = row[block].astype(float) @ weighted
        return found.reshape(t + 1, m, m, -1).transpose(3, 0, 2, 1) / self.paths

    def _substitute(self, first: int, end: int, sums: np.ndarray) -> None:
        """Fills the rows of steps `first` to `end`, given what all later ones add to their sums."""
        m, row = self.width, self.row
        for s in range(end - 1, first - 1, -1):
            now, later = slice(s * m, (s + 1) * m), slice((s + 1) * m, end * m)
            total = sums[(s - first) * m : (s - first + 1) * m]
            if s + 1 < end:
                total += self.kernel[now, later] @ row[later]
            if m == 1:
                np.multiply(total, self.jacobians[s, 0], out=row[now])
            else:
                parts = total.reshape(m, m, self.paths), row[now].reshape(m, m, self.paths)
                np.einsum("pjn,pin->jin", self.jacobians[s], parts[0], out=parts[1])
