r"""One causal pass of linear rules on inputs of several variances: Gaussian conditioning in every eigenspace.

Eigenvalues $s_a$ on fractions $w_a$ of the dimensions. Each eigenspace has its own copy $\xi_{ca}$ of the coordinates
of `conditioned_pass`, and the weights have coefficients $A_{ca}$ on it, scaled by $\sqrt{w_as_a}$ so that fields are
plain sums. With the orthonormalised forces $\varphi_c$ of the sample, $F(t)=\sum_cr_c(t)\varphi_c$, an input has the
component along direction $c$ of eigenspace $a$ $u_{ca}=\xi_{ca}-\sqrt{w_a/\delta}\,\varphi_c$, and

$$V(t)=\sum_{c,a}A_{ca}(t)\,u_{ca},\qquad
G_{ca}(t)=s_a\Big(E[F(t)\xi_{ca}]-\sqrt{w_a/\delta}\,r_c(t)\Big),\qquad A(t+1)=U_t(A(t),G(t)),$$

for every linear rule $U_t$: schedules, momentum, weight decay, mini-batches; activations may have kinks. (Target and
start have no $\varphi_c$.) One eigenspace is `conditioned_pass`; plain steps are those of `causal_pass`, which
propagates responses instead. $O(N(STm)^2)$ operations for $S$ eigenspaces, $4NSmT$ bytes.
"""

from typing import NamedTuple

import numpy as np

from limen.problem import GradientDescent, TwoLayer
from limen.problem.algorithms import move_of, step_sizes
from limen.problem.inputs import InputVariances
from limen.theory.descent.batches import Batches
from limen.theory.descent.causal_pass import start_coefficients
from limen.theory.descent.conditioned_pass import DIVERGED, decompose
from limen.theory.descent.coordinates import Coordinates
from limen.theory.descent.forces import FirstForces, first_forces
from limen.theory.descent.outer_weights import OuterWeights


class BlockRun(NamedTuple):
    r"""What a pass found at steps 0..T: `coefficients` (T+1, m, coordinates, S), $\sqrt{w_as_a}$ included; `train_loss`
    (T+1,); `second_layer`, `bias` (T+1, m). All that follows a divergence is NaN."""

    coefficients: np.ndarray
    train_loss: np.ndarray
    second_layer: np.ndarray
    bias: np.ndarray


def block_pass(
    problem: TwoLayer,
    coordinates: Coordinates,
    variances: InputVariances,
    steps: int,
    batches: Batches | None,
    hard: np.ndarray,
) -> BlockRun:
    """Steps 0..`steps`; overlaps with `hard` (k, r) are kept where they start. `batches` are those of one run."""
    algorithm, network = problem.algorithm, problem.network
    assert isinstance(algorithm, GradientDescent) and problem.samples_per_dim is not None
    k, m, (paths, total, atoms) = problem.target.latents, network.width, coordinates.weights.shape
    given, root = k + m, problem.samples_per_dim**0.5
    scale, share = variances.values, np.sqrt(variances.fractions)
    sizes, (move, numbers) = step_sizes(algorithm, max(steps, 1)), move_of(algorithm)
    normals = np.ascontiguousarray(coordinates.weights.transpose(1, 2, 0), np.float32)
    labels = coordinates.labels.astype(np.float32)
    forces, known = np.empty((total - given, paths), np.float32), 0
    coefficients = np.zeros((steps + 1, m, total, atoms))
    coefficients[0] = start_coefficients(problem, total)[:, :, None] * share * np.sqrt(scale)
    outer, velocity = OuterWeights(problem, steps, (1,)), np.zeros((move.memories, m, total, atoms))
    train_loss = np.full(steps + 1, np.nan)

    for t in range(steps + 1):
        now, active = coefficients[t], given + known
        flat = normals[:active].reshape(-1, paths)
        field = now[:, :active].reshape(m, -1).astype(np.float32) @ flat
        field -= (now[:, given:active] @ share / root).astype(np.float32) @ forces[:known]
        forced = first_forces(network, problem.loss, field[None], labels[None], outer.at(t))
        found = FirstForces(*(part[0] for part in forced))
        train_loss[t] = found.losses.mean(dtype=float)
        if t == steps:
            break
        expected = found.force if batches is None else found.force * batches.expected[t]
        seen = found.force if batches is None else found.force * batches.seen[t]
        gradient = np.zeros((m, total, atoms))
        gradient[:, :active] = (expected @ flat.T / paths).reshape(m, active, atoms)
        gradient[:, :k] -= np.einsum("lk,ika->ila", hard @ hard.T, gradient[:, :k])
        parts, known = decompose(seen, forces, known)
        gradient[:, given : given + known] -= parts[:, :, None] * share / root
        _orthogonalise(normals, forces[:known], range(active, given + known))

        shrink = 1.0 - sizes[t] * algorithm.weight_decay
        new, velocity = move.apply(numbers, sizes[t], shrink, t, now, scale * gradient, velocity)
        if algorithm.spherical:
            lengths = np.sqrt(np.einsum("jca,jca,a->j", new, new, 1.0 / scale))
            new = new * (np.asarray(problem.start_lengths) / lengths)[:, None, None]
        weights = np.ones(paths, np.float32) if batches is None else batches.expected[t]
        outer.advance(t, sizes[t], *((part @ weights / paths)[None] for part in (found.second_layer_pull, found.force)))
        if not np.sum(new**2) < DIVERGED * max(np.sum(coefficients[0] ** 2), 1.0):
            coefficients[t + 1 :] = np.nan
            outer.end(t + 1)
            break
        coefficients[t + 1] = new
    return BlockRun(coefficients[:, :, : given + known], train_loss, outer.second_layer[0], outer.bias[0])


def _orthogonalise(normals: np.ndarray, forces: np.ndarray, new: range) -> None:
    """Makes the coordinates of new directions, in every eigenspace, orthogonal along the paths to all they are
    independent of: coordinates before them, and the forces."""
    atoms, paths = normals.shape[1:]
    flat = normals.reshape(-1, paths)
    for place in range(new.start * atoms, new.stop * atoms):
        column = flat[place] - flat[place].mean()
        for _ in range(2):
            for earlier in (flat[:place], forces):
                column = column - (earlier @ column / np.float32(paths)) @ earlier
        flat[place] = column / np.sqrt(np.mean(column**2))
