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
of this sample has beyond its mean. What decides an escape is $\omega$ of the first steps: $\sum_ng_nb_n$ along the
orthonormalised path vectors $b$ of $\ell(0),F(0)V_*,F(1)V_*,\dots$ may be given instead of drawn, so that runs share
them out evenly.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from limen.problem import GradientDescent, TwoLayer
from limen.problem.algorithms import move_of, step_sizes
from limen.theory.descent.batches import Batches
from limen.theory.descent.forces import first_forces, fresh_losses
from limen.theory.descent.outer_weights import OuterWeights

# A gradient whose new part is smaller than this is taken as within the span of those before: 1e-4 of the memory.
NEW_DIRECTION = 1e-3
# Weights this many times longer than at the start have diverged.
DIVERGED = 1e6


class Points(NamedTuple):
    """Coordinates of the N paths of B runs side by side, float32.

    `normals` (B, coordinates, N): k of the target, m of the start, then one for each direction of the gradients; a pass
    orthogonalises the latter in place, so that points serve once. `labels` and `clean_labels` (B, N): with and without
    additive noise. `hard` (k, r): directions whose overlaps are pinned, or watched for the error of the paths.
    `later(begin, end)`, where it is given, draws the coordinates (B, end - begin, N) of these directions of the
    gradients, which `normals` then only has room for: smooth forces soon have nothing new.
    """

    normals: np.ndarray
    labels: np.ndarray
    clean_labels: np.ndarray
    hard: np.ndarray
    later: Callable[[int, int], np.ndarray] | None = None

    def row(self, i: int) -> "Points":
        """Those of one run, without its axis."""
        assert self.later is None
        return Points(self.normals[i], self.labels[i], self.clean_labels[i], self.hard)

    def again(self, given: int, directions: int) -> "Points":
        """The same points for another pass that meets at most so many directions beside those `given`."""
        assert self.later is not None
        count, _, paths = self.normals.shape
        normals = np.empty((count, given + directions, paths), np.float32)
        normals[:, :given] = self.normals[:, :given]
        return self._replace(normals=normals)


class Sampling(NamedTuple):
    r"""What a sample of its own adds to the mean over paths: normals $g_n/\sqrt{nN}$, centred, (B, N); None for
    $d=\infty$. `batches`: which paths each step sees, (B, steps, N). `decisive` (B, c): standard normals over
    $\sqrt{nN}$ to take the place of `luck` along the losses at the start and the first c - 1 directions of $FV_*$;
    None leaves it as drawn."""

    luck: np.ndarray | None = None
    batches: Batches | None = None
    decisive: np.ndarray | None = None


class Snapshot(NamedTuple):
    r"""What all paths are at one step: fields (B, m, N); `coordinates` (B, c, N), the components $u$ of a sample's
    input along the orthonormal directions that the weights have taken (target, start, then
    $\xi_c-\varphi_c/\sqrt\delta$ for the gradients'); `forces` (B, f, N), the $\varphi$; `second_layer` (B, m)."""

    field: np.ndarray
    coordinates: np.ndarray
    forces: np.ndarray
    second_layer: np.ndarray


class Run(NamedTuple):
    """One of `Runs`, without its axis; `diverged` is None where it is finite."""

    coefficients: np.ndarray
    train_loss: np.ndarray
    second_layer: np.ndarray
    bias: np.ndarray
    stray: np.ndarray
    diverged: int | None


class Runs(NamedTuple):
    r"""What a pass found at steps 0..T, for each of B runs.

    `coefficients` (B, T+1, m, coordinates): $A$, those of the target first, then of the start. `train_loss` (B, T+1);
    `fresh_loss` (B, T+1, 2): on fresh inputs, whose fields are $A(t)\xi$ without the memory, against labels with and
    without additive noise. `second_layer`, `bias` (B, T+1, m). `stray` (B, T, m, r): mean of $F\,U$ over its standard
    deviation, $U$ the coordinates along `hard`: with pinned overlaps an error of the paths. `diverged` (B,): the first
    step at which weights were not finite any more (all that follows is NaN), -1 where there is none.
    """

    coefficients: np.ndarray
    train_loss: np.ndarray
    fresh_loss: np.ndarray
    second_layer: np.ndarray
    bias: np.ndarray
    stray: np.ndarray
    diverged: np.ndarray

    def row(self, i: int) -> Run:
        """One of the runs."""
        diverged = int(self.diverged[i]) if self.diverged[i] >= 0 else None
        outer = (self.second_layer[i], self.bias[i])
        return Run(self.coefficients[i], self.train_loss[i], *outer, self.stray[i], diverged)


