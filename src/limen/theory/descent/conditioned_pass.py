r"""One causal pass through the mean-field equations of gradient descent without derivatives: Gaussian conditioning.

The equations of `causal_pass`, with weights $\Theta(t)=A(t)\xi$ on independent coordinates $\xi$. By Stein's lemma
the pull of a sample's own response, $\sum_sR_\ell(t,s)A(s)+R_\ell(t,*)$, is $E[F(t)\xi^\top]$; and with $\varphi_c$ the
orthonormalised forces along the paths, $F(t)=\sum_cr_c(t)\varphi_c$, whose noise $Q=\delta^{-1/2}\sum_cr_c\xi_c$ has
the coordinates $\xi_c$, the memory of a sample is $\sum_sR_\theta(t,s)F(s)=\sqrt\delta\sum_cA_c(t)\varphi_c$. So

$$V(t)=A(t)\xi-\frac1{\sqrt\delta}\sum_cA_c(t)\varphi_c,\qquad
G(t)=E[F(t)\xi^\top]-\frac{r(t)}{\sqrt\delta},\qquad A(t+1)=U_t(A(t),G(t)),$$

for every update rule $U_t$ that is linear (step schedules, momentum, weight decay). No response is needed: forces may
jump (kinked activations), heavy-tailed responses of paths near a separatrix do no harm, and a pass costs $O(N(mT)^2)$
instead of $O(N(mT)^3)$. In exact arithmetic with infinitely many paths it is `causal_pass`.

**Less noise.** $\xi_c$ is independent of $\varphi_1,\dots,\varphi_c$, of the target's coordinates and of all $\xi_b$
before: it is made orthogonal to them along the paths, so that only the part of $F(t)$ that is new since then errs.

**Finite dimension.** With $n=\delta d$ samples the mean over samples of $F(t)V_*^\top$ fluctuates by
$\omega(t)/\sqrt d$, $\mathrm{Cov}(\omega(t),\omega(s))=\frac1\delta\mathrm{Cov}[F(t)\otimes V_*,F(s)\otimes V_*]$. One
standard normal $g_n$ per path draws it for all times at once:
$\omega(t)/\sqrt d=(nN)^{-1/2}\sum_ng_n(F_n(t)V_{*n}^\top-\text{mean})$. The same sum over $\ell$ is what the train loss
of this sample has beyond its mean.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from limen.problem import GradientDescent, TwoLayer
from limen.problem.algorithms import move_of, step_sizes
from limen.theory.descent.batches import Batches
from limen.theory.descent.forces import first_forces

# A gradient whose new part is smaller than this is taken as within the span of those before: 1e-4 of the memory.
NEW_DIRECTION = 1e-3
# Weights this many times longer than at the start have diverged.
DIVERGED = 1e6


class Points(NamedTuple):
    """Coordinates of N paths, float32.

    `normals` (coordinates, N): k of the target, m of the start, then one for each direction of the gradients; a pass
    orthogonalises the latter in place, so that points serve once. `labels` (N,). `hard` (k, r): directions whose
    overlaps are pinned, or watched for the error of the paths.
    """

    normals: np.ndarray
    labels: np.ndarray
    hard: np.ndarray


class Sampling(NamedTuple):
    r"""What a sample of its own adds to the mean over paths: normals $g_n/\sqrt{nN}$, centred, (N,); None for
    $d=\infty$. `batches`: which paths each step sees."""

    luck: np.ndarray | None = None
    batches: Batches | None = None


class Run(NamedTuple):
    r"""What a pass found at steps 0..T.

    `coefficients` (T+1, m, coordinates): $A$, those of the target first, then of the start. `train_loss` (T+1,).
    `second_layer` (T+1, m). `stray` (T, m, r): mean of $F\,U$ over the standard deviation, $U$ the pinned coordinates:
    an error of the paths. `diverged`: the first step at which the weights were not finite any more, or None.
    """

    coefficients: np.ndarray
    train_loss: np.ndarray
    second_layer: np.ndarray
    stray: np.ndarray
    diverged: int | None


def conditioned_pass(
    problem: TwoLayer,
    points: Points,
    start: np.ndarray,
    steps: int,
    sampling: Sampling,
    pinned: bool,
    advance: Callable[[int], None] = lambda step: None,
) -> Run:
    r"""Steps 0..`steps` from the coefficients `start` (m, k+m) of target and start.

    `pinned` keeps overlaps with `points.hard` where they start, as in the limit $d\to\infty$ from zero: there the noise
    of the paths would grow exponentially.
    """
    algorithm, network = problem.algorithm, problem.network
    lengths = np.asarray(problem.start_lengths)[:, None]
    assert isinstance(algorithm, GradientDescent) and problem.samples_per_dim is not None
    normals, (total, paths) = points.normals, points.normals.shape
    k, m = problem.target.latents, network.width
    latent, given = normals[:k], k + m
    root = problem.samples_per_dim**0.5
    sizes, (move, numbers) = step_sizes(algorithm, steps), move_of(algorithm)
    bias = np.asarray(network.per_neuron("bias"), np.float32)
    forces, known = np.empty((total - given, paths), np.float32), 0
    coefficients = np.zeros((steps + 1, m, total))
    coefficients[0, :, :given] = start
    second_layer = np.tile(np.asarray(network.per_neuron("second_layer"), dtype=float), (steps + 1, 1))
    velocity, second_velocity = np.zeros((move.memories, m, total)), np.zeros((move.memories, m))
    train_loss, stray = np.full(steps + 1, np.nan), np.zeros((steps, m, points.hard.shape[1]))
    luck, batches = sampling
    diverged = None

    for t in range(steps + 1):
        now, active = coefficients[t], given + known
        field = now[:, :active].astype(np.float32) @ normals[:active]
        if known:
            field -= (now[:, given:active] / root).astype(np.float32) @ forces[:known]
        found = first_forces(
            network.activation, problem.loss, field, points.labels, second_layer[t].astype(np.float32), bias
        )
        train_loss[t] = found.losses.mean(dtype=float)
        if luck is not None:
            train_loss[t] += luck @ found.losses
        if t == steps:
            break
        force = found.force if batches is None else found.force * batches.expected[t]
        seen = found.force if batches is None else found.force * batches.seen[t]

        gradient = np.zeros((m, total))
        gradient[:, :active] = (normals[:active] @ force.T).T / paths
        if points.hard.size:
            along = gradient[:, :k] @ points.hard
            square = (points.hard.T @ latent) ** 2 @ (force**2).T / paths
            stray[t] = along / np.sqrt(np.maximum(square.T - along**2, 1e-30))
            if pinned:
                gradient[:, :k] -= along @ points.hard.T
        if luck is not None:
            gradient[:, :k] += (latent @ (seen * luck).T).T
        parts, known = decompose(seen, forces, known)
        gradient[:, given : given + known] -= parts / root
        _orthogonalise(normals, forces, given, active - given, known)

        shrink = 1.0 - sizes[t] * algorithm.weight_decay
        new, velocity = move.apply(numbers, sizes[t], shrink, t, now, gradient, velocity)
        if algorithm.spherical:
            new = new * (lengths / np.linalg.norm(new, axis=1, keepdims=True))
        coefficients[t + 1] = new
        if network.train_second_layer:
            weights = np.ones(paths, np.float32) if batches is None else batches.expected[t]
            pull = found.second_layer_pull @ weights / paths
            second_layer[t + 1], second_velocity = move.apply(
                numbers, sizes[t], 1.0, t, second_layer[t], pull, second_velocity
            )
        if not np.sum(new**2) < DIVERGED * max(np.sum(coefficients[0] ** 2), 1.0):
            diverged = t + 1
            for array in (coefficients, second_layer, train_loss):
                array[t + 1 :] = np.nan
            break
        advance(t)
    return Run(coefficients[:, :, : given + known], train_loss, second_layer, stray, diverged)


def decompose(vectors: np.ndarray, basis: np.ndarray, known: int) -> tuple[np.ndarray, int]:
    """Coefficients (m, directions) of path vectors (m, N) on an orthonormal basis that is extended by what is new.

    `basis` (most, N) holds `known` vectors of mean square one, and is written to. Gram–Schmidt, twice.
    """
    m, paths = vectors.shape
    parts = np.zeros((m, known + m))
    lengths = np.sqrt(np.mean(vectors**2, axis=1, dtype=float))
    rest, new = vectors.copy(), known
    for _ in range(2):
        inside = rest @ basis[:known].T / paths
        parts[:, :known] += inside
        rest -= inside @ basis[:known]
    for j in range(m):
        for _ in range(2):
            inside = rest[j] @ basis[known:new].T / paths
            parts[j, known:new] += inside
            rest[j] -= inside @ basis[known:new]
        norm = np.sqrt(np.mean(rest[j] ** 2, dtype=float))
        if norm > NEW_DIRECTION * lengths[j] and new < len(basis):
            basis[new], parts[j, new] = rest[j] / norm, norm
            new += 1
    return parts[:, :new], new


def _orthogonalise(normals: np.ndarray, forces: np.ndarray, given: int, known: int, new: int) -> None:
    """Makes coordinates of the directions `known`..`new` orthogonal along the paths to all they are independent of."""
    paths = normals.shape[1]
    for c in range(known, new):
        column = normals[given + c] - normals[given + c].mean()
        for _ in range(2):
            column -= (normals[: given + c] @ column / paths) @ normals[: given + c]
            column -= (forces[:new] @ column / paths) @ forces[:new]
        normals[given + c] = column / np.sqrt(np.mean(column**2, dtype=float))
