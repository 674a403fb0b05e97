r"""Gradient descent at dimension $d$, training by training: noise-driven mean-field theory.

At finite $d$ the mean-field equations hold with one more random term, in the overlaps,
$M(t+1)=M(t)-E[F(t)V_*^\top]+\omega(t)/\sqrt d$: the fluctuation of the mean over $n=\delta d$ samples
(`conditioned_pass`). Near $M=0$ this is the linear law of `hard_fluctuations`; far from it the fluctuation does not
matter; in between the response of the drift to $M$ is the exact nonlinear one. All else fluctuates by $O(d^{-1/2})$
without growth, and means are off by $O(1/d)$. One run of the theory is one training: its start is that of the
simulation of the same seed, its $\omega$ its own.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from limen.checks import power_of_two, seed_list, whole
from limen.gaussian.keys import numpy_generators
from limen.gaussian.sobol import MOST_DIMENSIONS, sobol_columns, sobol_normals
from limen.gaussian.starts.start_weights import start_overlaps
from limen.labelled import labelled
from limen.link import hard_subspace
from limen.precision import in_double
from limen.problem import GradientDescent, InputError, OverlapStart, TwoLayer
from limen.problem.divergence import remedy
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.descent.batches import draw_batches
from limen.theory.descent.conditioned_pass import Points, Runs, Sampling, conditioned_pass
from limen.theory.descent.coordinates import whitened

CITATIONS = ("montanari2026", "celentano2021")
PATHS, MOST_PATHS = 4096, 2**18
# Points for each of the width x steps directions a run conditions on: the drift is too small by about their ratio.
PATHS_PER_DIRECTION = 48
MOST_BYTES = 8e9
# The paths' own error in the drift of a hard overlap, in units of the fluctuation of a sample.
DRIFT_ERROR = 0.1
SETS = 4
# Directions whose coordinates are drawn at once where they are drawn when they are met.
DRAWN_TOGETHER = 32
# Directions of the first steps' luck that rows may share out evenly.
DECISIVE, PILOT_DIMENSION, PILOT_PATHS = 28, 10**8, 1024
# Labels even in the hard coordinates leave rounding only.
EVEN = 1e-5


class Quality(NamedTuple):
    """Paths of a run, and their error in the drift of the hard overlaps over the fluctuation of one sample's mean."""

    paths: int
    drift_error: float


@in_double
def runs(
    problem: TwoLayer,
    times: Any,
    d: int,
    seeds: int | Sequence[int] = 32,
    paths: int | None = None,
    seed: int = 0,
    even_sets: int = 0,
) -> Findings:
    r"""One row per seed: `train_loss`, `test_loss`, `excess_risk` (seed, time), `overlap` (seed, time, neuron, latent),
    `gram`, `second_layer` of gradient descent at dimension `d`, escape from hard directions included.

    Any width, any number of hard directions, kinked activations, every linear update rule. `paths` points a run, a
    power of two; by default 4096, or 48 for each of the width x steps directions of a run (the drift is too small by
    directions over paths, which wide networks show), or as many as keep their error in the drift of a hard overlap
    below a tenth of the fluctuation of a sample. Every row has points of its own, so that their errors average out over
    rows. With `even_sets` the rows are cut into so many sets, and random starts and the luck of the first steps are
    shared out evenly among the rows of a set (Sobol normals): each row has the same law, and means over a set have a
    smaller error, which shows between sets; starts are then not those of the simulations.
    Cost of a row: $O(N(mT)^2)$ operations, 0.05 s for 50 steps of one neuron.
    """
    grid, dimension = time_grid(times, counts_steps=True), whole("d", d)
    steps, rows = int(grid[-1]), seed_list(seeds)
    if problem.inputs.unlike_isotropic() is not None:
        raise InputError(f"d does not apply: {problem.inputs.unlike_isotropic()}")
    quality = enough_paths(problem, steps, dimension, paths, seed)
    side, asked = side_by_side(problem, steps, quality.paths), set(grid.astype(int).tolist())
    decisive = _decisive(problem, steps, dimension, len(rows), even_sets, seed) if even_sets and steps else None

    def of(part: slice) -> Runs:
        some = None if decisive is None else decisive[part]
        return run_rows(problem, steps, dimension, quality.paths, rows[part], seed, some, asked)

    found = [of(slice(i, i + side)) for i in range(0, len(rows), side)]
    dataset = observed(found, problem.target.latents, grid, rows).assign_attrs(d=dimension)
    if problem.network.train_bias:
        bias = np.concatenate([part.bias for part in found])[:, grid.astype(int)]
        dataset["bias"] = (("seed", "time", "neuron"), bias)
    status = f"{len(rows)} runs at d = {dimension}, each on {quality.paths} paths."
    lost = np.concatenate([part.diverged for part in found])
    lost = lost[lost >= 0]
    if lost.size:
        status = f"weights diverge in {lost.size} of {len(rows)} runs, first at step {lost.min()}: {remedy(problem)}."
    statistics = {"paths": float(quality.paths), "drift_error": quality.drift_error}
    return Findings(dataset, not lost.size, status, statistics)


