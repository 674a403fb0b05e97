r"""`predict` for losses on the sphere and spiked tensors: the ODE of the overlap, from a given or a random start.

From a random start with information exponent 2 the overlap leaves zero through noise of its own size: its growing
amplitude $m\,e^{-At}$ is Gaussian around $m_0$ with variance $\frac{\delta v^2(0)}{2AN}(1-e^{-2At})$, and the ODE
carries the amplitude on.
"""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline

from limen.gaussian.starts.sphere_start import sphere_start_overlaps
from limen.method import Method
from limen.problem import BinaryMixture, InputError, OnlinePCA, OverlapStart, SingleIndex, SpikedTensor
from limen.problem.families.effective_models import (
    SphericalProblem,
    check_sphere_start,
    sphere_start_overlap,
    tensor_start,
)
from limen.problem.starts import Start
from limen.result import Findings
from limen.theory.effective.sphere.sphere_drift import SphereDrift
from limen.theory.effective.tensor_flow import square_at_rest, tensor_flow
from limen.theory.lsoda import lsoda

CITATIONS = ("benarous2021", "benarous2022")
TOLERANCE = 1e-10
SMALLEST = 1e-7
TABLE = 2001
# Trapezoid nodes over the Gaussian amplitude; the dip at amplitude 0 narrows with time.
AMPLITUDES = np.linspace(-8.0, 8.0, 1201)
WEIGHTS = np.exp(-0.5 * AMPLITUDES**2) / np.exp(-0.5 * AMPLITUDES**2).sum()
NEEDED = "start=OverlapStart(m0), or d and seeds, are required: a random start leaves zero overlap through its noise."


def refuses(problem: object) -> str | None:
    """Why this theory does not apply, or None."""
    if not isinstance(problem, (SingleIndex, OnlinePCA, BinaryMixture, SpikedTensor)):
        return "it solves SingleIndex, OnlinePCA, BinaryMixture and SpikedTensor."
    return None


def solve(
    problem: SphericalProblem | SpikedTensor,
    times: np.ndarray,
    d: int | None = None,
    seeds: Sequence[int] = (),
) -> Findings:
    r"""`overlap` at `times` as $N\to\infty$ (for tensors also `orthogonal_square`).

    From an `OverlapStart`: the ODE. From a `RandomStart` without `d`: the ODE from
    zero overlap, refused where zero repels exponentially (exponent 2), since the limit then never leaves. With `d` and
    `seeds`: one row per seed from the simulator's own start; where zero repels, the mean over the noise of SGD at that
    $d$ given the start, to leading order in $d^{-1/2}$.
    """
    begin = problem.start
    if (d is None) != (len(seeds) == 0):
        raise InputError("d and seeds must be given together.")
    times = np.asarray(times, dtype=float)
    if isinstance(problem, SpikedTensor):
        variables, status = _tensor(problem, times, begin, d, seeds)
    else:
        check_sphere_start(begin)
        variables, status = _sphere(problem, times, begin, d, seeds)
    dims = ("seed", "time") if seeds else ("time",)
    dataset = xr.Dataset(
        {name: (dims, values) for name, values in variables.items()},
        coords={"time": times, **({"seed": list(seeds)} if seeds else {})},
        attrs={} if d is None else {"d": d, "rows": "means"},
    )
    return Findings(dataset, True, status)


def _sphere(
    problem: SphericalProblem, times: np.ndarray, start: Start, d: int | None, seeds: Sequence[int]
) -> tuple[dict[str, np.ndarray], str]:
    drift = SphereDrift(problem)
    if isinstance(start, OverlapStart) and not seeds:
        return {"overlap": sphere_flow(drift, sphere_start_overlap(start), times)}, "integrated."
    repelling = drift.exponent == 2 and drift.growth > 0.0
    if not seeds:
        if repelling:
            raise InputError(NEEDED)
        stays = "" if drift.exponent == 1 else " Zero overlap attracts: the search lasts longer than any fixed time."
        return {"overlap": sphere_flow(drift, 0.0, times)}, f"integrated.{stays}"
    assert d is not None
    begins = sphere_start_overlaps(start, d, seeds)
    if not repelling or isinstance(start, OverlapStart):
        rows = [sphere_flow(drift, float(m), times) for m in begins]
        return {"overlap": np.stack(rows)}, "integrated from each start."
    late = _unstable_manifold(drift, times[-1], float(np.max(np.abs(begins))), d)
    growth = drift.growth
    spread = np.sqrt(drift.volatility / (2.0 * growth * d) * -np.expm1(-2.0 * growth * times))
    rows = []
    for m in begins:
        amplitude = m + spread[:, None] * AMPLITUDES
        rows.append(late(amplitude, times[:, None]) @ WEIGHTS)
    return {"overlap": np.stack(rows)}, f"mean over the noise of SGD at d = {d}, growth rate {growth:.4g}."