# The forces of a run about to be lost leave single precision; the run is then set to zero and said to diverge.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def conditioned_pass(
    problem: TwoLayer,
    points: Points,
    start: np.ndarray,
    steps: int,
    sampling: Sampling,
    pinned: bool,
    watch: Callable[[int, Snapshot], None] | None = None,
    penalty: Callable[[int], tuple[np.ndarray, float]] | None = None,
    fresh: Collection[int] | None = None,
) -> Runs:
    r"""Steps 0..`steps` from the coefficients `start` (B, m, k+m) of target and start.

    `pinned` keeps overlaps with `points.hard` where they start, as in the limit $d\to\infty$ from zero: there the noise
    of the paths would grow exponentially. `watch` is shown every step. `penalty` gives for a step a matrix $\Lambda$
    over the neurons and a number $\lambda$: $\Lambda\theta$ and $\lambda a$ are added to the gradients. `fresh` are the
    steps at which losses on fresh inputs are wanted, all by default; elsewhere they are NaN.
    """
    algorithm, network = problem.algorithm, problem.network
    assert isinstance(algorithm, GradientDescent) and problem.samples_per_dim is not None
    normals, (count, total, paths) = points.normals, points.normals.shape
    k, m = problem.target.latents, network.width
    latent, given = normals[:, :k], k + m
    root = problem.samples_per_dim**0.5
    sizes, (move, numbers) = step_sizes(algorithm, steps), move_of(algorithm)
    forces, known = np.empty((count, total - given, paths), np.float32), 0
    coefficients = np.zeros((count, steps + 1, m, total))
    coefficients[:, 0, :, :given] = start
    outer, velocity = OuterWeights(problem, steps, (count,)), np.zeros((move.memories, count, m, total))
    train_loss, stray = np.full((count, steps + 1), np.nan), np.zeros((count, steps, m, points.hard.shape[1]))
    fresh_loss = np.full((count, steps + 1, 2), np.nan)
    luck, batches, decisive = sampling
    pushes = None if decisive is None else np.empty((*decisive.shape, paths), np.float32)
    pushed = 0
    diverged = np.full(count, -1)
    along_hard = (points.hard.T.astype(np.float32) @ latent) ** 2

    for t in range(steps + 1):
        now, active = coefficients[:, t], given + known
        field = now[..., :active].astype(np.float32) @ normals[:, :active]
        if fresh is None or t in fresh:
            labels = (points.labels, points.clean_labels)
            fresh_loss[:, t] = fresh_losses(network, problem.loss, field, *labels, outer.at(t))
        if known:
            field -= (now[..., given:active] / root).astype(np.float32) @ forces[:, :known]
        if watch is not None:
            seen_along = normals[:, :active].copy()
            seen_along[:, given:] -= forces[:, :known] / np.float32(root)
            watch(t, Snapshot(field, seen_along, forces[:, :known], outer.at(t)[0]))
        found = first_forces(network, problem.loss, field, points.labels, outer.at(t))
        train_loss[:, t] = found.losses.mean(axis=1, dtype=float)
        if luck is not None:
            if t == 0 and decisive is not None and pushes is not None:
                luck, pushed = _decided(luck, decisive, found.losses[:, None], pushes, pushed)
            train_loss[:, t] += (luck * found.losses).sum(axis=1, dtype=float)
        if t == steps:
            break
        force = found.force if batches is None else found.force * batches.expected[:, t, None]
        seen = found.force if batches is None else found.force * batches.seen[:, t, None]

        gradient = np.zeros((count, m, total))
        gradient[..., :active] = force @ normals[:, :active].transpose(0, 2, 1) / paths
        if points.hard.size:
            along = gradient[..., :k] @ points.hard
            square = force**2 @ along_hard.transpose(0, 2, 1) / paths
            stray[:, t] = along / np.sqrt(np.maximum(square - along**2, 1e-30))
            if pinned:
                gradient[..., :k] -= along @ points.hard.T
        if luck is not None:
            if decisive is not None and pushes is not None and pushed < decisive.shape[1]:
                vectors = (seen[:, :, None] * latent[:, None]).reshape(count, m * k, paths)
                luck, pushed = _decided(luck, decisive, vectors, pushes, pushed)
            gradient[..., :k] += (seen * luck[:, None]) @ latent.transpose(0, 2, 1)
        parts, known = _decompose(seen, forces, known)
        gradient[..., given : given + known] -= parts / root
        if points.later is not None:
            normals[:, active : given + known] = points.later(active - given, known)
        orthogonalise(normals, forces, given, active - given, known)

        shrink, second_decay = 1.0 - sizes[t] * algorithm.weight_decay, 0.0
        if penalty is not None:
            matrix, second_decay = penalty(t)
            gradient += matrix @ now
        new, velocity = move.apply(numbers, sizes[t], shrink, t, now, gradient, velocity)
        if algorithm.spherical:
            new = new * (np.asarray(problem.start_lengths)[:, None] / np.linalg.norm(new, axis=2, keepdims=True))
        pull = shift = np.zeros((count, m))
        if outer.moves:
            weights = np.ones((count, paths), np.float32) if batches is None else batches.expected[:, t]
            pull, shift = (
                (part @ weights[..., None])[..., 0] / paths for part in (found.second_layer_pull, found.force)
            )
        outer.advance(t, sizes[t], pull + second_decay * outer.at(t)[0], shift)
        length = np.einsum("bic,bic->b", new, new)
        lost = ~(length < DIVERGED * np.maximum(np.einsum("bic,bic->b", *2 * (coefficients[:, 0],)), 1.0))
        diverged[lost & (diverged < 0)] = t + 1
        # A run that is lost goes on from zero, so that the others are not disturbed.
        velocity[:, lost] = 0.0
        outer.restart(lost, t + 1)
        coefficients[:, t + 1] = np.where(lost[:, None, None], 0.0, new)
    for i in np.flatnonzero(diverged >= 0):
        for array in (coefficients, train_loss, fresh_loss, outer.second_layer, outer.bias):
            array[i, diverged[i] :] = np.nan
    losses = (train_loss, fresh_loss)
    return Runs(coefficients[..., : given + known], *losses, outer.second_layer, outer.bias, stray, diverged)