def run_rows(
    problem: TwoLayer,
    steps: int,
    d: int,
    paths: int,
    rows: Sequence[int],
    seed: int,
    decisive: np.ndarray | None = None,
    fresh: Collection[int] = (),
) -> Runs:
    """Trainings at dimension d side by side: the starts of the simulations of seeds `rows`, samples of their own.

    `decisive` (rows, c): standard normals in place of drawn ones; for the overlaps of random starts, neuron by neuron,
    then the first of those samples' luck. `fresh`: the steps at which losses on fresh inputs are wanted.
    """
    algorithm = problem.algorithm
    assert isinstance(algorithm, GradientDescent) and problem.samples_per_dim is not None
    # Pilots are one row again and again.
    own = {row: start_overlaps(problem, d, row) for row in set(rows)}
    starts = [own[row] for row in rows]
    if decisive is not None:
        given, decisive = np.split(decisive, [_start_normals(problem)], axis=1)
        starts = [
            _placed(problem, d, row, *one, normals) for row, one, normals in zip(rows, starts, given, strict=True)
        ]
    start = np.stack([np.concatenate([m, square_root(q - m @ m.T)], axis=1) for m, q in starts])
    randoms = numpy_generators(rows, d, f"sample of the theory {seed}")
    luck = np.stack([random.standard_normal(paths, np.float32) for random in randoms])
    size = np.float32(np.sqrt(problem.samples_per_dim * d * paths))
    luck = (luck - luck.mean(axis=1, keepdims=True)) / size
    batches = draw_batches(algorithm, steps, paths, randoms)
    points = draw_points(problem, problem.network.width * steps, paths, [100_003 * seed + row for row in rows])
    leading = None if decisive is None else decisive.astype(np.float32) / size
    return conditioned_pass(problem, points, start, steps, Sampling(luck, batches, leading), pinned=False, fresh=fresh)


