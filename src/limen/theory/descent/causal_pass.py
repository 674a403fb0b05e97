r"""One causal pass through the dynamical mean-field equations of gradient descent (Montanari & Wang 2026).

As $n,d\to\infty$ with $n/d\to\delta$, the fields of one sample and one coordinate of the weights obey

$$V(t)=W(t)-\frac1\delta\sum_{s<t}R_\theta(t,s)F(s),\qquad
\Theta(t+1)=\Theta(t)-\eta\sum_{s\le t}R_\ell(t,s)\Theta(s)-\eta R_\ell(t,*)\Theta_*+\eta Q(t),$$

with $W$, $Q$ Gaussian of covariances $C_\theta$ and $C_\ell/\delta$, $C_\ell=\eta^{-2}E[F(t)F(s)^\top]$,
$R_\ell(t,s)=\eta^{-1}E[\partial F(t)/\partial W(s)]$, $R_\theta(t,s)=\eta^{-1}E[\partial\Theta(t)/\partial Q(s)]$.
Step $t$ needs kernels up to $t$ only: no fixed point is iterated.

**Square-root form.** $\Theta(t)=A(t)\xi$ is kept as explicit coefficients on independent coordinates $\xi$
(`coordinates`), so that $C_\theta=AA^\top$ is positive by construction. A Cholesky factor of $C_\theta$ grown step by
step is not an alternative: the process is numerically of low rank and triangular solves blow up after some tens of
steps.

**Responses.** $D(t,s)=\partial V(t)/\partial W(s)$ along each path and $R_\ell(t,s)=\eta^{-1}E[F'(t)D(t,s)]$, row by
row (`path_responses`) in float32: $8NTm^2$ bytes; $\frac13NT^3m^3$ operations.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from limen.problem import GradientDescent, OverlapStart, TwoLayer
from limen.problem.algorithms import constant_step
from limen.problem.inputs import InputVariances
from limen.problem.starts import overlap_matrix
from limen.theory.descent.coordinates import Coordinates
from limen.theory.descent.forces import forces
from limen.theory.descent.path_responses import BLOCK, PathResponses

# A gradient with a smaller new part than this is numerically within the span of those before.
NEW_DIRECTION = 1e-9
# Weights whose square is this many times the start's, or one where that is smaller, have diverged.
DIVERGED = 1e6


class Pass(NamedTuple):
    r"""Everything one pass found, for steps 0..T.

    `fields` (T+1, paths, m): $V$. `coefficients` (T+1, m, coordinates, S): $\sqrt{w_ss}\,A_s$. `response`
    (T+1, T+1, m, m): $R_\theta(t,s)$, zero for $s\ge t$. `force` (T, m, paths): $F/\eta$. `second_layer` (T+1, m).
    `train_loss` (T+1,). `loss_response` (c, T, T, m, m): means of $P(t,s)/\eta$ under the path weights. `lengths` (T,
    m): what each neuron was divided by after the step, 1 without a sphere. `diverged`: the first step at which the
    weights were not finite any more (all that follows is NaN), or None.
    """

    fields: np.ndarray
    coefficients: np.ndarray
    response: np.ndarray
    force: np.ndarray
    second_layer: np.ndarray
    train_loss: np.ndarray
    loss_response: np.ndarray
    lengths: np.ndarray
    diverged: int | None


def memory_estimate(steps: int, width: int, paths: int, latents: int, atoms: int) -> float:
    """Bytes of one pass: path responses in float32; coordinates, gradients, forces and fields in float64."""
    responses = (8.0 * steps + 12.0 * min(steps, BLOCK)) * width**2
    gradients = steps * width
    return paths * (responses + 8.0 * (atoms * (latents + width + gradients) + 3 * gradients + 2 * width**2 + 8))


# Weights about to be lost leave the finite numbers; the run then ends and is said to diverge.
@np.errstate(over="ignore", invalid="ignore")
def causal_pass(
    problem: TwoLayer,
    coordinates: Coordinates,
    variances: InputVariances,
    steps: int,
    easy: np.ndarray,
    path_weights: np.ndarray,
    advance: Callable[[int], None] = lambda step: None,
) -> Pass:
    r"""Runs steps 0..`steps`.

    `easy` (k, k): projector on the latent directions whose overlaps may grow; the others are pinned to their start,
    since there sampling noise of the paths would grow exponentially. `path_weights` (paths, c): weights under which the
    response means are also taken, the first column being 1. `advance` is told every finished step.
    """
    algorithm, network, k = problem.algorithm, problem.network, problem.target.latents
    assert isinstance(algorithm, GradientDescent) and problem.samples_per_dim is not None
    eta, delta, m = constant_step(algorithm), problem.samples_per_dim, network.width
    shrink = 1.0 - eta * algorithm.weight_decay
    scale, amplitude = variances.values, np.sqrt(variances.fractions * variances.values)
    paths, total, atoms = coordinates.weights.shape
    bias = np.asarray(network.per_neuron("bias"))

    coefficients = np.zeros((steps + 1, m, total, atoms))
    coefficients[0] = start_coefficients(problem, total)[:, :, None] * amplitude
    responses = np.zeros((atoms, steps + 1, steps + 1, m, m))
    response = np.zeros((steps + 1, steps + 1, m, m))
    loss_response = np.zeros((path_weights.shape[1], steps, steps, m, m))
    fields = np.zeros((steps + 1, paths, m))
    force = np.zeros((steps, m, paths))
    second_layer = np.tile(np.asarray(network.per_neuron("second_layer"), dtype=float), (steps + 1, 1))
    train_loss, lengths = np.zeros(steps + 1), np.ones((steps, m))
    basis, known = np.zeros((total - k - m, paths)), 0
    path_responses = PathResponses(steps, m, paths)
    diverged, flat = None, coordinates.weights.reshape(paths, -1)

    for t in range(steps + 1):
        active = k + m + known
        field = flat[:, : active * atoms] @ coefficients[t, :, :active].reshape(m, -1).T
        if t:
            memory = response[t, :t].transpose(1, 0, 2).reshape(m, t * m)
            field -= (eta / delta) * (memory @ force[:t].reshape(t * m, paths)).T
        fields[t] = field
        now = forces(network.activation, problem.loss, field, coordinates.labels, second_layer[t], bias)
        train_loss[t] = now.loss
        if t == steps:
            break
        force[t] = now.force
        loss_response[:, t, : t + 1] = path_responses.means(
            t, eta / delta * response[t, :t], now.jacobian, path_weights
        )

        # The gradient's independent part, orthogonal along the paths to all before: Gram–Schmidt, twice.
        gradient = np.zeros((m, total - k - m))
        for j in range(m):
            rest, length = now.force[j].copy(), np.sqrt(np.mean(now.force[j] ** 2))
            for _ in range(2):
                part = basis[:known] @ rest / paths
                gradient[j, :known] += part
                rest -= part @ basis[:known]
            norm = np.sqrt(np.mean(rest**2))
            if norm > NEW_DIRECTION * length:
                basis[known], gradient[j, known] = rest / norm, norm
                known += 1
        gradient /= np.sqrt(delta)

        loss_memory = loss_response[0, t, : t + 1]
        field_overlap = coefficients[: t + 1, :, :k] @ amplitude
        pull = now.force @ coordinates.latent / paths
        toward = (pull - np.einsum("sij,sjr->ir", loss_memory, field_overlap)) @ easy
        drift = np.einsum("sij,sjca->ica", loss_memory, coefficients[: t + 1])
        drift[:, :k] += toward[:, :, None] * amplitude
        new = shrink * coefficients[t] - eta * scale * drift
        new[:, k + m :] += eta * np.sqrt(scale) * amplitude * gradient[:, :, None]
        new_response = shrink * responses[:, t] - eta * scale[:, None, None, None] * np.einsum(
            "uij,ausjk->asik", loss_memory, responses[:, : t + 1]
        )
        new_response[:, t] = np.eye(m)
        if algorithm.spherical:
            lengths[t] = np.sqrt(np.einsum("jca,jca,a->j", new, new, 1.0 / scale)) / np.asarray(problem.start_lengths)
            new, new_response = new / lengths[t, :, None, None], new_response / lengths[t, :, None]
        coefficients[t + 1], responses[:, t + 1] = new, new_response
        response[t + 1] = np.einsum("a,asij->sij", variances.fractions * scale, new_response)
        if network.train_second_layer:
            second_layer[t + 1] = second_layer[t] - eta * now.second_layer_gradient
        if not np.sum(new**2) < DIVERGED * max(np.sum(coefficients[0] ** 2), 1.0):
            diverged = t + 1
            for array in (coefficients, fields, second_layer, train_loss, response):
                array[t + 1 :] = np.nan
            break
        advance(t)
    return Pass(fields, coefficients, response, force, second_layer, train_loss, loss_response, lengths, diverged)


def start_coefficients(problem: TwoLayer, total: int) -> np.ndarray:
    r"""$A(0)$, shape (m, coordinates): the given overlaps on the target, a square root of $Q_0-M_0M_0^\top$ on the
    start."""
    network, k, m = problem.network, problem.target.latents, problem.network.width
    start = np.zeros((m, total))
    gram = network.initial_norm**2 * np.eye(m)
    if isinstance(problem.start, OverlapStart):
        overlap = overlap_matrix(problem.start, m, k)
        start[:, :k] = overlap
        if problem.start.gram is not None:
            gram = np.asarray(problem.start.gram, dtype=float) - overlap @ overlap.T
        else:
            gram -= np.diag((overlap**2).sum(axis=1))
    values, vectors = np.linalg.eigh(gram)
    start[:, k : k + m] = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return start
