r"""Gradient descent of wide networks whose neurons are equal in law, at a cost that does not grow with their number.

`symmetric_pass` is exact for $m$ neurons and costs $m$. Beyond 32 neurons the same network with $J=8,16,32$ neurons and
step $\eta J/m$, so that each neuron moves as it does among $m$, is solved instead: whatever is reported is smooth in
$1/m$, and a parabola in $1/J$ gives it at $1/m$, the limit $m\to\infty$ included. How far the straight line through
$J=16,32$ is from the parabola is part of the stated error.
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from limen.checks import integer, power_of_two
from limen.gaussian.keys import numpy_generators
from limen.gaussian.sobol import sobol_normals
from limen.labelled import labelled
from limen.machine.memory import check_memory
from limen.method import Method
from limen.precision import in_double
from limen.problem import GradientDescent, InputError, Network, OverlapStart, TwoLayer
from limen.problem.divergence import remedy
from limen.problem.starts import overlap_matrix
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.descent.batches import draw_batches
from limen.theory.descent.coordinates import whitened
from limen.theory.descent.path_error import OF_A_MEDIAN, stated_part
from limen.theory.descent.solve import MOST_ENTRIES, pinned_directions
from limen.theory.descent.symmetric_pass import Decays, SymmetricPoints, SymmetricRun, symmetric_pass

CITATIONS = ("montanari2026", "celentano2021")
# Neurons up to which the theory is solved as it is, and those it is continued from beyond.
MOST_NEURONS, LADDER = 32, (8, 16, 32)
MOST_GROUPS = 4
LARGEST_ERROR = 0.02
PATH_NEURONS = 2**16


class Groups(NamedTuple):
    """Neurons with the same second layer, bias and start: how many of each, in the order of the network, and their
    overlaps (G, k) at the start."""

    counts: tuple[int, ...]
    overlap: np.ndarray


def groups_of(problem: TwoLayer) -> Groups | str:
    """The groups of equal neurons, or why there are none."""
    network, k = problem.network, problem.target.latents
    overlap = np.zeros((network.width, k))
    if isinstance(problem.start, OverlapStart):
        if problem.start.gram is not None:
            return "it starts neurons independently: a start with gram makes each of them different."
        overlap = overlap_matrix(problem.start, network.width, k)
    rows = np.column_stack([_of_neurons(network, "second_layer"), _of_neurons(network, "bias"), overlap])
    changes = np.flatnonzero(np.abs(np.diff(rows, axis=0)).max(axis=1, initial=0.0) > 0.0) + 1
    counts = np.diff(np.concatenate([[0], changes, [network.width]]))
    if len(counts) > MOST_GROUPS:
        return (
            f"it solves up to {MOST_GROUPS} groups of neurons with equal second layer, bias and start, one after the "
            f"other, and these {network.width} neurons form {len(counts)}."
        )
    return Groups(tuple(int(count) for count in counts), overlap[np.concatenate([[0], changes])])


def _of_neurons(network: Network, name: str) -> np.ndarray:
    """`per_neuron` as an array; one number for all is not written out a million times."""
    return np.broadcast_to(np.asarray(getattr(network, name), dtype=float), (network.width,))


def refuses(problem: object) -> str | None:
    """Why the theory of equal neurons does not apply, or None."""
    if not isinstance(problem, TwoLayer):
        return "it solves two-layer networks."
    if not isinstance(problem.algorithm, GradientDescent):
        return f"it solves GradientDescent, not {type(problem.algorithm).__name__}."
    found = groups_of(problem)
    return found if isinstance(found, str) else problem.inputs.unlike_isotropic()


@in_double
def solve(problem: TwoLayer, times: Any, paths: int | None = None, scrambles: int = 5, seed: int = 0) -> Findings:
    r"""Gradient descent as $n,d\to\infty$ with $n/d\to\delta$, at `times` (whole steps), for neurons equal in law.

    Returns `train_loss`, `test_loss`, `excess_risk`, `overlap` (time, neuron, latent), `second_layer`, `bias` where it
    is trained and, of each group, `own_gram` (time, group): $|\theta_j|^2$, and `shared_gram` (time, group, group2):
    $\theta_j\cdot\theta_l$ of two different neurons; `gram` (time, neuron, neuron2) where it has at most four million
    entries. Each is the median over `scrambles` sets of `paths` points with all their neurons, the standard deviation
    between sets in `*_spread`. Overlaps with hard directions are pinned to zero unless the start has some.

    `paths`, a power of two, is by default 65536 over the number of neurons, at most 32, on each of them.
    Groups are neurons with the same second layer, bias and start, at most four, one after the other. Cost of a set:
    $O(NmT^2)$ operations up to 32 neurons and the same beyond. Not `ok` where sets or continuation differ by more than
    2% of a variable's size. Source: Montanari & Wang 2026.
    """
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"equal-neurons does not apply: {reason}")
    return solve_decaying(problem, times, paths, scrambles, seed, None)


@in_double
def solve_decaying(
    problem: TwoLayer, times: Any, paths: int | None, scrambles: int, seed: int, decays: Decays | None
) -> Findings:
    """`solve`, with decays of the two layers that may change from step to step in place of the algorithm's own."""
    scrambles, seed = integer("scrambles", scrambles, 2), integer("seed", seed, 0)
    grid = time_grid(times, counts_steps=True)
    steps, groups, width = int(grid[-1]), groups_of(problem), problem.network.width
    assert isinstance(groups, Groups)
    ladder = (width,) if width <= MOST_NEURONS else LADDER
    count: int = (
        2 ** int(np.ceil(np.log2(PATH_NEURONS / ladder[-1]))) if paths is None else power_of_two("paths", paths)
    )
    shares = [np.array(groups.counts) * neurons / width for neurons in ladder]
    if not all(np.allclose(part, np.rint(part)) for part in shares):
        raise InputError(
            f"groups of more than {MOST_NEURONS} neurons must be multiples of an eighth of the width {width}, got "
            f"{groups.counts}."
        )
    memory = 8.0 * count * ladder[-1] * (2.0 * steps + 6.0)
    check_memory("paths x steps x neurons", memory, f"take fewer than {count} paths or {steps} steps")
    rungs = []
    for part in shares:
        counts = tuple(int(count) for count in np.rint(part))
        smaller, own = _with_neurons(problem, groups, counts), _slower(decays, sum(counts) / width)
        sets = [_set(smaller, groups, counts, ladder[-1], steps, count, 1000 * seed + i, own) for i in range(scrambles)]
        rungs.append([_observed(one, counts, grid, problem.target.latents) for one in sets])
    dataset, worst = _continued(rungs, ladder, width, grid)
    dataset = _by_neuron(dataset, groups.counts)
    if not problem.network.train_bias:
        dataset = dataset.drop_vars(["bias", "bias_spread"])
    words = f"median of {scrambles} sets of {count} paths"
    status, ok = f"{words}, {width} neurons in {len(groups.counts)} group{'s' * (len(groups.counts) > 1)}.", True
    if len(ladder) > 1:
        status = f"{status[:-1]}, continued in 1/m from {', '.join(map(str, ladder))} neurons."
    if not np.isfinite(dataset.train_loss.values).all():
        ok, status = False, f"the weights diverge: {remedy(problem)}."
    elif worst > LARGEST_ERROR:
        ok = False
        status = f"{words} or their continuation in 1/m differ by {worst:.1%} of a variable's size: take more paths."
    return Findings(dataset, ok, status, {"memory": memory, "error": worst})


