r"""The exact law of SGD's order parameters at finite d, at a cost independent of d.

On Gaussian inputs the overlaps of the neurons with the teacher and with each other are a Markov chain of their own
(Arnaboldi et al. 2023; Ben Arous, Gheissari & Jagannath 2022). Split every neuron into its coordinates $T$ $(p,k)$
along an orthonormal basis of the teacher's span and the rest, whose Gram matrix is $Q^\perp=Q-TT^\top$. A fresh input
has coordinates $z\sim N(0,I_k)$ on that basis, $\zeta\sim N(0,I_p)$ on one of the students' rest, and
$\chi^2_{d-k-p}$ is the square of what remains, so that with $AA^\top=Q^\perp$ the fields are $\lambda=Tz+A\zeta+b$ and
one step of $g_i=-\frac{\gamma}{dp}a_i\sigma'(\lambda_i)\ell'(y,f)$ is
$$T_{ir}\mathrel{+}=g_iz_r,\quad Q^\perp_{ij}\mathrel{+}=g_i(A\zeta)_j+g_j(A\zeta)_i+g_ig_j(|\zeta|^2+\chi^2_{d-k-p}).$$
Identical in law to training in $d$ dimensions for every $d\ge p+k$.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from limen.gaussian.keys import stream_keys
from limen.gaussian.starts.start_weights import start_overlaps
from limen.labelled import labelled, with_coordinates
from limen.method import Method, answers
from limen.precision import in_double
from limen.problem import InputError, OnePassSGD, SphericalSGD, TwoLayer
from limen.problem.activations import as_activation
from limen.problem.rates import is_schedule, rate_function, steps_at
from limen.result import Findings
from limen.simulation.one_pass.block_chain import solve_in_blocks
from limen.simulation.one_pass.chain_steps import (
    ChainFunctions,
    ChainRates,
    ChainState,
    committee_label,
    run,
    target_label,
)
from limen.simulation.one_pass.one_pass_sgd import refuses as training_refuses
from limen.simulation.record import diverged
from limen.simulation.training_record import Observables, runs_dataset, stayed_finite
from limen.simulation.work import check_chain_work

CITATIONS = ("arnaboldi2023escaping", "saad1995", "goldt2019")
LARGEST_D = 2**32 - 1  # sizes enter random keys as 32 bits
_ROUNDING = 1e-10


def refuses(problem: object) -> str | None:
    """Why the chain cannot run the problem, or None."""
    reason = training_refuses(problem)
    if reason is None and isinstance(problem, TwoLayer) and getattr(problem.algorithm, "momentum", 0.0):
        reason = (
            "with momentum the overlaps alone are no Markov chain (velocities have their own): train the network, or "
            "take momentum 0 and rate / (1 - momentum), which has the same limit."
        )
    if reason is None and isinstance(problem, TwoLayer) and problem.inputs.law != "gaussian":
        reason = f"overlaps are a Markov chain on Gaussian inputs only, not {problem.inputs.law}."
    if reason is None and isinstance(problem, TwoLayer) and problem.inputs.rows is not None:
        reason = "overlaps are a Markov chain on Gaussian inputs only, not on rows of data."
    return reason


@in_double
def solve(problem: TwoLayer, times: np.ndarray, d: int, seed: int) -> Findings:
    r"""One run of the chain from the start of `start_overlaps`: overlaps at `times`, whatever $d$.

    Times are $t=\text{steps}\cdot\gamma/(dm)$ ($dt=\gamma(t)/(dm)$ a step with a formula), rounded to whole steps.
    $O((p+k)^3)$ a step; runs above `MOST_CHAIN_WORK` are refused.
    """
    return solve_seeds(problem, times, d, (seed,))[0]


@in_double
def solve_seeds(problem: TwoLayer, times: np.ndarray, d: int, seeds: Sequence[int]) -> list[Findings]:
    """`solve` for many seeds in one compiled loop, far cheaper per seed; every seed's numbers are its own."""
    if not problem.inputs.isotropic:
        return solve_in_blocks(problem, times, d, seeds)
    runs = solve_together(problem, times, d, seeds).dataset
    return [_judged(runs.isel(seed=[row]), d) for row in range(len(seeds))]


