r"""How many neurons global convergence needs: from how many random starts gradient flow reaches zero risk.

A committee of $p$ students learns one of $k$ orthonormal teachers of the same activation. The flow of the overlaps ends
at a global minimum or at another attractor; from random starts both have positive probability, and spare students
($p>k$) make the bad attractors rare (Safran & Shamir 2018 for ReLU; Goldt et al. 2019 for erf).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from limen.labelled import labelled
from limen.machine.arrays import on_device
from limen.machine.compilation import COMPILES_FAST, ONE_THREAD, RUNS_ONCE
from limen.method import answers
from limen.precision import in_double
from limen.problem.spec import InputError
from limen.result import Findings
from limen.theory.one_pass.committee import checked_activation, committee_population
from limen.theory.one_pass.overlap_equations.integration import Motion, Schedule, integrate
from limen.theory.one_pass.overlaps import Overlaps
from limen.theory.one_pass.populations.population import Population

CITATIONS = ("safran2018", "goldt2019")
FIRST_HORIZON, FACTOR, LAST_HORIZON = 50.0, 4.0, 51_200.0
# A risk that falls by less than this part of itself while the time grows by half stands still.
STANDSTILL = 0.01
REACHED, TRAPPED, UNDECIDED = 0, 1, 2


@answers("theory", CITATIONS)
@in_double
def zero_risk_probability(
    width: int,
    teachers: int,
    activation: Any = "relu",
    d: int = 100,
    runs: int = 64,
    seed: int = 0,
    norm: float = 1.0,
    second_layer: float = 1.0,
    train_second_layer: bool = False,
    tolerance: float = 1e-3,
) -> Findings:
    r"""Part of random starts at dimension $d$ from which gradient flow of the population risk reaches zero risk.

    Students $u_i\sim N(0,\text{norm}^2I_d/d)$, drawn through their overlaps; $f=\frac1p\sum_ia_i\sigma(u_i\cdot x)$
    against $\frac1k\sum_r\sigma(u^*_r\cdot x)$. A run is

    - *reached* when its excess risk is below `tolerance` times the one of the start;
    - *trapped* when the risk stands still above that (it falls by less than 1% while $t$ grows from $\frac23T$ to $T$)
      and the flow linearised in the overlaps has no growing direction, $\lambda_{\max}T\le1$: the point is not a
      saddle that the flow is still leaving;
    - *undecided* otherwise after the last of six horizons $T=50\cdot4^r$.

    Args:
        width, teachers: $p$ and $k$.
        activation: a name, formula or `Activation`. Zero risk must be possible: with a fixed second layer that asks
            for $p\ge k$ and a homogeneous activation (ReLU, square), or $p$ a multiple of $k$.
        d: the dimension of the starts, at least p + k; the flow itself is that of $d=\infty$ (rate to 0).
        runs, seed: number of starts, and which ones.
        norm: of the students at the start.
        second_layer, train_second_layer: $a_i$ at the start, and whether it moves at the same rate.
        tolerance: see above.

    Returns:
        A `Result` with `outcome` (run: 0 reached, 1 trapped, 2 undecided), `excess_risk` and `stopped` (run: at the
        last horizon $T$), and the numbers `zero_risk_probability`, `standard_error` (of the posterior under Jeffreys'
        prior, so not zero when all runs agree), `trapped`, `undecided`. `ok` is False when a run is undecided.

    Cost: `runs` flows of $p(p+k)$ numbers, and eigenvalues of a matrix of that size per trapped run.
    """
    function = checked_activation(activation)
    _check(width, teachers, d, runs, norm, tolerance)
    gram, overlap = random_overlaps(width, teachers, d, range(seed * runs, (seed + 1) * runs), norm)
    second = np.full((runs, width), float(second_layer))
    population = committee_population(function, width, np.eye(teachers), np.ones(teachers), 0.0)
    times = np.tile(FIRST_HORIZON * np.array([0.0, 2.0 / 3.0, 1.0]), (runs, 1))
    outcome, risk, stopped, _ = flow_outcomes(population, gram, overlap, second, times, train_second_layer, tolerance)
    counts = [int((outcome == kind).sum()) for kind in (REACHED, TRAPPED, UNDECIDED)]
    a, b = counts[0] + 0.5, runs - counts[0] + 0.5
    dataset = labelled(
        {
            "outcome": (("run",), outcome),
            "excess_risk": (("run",), risk),
            "stopped": (("run",), stopped),
            "zero_risk_probability": ((), counts[0] / runs),
            "standard_error": ((), float(np.sqrt(a * b / (a + b + 1.0)) / (a + b))),
            "trapped": ((), counts[1] / runs),
            "undecided": ((), counts[2] / runs),
        },
        coords={"run": np.arange(runs)},
        attrs={"d": d},
    )
    status = f"of {runs} runs {counts[0]} reached zero risk, {counts[1]} were trapped and {counts[2]} undecided."
    return Findings(dataset, counts[2] == 0, status)


def random_overlaps(width: int, teachers: int, d: int, seeds: Any, norm: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    r"""$Q$ (seed, p, p) and $M$ (seed, p, k) of students $N(0,\text{norm}^2I_d/d)$ and orthonormal teachers.

    Through Bartlett's factor of the students' parts orthogonal to the teachers: $O(p^2)$ a start, whatever $d$.
    """
    starts = [_one_start(width, teachers, d, np.random.default_rng([int(seed), d, width, teachers])) for seed in seeds]
    coordinates = norm / np.sqrt(d) * np.stack(starts)
    return coordinates @ np.swapaxes(coordinates, 1, 2), coordinates[:, :, :teachers]


def _one_start(width: int, teachers: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Coordinates of the students, teachers' axes first, then a basis of what the students add."""
    factor = np.tril(rng.normal(size=(width, width)), -1)
    np.fill_diagonal(factor, np.sqrt(rng.chisquare(d - teachers - np.arange(width))))
    return np.concatenate([rng.normal(size=(width, teachers)), factor], axis=1)