def _with_neurons(problem: TwoLayer, groups: Groups, counts: tuple[int, ...]) -> TwoLayer:
    """The problem with other numbers of neurons, and a step with which each moves as before."""
    if counts == groups.counts:
        return problem
    ends = np.cumsum((0, *groups.counts[:-1]))
    network, algorithm = problem.network, problem.algorithm
    assert isinstance(algorithm, GradientDescent)
    own = {
        name: tuple(float(x) for x in np.repeat(_of_neurons(network, name)[ends], counts))
        for name in ("second_layer", "bias")
    }
    ratio = sum(counts) / network.width
    if isinstance(algorithm.step, (int, float)):
        step: float | str = ratio * algorithm.step
    elif isinstance(algorithm.step, str):
        step = f"{ratio!r}*({algorithm.step})"
    else:
        raise InputError(f"step must be a number or a formula beyond {MOST_NEURONS} neurons, got a function.")
    changes: dict[str, Any] = {
        "network": network.model_copy(update={"width": sum(counts), **own}),
        "algorithm": algorithm.model_copy(update={"step": step, "weight_decay": algorithm.weight_decay / ratio}),
    }
    if isinstance(problem.start, OverlapStart):
        rows = np.repeat(groups.overlap, counts, axis=0)
        changes["start"] = OverlapStart(tuple(map(tuple, rows.tolist())))
    return problem.model_copy(update=changes)