@in_double
def solve_together(problem: TwoLayer, times: np.ndarray, d: int, seeds: Sequence[int]) -> Findings:
    """`solve` for many seeds on isotropic inputs as one result; to split it costs as much as the runs."""
    algorithm, network, k = problem.algorithm, problem.network, problem.target.latents
    assert isinstance(algorithm, (OnePassSGD, SphericalSGD))
    batch = algorithm.batch if isinstance(algorithm, OnePassSGD) else 1
    ratio = algorithm.second_layer_ratio if isinstance(algorithm, OnePassSGD) else 1.0
    _check_dimension(d, network.width + k)
    rate = algorithm.rate
    steps = steps_at(rate, times, d * network.width)
    check_chain_work(d, int(steps[-1]), len(seeds), network.width + k)
    scale = 1.0 if is_schedule(rate) else rate
    starts = [start_overlaps(problem, d, seed) for seed in seeds]
    overlap, gram = (np.stack(part) for part in zip(*starts, strict=True))
    second = np.tile(np.asarray(network.per_neuron("second_layer"), dtype=float), (len(seeds), 1))
    functions = ChainFunctions(
        network.activation.function,
        problem.loss.slope,
        target_label(problem.target.function),
        problem.target.uses_inner_noise,
        problem.target.noise > 0.0,
        isinstance(algorithm, SphericalSGD),
        network.train_second_layer,
        batch,
        rate_function(rate) if is_schedule(rate) else None,
    )
    rates = ChainRates(
        scale / (d * network.width * batch),
        ratio * scale / (d * network.width * batch),
        problem.target.noise**0.5,
        np.asarray(network.per_neuron("bias"), dtype=float),
        (),
    )
    recorded = advance_chain(functions, rates, overlap, gram, second, d, steps, seeds)
    dataset = runs_dataset(problem, Observables(*recorded), times, seeds, d)
    return _judged(with_coordinates(dataset, {"step": ("time", steps), "samples": ("time", steps * batch)}), d)


def _judged(dataset: xr.Dataset, d: int) -> Findings:
    finite = stayed_finite(dataset)
    return Findings(dataset, finite, f"exact overlap chain of SGD in d = {d}." if finite else diverged(d, "rate"))


@answers("simulation", CITATIONS)
@in_double
def chain(
    Q0: np.ndarray,
    M0: np.ndarray,
    P: np.ndarray,
    a: np.ndarray,
    a_star: np.ndarray,
    activation: object,
    rate: float,
    noise: float,
    d: int,
    steps: int | Sequence[int],
    seeds: int | Sequence[int],
    spherical: bool = False,
    train_second_layer: bool = False,
) -> Findings:
    r"""SGD of a committee in $d$ dimensions through its order parameters alone, exact in law.

    Teacher $y=\frac1k\sum_ra^*_r\sigma(\lambda^*_r)+\sqrt\Delta z$, student $f=\frac1p\sum_ia_i\sigma(\lambda_i)$,
    square loss, step $\gamma/(dp)$ (module docstring).

    Args:
        Q0, M0, P: start $UU^\top$ (p, p), $UU^{*\top}$ (p, k) and teacher $U^*U^{*\top}$ (k, k).
        a, a_star: second layers of student (p,) and teacher (k,).
        activation: an `Activation`, a name or a formula.
        rate, noise: $\gamma$ and the variance $\Delta$ of the label noise.
        d: the dimension, at least p + k.
        steps: their number (recorded at up to 101 of them, the last included), or an increasing list to record.
        seeds: `8` means seeds 0..7, or a list.
        spherical: every neuron is put back to its initial norm after each step.
        train_second_layer: $a_i\mathrel{+}=\frac\gamma{dp}\sigma(\lambda_i)(y-f)$.

    Returns:
        A simulation with `overlap`, `gram` and `second_layer` over (seed, time, ...), $t=\text{steps}\cdot\gamma/(dp)$.
    """
    gram, overlap, teacher = (np.atleast_2d(np.asarray(value, dtype=float)) for value in (Q0, M0, P))
    p, k = gram.shape[0], teacher.shape[0]
    second, read_out = (np.atleast_1d(np.asarray(value, dtype=float)) for value in (a, a_star))
    _check_order_parameters(gram, overlap, teacher, second, read_out)
    _check_dimension(d, p + k)
    if not (isinstance(rate, (int, float, np.number)) and 0.0 < rate < np.inf):
        raise InputError(f"rate must be positive and finite, got {rate!r}.")
    if not noise >= 0.0:
        raise InputError(f"noise must not be negative, got {noise}.")
    recorded_steps = _recorded_steps(steps)
    seeds = _seed_tuple(seeds)
    check_chain_work(d, int(recorded_steps[-1]), len(seeds), p + k)
    function = as_activation(activation).function
    functions = ChainFunctions(
        function, square_slope, committee_label(function), False, noise > 0.0, spherical, train_second_layer, 1
    )
    factor = pivoted_factor(teacher)
    unit = rate / (d * p)
    rates = ChainRates(unit, unit if train_second_layer else 0.0, noise**0.5, np.zeros(p), (factor, read_out / k))
    # Coordinates of the students on the basis in which the teachers are the rows of `factor`.
    coordinates = np.linalg.lstsq(factor, overlap.T, rcond=1e-12)[0].T
    many = len(seeds)
    recorded = advance_chain(
        functions,
        rates,
        np.tile(coordinates, (many, 1, 1)),
        np.tile(gram, (many, 1, 1)),
        np.tile(second, (many, 1)),
        d,
        recorded_steps,
        seeds,
    )
    aligned, grams, seconds = recorded
    dataset = labelled(
        {
            "overlap": (("seed", "time", "neuron", "latent"), aligned @ factor.T),
            "gram": (("seed", "time", "neuron", "neuron2"), grams),
            "second_layer": (("seed", "time", "neuron"), seconds),
        },
        coords={
            "time": recorded_steps * unit,
            "seed": list(seeds),
            "step": ("time", recorded_steps),
            "samples": ("time", recorded_steps),
        },
        attrs={"d": d},
    )
    finite = stayed_finite(dataset)
    status = f"exact overlap chain of SGD in d = {d}."
    if not finite:
        status = diverged(d, f"rate than {rate:g}")
    return Findings(dataset, finite, status)