def flow_outcomes(
    population: Population,
    gram: np.ndarray,
    overlap: np.ndarray,
    second: np.ndarray,
    times: np.ndarray,
    train_second_layer: bool,
    tolerance: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Outcome, excess risk and last time of each run, and the excess risks at its own `times` (run, time), from 0.

    Runs still undecided at the last of `times` go on to horizons four times longer each, up to 51,200; none is called
    trapped before $T=50$.
    """
    ratio = on_device(1.0) if train_second_layer else None
    motion = Motion(Schedule(on_device(0.0)), on_device(1.0), ratio, False, False)
    states = Overlaps(*(on_device(part) for part in (gram, overlap, second)))
    states, path = advance(population, states, motion, on_device(times))
    risks = curves = np.asarray(path)
    horizons = times[:, -1]
    outcome = np.full(len(gram), UNDECIDED)
    while True:
        outcome[(outcome == UNDECIDED) & (risks[:, -1] < tolerance * curves[:, 0])] = REACHED
        for run in np.flatnonzero((outcome == UNDECIDED) & (horizons >= FIRST_HORIZON)):
            earlier = np.interp(2.0 / 3.0 * horizons[run], times[run], risks[run])
            if not earlier - risks[run, -1] < STANDSTILL * risks[run, -1]:
                continue
            state = Overlaps(*(part[run] for part in states))
            if growth_rate(population, state, motion) * horizons[run] <= 1.0:
                outcome[run] = TRAPPED
        longer = np.clip(FACTOR * horizons, FIRST_HORIZON, LAST_HORIZON)
        open_runs = (outcome == UNDECIDED) & (longer >= 1.5 * horizons)
        if not open_runs.any():
            return outcome, risks[:, -1], horizons, curves
        # Decided runs stay in the batch with no time to go, and every round records as many times: one compilation.
        later = longer[:, None] * np.linspace(2.0 / 3.0, 1.0, times.shape[1])
        ahead = np.where(open_runs[:, None], later - horizons[:, None], 0.0)
        states, path = advance(population, states, motion, on_device(ahead))
        risks = np.where(open_runs[:, None], np.asarray(path), risks)
        times = np.where(open_runs[:, None], later, times)
        horizons = times[:, -1]


@eqx.filter_jit(compiler_options=COMPILES_FAST | ONE_THREAD)  # pyright: ignore[reportCallIssue]
def advance(population: Population, states: Overlaps, motion: Motion, times: jax.Array) -> tuple[Overlaps, jax.Array]:
    """Last overlaps, and excess risks at each run's own `times` (run, time); zeros leave a run where it is."""

    def one(pair: tuple[Overlaps, jax.Array]) -> tuple[Overlaps, jax.Array]:
        start, times = pair
        path = integrate(population, start, motion, times, jnp.asarray(1e-6), "dormand-prince")
        idle = times[-1] == 0.0
        last = jax.tree.map(lambda path, own: jnp.where(idle, own, path[-1]), path.overlaps, start)
        return last, path.excess_risk

    return jax.lax.map(one, (states, times))


def growth_rate(population: Population, state: Overlaps, motion: Motion) -> float:
    r"""Largest real part of the eigenvalues of the flow linearised at a state, $Q$ symmetric; infinite if undefined."""
    matrix = np.asarray(_jacobian(population, state, motion))
    if not np.isfinite(matrix).all():
        return float("inf")
    return float(np.linalg.eigvals(matrix).real.max())


@eqx.filter_jit(compiler_options=RUNS_ONCE)  # pyright: ignore[reportCallIssue]
def _jacobian(population: Population, state: Overlaps, motion: Motion) -> jax.Array:
    p, k = state.overlap.shape
    rows, columns = np.triu_indices(p)

    def flat(overlaps: Overlaps) -> jax.Array:
        return jnp.concatenate([overlaps.gram[rows, columns], overlaps.overlap.ravel(), overlaps.second_layer])

    def slope(vector: jax.Array) -> jax.Array:
        half = jnp.zeros((p, p)).at[rows, columns].set(vector[: rows.size])
        gram = half + half.T - jnp.diag(jnp.diagonal(half))
        overlap, second = vector[rows.size : rows.size + p * k].reshape(p, k), vector[rows.size + p * k :]
        return flat(motion.slope(population, Overlaps(gram, overlap, second), jnp.asarray(0.0)))

    return jax.jacfwd(slope)(flat(state))


def _check(width: int, teachers: int, d: int, runs: int, norm: float, tolerance: float) -> None:
    for name, value, least in (("width", width, 1), ("teachers", teachers, 1), ("runs", runs, 1)):
        if not (isinstance(value, (int, np.integer)) and value >= least):
            raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if not (isinstance(d, (int, np.integer)) and d >= width + teachers):
        raise InputError(f"d must be a whole number of at least width + teachers = {width + teachers}, got {d!r}.")
    if not norm > 0.0:
        raise InputError(f"norm must be positive, got {norm}.")
    if not 0.0 < tolerance < 1.0:
        raise InputError(f"tolerance must lie between 0 and 1, got {tolerance}.")
