r"""Blocks of Hessian and gradient second moment measured on a fresh test set along training, without forming them.

Block $=\frac1{\tilde M}\sum_lw_lY_lY_l^\top$ on $\tilde M$ fresh inputs; its leading eigenvectors by Lanczos on
$z\mapsto Y^\top(w\odot Yz)/\tilde M$, $O(\tilde Md)$ a product (Ben Arous, Gheissari, Huang & Jagannath 2023).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
import xarray as xr
from scipy.special import expit, softmax

from limen.method import answers
from limen.precision import in_double
from limen.problem import GaussianMixture, InputError, OverlapStart, XorMixture
from limen.problem.times import time_grid
from limen.result import Findings
from limen.simulation.effective.mixture_training import Mixture, draw_clouds, nearest_steps, start_of, trained_weights
from limen.simulation.generators import numpy_generator
from limen.simulation.spectra.spectrum import bottom_eigenspace, top_eigenspace, weighted_gram

Matrix = Literal["hessian", "gradient"]
CITATIONS = ("benarous2023",)
XOR_LEADING, SECOND_LAYER_LEADING = 2, 4
MOST_NUMBERS = 2e8


@answers("simulation", CITATIONS)
@in_double
def measure_block(
    problem: Mixture,
    times: Any,
    test_samples_per_dim: float,
    d: int,
    seeds: int | Sequence[int] = 1,
    matrix: Matrix = "hessian",
    block: tuple[int, int] = (0, 0),
    start: OverlapStart | None = None,
    second_layer: Any = None,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Findings:
    r"""Trains in $d$ dimensions and measures one block at `times`, once per seed.

    `eigenvalue` (seed, time, rank): the $k$ leading ones of a class block (b, c), the two leading ones of a first-layer
    block (i, j) of the XOR network, largest in absolute value first (signed weights off the diagonal); `alignment`
    (seed, time): $\|P_Ex\|/\|x\|$ of the block's own row $x^b$ or $W_i$ with their span. The sample Hessian of ReLU
    has no Dirac term. The test set, $\tilde M$ = `test_samples_per_dim` times $d$ samples, is new at every time.
    """
    leading = problem.classes if isinstance(problem, GaussianMixture) else XOR_LEADING
    size = problem.classes if isinstance(problem, GaussianMixture) else problem.width
    if len(block) != 2 or any(int(i) != i or not 0 <= i < size for i in block):
        raise InputError(f"block must be two whole numbers from 0 to {size - 1}, got {block!r}.")

    def measure(rows: np.ndarray, second: np.ndarray, inputs: np.ndarray, clouds: np.ndarray, seed: int) -> Any:
        weights = sample_weights(problem, rows, second, inputs, clouds, matrix, block)
        operator = weighted_gram(inputs, weights)
        space = top_eigenspace(operator, d, leading, seed)
        values, vectors = space.values, space.vectors
        if weights.min() < 0.0:
            lowest = bottom_eigenspace(operator, d, leading, seed)
            values = np.concatenate([values, lowest.values])
            vectors = np.concatenate([vectors, lowest.vectors], axis=1)
        order = np.argsort(-np.abs(values))[:leading]
        return values[order], alignment(vectors[:, order], rows[block[0]])

    return _along_training(
        problem, times, test_samples_per_dim, d, seeds, start, second_layer, progress, measure, leading, matrix
    )


@answers("simulation", CITATIONS)
@in_double
def measure_second_layer(
    problem: XorMixture,
    times: Any,
    test_samples_per_dim: float,
    d: int,
    seeds: int | Sequence[int] = 1,
    matrix: Matrix = "hessian",
    start: OverlapStart | None = None,
    second_layer: Any = None,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Findings:
    r"""The block $\frac1{\tilde M}\sum_l\sigma'(h_l)\,g(WX_l)g(WX_l)^\top$, or with $e_l^2$, of the second layer.

    `eigenvalue` (seed, time, rank), all $K$ descending; `alignment` (seed, time) of $v$ with the four leading vectors.
    """
    if not isinstance(problem, XorMixture):
        raise InputError(f"problem must be an XorMixture, got {type(problem).__name__}.")

    def measure(rows: np.ndarray, second: np.ndarray, inputs: np.ndarray, clouds: np.ndarray, seed: int) -> Any:
        active = np.maximum(inputs @ rows.T, 0.0)
        return second_layer_spectrum(active, second, clouds, matrix)

    return _along_training(
        problem, times, test_samples_per_dim, d, seeds, start, second_layer, progress, measure, problem.width, matrix
    )


def sample_weights(
    problem: Mixture,
    rows: np.ndarray,
    second: np.ndarray,
    inputs: np.ndarray,
    clouds: np.ndarray,
    matrix: str,
    block: tuple[int, int],
) -> np.ndarray:
    """The weight of every test sample in a block, shape (samples,)."""
    b, c = block
    fields = inputs @ rows.T
    if isinstance(problem, GaussianMixture):
        probabilities = softmax(fields, axis=1)
        if matrix == "hessian":
            return probabilities[:, b] * ((b == c) - probabilities[:, c])
        return (probabilities[:, b] - (clouds == b)) * (probabilities[:, c] - (clouds == c))
    active = (fields[:, b] > 0.0) & (fields[:, c] > 0.0)
    return second[b] * second[c] * active * _output_weights(np.maximum(fields, 0.0) @ second, clouds, matrix)


def fresh_inputs(problem: Mixture, d: int, count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Fresh inputs (count, d), the means in the first axes, and their clouds."""
    clouds = draw_clouds(problem, generator, count)
    inputs = problem.sharpness**-0.5 * generator.standard_normal((count, d))
    if isinstance(problem, GaussianMixture):
        inputs[:, : problem.classes] += problem.means[clouds]
    else:
        inputs[:, :2] += np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])[clouds]
    return inputs, clouds


