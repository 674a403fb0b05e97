r"""Fluctuations of the overlaps with hard directions at finite dimension.

Along a hard direction $u$ of the target overlaps vanish as $d\to\infty$, but $\vartheta(t)=\sqrt d\,\theta(t)\cdot u$
has a limit, a Gaussian process driven by the same paths (coordinate $U=u\cdot V_*$):

$$\vartheta(t+1)=(1-\eta\lambda)\vartheta(t)-\eta\sum_{s\le t}\tilde R(t,s)\vartheta(s)+\eta\tilde Q(t),\qquad
\tilde R(t,s)=\eta^{-1}E[F'(t)D(t,s)\,U^2],\qquad
\mathrm{Cov}\,\tilde Q(t,s)=\frac1{\delta\eta^2}E[F(t)F(s)^\top U^2],$$

from $\vartheta(0)\sim N(0,I_m)$. With $r$ hard directions $U^2$ becomes $UU^\top$ and blocks have size $mr$.
"""

import numpy as np

from limen.problem import GradientDescent, TwoLayer
from limen.problem.algorithms import constant_step
from limen.theory.descent.causal_pass import Pass


def path_weights(latent: np.ndarray, hard: np.ndarray) -> np.ndarray:
    """Weights of the means that the recursion needs: 1, then $U_aU_b$; `hard` is a basis (k, r). (paths, 1+r²)."""
    coordinates = latent @ hard
    products = (coordinates[:, :, None] * coordinates[:, None]).reshape(len(latent), -1)
    return np.concatenate([np.ones((len(latent), 1)), products], axis=1)


def hard_fluctuations(
    problem: TwoLayer, found: Pass, latent: np.ndarray, hard: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""$C_u(t,t)=E[\vartheta\vartheta^\top]$ and $\Phi_0(t)=\partial\vartheta(t)/\partial\vartheta(0)$.

    Both of shape (T+1, m, m, r, r), indexed (step, neuron, neuron, direction, direction). $\vartheta(0)$ is in units of
    `initial_norm`. Cost $O(T^3(mr)^3)$, no new paths.
    """
    algorithm, m, r = problem.algorithm, problem.network.width, hard.shape[1]
    assert isinstance(algorithm, GradientDescent) and problem.samples_per_dim is not None
    eta, size = constant_step(algorithm), m * r
    steps, _, paths = found.force.shape
    memory = found.loss_response[1:].reshape(r, r, steps, steps, m, m).transpose(2, 3, 4, 0, 5, 1)
    memory = memory.reshape(steps, steps, size, size)
    weighted = np.einsum("tin,na->tian", found.force, latent @ hard).reshape(steps * size, paths)
    noise = weighted @ weighted.T / (paths * problem.samples_per_dim)
    # Columns: the start's mr coordinates, then the noise of each step.
    linear = np.zeros((steps + 1, size, (steps + 1) * size))
    linear[0, :, :size] = problem.network.initial_norm * np.eye(size)
    for t in range(steps):
        new = (1.0 - eta * algorithm.weight_decay) * linear[t]
        new = new - eta * np.einsum("sij,sjc->ic", memory[t, : t + 1], linear[: t + 1])
        new[:, (t + 1) * size : (t + 2) * size] += eta * np.eye(size)
        linear[t + 1] = new / np.repeat(found.lengths[t], r)[:, None]
    start, driven = linear[:, :, :size], linear[:, :, size:]
    variance = start @ start.transpose(0, 2, 1) + np.einsum("tic,ce,tje->tij", driven, noise, driven, optimize=True)

    def blocks(matrix: np.ndarray) -> np.ndarray:
        return matrix.reshape(steps + 1, m, r, m, r).transpose(0, 1, 3, 2, 4)

    return blocks(variance), blocks(start / problem.network.initial_norm)
