r"""Fluctuations of the overlaps with hard directions at finite dimension.

Along a hard direction $u$ of the target overlaps vanish as $d\to\infty$, but $\vartheta(t)=\sqrt d\,\theta(t)\cdot u$
has a limit, a Gaussian process driven by the same paths (coordinate $U=u\cdot V_*$):

$$\vartheta(t+1)=(1-\eta\lambda)\vartheta(t)-\eta\sum_{s\le t}\tilde R(t,s)\vartheta(s)+\eta\tilde Q(t),\qquad
\tilde R(t,s)=\eta^{-1}E[F'(t)D(t,s)\,U^2],\qquad
\mathrm{Cov}\,\tilde Q(t,s)=\frac1{\delta\eta^2}E[F(t)F(s)^\top U^2],$$

from $\vartheta(0)\sim N(0,I_m)$. With $r$ hard directions $U^2$ becomes $UU^\top$ and blocks have size $mr$.

On inputs of several variances $s_a$ with fractions $w_a$ every eigenspace has its own process $c_a=\sqrt{s_a}\,\sqrt
d\,\theta\cdot\hat u_a$, $\hat u_a$ the direction of $u$ there. With $A_a=\sqrt{w_as_a}$ and $R$ the memory without $U$,
$$c_a(t+1)=(1-\eta\lambda)c_a(t)-\eta s_a\sum_{s\le t}\Big[R(t,s)c_a(s)
+A_a(\tilde R-R)(t,s)\sum_bA_bc_b(s)\Big]+\eta s_a\xi_a(t),$$
$\mathrm{Cov}(\xi_a,\xi_b)=\frac1{\delta\eta^2}\big((\delta_{ab}-A_aA_b)E[FF^\top]+A_aA_bE[FF^\top U^2]\big)$, and
$\vartheta=\sum_a\sqrt{w_a/s_a}\,c_a$ from $c_a(0)\sim N(0,s_a)$.
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
    `initial_norm`, and for $\Phi_0$ spread evenly over the eigenspaces. Cost $O(T^3(Smr)^3)$, no new paths.
    """
    algorithm, m, r = problem.algorithm, problem.network.width, hard.shape[1]
    assert isinstance(algorithm, GradientDescent) and problem.samples_per_dim is not None
    eta, size, (s, w) = constant_step(algorithm), m * r, problem.inputs.spectrum
    steps = len(found.force)
    spread = np.sqrt(w * s)
    plain = np.einsum("tsij,ab->tsiajb", found.loss_response[0], np.eye(r)).reshape(steps, steps, size, size)
    memory = found.loss_response[1:].reshape(r, r, steps, steps, m, m).transpose(2, 3, 4, 0, 5, 1)
    memory = memory.reshape(steps, steps, size, size)
    noise = _noise(problem, found.force, latent @ hard, spread)
    # Columns: the start's Smr coordinates, then the noise of each step.
    whole = s.size * size
    linear = np.zeros((steps + 1, s.size, size, (steps + 1) * whole))
    starts = np.sqrt(s)[:, None] * np.eye(s.size)
    linear[0, :, :, :whole] = problem.network.initial_norm * np.einsum("ab,ij->aibj", starts, np.eye(size)).reshape(
        s.size, size, whole
    )
    for t in range(steps):
        past = linear[: t + 1]
        along = np.einsum("b,sbjc->sjc", spread, past)
        pulled = np.einsum("sij,sajc->aic", plain[t, : t + 1], past)
        turned = np.einsum("sij,sjc->ic", (memory - plain)[t, : t + 1], along)
        drift = pulled + spread[:, None, None] * turned
        new = (1.0 - eta * algorithm.weight_decay) * linear[t] - eta * s[:, None, None] * drift
        own = new[:, :, (t + 1) * whole : (t + 2) * whole].reshape(s.size, size, s.size, size)
        own += eta * np.einsum("ab,ij->aibj", np.diag(s), np.eye(size))
        linear[t + 1] = new / np.repeat(found.lengths[t], r)[:, None]
    summed = np.einsum("a,taic->tic", np.sqrt(w / s), linear)
    start, driven = summed[:, :, :whole], summed[:, :, whole:]
    variance = start @ start.transpose(0, 2, 1) + np.einsum("tic,ce,tje->tij", driven, noise, driven, optimize=True)
    even = np.einsum("tiaj,a->tij", start.reshape(steps + 1, size, s.size, size), np.sqrt(w))

    def blocks(matrix: np.ndarray) -> np.ndarray:
        return matrix.reshape(steps + 1, m, r, m, r).transpose(0, 1, 3, 2, 4)

    return blocks(variance), blocks(even / problem.network.initial_norm)


def _noise(problem: TwoLayer, force: np.ndarray, hard: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Covariance of the noise of all steps and eigenspaces, both sides (steps, S, m, r); `hard` (paths, r)."""
    steps, m, paths = force.shape
    assert problem.samples_per_dim is not None
    samples = paths * problem.samples_per_dim
    weighted = np.einsum("tin,na->tian", force, hard).reshape(-1, paths)
    along = (weighted @ weighted.T / samples).reshape(steps, m * hard.shape[1], steps, m * hard.shape[1])
    flat = force.reshape(-1, paths)
    across = np.einsum("tisj,ab->tiasjb", (flat @ flat.T / samples).reshape(steps, m, steps, m), np.eye(hard.shape[1]))
    across = across.reshape(along.shape)
    shares = np.outer(spread, spread)
    found = np.einsum("ab,tisj->taisbj", shares, along)
    found += np.einsum("ab,tisj->taisbj", np.eye(spread.size) - shares, across)
    return found.reshape((steps * spread.size * along.shape[1],) * 2)
