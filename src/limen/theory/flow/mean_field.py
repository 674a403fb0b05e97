r"""Learning proper, $\hat t=\alpha t=O(1)$: neurons as particles that see the population risk.

As $m\to\infty$ the sample is large for what moves, training and test error are equal, and neurons interact through
their overlaps $v_i\in\mathbb R^k$ with the target alone (Mei, Montanari & Nguyen 2018; Montanari & Urbani 2025):

$$\frac{da_i}{d\hat t}=\hat\varphi(v_i)-\frac1m\sum_ja_jh(v_i\cdot v_j),\qquad
\frac{dv_i}{d\hat t}=a_i(I-v_iv_i^\top)\Big[\nabla\hat\varphi(v_i)-\frac1m\sum_ja_jh'(v_i\cdot v_j)v_j\Big].$$

Particles that start alike stay alike, so that one stands for each group of equal neurons with its part of the width:
two equations when all neurons start alike. The parts of the neurons orthogonal to the target keep their directions.
"""

from typing import Any

import numpy as np

from limen.labelled import labelled
from limen.method import answers
from limen.problem.algorithms import GradientFlow
from limen.problem.families.two_layer import TwoLayer
from limen.problem.groups import neuron_groups
from limen.problem.spec import InputError
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.flow.model import GaussianModel, model_of_groups, refuses
from limen.theory.lsoda import lsoda

CITATIONS = ("mei2018", "montanari2025")
MOST_ENTRIES = 4_000_000


@answers("theory", CITATIONS)
def mean_field(problem: TwoLayer, times: Any) -> Findings:
    r"""The $m\to\infty$ equations of `TwoLayer` with `GradientFlow`, by groups of equal neurons.

    Finite networks differ by $O(1/m)$ at fixed $\hat t$, and by everything once $t\sim\sqrt m$, where the first layer
    begins to fit the noise.

    Args:
        problem: the width enters through $\alpha=$ `samples_per_dim`/`width` (with $\hat t=\alpha t$) and the parts of
            the width that groups have. No group of neurons needs to be large.
        times: in $t$ of the flow, $\frac d{dt}=-\frac nd\nabla\hat R$; increasing, or the last one.

    Returns:
        `train_loss` and `test_loss` (time), which are equal and include the noise; `second_layer` (time, group);
        `overlap` (time, group, latent); `gram` (time, group, group2), $v_g\cdot v_h$; `correlation` (time, time2),
        averaged over neurons; with `mean_field_time` $=\hat t$ along time. $O(G^2)$ per step, milliseconds.
    """
    reason = refuses(problem)
    if reason is not None:
        raise InputError(f"mean_field does not apply: {reason}")
    if not isinstance(problem.algorithm, GradientFlow):
        raise InputError(f"algorithm must be GradientFlow for mean_field, got {type(problem.algorithm).__name__}.")
    model = model_of_groups(problem, neuron_groups(problem))
    grid = time_grid(times, False)
    pace = model.samples_per_parameter
    start = np.column_stack([model.second_layer, model.overlap]).ravel()
    paced = pace * grid
    # Nothing moves in no time; the integrator needs a span.
    solution = lsoda(
        lambda mean_field_time, state: _slopes(model, state, mean_field_time / pace),
        start,
        paced if paced[-1] > 0.0 else np.append(paced, 1e-12),
        rtol=1e-9,
        atol=1e-11,
    )
    states = solution.y.T[: grid.size].reshape(-1, model.groups, 1 + model.latents)
    reached = len(states) == grid.size
    second, overlap = states[:, :, 0], states[:, :, 1:]
    loss = np.array([_loss(model, a, v) for a, v in zip(second, overlap, strict=True)])
    kept = grid[: len(states)]
    dataset = labelled(
        {
            "train_loss": (("time",), loss),
            "test_loss": (("time",), loss.copy()),
            "second_layer": (("time", "group"), second),
            "overlap": (("time", "group", "latent"), overlap),
            **_pairs(model, overlap),
        },
        coords={
            "time": kept,
            "time2": kept,
            "mean_field_time": ("time", pace * kept),
            "group_size": ("group", model.sizes.astype(int)),
        },
    )
    status = f"{model.groups} kind{'s' * (model.groups > 1)} of particles." if reached else "the integration failed."
    statistics = {"evaluations": float(solution.nfev)}
    return Findings(dataset, reached, status, statistics)


def _pairs(model: GaussianModel, overlap: np.ndarray) -> dict[str, Any]:
    """Overlaps of two neurons and of two times, each where it is not too large to keep."""
    times, groups, _ = overlap.shape
    found: dict[str, Any] = {}
    if times * groups**2 <= MOST_ENTRIES:
        gram = np.einsum("tgr,thr->tgh", overlap, overlap)
        alone = np.flatnonzero(model.sizes == 1)
        gram[:, alone, alone] = 1.0
        found["gram"] = (("time", "group", "group2"), gram)
    if times**2 <= MOST_ENTRIES:
        rest = np.sqrt(np.maximum(1.0 - (overlap**2).sum(axis=2), 0.0))[:, :, None]
        direction = np.concatenate([overlap, rest], axis=2) * np.sqrt(model.fractions)[:, None]
        direction = direction.reshape(times, -1)
        found["correlation"] = (("time", "time2"), direction @ direction.T)
    return found


def _slopes(model: GaussianModel, state: np.ndarray, time: float) -> np.ndarray:
    a, v = _unpack(model, state)
    value, slope, _ = model.dual(v @ v.T)
    weighted = model.fractions * a
    pull = a[:, None] * (model.link.slope(v) - (slope * weighted) @ v)
    grown = model.link.value(v) - value @ weighted if model.trained else np.zeros_like(a)
    if model.decay is not None:
        _, pairs = model.decay.blocks(time)
        # What a neuron has with itself is normal to its sphere.
        pull = pull - pairs * (model.sizes - np.eye(model.groups)) @ v / model.samples_per_parameter
        grown = grown - model.decay.second_layer(time) * a / model.samples_per_parameter
    moved = pull - (pull * v).sum(axis=1, keepdims=True) * v
    return np.column_stack([grown, moved]).ravel()


def _loss(model: GaussianModel, a: np.ndarray, v: np.ndarray) -> float:
    value, _, _ = model.dual(v @ v.T)
    weighted = model.fractions * a
    return 0.5 * float(model.label_power - 2.0 * weighted @ model.link.value(v) + weighted @ value @ weighted)


def _unpack(model: GaussianModel, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = state.reshape(model.groups, 1 + model.latents)
    return rows[:, 0], rows[:, 1:]
