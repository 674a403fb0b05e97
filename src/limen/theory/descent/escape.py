r"""Leaving a hard direction at finite dimension: how likely, how soon, and the curves through the escape.

While the overlap is small it is the Gaussian process $\vartheta(t)/\sqrt d$ of `hard_fluctuations`. Deep in its
growth it is $\Phi_0(t)$ times one random number, the start $\vartheta(0)$ plus all the noise the sample has added: the
training is then indistinguishable from one that started with the overlap

$$M_0=\frac{|\vartheta(t_1)|}{\sqrt d\,|\Phi_0(t_1)|},\qquad
\frac{\vartheta(t_1)}{\Phi_0(t_1)}\sim N\Big(0,\frac{C_u(t_1,t_1)}{\Phi_0(t_1)^2}\Big)\ \text{(random start)},\quad
N\Big(\vartheta(0),\frac{C_u(t_1,t_1)}{\Phi_0(t_1)^2}-1\Big)\ \text{(given }\vartheta(0)),$$

and gradient descent from that informed start, whose limit $d\to\infty$ is not pinned, follows the escape to its end.
The position of $M_0$ in its law is the **luck** of a run.
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr

from limen.link import hard_subspace
from limen.method import answers
from limen.precision import in_double
from limen.problem import InputError, OverlapStart, TwoLayer
from limen.problem.starts import overlap_matrix
from limen.problem.times import time_grid
from limen.result import Findings, Result
from limen.theory.descent.solve import CITATIONS, solve

# The linear law of the overlap holds to about a per cent of probability up to here (`learning-transition`); matching
# earlier leaves out the noise that a run still meets.
SMALL_COSINE = 0.5
LEARNT = 0.5
# Runs the average is taken over, and informed starts their curves are interpolated between.
RUNS, NODES = 256, 8
# The law of the matched start moves everything: it is given more sets of paths.
PINNED = 3
LOWEST_LUCK = 0.02
CURVES = ("train_loss", "test_loss", "excess_risk", "overlap", "gram")


class Escape(NamedTuple):
    r"""A problem with one hard direction $u$, split at it: the problem whose start has no overlap with $u$, the
    direction (k,), and the start's $\theta(0)\cdot u$, None where it is random."""

    pinned: TwoLayer
    direction: np.ndarray
    overlap: float | None

    def informed(self, overlap: float) -> TwoLayer:
        """The problem started with this overlap along the hard direction."""
        start = self.pinned.start
        rest = overlap_matrix(start, 1, self.direction.size) if isinstance(start, OverlapStart) else 0.0
        gram = start.gram if isinstance(start, OverlapStart) else None
        rows = np.atleast_2d(rest + overlap * self.direction)
        return self.pinned.model_copy(update={"start": OverlapStart(overlap=rows.tolist(), gram=gram)})


def escape_of(problem: TwoLayer, d: int) -> Escape:
    """The split problem; refused unless it has one neuron and one hard direction."""
    if d < 2 or int(d) != d:
        raise InputError(f"d must be a whole number of at least 2, got {d!r}.")
    reason = problem.inputs.unlike_isotropic()
    if reason is not None:
        raise InputError(f"finite_size does not apply: {reason}")
    hard = hard_subspace(problem.target).basis
    if hard.shape[1] != 1 or problem.network.width != 1:
        raise InputError(
            f"finite_size needs one neuron and one hard direction, got width {problem.network.width} and "
            f"{hard.shape[1]} hard directions."
        )
    direction = hard[:, 0]
    if not isinstance(problem.start, OverlapStart):
        return Escape(problem, direction, None)
    overlap = overlap_matrix(problem.start, 1, problem.target.latents)
    along = float((overlap @ direction).item())
    rest = OverlapStart(overlap=(overlap - along * direction).tolist(), gram=problem.start.gram)
    return Escape(problem.model_copy(update={"start": rest}), direction, along)


def hard_cosine(prediction: Findings | Result, d: int) -> np.ndarray:
    r"""$s_t=\sqrt{\mathrm{tr}_r\,C_u(t,t)_{jj}/(d\,C_\theta(t,t)_{jj})}$, the typical cosine between neuron $j$ and
    the hard subspace; shape (time, neuron)."""
    variance = np.einsum("tjjaa->tj", prediction.dataset.hard_variance.values)
    return np.sqrt(variance / (d * np.einsum("tjj->tj", prediction.dataset.gram.values)))