def _slower(decays: Decays | None, ratio: float) -> Decays | None:
    """Decays for a step `ratio` times as long, so that layers shrink as before."""
    if decays is None:
        return None
    return lambda step: (decays(step)[0] / ratio, decays(step)[1] / ratio)


def _set(
    problem: TwoLayer,
    groups: Groups,
    counts: tuple[int, ...],
    most: int,
    steps: int,
    paths: int,
    seed: int,
    decays: Decays | None = None,
) -> SymmetricRun:
    """One set of paths through all steps: as many networks of these `counts` on each path as `most` neurons make up."""
    copies = most // sum(counts)
    algorithm, k = problem.algorithm, problem.target.latents
    assert isinstance(algorithm, GradientDescent)
    batches = draw_batches(algorithm, steps, paths * copies, numpy_generators([seed], 0, "batches of the theory"))
    points = draw_symmetric_points(problem, counts, copies, steps, paths, seed)
    rest = np.sqrt(problem.network.initial_norm**2 - (groups.overlap**2).sum(axis=1))
    shared = np.concatenate([groups.overlap, np.diag(rest / np.sqrt(counts))], axis=1)
    single = None if batches is None else batches.row(0)
    assert shared.shape[1] == k + len(counts)
    return symmetric_pass(problem, counts, points, (shared, rest), steps, single, decays)