def second_layer_spectrum(
    active: np.ndarray, second: np.ndarray, clouds: np.ndarray, matrix: str
) -> tuple[np.ndarray, float]:
    """Eigenvalues of the second layer's block, descending, and alignment of `second` with the four leading vectors.

    `active` are the outputs of the neurons, shape (samples, neurons).
    """
    weights = _output_weights(active @ second, clouds, matrix)
    values, vectors = np.linalg.eigh(active.T @ (weights[:, None] * active) / len(active))
    return values[::-1], alignment(vectors[:, ::-1][:, :SECOND_LAYER_LEADING], second)


def alignment(vectors: np.ndarray, row: np.ndarray) -> float:
    """Norm of the projection of `row` on the span of orthonormal columns, over its norm."""
    return float(np.linalg.norm(vectors.T @ row) / np.linalg.norm(row))


def _output_weights(outputs: np.ndarray, clouds: np.ndarray, matrix: str) -> np.ndarray:
    probability = expit(outputs)
    return probability * (1.0 - probability) if matrix == "hessian" else (probability - (clouds < 2)) ** 2


def _along_training(
    problem: Mixture,
    times: Any,
    test_samples_per_dim: float,
    d: int,
    seeds: int | Sequence[int],
    start: OverlapStart | None,
    second_layer: Any,
    progress: Callable[[Iterable[int]], Iterable[int]],
    measure: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int], Any],
    ranks: int,
    matrix: str,
) -> Findings:
    if matrix not in ("hessian", "gradient"):
        raise InputError(f"matrix must be 'hessian' or 'gradient', got {matrix!r}.")
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen:
        raise InputError(f"seeds must be at least one, got {seeds!r}.")
    grid, count = time_grid(times, False), round(test_samples_per_dim * d)
    if count < 1 or float(count) * d > MOST_NUMBERS:
        raise InputError(
            f"test_samples_per_dim must give between 1 and {int(MOST_NUMBERS // d)} samples at d = {d}, got {count}."
        )
    values, aligned = np.empty((len(chosen), len(grid), ranks)), np.empty((len(chosen), len(grid)))
    steps = nearest_steps(problem, grid, d)
    for s, seed in enumerate(progress(chosen)):
        begin = start_of(problem, d, seed, start, second_layer)
        rows, second = trained_weights(problem, begin, d, seed, steps)
        generator = numpy_generator(seed, d, "mixture test")
        for t in range(len(grid)):
            inputs, clouds = fresh_inputs(problem, d, count, generator)
            values[s, t], aligned[s, t] = measure(rows[t], second[t], inputs, clouds, seed)
    dataset = xr.Dataset(
        {"eigenvalue": (("seed", "time", "rank"), values), "alignment": (("seed", "time"), aligned)},
        coords={"time": grid, "seed": list(chosen), "rank": np.arange(ranks)},
        attrs={"d": d, "test_samples_per_dim": float(test_samples_per_dim)},
    )
    status = f"{matrix} block on {count} test samples in d = {d}."
    return Findings(dataset, True, status)