def pivoted_factor(covariance: np.ndarray) -> np.ndarray:
    r"""Lower triangular $L$ with $LL^\top$ a positive semidefinite matrix; columns of vanishing pivots are zero."""
    n = covariance.shape[0]
    factor = np.zeros((n, n))
    for j in range(n):
        column = covariance[j:, j] - factor[j:, :j] @ factor[j, :j]
        if column[0] > 1e-12 * max(covariance[j, j], 1e-300):
            factor[j:, j] = column / np.sqrt(column[0])
    return factor


def advance_chain(
    functions: ChainFunctions,
    rates: ChainRates,
    overlap: np.ndarray,
    gram: np.ndarray,
    second: np.ndarray,
    d: int,
    steps: np.ndarray,
    seeds: Sequence[int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates on the teacher's basis, Gram matrices, second layers, each (seed, time, ...)."""
    rest = gram - overlap @ overlap.transpose(0, 2, 1)
    state = ChainState(*(jnp.asarray(np.moveaxis(part, 0, -1)) for part in (overlap, rest, second)))
    norms = np.einsum("sii->is", gram)
    keys = stream_keys(seeds, d, "overlap chain")
    free = d - overlap.shape[1] - overlap.shape[2] - np.arange(functions.batch, dtype=float)
    rates = jax.tree.map(jnp.asarray, rates)
    path = run(functions, rates, state, jnp.asarray(norms), jnp.asarray(free), jnp.diff(steps, prepend=0), keys)
    aligned, rest, second = (np.moveaxis(np.asarray(part), -1, 0) for part in path)
    return aligned, rest + aligned @ np.swapaxes(aligned, -1, -2), second


def square_slope(y: jax.Array, f: jax.Array) -> jax.Array:
    """Slope of the square loss in the output."""
    return f - y


def _check_dimension(d: int, least: int) -> None:
    if not (isinstance(d, (int, np.integer)) and least <= d <= LARGEST_D):
        raise InputError(f"d must be a whole number between p + k = {least} and {LARGEST_D}, got {d!r}.")


def _check_order_parameters(
    gram: np.ndarray, overlap: np.ndarray, teacher: np.ndarray, second: np.ndarray, read_out: np.ndarray
) -> None:
    p, k = gram.shape[0], teacher.shape[0]
    shapes = {"Q0": (gram, (p, p)), "M0": (overlap, (p, k)), "P": (teacher, (k, k)), "a": (second, (p,))}
    shapes["a_star"] = (read_out, (k,))
    for name, (value, shape) in shapes.items():
        if value.shape != shape:
            raise InputError(f"{name} must have shape {shape}, got {value.shape}.")
        if not np.isfinite(value).all():
            raise InputError(f"{name} must be finite.")
    joint = np.block([[gram, overlap], [overlap.T, teacher]])
    if not np.allclose(joint, joint.T):
        raise InputError("Q0 and P must be symmetric.")
    smallest = float(np.linalg.eigvalsh(joint)[0])
    if smallest < -_ROUNDING * max(1.0, float(np.trace(joint))):
        raise InputError(f"[[Q0, M0], [M0^T, P]] must be positive semidefinite, got eigenvalue {smallest:.3g}.")


def _recorded_steps(steps: int | Sequence[int]) -> np.ndarray:
    listed = np.asarray(steps)
    if listed.ndim == 0:
        if not (listed == np.floor(listed) and listed >= 1):
            raise InputError(f"steps must be a positive whole number or an increasing list, got {steps!r}.")
        return np.unique(np.rint(np.linspace(0, int(listed), 101)).astype(np.int64))
    if listed.ndim != 1 or listed.size == 0 or listed[0] < 0 or (np.diff(listed) <= 0).any():
        raise InputError("steps must be a positive whole number or an increasing list.")
    return listed.astype(np.int64)


def _seed_tuple(seeds: int | Sequence[int]) -> tuple[int, ...]:
    chosen = tuple(range(seeds)) if isinstance(seeds, (int, np.integer)) else tuple(int(seed) for seed in seeds)
    if not chosen or len(set(chosen)) != len(chosen) or min(chosen) < 0:
        raise InputError(f"seeds must be a positive number or distinct seeds, got {seeds!r}.")
    return chosen


overlap_chain = Method("overlap-chain", "simulation", CITATIONS, refuses, solve, solve_seeds)