def decompose(vectors: np.ndarray, basis: np.ndarray, known: int) -> tuple[np.ndarray, int]:
    """Coefficients (m, directions) of path vectors (m, N) on an orthonormal basis that is extended by what is new.

    `basis` (most, N) holds `known` vectors of mean square one, and is written to.
    """
    parts, new = _decompose(vectors[None], basis[None], known)
    return parts[0], new


def _decompose(vectors: np.ndarray, basis: np.ndarray, known: int) -> tuple[np.ndarray, int]:
    """Coefficients (B, m, directions) of path vectors (B, m, N) on orthonormal bases that are extended by what is new.

    `basis` (B, most, N) holds `known` vectors of mean square one, and is written to. Gram–Schmidt, twice. A run that
    has nothing new where another one has gets a zero vector.
    """
    count, m, paths = vectors.shape
    parts = np.zeros((count, m, known + m))
    lengths = np.sqrt(np.mean(vectors**2, axis=2, dtype=float))
    rest, new = vectors.copy(), known
    for _ in range(2):
        inside = rest @ basis[:, :known].transpose(0, 2, 1) / np.float32(paths)
        parts[..., :known] += inside
        rest -= inside @ basis[:, :known]
    for j in range(m):
        one = rest[:, j : j + 1]
        for _ in range(2 * (new > known)):
            inside = one @ basis[:, known:new].transpose(0, 2, 1) / np.float32(paths)
            parts[:, j : j + 1, known:new] += inside
            one = one - inside @ basis[:, known:new]
        norm = np.sqrt(np.mean(one[:, 0] ** 2, axis=1, dtype=float))
        fresh = norm > NEW_DIRECTION * lengths[:, j]
        if fresh.any():
            scale = np.where(fresh, 1.0 / np.maximum(norm, 1e-300), 0.0)
            basis[:, new] = one[:, 0] * scale[:, None].astype(np.float32)
            parts[:, j, new] = np.where(fresh, norm, 0.0)
            new += 1
    return parts[..., :new], new


def _decided(
    luck: np.ndarray, decisive: np.ndarray, vectors: np.ndarray, pushes: np.ndarray, pushed: int
) -> tuple[np.ndarray, int]:
    """Luck (B, N) whose components along what is new in `vectors` (B, q, N) are the next of `decisive`.

    `pushes` (B, c, N) holds `pushed` orthonormal directions, and is written to.
    """
    for i in range(min(vectors.shape[1], decisive.shape[1] - pushed)):
        one = vectors[:, i] - vectors[:, i].mean(axis=1, keepdims=True)
        for _ in range(2):
            one = one - ((one[:, None] @ pushes[:, :pushed].swapaxes(1, 2)) @ pushes[:, :pushed])[:, 0]
        one = one / np.maximum(np.linalg.norm(one, axis=1, keepdims=True), 1e-30)
        luck = luck + (decisive[:, pushed, None] - (luck * one).sum(axis=1, keepdims=True)) * one
        pushes[:, pushed] = one
        pushed += 1
    return luck.astype(np.float32), pushed


def orthogonalise(normals: np.ndarray, forces: np.ndarray, given: int, known: int, new: int) -> None:
    """Makes coordinates of the directions `known`..`new` orthogonal along the paths to all they are independent of."""
    if new == known:
        return
    paths, begin = np.float32(normals.shape[2]), given + known
    columns = normals[:, begin : given + new]
    columns -= columns.mean(axis=2, keepdims=True)
    # All new ones at once against those before, by matrix products, then one after the other among themselves.
    for _ in range(2):
        for earlier in (normals[:, :begin], forces[:, :new]):
            columns -= (columns @ earlier.transpose(0, 2, 1) / paths) @ earlier
    for c in range(new - known):
        column = columns[:, c : c + 1]
        for _ in range(2 * (c > 0)):
            column = column - (column @ columns[:, :c].transpose(0, 2, 1) / paths) @ columns[:, :c]
        column = column / np.sqrt(np.mean(column**2, axis=2, keepdims=True))
        # A direction that a run does not have keeps no coordinate.
        has = np.abs(forces[:, known + c]).max(axis=1, keepdims=True) > 0.0
        columns[:, c] = np.where(has, column[:, 0], 0.0)