def _decisive(problem: TwoLayer, steps: int, d: int, rows: int, sets: int, seed: int) -> np.ndarray:
    r"""Standard normals (rows, c) for random starts and the first directions of luck: even within each of `sets` sets
    of rows.

    Sobol points are most even along their first coordinates. The very first is the luck of the train loss; the next
    ones are turned to what decides an escape. While overlaps are small they are linear in start and luck. Pilot rows on
    the same paths, each with one number moved, show how; where the start has no overlap of its own they run at so large
    a dimension that overlaps stay small. Two times count, early and late escapes.
    """
    latents, width = problem.target.latents, problem.network.width
    started = _start_normals(problem)
    count = started + 1 + min(DECISIVE, steps * width * latents)
    early = min(steps, DECISIVE)
    given = isinstance(problem.start, OverlapStart) and bool(np.any(problem.start.overlap))
    moved = (0.01 if given else 1.0) * np.eye(count + 1, count)
    paths = max(PILOT_PATHS, 2 ** int(np.ceil(np.log2(8 * (latents + width * (early + 1))))))
    pilots = run_rows(problem, early, d if given else PILOT_DIMENSION, paths, [900_000] * (count + 1), seed, moved)
    overlap = pilots.coefficients[:, [early // 2, early], :, :latents] @ hard_subspace(problem.target).basis
    overlap = np.nan_to_num(overlap[:-1] - overlap[-1])
    size = np.sqrt((overlap**2).sum(axis=(0, 2, 3), keepdims=True))
    slopes = (overlap / np.maximum(size, 1e-300)).reshape(count, -1)
    # Rows: the starts, the luck of the train loss, that of the forces. Columns: the luck of the train loss first.
    turned, turn = np.delete(np.arange(count), started), np.zeros((count, count))
    turn[started, 0] = 1.0
    turn[turned, 1:] = np.linalg.svd(slopes[turned], full_matrices=True)[0]
    parts = np.array_split(np.arange(rows), sets)
    size = 2 ** int(np.ceil(np.log2(max(len(parts[0]), 2))))
    return (
        np.concatenate(
            [sobol_normals(size, count, 100_003 * seed + 77_000 + i)[: len(part)] for i, part in enumerate(parts)]
        )
        @ turn.T
    )


def _start_normals(problem: TwoLayer) -> int:
    """How many normals decide the overlaps of a start: none where it is given."""
    return 0 if isinstance(problem.start, OverlapStart) else problem.network.width * problem.target.latents


def _placed(
    problem: TwoLayer, d: int, row: int, overlap: np.ndarray, gram: np.ndarray, normals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A random start whose components along the target are these normals: overlaps and Gram matrix, of the same law;
    what neurons share beside the target is as drawn."""
    if normals.size == 0:
        return overlap, gram
    m, k = overlap.shape
    along, norm = normals.reshape(m, k), problem.network.initial_norm
    rest = numpy_generators([row], d, "length of the start")[0].chisquare(d - k, m)
    placed = norm * along / np.sqrt((along**2).sum(axis=1) + rest)[:, None]
    shared = gram - overlap @ overlap.T
    scale = np.sqrt((norm**2 - (placed**2).sum(axis=1)) / np.diag(shared))
    return placed, placed @ placed.T + scale[:, None] * shared * scale


def side_by_side(problem: TwoLayer, steps: int, paths: int) -> int:
    """How many runs, a power of two up to 64, fill about 32 MB: enough to share the work of each step, not more than
    the caches like."""
    k, m = problem.target.latents, problem.network.width
    return 2 ** int(np.log2(np.clip(32e6 / (8.0 * paths * (k + m + m * steps)), 1, 64)))


def draw_points(problem: TwoLayer, directions: int, paths: int, seeds: Sequence[int], when_met: bool = False) -> Points:
    r"""Scrambled Sobol normals, one scramble per seed, in pairs $U\to-U$ of the hard coordinates: where labels are even
    in them the drift of the hard overlaps is exactly zero at $M=0$. With `when_met` the coordinates of the gradients
    are drawn, once, when a pass meets their directions, and kept for the next pass."""
    target, k, m = problem.target, problem.target.latents, problem.network.width
    hard = hard_subspace(target).basis
    pairs, given = 2 if hard.shape[1] else 1, k + m
    if k + 2 + m + directions > MOST_DIMENSIONS:
        raise InputError(f"times x width must be at most {MOST_DIMENSIONS - k - 2 - m}, got {directions}.")
    if 4 * (given + directions) > paths:
        raise InputError(f"paths must be at least four times width x steps = {given + directions}, got {paths}.")
    normals = np.empty((len(seeds), given + (0 if when_met else directions), paths), np.float32)
    labels, clean_labels = np.empty((2, len(seeds), paths), np.float32)
    scrambles = {seed: sobol_columns(paths // pairs, k + 2 + m + directions, seed) for seed in set(seeds)}
    columns = [scrambles[seed] for seed in seeds]
    drawn_at: dict[int, int] = {}
    for i, (seed, drawn) in enumerate(zip(seeds, columns, strict=True)):
        same = drawn_at.setdefault(seed, i)
        if same < i:
            for array in (normals, labels, clean_labels):
                array[i] = array[same]
            continue
        first = whitened(drawn(0, k + 2 + m))
        latent, own = first[:, :k], np.tile(first[:, k : k + 2], (pairs, 1))
        if pairs == 2:
            latent = np.concatenate([latent, latent - 2.0 * (latent @ hard) @ hard.T])
        inner = own[:, 0] if target.uses_inner_noise else np.zeros(paths)
        clean = np.asarray(target.function(latent, inner), dtype=float)
        if not np.isfinite(clean).all():
            raise InputError(f"target {target.label!r} must be finite for every latent coordinate.")
        clean_labels[i], labels[i] = clean, clean + np.sqrt(target.noise) * own[:, 1]
        normals[i, :k] = latent.T
        normals[i, k:given] = np.tile(first[:, k + 2 :].T, pairs)
        if not when_met:
            normals[i, given:] = np.tile(drawn(k + 2 + m, k + 2 + m + directions).T, pairs)
    kept = np.empty((len(seeds), 0, paths), np.float32)

    def later(begin: int, end: int) -> np.ndarray:
        nonlocal kept
        have = kept.shape[1]
        if end > have:
            wanted = (k + 2 + m + have, k + 2 + m + max(end, min(have + DRAWN_TOGETHER, directions)))
            new = np.stack([np.tile(drawn(*wanted).T.astype(np.float32), pairs) for drawn in columns])
            kept = np.concatenate([kept, new], axis=1)
        return kept[:, begin:end]

    return Points(normals, labels, clean_labels, hard, later if when_met else None)


def enough_paths(problem: TwoLayer, steps: int, d: int, paths: int | None, seed: int) -> Quality:
    r"""As many paths as the drift of the hard overlaps needs at this dimension.

    Its error is what the mean of $F\,U$ over paths is in sets with pinned overlaps, where it should be zero; it must be
    below a tenth of the standard deviation over $\sqrt{\delta d}$.
    """
    assert problem.samples_per_dim is not None
    allowed = DRIFT_ERROR / np.sqrt(problem.samples_per_dim * d)
    count = usual_paths(problem, steps) if paths is None else paths
    while True:
        checked_memory(problem, steps, count)
        stray = _stray(problem, steps, count, [100_003 * seed + 50_000 + i for i in range(SETS)])
        if stray <= allowed:
            return Quality(count, stray / allowed * DRIFT_ERROR)
        needed = 2 ** int(np.ceil(np.log2(count * (stray / allowed) ** 2)))
        if paths is not None or needed > MOST_PATHS:
            raise InputError(
                f"paths must be about {needed} at d = {d}, got {count}: with fewer their own error drives the hard "
                f"overlaps (at most {MOST_PATHS} are run; take a smaller d)."
            )
        count = needed


def usual_paths(problem: TwoLayer, steps: int) -> int:
    """4096 paths, or `PATHS_PER_DIRECTION` for each direction that a run of so many steps conditions on."""
    m = problem.network.width
    directions = problem.target.latents + m + m * steps
    return max(PATHS, 2 ** int(np.ceil(np.log2(PATHS_PER_DIRECTION * directions))))


def _stray(problem: TwoLayer, steps: int, paths: int, seeds: Sequence[int]) -> float:
    """Root mean square of the mean of F U over sets with pinned overlaps, over its standard deviation."""
    k, m, norm = problem.target.latents, problem.network.width, problem.network.initial_norm
    if hard_subspace(problem.target).dimension == 0 or steps == 0:
        return 0.0
    start = np.tile(np.concatenate([np.zeros((m, k)), norm * np.eye(m)], axis=1), (1, 1, 1))
    squares = []
    for one in seeds:
        points = draw_points(problem, m * steps, paths, [one])
        found = conditioned_pass(problem, points, start, steps, Sampling(), True, fresh=())
        squares.append(float(np.mean(found.stray[0, : found.diverged[0] if found.diverged[0] >= 0 else steps] ** 2)))
        if squares[0] < EVEN**2:
            break
    return float(np.sqrt(np.mean(squares)))


def checked_memory(problem: TwoLayer, steps: int, paths: int, eigenspaces: int = 1) -> float:
    """Bytes of one run: coordinates twice (float64 first), forces, and what a step needs; refused above 8 GB."""
    k, m = problem.target.latents, problem.network.width
    needed = power_of_two("paths", paths) * (8.0 * eigenspaces * (k + 2 + m + m * steps) + 8.0 * m * steps + 40.0 * m)
    if needed > MOST_BYTES:
        raise InputError(
            f"paths x steps x width needs {needed / 1e9:.1f} GB, at most {MOST_BYTES / 1e9:g} are allowed: take fewer "
            f"than {paths} paths, {steps} steps or {m} neurons."
        )
    return needed


def square_root(matrix: np.ndarray) -> np.ndarray:
    """The symmetric square root, of the positive part."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def observed(found: Sequence[Runs], latents: int, grid: np.ndarray, rows: Sequence[int]) -> xr.Dataset:
    """Losses, overlaps and Gram matrices of all runs along (seed, time)."""
    at = grid.astype(int)
    coefficients = [part.coefficients[:, at] for part in found]
    overlap = np.concatenate([part[..., :latents] for part in coefficients])
    gram = np.concatenate([part @ part.swapaxes(2, 3) for part in coefficients])
    train = np.concatenate([part.train_loss[:, at] for part in found])
    test, excess = np.moveaxis(np.concatenate([part.fresh_loss[:, at] for part in found]), 2, 0)
    second = np.concatenate([part.second_layer[:, at] for part in found])
    along = ("seed", "time")
    return labelled(
        {
            "train_loss": (along, train),
            "test_loss": (along, test),
            "excess_risk": (along, excess),
            "overlap": ((*along, "neuron", "latent"), overlap),
            "gram": ((*along, "neuron", "neuron2"), gram),
            "second_layer": ((*along, "neuron"), second),
        },
        coords={"seed": list(rows), "time": grid, "step": ("time", grid)},
    )
