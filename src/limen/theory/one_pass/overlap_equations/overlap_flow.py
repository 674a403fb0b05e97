r"""Trajectories of the overlaps of a committee under one-pass SGD as $d\to\infty$."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from limen.labelled import labelled
from limen.machine.arrays import on_device
from limen.method import answers
from limen.precision import in_double
from limen.problem import Activation, InputError
from limen.problem.rates import RateSchedule, is_schedule
from limen.problem.times import time_grid
from limen.result import Findings
from limen.theory.one_pass.committee import checked_activation, committee_population
from limen.theory.one_pass.overlap_equations.integration import (
    STIFF_RATIO,
    Motion,
    Path,
    Schedule,
    Solver,
    integrate_many,
    integrate_one,
    schedule,
)
from limen.theory.one_pass.overlap_equations.right_hand_side import check_rate_and_noise
from limen.theory.one_pass.overlaps import Overlaps, checked_overlaps
from limen.theory.one_pass.populations.frozen_points import POINTS
from limen.theory.one_pass.populations.population import Population
from limen.theory.one_pass.populations.smooth_population import SmoothPopulation
from limen.theory.one_pass.symmetry import lasting_symmetry

CITATIONS = ("saad1995", "goldt2019")
TOLERANCE, ROUGH_TOLERANCE = 1e-8, 1e-5
# Averages over frozen points are good to some 1e-3, and step where a point crosses a kink: finer steps follow that.
SAMPLED_TOLERANCE, ROUGH_SAMPLED_TOLERANCE = 1e-6, 1e-4


@answers("theory", CITATIONS)
@in_double
def flow(
    Q0: Any,
    M0: Any,
    P: Any,
    a: Any,
    a_star: Any,
    activation: Any,
    rate: float | RateSchedule,
    noise: float,
    times: Any,
    train_second_layer: bool = False,
    spherical: bool = False,
    second_layer_ratio: float = 1.0,
    batch: int = 1,
    tolerance: float | None = None,
    points: int = POINTS,
) -> Findings:
    r"""Overlaps and risk of a committee learning a committee of the same activation, $d\to\infty$.

    The equations of `right_hand_side` in $t=\text{steps}\cdot\gamma/(dp)$, by adaptive Runge–Kutta 5(4) with dense
    output.

    Args:
        Q0, M0, P, a, a_star, activation, noise: as for `right_hand_side`, at $t=0$.
        rate: $\gamma$, a number or a formula in `t` (then $dt=\gamma(t)\,d\nu/(dp)$ for step number $\nu$); 0 is
            gradient flow.
        times: an increasing array, or a number T for 101 points in 0..T.
        train_second_layer, second_layer_ratio: whether $a$ moves, and $\epsilon_a$. Above 100 the system is stiff and
            integrated by an implicit method.
        spherical: every student is put back on its sphere after each step; conserves $Q_{ii}$.
        batch: samples per step $B$; the noise term is divided by $B$.
        tolerance: relative tolerance of the integrator; by default $10^{-8}$, and $10^{-5}$ for activations with
            kinks, whose noise term moves in small jumps as frozen points cross them.
        points: frozen points for the noise term of activations without closed form.

    Returns a `Result` with `gram`, `overlap`, `second_layer`, `excess_risk`, `test_loss`. When the norms diverge (a
    rate beyond stability) `ok` is False and the values after that are NaN. A start with a symmetry that the flow
    cannot leave is said in the status. Cost per right-hand side: `ErfPopulation`, `SquarePopulation`,
    `SmoothPopulation`.
    """
    activation = checked_activation(activation)
    tolerance = checked_tolerance(tolerance, activation)
    start, teacher_gram, teacher_weights = checked_overlaps(Q0, M0, P, a, a_star)
    p = start.second_layer.size
    grid = time_grid(times, counts_steps=False)
    check_rate_and_noise(0.0 if is_schedule(rate) else rate, noise)
    population = committee_population(activation, p, teacher_gram, teacher_weights, noise, points)
    motion = motion_of(rate, p, batch, second_layer_ratio if train_second_layer else 0.0, spherical, grid)
    path = integrate_one(population, start, motion, on_device(grid), on_device(tolerance), solver_of(motion))
    symmetry = lasting_symmetry(start, motion, population, teacher_weights)
    return flow_findings(path, grid, population, motion, symmetry=symmetry)


@answers("theory", CITATIONS)
@in_double
def noise_dominated_flow(
    Q0: Any,
    M0: Any,
    P: Any,
    a: Any,
    a_star: Any,
    activation: Any,
    noise: float,
    times: Any,
    tolerance: float | None = None,
    points: int = POINTS,
) -> Findings:
    r"""The limit of large rates, $\gamma/p\to\infty$ slower than $\sqrt d$: nothing is learnt and the norms grow.

    In the time $t'=t\gamma/p$: $\dot M=0$, $\dot Q_{ij}=a_ia_jE[\sigma'_i\sigma'_j(\varepsilon^2+\Delta)]$ (Veiga et
    al. 2022). Arguments and result as for `flow`.
    """
    activation = checked_activation(activation)
    tolerance = checked_tolerance(tolerance, activation)
    start, teacher_gram, teacher_weights = checked_overlaps(Q0, M0, P, a, a_star)
    grid = time_grid(times, counts_steps=False)
    check_rate_and_noise(0.0, noise)
    population = committee_population(activation, start.second_layer.size, teacher_gram, teacher_weights, noise, points)
    motion = Motion(Schedule(on_device(1.0)), on_device(0.0), None, False, True)
    path = integrate_one(population, start, motion, on_device(grid), on_device(tolerance), "dormand-prince")
    return flow_findings(path, grid, population, motion)


@answers("theory", CITATIONS)
@in_double
def flows(
    Q0: Any,
    M0: Any,
    P: Any,
    a: Any,
    a_star: Any,
    activation: Any,
    rate: Any,
    noise: Any,
    times: Any,
    train_second_layer: bool = False,
    spherical: bool = False,
    tolerance: float | None = None,
    points: int = POINTS,
) -> Findings:
    r"""`flow` for many parameter sets or starts at once, along a new first dimension `set`.

    Any of `Q0` (sets, p, p), `M0` (sets, p, k), `rate` (sets,) and `noise` (sets,) may have the leading axis; what has
    none is shared. All sets are integrated in one compiled loop, each with its own steps.
    """
    activation = checked_activation(activation)
    tolerance = checked_tolerance(tolerance, activation)
    gram, overlap = np.asarray(Q0, dtype=float), np.asarray(M0, dtype=float)
    rates, noises = np.asarray(rate, dtype=float), np.asarray(noise, dtype=float)
    sizes = {
        len(array) for array, plain in ((gram, 2), (overlap, 2), (rates, 0), (noises, 0)) if array.ndim == plain + 1
    }
    if len(sizes) != 1 or gram.ndim not in (2, 3) or overlap.ndim not in (2, 3) or max(rates.ndim, noises.ndim) > 1:
        raise InputError(
            "one of Q0, M0, rate and noise must have a leading axis, and all that have one the same length."
        )
    sets = sizes.pop()
    check_rate_and_noise(rates, noises)  # pyright: ignore[reportArgumentType]
    grams = np.broadcast_to(gram, (sets, *gram.shape[-2:]))
    overlaps = np.broadcast_to(overlap, (sets, *overlap.shape[-2:]))
    distinct = sets if max(gram.ndim, overlap.ndim) == 3 else 1
    checked = [checked_overlaps(grams[i], overlaps[i], P, a, a_star) for i in range(distinct)]
    parts = zip(*(start for start, _, _ in checked), strict=True)
    starts = Overlaps(*(on_device(np.broadcast_to(np.stack(part), (sets, *part[0].shape))) for part in parts))
    _, teacher_gram, teacher_weights = checked[0]
    p = starts.second_layer.shape[1]
    grid = time_grid(times, counts_steps=False)
    shared_noise = 0.0 if noises.ndim else float(noises)
    population = committee_population(activation, p, teacher_gram, teacher_weights, shared_noise, points)
    fixed = motion_of(0.0, p, 1, float(train_second_layer), spherical, grid)
    motion = Motion(Schedule(on_device(rates / p)), fixed.drift, fixed.second_layer, spherical, True)
    path = integrate_many(
        population,
        starts,
        motion,
        on_device(noises) if noises.ndim else None,
        on_device(rates / p) if rates.ndim else None,
        on_device(grid),
        on_device(tolerance),
        solver_of(motion),
    )
    return flow_findings(path, grid, population, motion, lead="set")


def motion_of(
    rate: float | RateSchedule, p: int, batch: int, second_layer_ratio: float, spherical: bool, grid: np.ndarray
) -> Motion:
    """The motion of SGD with this rate and batch; `second_layer_ratio` 0 keeps the second layer."""
    if batch < 1 or batch != int(batch):
        raise InputError(f"batch must be a positive whole number, got {batch!r}.")
    if not second_layer_ratio >= 0:
        raise InputError(f"second_layer_ratio must not be negative, got {second_layer_ratio!r}.")
    noise = schedule(rate, 1.0 / (p * batch), float(grid[-1]))
    ratio = on_device(float(second_layer_ratio)) if second_layer_ratio > 0 else None
    return Motion(noise, on_device(1.0), ratio, spherical, is_schedule(rate) or rate > 0)


def solver_of(motion: Motion) -> Solver:
    """Implicit when the second layer is much faster than the first."""
    fast = motion.second_layer is not None and float(motion.second_layer) > STIFF_RATIO
    return "kvaerno5" if fast else "dormand-prince"


def checked_tolerance(tolerance: float | None, activation: Activation, sampled: bool = False) -> float:
    """The tolerance, or the default of the activation and of averages that are `sampled`; refuses what double precision
    cannot meet."""
    if tolerance is None:
        smooth, rough = (SAMPLED_TOLERANCE, ROUGH_SAMPLED_TOLERANCE) if sampled else (TOLERANCE, ROUGH_TOLERANCE)
        return rough if activation.breakpoints else smooth
    if not 1e-13 <= tolerance <= 0.1:
        raise InputError(f"tolerance must be between 1e-13 and 0.1, got {tolerance!r}.")
    return tolerance


def flow_findings(
    path: Path,
    grid: np.ndarray,
    population: Population,
    motion: Motion,
    symmetry: str | None = None,
    lead: str | None = None,
    labels: Sequence[int] = (),
    attributes: dict[str, Any] | None = None,
    last: Overlaps | None = None,
) -> Findings:
    """What a path shows, its status said; `last` are the covariances of the fields at the end, where they are not
    the overlaps themselves."""
    dims = ((lead,) if lead else ()) + ("time",)
    parts = {
        "overlap": ((*dims, "neuron", "latent"), path.overlaps.overlap),
        "gram": ((*dims, "neuron", "neuron2"), path.overlaps.gram),
        "second_layer": ((*dims, "neuron"), path.overlaps.second_layer),
        "excess_risk": (dims, path.excess_risk),
        "test_loss": (dims, path.test_loss),
    }
    # The integrator fills what lies beyond a divergence with infinities.
    lost = ~np.isfinite(np.asarray(path.overlaps.gram)).all(axis=(-2, -1))
    variables = {}
    for name, (names, values) in parts.items():
        array = np.array(values)
        array[lost] = np.nan
        variables[name] = (names, array)
    coordinates: dict[str, Any] = {"time": grid}
    if lead and len(labels):
        coordinates[lead] = list(labels)
    dataset = labelled(variables, coords=coordinates, attrs=attributes or {})
    diverged, enough = np.asarray(path.diverged), np.asarray(path.enough_steps)
    steps = int(np.max(np.asarray(path.steps)))
    ok, status = True, f"integrated in {steps} steps ({solver_of(motion)})."
    if diverged.any():
        when = float(np.asarray(path.stopped)[diverged].min()) if diverged.ndim else float(path.stopped)
        ok, status = False, f"the norms diverge before t = {when:.4g}: take a smaller rate."
    elif not enough.all():
        ok, status = False, f"the integrator gave up after {steps} steps: ask for a shorter time or a larger tolerance."
    elif symmetry is not None:
        status = f"{symmetry}; draw a start at finite d to leave it."
    elif isinstance(population, SmoothPopulation) and not lead:
        last = Overlaps(*(np.asarray(part)[-1] for part in path.overlaps)) if last is None else last
        error = population.truncation(last)
        if error > 1e-6:
            ok = False
            status = f"the Hermite series is cut at {error:.1g} of its size: norms are too large for this activation."
    statistics = {"steps": float(steps)}
    return Findings(dataset, ok, status, statistics)
