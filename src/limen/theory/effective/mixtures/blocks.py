"""Spectral alignment along training: blocks of test Hessian and gradient second moment of the mixtures, predicted."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from limen.method import answers
from limen.problem import GaussianMixture, InputError, OverlapStart, XorMixture
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.effective.mixtures import mixture_flow, xor_flow
from limen.theory.effective.mixtures.block_spectrum import (
    SpectralBlock,
    WeightedInputs,
    block_spectrum,
    emergence_ratio,
)
from limen.theory.effective.mixtures.block_weights import Kind, mixture_inputs, second_layer_matrix, xor_inputs
from limen.theory.effective.mixtures.mixture_flow import MixtureState
from limen.theory.effective.mixtures.mixture_points import check_points
from limen.theory.effective.mixtures.xor_flow import XorState

CITATIONS = ("benarous2023",)
# A neuron whose second layer is this much smaller than the largest has left the competition.
DEAD = 0.05
# E_k of the sources: the means of k classes; mu and nu for a neuron; four clouds for the second layer.
XOR_LEADING, SECOND_LAYER_LEADING = 2, 4


class Beginning(NamedTuple):
    """Where training starts: given overlaps and second layer, or what the simulator draws in `d` dimensions."""

    start: OverlapStart | None
    second_layer: ArrayLike | None
    d: int | None
    seed: int | None


class SecondLayerBlock(NamedTuple):
    """Eigenvalues, descending (K,); alignment of v with the four leading eigenvectors; the matrix (K, K)."""

    eigenvalues: np.ndarray
    alignment: float
    matrix: np.ndarray


def hessian_block(
    problem: GaussianMixture | XorMixture,
    time: float,
    test_samples_per_dim: float,
    *,
    block: tuple[int, int] | None = None,
    neuron: int | None = None,
    start: OverlapStart | None = None,
    second_layer: ArrayLike | None = None,
    d: int | None = None,
    seed: int | None = None,
    points: int | None = None,
) -> SpectralBlock:
    r"""A block of the Hessian of the test loss after training for `time`, on $\tilde M/d$ = `test_samples_per_dim`.

    The statistics at `time` come from the limiting flow, the spectrum from them (see `SpectralBlock`; equations in
    `limen.theory.effective.mixtures.block_spectrum`).

    Args:
        block: which one, (0, 0) if not given. `GaussianMixture`: classes (b, c); `XorMixture`: first layer, neurons.
            Off-diagonal blocks have signed weights: look at both edges.
        neuron: short for `block=(neuron, neuron)` of an `XorMixture`.
        start: overlaps and Gram matrix at time 0; by default no overlap and the identity. With `time` 0 this is any
            point, for instance one measured in a simulation.
        second_layer: of an `XorMixture`, ones if not given.
        d, seed: instead of both, the simulator's own start of an `XorMixture`, which from zero overlaps learns nothing.
        points: frozen points per cloud, a power of two; 4096 up to 8 dimensions of the signal space, 1024 above.

    The alignment is $\rho$ of $x^b$ with the $k$ leading eigenvectors, or of $W_i$ with the two leading ones.
    """
    begin = Beginning(start, second_layer, d, seed)
    return _block(problem, time, test_samples_per_dim, "hessian", _chosen(problem, block, neuron), begin, points)


def gradient_block(
    problem: GaussianMixture | XorMixture,
    time: float,
    test_samples_per_dim: float,
    *,
    block: tuple[int, int] | None = None,
    neuron: int | None = None,
    start: OverlapStart | None = None,
    second_layer: ArrayLike | None = None,
    d: int | None = None,
    seed: int | None = None,
    points: int | None = None,
) -> SpectralBlock:
    r"""A block of the second moment $G=\frac1{\tilde M}\sum\nabla L\nabla L^\top$ of test gradients.

    Arguments as in `hessian_block`.

    Its weights have a thin tail (badly classified samples), so its edge is often `soft`: set by the heaviest samples,
    and above the largest bulk eigenvalue seen at moderate $d$.
    """
    begin = Beginning(start, second_layer, d, seed)
    return _block(problem, time, test_samples_per_dim, "gradient", _chosen(problem, block, neuron), begin, points)


@answers("theory", CITATIONS)
def block_path(
    problem: GaussianMixture | XorMixture,
    times: ArrayLike,
    test_samples_per_dim: float,
    matrix: Kind = "hessian",
    *,
    block: tuple[int, int] | None = None,
    start: OverlapStart | None = None,
    second_layer: ArrayLike | None = None,
    d: int | None = None,
    seed: int | None = None,
    points: int | None = None,
) -> Findings:
    r"""A block along training: how its outliers separate from the bulk and from each other.

    Variables `edge` (time), `eigenvalue` (time, rank): outliers descending, those that have not left the bulk at its
    edge, as many as enter the alignment; `alignment` (time), `outliers` (time), how many; `dead` (time).
    Arguments as in `hessian_block`; one flow for all times.
    """
    kind, ratio, grid = _kind(matrix), _ratio(test_samples_per_dim), time_grid(times, False)
    chosen = _chosen(problem, block, None)
    laws, dead = _laws(problem, grid, kind, chosen, Beginning(start, second_layer, d, seed), points)
    leading = _leading(problem)
    found = [block_spectrum(law(), ratio, leading, flag) for law, flag in zip(laws, dead, strict=True)]
    dataset = xr.Dataset(
        {
            "edge": ("time", [one.edge for one in found]),
            "eigenvalue": (("time", "rank"), np.array([one.leading(leading) for one in found])),
            "alignment": ("time", [one.alignment for one in found]),
            "outliers": ("time", [len(one.outliers) for one in found]),
            "dead": ("time", [one.dead for one in found]),
        },
        coords={"time": grid, "rank": np.arange(leading)},
        attrs={"test_samples_per_dim": float(test_samples_per_dim)},
    )
    status = f"{kind} block {chosen}: bulk, outliers and alignment."
    if any(one.soft for one in found):
        status = f"{kind} block {chosen}: the edge is soft, set by the heaviest thousandth of the samples."
    return Findings(dataset, True, status)


def samples_for_outlier(
    problem: GaussianMixture | XorMixture,
    time: float,
    outlier: int = 1,
    matrix: Kind = "hessian",
    *,
    block: tuple[int, int] | None = None,
    start: OverlapStart | None = None,
    second_layer: ArrayLike | None = None,
    d: int | None = None,
    seed: int | None = None,
    points: int | None = None,
) -> float:
    r"""The least $\tilde M/d$ at which `outlier` eigenvalues (1, 2, ...) of a block stand above its bulk; inf if never.

    At $x=0$ with equal classes and orthonormal means all $k$ outliers of $H_{cc}$ appear at $\tilde M/d=(k/\lambda)^2$.
    Other arguments as in `hessian_block`.
    """
    if isinstance(outlier, bool) or int(outlier) != outlier or outlier < 1:
        raise InputError(f"outlier must be a positive whole number, got {outlier!r}.")
    chosen = _chosen(problem, block, None)
    begin = Beginning(start, second_layer, d, seed)
    laws, _ = _laws(problem, _moment(time), _kind(matrix), chosen, begin, points)
    law = laws[0]()
    ratio = emergence_ratio(law, int(outlier)) if law.weights.any() else 0.0
    return np.inf if ratio == 0.0 else 1.0 / ratio


def second_layer_block(
    problem: XorMixture,
    time: float,
    matrix: Kind = "hessian",
    *,
    start: OverlapStart | None = None,
    second_layer: ArrayLike | None = None,
    d: int | None = None,
    seed: int | None = None,
    points: int | None = None,
) -> SecondLayerBlock:
    r"""$H_{vv}=E[\sigma'(h)g(WX)g(WX)^\top]$ or $G_{vv}=E[e^2g(WX)g(WX)^\top]$ of an `XorMixture` after `time`.

    A matrix of fixed size $K$: any test set with $\tilde M\to\infty$ shows it without bulk. At $\lambda=\infty$ its
    rank is the number of clouds that some neuron sees, one eigenvalue for each class discovered.
    """
    if not isinstance(problem, XorMixture):
        raise InputError(f"problem must be an XorMixture, got {type(problem).__name__}.")
    state = _xor_states(problem, _moment(time), Beginning(start, second_layer, d, seed))[-1]
    block = second_layer_matrix(problem, state, _kind(matrix), None if points is None else check_points(points))
    values, vectors = np.linalg.eigh(block)
    v = state.second_layer
    leading = vectors[:, ::-1][:, :SECOND_LAYER_LEADING]
    size = float(np.linalg.norm(v))
    alignment = float(np.linalg.norm(leading.T @ v)) / size if size > 0.0 else float("nan")
    return SecondLayerBlock(values[::-1], alignment, block)


def _block(
    problem: GaussianMixture | XorMixture,
    time: float,
    test_samples_per_dim: float,
    kind: Kind,
    block: tuple[int, int],
    begin: Beginning,
    points: int | None,
) -> SpectralBlock:
    ratio = _ratio(test_samples_per_dim)
    laws, dead = _laws(problem, _moment(time), kind, block, begin, points)
    return block_spectrum(laws[0](), ratio, _leading(problem), dead[0])


def _laws(
    problem: GaussianMixture | XorMixture,
    times: np.ndarray,
    kind: Kind,
    block: tuple[int, int],
    begin: Beginning,
    points: int | None,
) -> tuple[list[Callable[[], WeightedInputs]], list[bool]]:
    """The law of the block at each time, made when asked for, and whether its neuron is dead."""
    count = None if points is None else check_points(points)
    if isinstance(problem, GaussianMixture):
        if any(part is not None for part in begin[1:]):
            raise InputError("second_layer, d and seed must be left out for a GaussianMixture: give start.")
        path = mixture_flow.mixture_path(problem, mixture_flow.start_state(problem, begin.start), times)
        states = [MixtureState(*parts) for parts in zip(*path, strict=True)]
        return [partial(mixture_inputs, problem, s, kind, block, count) for s in states], [False] * len(states)
    found = _xor_states(problem, times, begin)
    dead = [bool(np.abs(s.second_layer[list(block)]).min() < DEAD * np.abs(s.second_layer).max()) for s in found]
    return [partial(xor_inputs, problem, s, kind, block, count) for s in found], dead


def _xor_states(problem: XorMixture, times: np.ndarray, begin: Beginning) -> list[XorState]:
    start, second_layer, d, seed = begin
    if d is None and seed is None:
        first = xor_flow.start_state(problem, OverlapStart(0.0) if start is None else start, second_layer)
    elif d is None or seed is None or start is not None or second_layer is not None:
        raise InputError("d and seed must be given together, without start and second_layer, which they draw.")
    else:
        first = xor_flow.drawn_states(problem, d, (seed,))[0]
    path = xor_flow.xor_path(problem, first, times)
    return [XorState(*parts) for parts in zip(*path, strict=True)]


def _chosen(
    problem: GaussianMixture | XorMixture, block: tuple[int, int] | None, neuron: int | None
) -> tuple[int, int]:
    if not isinstance(problem, (GaussianMixture, XorMixture)):
        raise InputError(f"problem must be a GaussianMixture or an XorMixture, got {type(problem).__name__}.")
    if neuron is not None:
        if block is not None or not isinstance(problem, XorMixture):
            raise InputError("neuron must be left out with block, and for a GaussianMixture.")
        block = (neuron, neuron)
    chosen = (0, 0) if block is None else tuple(block)
    size = problem.classes if isinstance(problem, GaussianMixture) else problem.width
    if len(chosen) != 2 or any(int(i) != i or not 0 <= i < size for i in chosen):
        raise InputError(f"block must be two whole numbers from 0 to {size - 1}, got {block!r}.")
    return int(chosen[0]), int(chosen[1])


def _leading(problem: GaussianMixture | XorMixture) -> int:
    return problem.classes if isinstance(problem, GaussianMixture) else XOR_LEADING


def _kind(matrix: str) -> Kind:
    if matrix not in ("hessian", "gradient"):
        raise InputError(f"matrix must be 'hessian' or 'gradient', got {matrix!r}.")
    return matrix


def _ratio(test_samples_per_dim: float) -> float:
    if not 0.0 < test_samples_per_dim < np.inf:
        raise InputError(f"test_samples_per_dim must be positive, got {test_samples_per_dim}.")
    return 1.0 / float(test_samples_per_dim)


def _moment(time: float) -> np.ndarray:
    if not 0.0 <= time < np.inf:
        raise InputError(f"time must not be negative, got {time}.")
    return np.array([float(time)])