def sphere_flow(drift: SphereDrift, m0: float, times: np.ndarray) -> np.ndarray:
    r"""$m(t)$ at `times` from $m_0$."""
    if times[-1] == 0.0:
        return np.full(len(times), m0)

    def rate(t: float, m: np.ndarray) -> np.ndarray:
        return drift(np.clip(m, -1.0, 1.0))

    solution = lsoda(rate, (m0,), times, TOLERANCE, 1e-13)
    return np.clip(solution.y[0], -1.0, 1.0)


def _unstable_manifold(
    drift: SphereDrift, last: float, largest: float, d: int
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    r"""$(a,t)\mapsto m(t)$ for the solution with $m\simeq a\,e^{At}$ at early times; arguments broadcast."""
    growth = drift.growth
    # The largest amplitude of any node, which is how far along the solution the answers reach.
    farthest = largest + 8.0 * float(np.sqrt(drift.volatility / (2.0 * growth * d)))
    end = np.log(max(farthest, 2.0 * SMALLEST) / SMALLEST) / growth + last

    def one_side(sign: float) -> Callable[[np.ndarray], np.ndarray]:
        def rate(t: float, y: np.ndarray) -> np.ndarray:
            m = sign * np.minimum(np.exp(y), 1.0)
            return drift(m) / m

        clock = np.linspace(0.0, end, TABLE)
        solution = solve_ivp(
            rate, (0.0, end), (np.log(SMALLEST),), t_eval=clock, rtol=TOLERANCE, atol=1e-11, method="LSODA"
        )
        logarithm = CubicSpline(clock, solution.y[0])
        return lambda t: sign * np.exp(logarithm(t))

    sides = one_side(1.0), one_side(-1.0)

    def overlap(amplitude: np.ndarray, t: np.ndarray) -> np.ndarray:
        size = np.maximum(np.abs(amplitude), 1e-300)
        clock = np.log(size / SMALLEST) / growth + t
        inside = np.clip(clock, 0.0, end)
        linear = amplitude * np.exp(growth * t)
        late = np.where(amplitude > 0.0, sides[0](inside), sides[1](inside))
        return np.where(clock > 0.0, late, linear)

    return overlap


def _tensor(
    problem: SpikedTensor, times: np.ndarray, start: Start, d: int | None, seeds: Sequence[int]
) -> tuple[dict[str, np.ndarray], str]:
    gap = problem.signal - problem.step
    repelling = problem.order == 2 and gap > 0.0
    if isinstance(start, OverlapStart):
        m, r = tensor_flow(problem, *tensor_start(start), times)
        rows = max(len(seeds), 1)
        path = {"overlap": np.tile(m, (rows, 1)), "orthogonal_square": np.tile(r, (rows, 1))}
        return (path if seeds else {name: values[0] for name, values in path.items()}), "integrated."
    if not seeds:
        if repelling:
            raise InputError(NEEDED)
        m, r = tensor_flow(problem, 0.0, 1.0, times)
        return {"overlap": m, "orthogonal_square": r}, "integrated. Zero overlap attracts."
    assert d is not None
    begins = sphere_start_overlaps(start, d, seeds)
    if not repelling:
        pairs = [tensor_flow(problem, float(m), 1.0 - float(m) ** 2, times) for m in begins]
        overlap, square = (np.stack(part) for part in zip(*pairs, strict=True))
        return {"overlap": overlap, "orthogonal_square": square}, "integrated from each start."
    # Linear growth E(t)^2 = e^{8(lambda-c)t} r(t)/r(0) with r relaxed before m is of order one, then saturation.
    square = square_at_rest(problem.step, 2, 1.0)(times)
    gain = np.exp(8.0 * gap * times) * square
    spread = np.sqrt(problem.step * -np.expm1(-8.0 * gap * times) / (gap * d))
    rows = []
    for m in begins:
        amplitude = m + spread[:, None] * AMPLITUDES
        grown = amplitude**2 * gain[:, None] / gap
        rows.append((np.sign(amplitude) * np.sqrt(gap * grown / (1.0 + grown))) @ WEIGHTS)
    status = f"mean over the noise of SGD at d = {d}, growth rate {4.0 * gap:.4g}."
    return {"overlap": np.stack(rows), "orthogonal_square": np.tile(square, (len(rows), 1))}, status


effective_ode = Method("effective-ode", "theory", CITATIONS, refuses, solve)