def draw_symmetric_points(
    problem: TwoLayer, counts: tuple[int, ...], copies: int, steps: int, paths: int, seed: int
) -> SymmetricPoints:
    """Sobol normals for what neurons share, in pairs of opposite hard coordinates; plain normals for their own.

    Each point serves `copies` networks. Their neurons together are the same whatever the copies, so that errors are
    alike in networks of 8 and 32 neurons and cancel between them.
    """
    target, groups = problem.target, len(counts)
    k, hard = target.latents, pinned_directions(problem)
    pairs, dimension = 2 if hard.shape[1] else 1, k + 2 + groups * (1 + steps)
    drawn = sobol_normals(paths // pairs, dimension, seed)
    first = whitened(drawn[:, : k + 2 + groups])
    latent, label = first[:, :k], np.tile(first[:, k : k + 2], (pairs, 1))
    if pairs == 2:
        latent = np.concatenate([latent, latent - 2.0 * (latent @ hard) @ hard.T])
    clean = np.asarray(target.function(latent, label[:, 0] if target.uses_inner_noise else np.zeros(paths)), float)
    rest = np.tile(np.concatenate([first[:, k + 2 :], drawn[:, k + 2 + groups :]], axis=1), (pairs, 1))
    shared = np.tile(np.concatenate([latent, rest], axis=1).T.astype(np.float32), (1, copies))
    random = numpy_generators([seed], copies * sum(counts), "neurons of the theory")[0]
    own = []
    for count in counts:
        part = random.standard_normal((1 + steps, copies, count, paths // pairs), np.float32)
        part = np.tile(part - part.mean(axis=2, keepdims=True), (1, 1, 1, pairs)).transpose(0, 2, 1, 3)
        part = part.reshape(1 + steps, -1)
        own.append(part / np.maximum(np.sqrt(np.mean(part**2, axis=1, keepdims=True)), np.float32(1e-30)))
    labels = clean + np.sqrt(target.noise) * label[:, 1]
    noisy, without = (np.tile(part.astype(np.float32), copies) for part in (labels, clean))
    return SymmetricPoints(shared, own, noisy, without, hard)


def _observed(run: SymmetricRun, counts: tuple[int, ...], grid: np.ndarray, k: int) -> dict[str, np.ndarray]:
    """What is reported of one set, group by group."""
    at, sizes = grid.astype(int), np.array(counts)
    own = (run.own[at] ** 2).sum(axis=2)
    shared = np.einsum("tgc,thc->tgh", run.shared[at], run.shared[at])
    alone = np.einsum("tgg->tg", shared) + own * (sizes - 1) / sizes
    return {
        "train_loss": run.train_loss[at],
        "test_loss": run.fresh_loss[at, 0],
        "excess_risk": run.fresh_loss[at, 1],
        "overlap": run.shared[at, :, :k],
        "second_layer": run.second_layer[at],
        "bias": run.bias[at],
        "own_gram": alone,
        "shared_gram": shared - np.eye(len(counts)) * (own / sizes)[:, None],
    }


DIMS = {
    "train_loss": ("time",),
    "test_loss": ("time",),
    "excess_risk": ("time",),
    "overlap": ("time", "group", "latent"),
    "second_layer": ("time", "group"),
    "bias": ("time", "group"),
    "own_gram": ("time", "group"),
    "shared_gram": ("time", "group", "group2"),
}


def _continued(
    rungs: list[list[dict[str, np.ndarray]]], ladder: tuple[int, ...], width: int, grid: np.ndarray
) -> tuple[xr.Dataset, float]:
    """Medians over sets, continued to 1/width; and the largest error of a variable in parts of its size."""
    inverse, sets = 1.0 / np.array(ladder), len(rungs[0])
    parabola, line = (_weights(inverse[-count:], 1.0 / width) for count in (len(ladder), min(len(ladder), 2)))
    variables, worst = {}, 0.0
    for name, dims in DIMS.items():
        values = np.array([[one[name] for one in rung] for rung in rungs])
        ends = np.tensordot(parabola, values, axes=1)
        median = np.median(ends, axis=0)
        straight = np.median(np.tensordot(line, values[-len(line) :], axes=1), axis=0)
        part, single, bent = stated_part(sets), ends.std(axis=0, ddof=1), 0.5 * np.abs(median - straight)
        spread = np.hypot(single, bent / part)
        variables[name] = (dims, median, {"error": f"{name}_spread", "error_part": part})
        variables[f"{name}_spread"] = (dims, spread)
        size = max(float(np.nanmax(np.abs(median), initial=0.0)), 1e-3)
        error = np.hypot(OF_A_MEDIAN / sets**0.5 * single, bent)
        worst = max(worst, float(np.nanmax(error, initial=0.0)) / size)
    return labelled(variables, coords={"time": grid, "step": ("time", grid)}), worst


def _weights(nodes: np.ndarray, at: float) -> np.ndarray:
    """Weights of the values at `nodes` in the polynomial through them, at another point."""
    return np.array([np.prod([(at - x) / (y - x) for x in nodes if x != y]) for y in nodes])


def _by_neuron(dataset: xr.Dataset, counts: tuple[int, ...]) -> xr.Dataset:
    """Overlaps and second layer along the neurons, and their Gram matrix where it is not too large."""
    which = np.repeat(np.arange(len(counts)), counts)
    renamed = {}
    along = ("overlap", "second_layer", "bias")
    for name in along:
        for full in (name, f"{name}_spread"):
            renamed[full] = dataset[full].isel(group=which).rename(group="neuron")
    if dataset.sizes["time"] * which.size**2 <= MOST_ENTRIES:
        equal = np.eye(which.size, dtype=bool)
        for ending in ("", "_spread"):
            own, shared = (dataset[f"{kind}_gram{ending}"].values for kind in ("own", "shared"))
            gram = np.where(equal, own[:, which, None], shared[:, which[:, None], which])
            renamed[f"gram{ending}"] = (("time", "neuron", "neuron2"), gram)
    found = dataset.drop_vars([full for name in along for full in (name, f"{name}_spread")]).assign(renamed)
    if "gram" in found:
        found.gram.attrs.update(dataset.own_gram.attrs | {"error": "gram_spread"})
    return found


equal_neurons = Method("equal-neurons", "theory", CITATIONS, refuses, solve, coarse={"paths": 256, "scrambles": 2})