def matched_overlap(
    prediction: Findings | Result, d: int, luck: Any, overlap: float | None = None, norm: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    r"""$M_0$ at the quantiles `luck` of its law, for one neuron and one hard direction, and the indices of $t_1$.

    $t_1$ is where a run leaves the linear theory: the first time at which its cosine passes $\frac12$, or, in a run
    that never gets there, the time of its largest cosine. `overlap` is the start's, None for a random start of length
    `norm`.
    """
    gram, variance, amplification = (
        prediction.dataset[name].values.reshape(-1) for name in ("gram", "hard_variance", "amplification")
    )
    amplification = np.abs(amplification)
    given = 0.0 if overlap is None else norm**2
    width = np.sqrt(np.maximum(variance / amplification**2 - given, 1e-12))
    centre = np.sqrt(d) * abs(overlap or 0.0)
    start = folded_quantile(np.atleast_1d(luck)[:, None], centre, width) / np.sqrt(d)
    cosine = amplification * start / np.sqrt(gram)
    at = np.where((cosine > SMALL_COSINE).any(axis=1), np.argmax(cosine > SMALL_COSINE, axis=1), cosine.argmax(axis=1))
    return np.minimum(start[np.arange(len(at)), at], 0.99 * norm), at


def folded_quantile(level: np.ndarray, centre: float, width: np.ndarray) -> np.ndarray:
    r"""Quantiles of $|N(c,w^2)|$, by bisection, to rounding."""
    shape = np.broadcast_shapes(np.shape(level), np.shape(width))
    low, high = np.zeros(shape), np.broadcast_to(abs(centre) + 10.0 * width, shape)
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = ndtr((middle - centre) / width) - ndtr((-middle - centre) / width) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


@answers("theory", CITATIONS)
@in_double
def finite_size(
    problem: TwoLayer,
    times: Any,
    d: int,
    quantiles: Any = (0.1, 0.25, 0.5, 0.75, 0.9),
    paths: int = 4096,
    scrambles: int = 5,
    seed: int = 0,
) -> Findings:
    r"""Predicted curves of gradient descent at dimension $d$ through the escape from a hard direction.

    One neuron and one hard direction: the curves of runs at the given `quantiles` of luck (0.5 is the typical
    run, 0.9 a lucky one). With an `OverlapStart` the luck is that of the sample alone. Before the matched time the
    overlap is that of the informed start, somewhat larger than a run's own. Variables `train_loss`,
    `test_loss`, `excess_risk`, `overlap`, `gram`, `cosine` along (quantile, time); `escape_time` (quantile), the first
    time with $|\cos|>\frac12$, infinite if there is none; medians over `scrambles` sets of paths.
    """
    grid = time_grid(times, counts_steps=True)
    luck = np.atleast_1d(np.asarray(quantiles, dtype=float))
    if luck.ndim != 1 or not ((luck > 0) & (luck < 1)).all():
        raise InputError(f"quantiles must lie in (0, 1), got {quantiles!r}.")
    split = escape_of(problem, d)
    pinned = solve(split.pinned, np.arange(grid[-1] + 1), paths, scrambles, seed)
    require_descent(pinned)
    overlaps, at = matched_overlap(pinned, d, luck, split.overlap, problem.network.initial_norm)
    curves = [solve(split.informed(overlap), grid, paths, scrambles, seed) for overlap in overlaps]
    dataset = xr.concat([curve.dataset[list(CURVES)] for curve in curves], dim=xr.Variable("quantile", luck))
    cosine = cosine_with(split.direction, dataset)
    dataset["cosine"] = (("quantile", "time"), cosine)
    dataset["escape_time"] = (("quantile",), first_passage(grid, cosine))
    dataset["start_overlap"] = (("quantile",), overlaps)
    dataset["matched_time"] = (("quantile",), pinned.dataset.time.values[at])
    ok = pinned.ok and all(curve.ok for curve in curves)
    status = f"informed starts matched to the fluctuations; medians of {scrambles} sets of {paths} paths."
    return Findings(dataset.assign_attrs(d=int(d)), ok, status)


@answers("theory", CITATIONS)
@in_double
def average_run(
    problem: TwoLayer, times: Any, d: int, paths: int = 4096, scrambles: int = 3, seed: int = 0
) -> Findings:
    r"""Means over runs of gradient descent at dimension $d$, escape included: what an average over seeds shows.

    `train_loss`, `test_loss` and `cosine` (time): means over luck, with `*_low` and `*_high` the tenth and ninetieth
    percentile of runs. `escaped` (time): the part of runs with $|\cos|>\frac12$ at some time so far. `escape_time`
    (quantile): its quartiles, infinite for runs that do not escape.

    The curves of 256 runs are interpolated between those of eight informed starts, evenly spaced in $\log M_0$. Before
    $t_1$ a run has met only a part of its noise; there losses, which respond to the square of the overlap, lie between
    those without overlap and those of the informed start in the ratio of the mean squares. Exact
    as $d\to\infty$ in the window of the escape; at finite $d$ each run also fluctuates by $O(d^{-1/2})$ around its
    curve, and means by $O(1/d)$. Cost: eleven times that of
    `solve`.
    """
    grid = time_grid(times, counts_steps=True)
    split = escape_of(problem, d)
    pinned = solve(split.pinned, np.arange(grid[-1] + 1), paths, PINNED * scrambles, seed)
    require_descent(pinned)
    luck = (np.arange(RUNS) + 0.5) / RUNS
    overlaps, at = matched_overlap(pinned, d, luck, split.overlap, problem.network.initial_norm)
    lowest = max(float(np.quantile(overlaps, LOWEST_LUCK)), 1e-3 * float(overlaps.max()))
    nodes = np.geomspace(lowest, overlaps.max(), NODES)
    # Sets of their own for every start: their errors average out in the mean over luck.
    seeds = (NODES + 1) * seed + 1 + np.arange(NODES)
    curves = [
        solve(split.informed(node), grid, paths, scrambles, int(own)) for node, own in zip(nodes, seeds, strict=True)
    ]
    for curve in curves:
        require_descent(curve)
    dataset = xr.concat([curve.dataset[list(CURVES)] for curve in curves], dim="node")
    cosine = cosine_with(split.direction, dataset)
    position = np.log(np.clip(overlaps, lowest, None))
    parts = {"train_loss": dataset.train_loss.values, "test_loss": dataset.test_loss.values, "cosine": cosine}
    runs = {name: PchipInterpolator(np.log(nodes), values)(position) for name, values in parts.items()}
    early = noise_so_far(pinned, at, d, split.overlap, problem.network.initial_norm)[:, grid.astype(int)]
    for name in ("train_loss", "test_loss"):
        without = pinned.dataset[name].values[grid.astype(int)]
        runs[name] = without + early * (runs[name] - without)
    runs["cosine"] *= np.sqrt(early)
    found: dict[str, Any] = {}
    for name, values in runs.items():
        found[name] = (("time",), values.mean(axis=0))
        found[f"{name}_low"], found[f"{name}_high"] = ((("time",), part) for part in np.quantile(values, (0.1, 0.9), 0))
    found["escaped"] = (("time",), (np.maximum.accumulate(runs["cosine"], axis=1) > LEARNT).mean(axis=0))
    quartiles = np.array([0.25, 0.5, 0.75])
    passage = np.quantile(first_passage(grid, runs["cosine"]), quartiles, method="nearest")
    found["escape_time"] = (("quantile",), passage)
    result = xr.Dataset(found, coords={"time": grid, "quantile": quartiles}, attrs={"d": int(d)})
    status = f"mean over luck between {NODES} informed starts; medians of {scrambles} sets of {paths} paths."
    return Findings(result, True, status)


def require_descent(prediction: Findings | Result) -> None:
    """Refuses weights that diverge."""
    if not prediction.ok:
        raise InputError(f"step must be small enough for descent: {prediction.status}")


def noise_so_far(
    prediction: Findings | Result, at: np.ndarray, d: int, overlap: float | None, norm: float
) -> np.ndarray:
    r"""Mean square of $\vartheta(t)/\Phi_0(t)$ over that at $t_1$ of each run, 1 from there on; (run, time)."""
    variance, amplification = (
        prediction.dataset[name].values.reshape(-1) for name in ("hard_variance", "amplification")
    )
    square = variance / amplification**2
    if overlap is not None:
        square = d * overlap**2 + np.maximum(square - norm**2, 0.0)
    later = np.arange(square.size) >= at[:, None]
    return np.where(later, 1.0, np.minimum(square / square[at][:, None], 1.0))


def cosine_with(direction: np.ndarray, dataset: xr.Dataset) -> np.ndarray:
    r"""$|\cos|$ between the neuron and a direction of the latent space, shape (curve, time)."""
    along = np.abs(dataset.overlap.values[:, :, 0] @ direction)
    return along / np.sqrt(dataset.gram.values[:, :, 0, 0])


def first_passage(grid: np.ndarray, cosine: np.ndarray) -> np.ndarray:
    r"""First time with $|\cos|>\frac12$ of each row, infinite where there is none."""
    passed = cosine > LEARNT
    return np.where(passed.any(axis=1), grid[np.argmax(passed, axis=1)], np.inf)
