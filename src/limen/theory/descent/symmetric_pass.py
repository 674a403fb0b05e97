r"""`conditioned_pass` for neurons that are equal in law: what they share, and what each has of its own.

Neurons of one group have the same second layer and bias and start independently. An orthogonal change of basis among
the $J$ neurons of a group leaves the equations of `conditioned_pass` as they are; with the mean over the group as first
basis vector, symmetry under permutations makes all other directions equal in law and independent of the shared ones:

$$V_j(t)=P(t)\Big(\xi-\frac{\varphi}{\sqrt\delta}\Big)+q(t)\Big(\xi'_j-\frac{\varphi'_j}{\sqrt\delta}\Big),\qquad
F_j=\bar F+F'_j,\qquad \bar F=\sum_cr_c\varphi_c,\quad F'_j=\sum_cr'_c\varphi'_{c,j},$$

$\sum_jF'_j=0$, with shared coordinates $\xi$ (the target's among them) and the neurons' own $\xi'_j$, standard normals
less their mean over the group. The gradients are $E[\bar F\xi^\top]-r/\sqrt\delta$ and
$\frac1{J-1}E\sum_jF'_j\xi_j'^\top-r'/\sqrt\delta$. This is exact for every number of neurons, at cost $O(NmT^2)$
instead of $O(N(mT)^2)$. Groups of one neuron each are `conditioned_pass`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from limen.problem import GradientDescent, TwoLayer
from limen.problem.algorithms import move_of, step_sizes
from limen.theory.descent.batches import Batches
from limen.theory.descent.conditioned_pass import DIVERGED, decompose, orthogonalise
from limen.theory.descent.forces import first_forces, fresh_losses
from limen.theory.descent.outer_weights import OuterWeights

# Decays of the first and of the second layer at a step.
Decays = Callable[[int], tuple[float, float]]


class SymmetricPoints(NamedTuple):
    r"""`shared` (coordinates, N): k of the target, one per group of the start, then one for each shared direction of
    the gradients. `own`: for each group its neurons' coordinates (1 + steps, J·N), zero-sum over neurons, of mean
    square one. Both are orthogonalised in place. `labels`, `clean_labels` (N,). `hard` (k, r): pinned directions."""

    shared: np.ndarray
    own: list[np.ndarray]
    labels: np.ndarray
    clean_labels: np.ndarray
    hard: np.ndarray


class SymmetricRun(NamedTuple):
    r"""Steps 0..T of G groups: `shared` (T+1, G, coordinates) is $P$, the target's k coordinates first; `own`
    (T+1, G, 1 + T) is $q$; `train_loss` (T+1,), `fresh_loss` (T+1, 2), `second_layer`, `bias` (T+1, G); `diverged`: the
    first step with weights that are not finite, or None."""

    shared: np.ndarray
    own: np.ndarray
    train_loss: np.ndarray
    fresh_loss: np.ndarray
    second_layer: np.ndarray
    bias: np.ndarray
    diverged: int | None


def symmetric_pass(
    problem: TwoLayer,
    counts: tuple[int, ...],
    points: SymmetricPoints,
    start: tuple[np.ndarray, np.ndarray],
    steps: int,
    batches: Batches | None,
    decays: Decays | None = None,
) -> SymmetricRun:
    """Groups of `counts` neurons, in the order of the problem's network, which has as many neurons in all.

    `start`: shared (G, k + G) and own (G,) coefficients. `decays`: of the two layers at a step, in place of the
    algorithm's own.
    """
    algorithm, network = problem.algorithm, problem.network
    assert isinstance(algorithm, GradientDescent) and problem.samples_per_dim is not None
    groups, k, paths = len(counts), problem.target.latents, points.labels.size
    root, given = problem.samples_per_dim**0.5, k + groups
    ends = np.cumsum((0, *counts))
    # Own parts are stored with mean square one over neurons and paths; zero-sum parts have (J - 1)/J.
    sizes = np.sqrt([(count - 1) / count for count in counts])
    rates, (move, numbers) = step_sizes(algorithm, steps), move_of(algorithm)
    shared = np.zeros((steps + 1, groups, points.shared.shape[0]))
    own = np.zeros((steps + 1, groups, steps + 1))
    shared[0, :, :given], own[0, :, 0] = start
    lengths = _squares(shared[0], own[0], sizes)
    outer = OuterWeights(problem, steps, (), ends[:-1])
    forces, met = np.empty((points.shared.shape[0] - given, paths), np.float32), 0
    own_forces = [np.empty((steps, part.shape[1]), np.float32) for part in points.own]
    own_met = [0] * groups
    memory = [np.zeros((move.memories, *part.shape[1:])) for part in (shared, own)]
    train_loss, fresh_loss, diverged = np.full(steps + 1, np.nan), np.full((steps + 1, 2), np.nan), None

    for t in range(steps + 1):
        active, (second, bias) = given + met, outer.at(t)
        neurons = (np.repeat(second, counts)[None], np.repeat(bias, counts)[None])
        fresh = _fields(shared[t, :, :active], own[t], points.shared, points.own, own_met, sizes, counts)
        field = fresh
        if met:
            past = _fields(shared[t, :, given:active], own[t, :, 1:], forces, own_forces, own_met, sizes, counts, 0)
            field = fresh - past / np.float32(root)
        labels, clean = points.labels[None], points.clean_labels[None]
        fresh_loss[t] = fresh_losses(network, problem.loss, fresh[None], labels, clean, neurons)[0]
        found = first_forces(network, problem.loss, field[None], labels, neurons)
        train_loss[t] = found.losses.mean(dtype=float)
        if t == steps:
            break
        expected, seen = (
            (found.force[0], found.force[0])
            if batches is None
            else (found.force[0] * batches.expected[t], found.force[0] * batches.seen[t])
        )
        slices = [slice(ends[g], ends[g + 1]) for g in range(groups)]
        pull, push = (np.stack([part[one].mean(axis=0) for one in slices]) for part in (expected, seen))
        gradient = np.zeros(shared.shape[1:])
        gradient[:, :active] = pull @ points.shared[:active].T / paths
        gradient[:, :k] -= gradient[:, :k] @ points.hard @ points.hard.T
        before = met
        parts, met = decompose(push, forces, met)
        gradient[:, given : given + met] -= parts / root
        orthogonalise(points.shared[None], forces[None], given, before, met)

        own_gradient = np.zeros(own.shape[1:])
        for g, one in enumerate(slices):
            if counts[g] == 1:
                continue
            apart, shown = ((part[one] - mean[g]).reshape(1, -1) for part, mean in ((expected, pull), (seen, push)))
            before = own_met[g]
            own_gradient[g, : 1 + before] = apart @ points.own[g][: 1 + before].T / apart.size
            parts, own_met[g] = decompose(shown, own_forces[g], before)
            own_gradient[g, 1 : 1 + own_met[g]] -= parts[0] / root
            own_gradient[g] /= sizes[g]
            orthogonalise(points.own[g][None], own_forces[g][None], 1, before, own_met[g])

        decay, second_decay = (algorithm.weight_decay, 0.0) if decays is None else decays(t)
        shrink = 1.0 - rates[t] * decay
        shared[t + 1], memory[0] = move.apply(numbers, rates[t], shrink, t, shared[t], gradient, memory[0])
        own[t + 1], memory[1] = move.apply(numbers, rates[t], shrink, t, own[t], own_gradient, memory[1])
        if algorithm.spherical:
            factor = np.sqrt(lengths / _squares(shared[t + 1], own[t + 1], sizes))[:, None]
            shared[t + 1], own[t + 1] = factor * shared[t + 1], factor * own[t + 1]
        weights = np.ones(paths, np.float32) if batches is None else batches.expected[t]
        pulls = [part[0] @ weights / paths for part in (found.second_layer_pull, found.force)]
        pull_second, shift = (np.array([part[one].mean(dtype=float) for one in slices]) for part in pulls)
        outer.advance(t, rates[t], pull_second + second_decay * outer.at(t)[0], shift)
        if not _squares(shared[t + 1], own[t + 1], sizes).max() < DIVERGED * max(lengths.max(), 1.0):
            diverged = t + 1
            shared[t + 1 :], own[t + 1 :] = np.nan, np.nan
            outer.end(t + 1)
            break
    return SymmetricRun(shared, own, train_loss, fresh_loss, outer.second_layer, outer.bias, diverged)


def _fields(
    shared: np.ndarray,
    own: np.ndarray,
    coordinates: np.ndarray,
    own_coordinates: list[np.ndarray],
    met: list[int],
    sizes: np.ndarray,
    counts: tuple[int, ...],
    first: int = 1,
) -> np.ndarray:
    """Shared and own coefficients (G, ...) times their coordinates: fields (neurons, N). `first`: own coordinates
    beside the `met` directions of the gradients."""
    common = shared.astype(np.float32) @ coordinates[: shared.shape[1]]
    parts = []
    for g, count in enumerate(counts):
        part = np.repeat(common[g : g + 1], count, axis=0)
        known = first + met[g]
        if count > 1 and known:
            weights = (sizes[g] * own[g, :known]).astype(np.float32)
            part += (weights @ own_coordinates[g][:known]).reshape(count, -1)
        parts.append(part)
    return np.concatenate(parts)


def _squares(shared: np.ndarray, own: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Squared length of a neuron of each group."""
    return (shared**2).sum(axis=-1) + sizes**2 * (own**2).sum(axis=-1)
