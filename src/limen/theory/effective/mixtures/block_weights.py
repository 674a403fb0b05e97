r"""Sample weights of the blocks of Hessian and gradient second moment, as functions of the summary statistics.

Logistic regression: $H_{bc}=E[(\pi_b1_{b=c}-\pi_b\pi_c)YY^\top]$, $G_{bc}=E[e_be_cYY^\top]$. XOR:
$H_{W_iW_j}=E[v_iv_j\sigma'(h)\chi_i\chi_jXX^\top]$, $G_{W_iW_j}=E[v_iv_je^2\chi_i\chi_jXX^\top]$. The penalty, a
multiple of the identity, is left out. For ReLU the block is the mean of the Hessians of samples, which have no
Dirac term; it is not the Hessian of the mean loss.
"""

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import expit

from limen.gaussian.gram_matrices import square_root
from limen.problem import GaussianMixture, XorMixture
from limen.theory.effective.mixtures.block_spectrum import WeightedInputs
from limen.theory.effective.mixtures.mixture_flow import MixtureState, softmax
from limen.theory.effective.mixtures.mixture_points import whitened_points
from limen.theory.effective.mixtures.xor_flow import XorState

Kind = Literal["hessian", "gradient"]
# Points per cloud: their number times the square of the dimension of the signal space stays in cache.
FEW, MANY, SMALL_SPACE = 1 << 10, 1 << 12, 8


class XorSamples(NamedTuple):
    r"""Points of the four clouds in $U$ (n, K + 2), fields $u$ (n, K), labels $y$ (n,), probabilities (n,)."""

    coordinates: np.ndarray
    fields: np.ndarray
    labels: np.ndarray
    probabilities: np.ndarray


def mixture_inputs(
    problem: GaussianMixture, state: MixtureState, kind: Kind, block: tuple[int, int], points: int | None
) -> WeightedInputs:
    """The law of block (b, c) of logistic regression; its own vector is $x^b$."""
    aligned, gram = state
    k, (b, c) = problem.classes, block
    sharp = np.isinf(problem.sharpness)
    root = square_root(gram)
    rows = np.concatenate([aligned, root], axis=1)
    variance = 1.0 / problem.sharpness
    normals = np.zeros((1, 2 * k)) if sharp else whitened_points(2 * k, _count(2 * k, points))
    parts, weights = [], []
    for a, mean in enumerate(problem.means):
        inputs = np.sqrt(variance) * normals + np.concatenate([mean, np.zeros(k)])
        probabilities = softmax(inputs @ rows.T)
        if kind == "hessian":
            weight = probabilities[:, b] * ((b == c) - probabilities[:, c])
        else:
            weight = (probabilities[:, b] - (a == b)) * (probabilities[:, c] - (a == c))
        parts.append(inputs)
        weights.append(weight)
    masses = np.repeat(problem.weights / len(normals), len(normals))
    return WeightedInputs(np.concatenate(weights), np.concatenate(parts), masses, variance, rows[b])


def xor_samples(problem: XorMixture, state: XorState, points: int | None) -> XorSamples:
    """The four clouds, each of equal probability."""
    width = problem.width
    sharp = np.isinf(problem.sharpness)
    rows = np.concatenate([state.overlap, square_root(state.orthogonal_gram)], axis=1)
    scale = problem.sharpness**-0.5
    normals = np.zeros((1, width + 2)) if sharp else whitened_points(width + 2, _count(width + 2, points))
    clouds = []
    for axis, sign in ((0, 1.0), (0, -1.0), (1, 1.0), (1, -1.0)):
        cloud = scale * normals
        cloud[:, axis] += sign
        clouds.append(cloud)
    coordinates = np.concatenate(clouds)
    labels = np.repeat([1.0, 1.0, 0.0, 0.0], len(normals))
    return XorSamples(coordinates, coordinates @ rows.T, labels, np.full(len(labels), 1.0 / len(labels)))


def xor_inputs(
    problem: XorMixture, state: XorState, kind: Kind, block: tuple[int, int], points: int | None
) -> WeightedInputs:
    """The law of the first-layer block of neurons (i, j); its own vector is $W_i$."""
    samples = xor_samples(problem, state, points)
    i, j = block
    active = (samples.fields[:, i] > 0.0) & (samples.fields[:, j] > 0.0)
    weights = np.where(active, state.second_layer[i] * state.second_layer[j] * output_weights(state, samples, kind), 0)
    row = np.concatenate([state.overlap[i], square_root(state.orthogonal_gram)[i]])
    return WeightedInputs(weights, samples.coordinates, samples.probabilities, 1.0 / problem.sharpness, row)


def output_weights(state: XorState, samples: XorSamples, kind: Kind) -> np.ndarray:
    r"""$\sigma'(h)$ or $e^2=(\sigma(h)-y)^2$ at every sample."""
    probability = expit(np.maximum(samples.fields, 0.0) @ state.second_layer)
    return probability * (1.0 - probability) if kind == "hessian" else (probability - samples.labels) ** 2


def second_layer_matrix(problem: XorMixture, state: XorState, kind: Kind, points: int | None) -> np.ndarray:
    r"""$E[\sigma'(h)g(WX)g(WX)^\top]$ or $E[e^2g(WX)g(WX)^\top]$, shape (K, K)."""
    samples = xor_samples(problem, state, points)
    active = np.maximum(samples.fields, 0.0)
    return active.T @ ((samples.probabilities * output_weights(state, samples, kind))[:, None] * active)


def _count(dimension: int, points: int | None) -> int:
    if points is not None:
        return points
    return MANY if dimension <= SMALL_SPACE else FEW
