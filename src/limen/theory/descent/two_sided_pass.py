r"""One causal pass of descent by any rule that treats entries alone: Gaussian conditioning on both sides of the data.

For Adam, signs or clipping the weights are not Gaussian, and their law is carried by paths of their own: $N$
**samples** and $N$ **entries**. With inputs $X\in R^{n\times d}$ the fields are $V(t)=X\theta(t)$ and the gradient
$G(t)=\frac{\sqrt d}nX^\top F(t)$, $\theta=\Theta/\sqrt d$. Keep the weights so far on an orthonormal basis of entry
vectors, $\Theta(t)=\sum_cA_c(t)e_c$, the forces on one of sample vectors, $F(t)=\sum_br_b(t)\varphi_b$, and the images
$v_c=Xe_c/\sqrt d$, $g_b=\frac{\sqrt d}nX^\top\varphi_b$. Then

$$V(t)=\sum_cA_c(t)v_c,\qquad G(t)=\sum_br_b(t)g_b,\qquad
(\Theta,\text{memory})(t+1)=U_t(\Theta(t),G(t),\text{memory}),$$

and both sides know the same about $X$: $E_\text{samples}[v_c\varphi_b]=E_\text{entries}[g_be_c]$. What is not known yet
is fresh Gaussian: for a new direction of the weights, and for a new direction of the forces,

$$v_c=\xi_c+\sum_{b}E[g_be_c]\,\varphi_b,\qquad g_b=\frac{\zeta_b}{\sqrt\delta}+\sum_cE[v_c\varphi_b]\,e_c,$$

sums over what came before, $\xi_c,\zeta_b$ standard normal and orthogonal to it along the paths. No response and no
derivative is needed: rules and forces may jump. In the limit of many paths these are the mean-field equations of
general first-order methods (Celentano, Cheng & Montanari 2021; Gerbelot et al. 2022). $O(N(mT)^2)$ operations,
$24NmT$ bytes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from limen.problem import GradientDescent, SignDescent, TwoLayer
from limen.problem.algorithms import Descent, move_of, step_sizes
from limen.theory.descent.batches import Batches
from limen.theory.descent.conditioned_pass import DIVERGED, Points, Run, decompose
from limen.theory.descent.forces import FirstForces, first_forces
from limen.theory.descent.outer_weights import OuterWeights


class Entries(NamedTuple):
    r"""Coordinates of N entries of the weights, float32.

    `target` (k, N): $\Theta_*$, orthonormal along the paths, and `start` (m, N), orthonormal too and to it. `normals`
    (directions, N): one row for each direction of the forces, still to be orthogonalised.
    """

    target: np.ndarray
    start: np.ndarray
    normals: np.ndarray


def two_sided_pass(
    problem: TwoLayer,
    samples: Points,
    entries: Entries,
    start: np.ndarray,
    steps: int,
    batches: Batches | None,
    pinned: bool,
    advance: Callable[[int], None] = lambda step: None,
) -> Run:
    r"""Steps 0..`steps` from the coefficients `start` (m, k+m) of target and start.

    `pinned` keeps overlaps with `samples.hard` where they start. Both sets of points serve once: they are
    orthogonalised in place.
    """
    algorithm, network = problem.algorithm, problem.network
    lengths = np.asarray(problem.start_lengths)[:, None]
    assert isinstance(algorithm, Descent) and problem.samples_per_dim is not None
    k, m, paths = problem.target.latents, network.width, samples.normals.shape[1]
    given, most = k + m, len(entries.normals)
    root = np.float32(problem.samples_per_dim**0.5)
    sizes, (move, numbers) = step_sizes(algorithm, max(steps, 1)), move_of(algorithm)
    decay = 0.0 if isinstance(algorithm, SignDescent) else algorithm.weight_decay
    spherical = isinstance(algorithm, GradientDescent) and algorithm.spherical

    # Weights and their fields; forces and their gradients. Images are written over the normals they are made of.
    fields, directions, known = samples.normals, np.empty_like(samples.normals), given
    directions[:k], directions[k:given] = entries.target, entries.start
    forces, gradients, met = np.empty((most, paths), np.float32), entries.normals, 0
    seen_samples, seen_entries = Span(given + 2 * most, paths), Span(given + 2 * most, paths)
    seen_samples.add(fields[:given])
    seen_entries.add(directions[:given])
    hard = samples.hard.astype(np.float32)
    weights = start.astype(np.float32) @ directions[:given]
    memory = np.zeros((move.memories, m, paths), np.float32)
    coefficients = np.zeros((steps + 1, m, given + most))
    outer = OuterWeights(problem, steps, (1,), apply=partial(_moved, move.apply))
    train_loss, diverged = np.full(steps + 1, np.nan), None

    for t in range(steps + 1):
        if pinned:
            stray = (weights @ directions[:k].T / paths - start[:, :k].astype(np.float32)) @ hard
            weights = weights - stray @ hard.T @ directions[:k]
        before = known
        parts, known = decompose(weights, directions, known)
        coefficients[t, :, :known] = parts
        seen_entries.add(directions[before:known])
        for c in range(before, known):
            fresh = seen_samples.add_fresh(fields[c])
            fields[c] = fresh + (gradients[:met] @ directions[c] / paths) @ forces[:met]
        field = parts.astype(np.float32) @ fields[:known]
        forced = first_forces(network, problem.loss, field[None], samples.labels[None], outer.at(t))
        found = FirstForces(*(part[0] for part in forced))
        train_loss[t] = found.losses.mean(dtype=float)
        if t == steps:
            break

        expected = found.force if batches is None else found.force * batches.expected[t]
        seen = found.force if batches is None else found.force * batches.seen[t]
        common = fields[:known] @ expected.T / paths
        if pinned:
            common[:k] -= hard @ (hard.T @ common[:k])
        before = met
        parts, met = decompose(seen, forces, met)
        seen_samples.add(forces[before:met])
        for b in range(before, met):
            # The neuron whose force showed this direction; its mean with the fields, less what older directions have.
            j = np.flatnonzero(parts[:, b])[0]
            older = directions[:known] @ (parts[j, :b].astype(np.float32) @ gradients[:b]) / paths
            fresh = seen_entries.add_fresh(gradients[b])
            gradients[b] = fresh / root + ((common[:, j] - older) / parts[j, b]).astype(np.float32) @ directions[:known]
        gradient = parts.astype(np.float32) @ gradients[:met]

        shrink = 1.0 - sizes[t] * decay
        weights, memory = _moved(move.apply, numbers, sizes[t], shrink, t, weights, gradient, memory)
        if spherical:
            weights = weights * (lengths / np.sqrt(np.mean(weights**2, axis=1, keepdims=True)))
        share = np.ones(paths, np.float32) if batches is None else batches.expected[t]
        outer.advance(t, sizes[t], *((part @ share / paths)[None] for part in (found.second_layer_pull, found.force)))
        if not np.sum(weights**2, dtype=float) / paths < DIVERGED * max(np.sum(start**2), 1.0):
            diverged = t + 1
            coefficients[t + 1 :] = np.nan
            outer.end(t + 1)
            break
        advance(t)
    moved = (outer.second_layer[0], outer.bias[0])
    return Run(coefficients[:, :, :known], train_loss, *moved, np.zeros((steps, m, 0)), diverged)


class Span:
    """All that has been seen along the paths, on an orthonormal basis."""

    def __init__(self, most: int, paths: int) -> None:
        self.basis, self.count = np.empty((most, paths), np.float32), 0

    def add(self, vectors: np.ndarray) -> None:
        """Adds vectors (any number, N)."""
        _, self.count = decompose(vectors, self.basis, self.count)

    def add_fresh(self, normals: np.ndarray) -> np.ndarray:
        """Normals (N,) made orthogonal to the mean and to all that has been seen, of mean square one; added."""
        fresh, paths = normals - normals.mean(), normals.size
        for _ in range(2):
            fresh = fresh - (self.basis[: self.count] @ fresh / paths) @ self.basis[: self.count]
        fresh = fresh / np.sqrt(np.mean(fresh**2, dtype=float)).astype(np.float32)
        self.basis[self.count] = fresh
        self.count += 1
        return fresh


def _moved(
    apply: Any, numbers: Any, step: Any, shrink: Any, done: int, entry: Any, gradient: Any, memory: Any
) -> tuple[Any, Any]:
    kind = entry.dtype.type
    new, kept = _compiled(apply, tuple(map(kind, numbers)), kind(step), kind(shrink), done, entry, gradient, memory)
    return np.asarray(new), np.asarray(kept)


@partial(jax.jit, static_argnums=0)
def _compiled(apply: Any, *arguments: Any) -> tuple[Any, Any]:
    return apply(*arguments)
