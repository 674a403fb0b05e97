r"""The limiting flow of SGD on the XOR mixture: `xor_drift` integrated in time, at finite $\lambda$ and at infinity."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from limen.gaussian.starts.mixture_starts import drawn_start, given_start
from limen.method import Method
from limen.problem import InputError, OverlapStart, XorMixture
from limen.result import Findings
from limen.theory.effective.mixtures.mixture_points import check_points
from limen.theory.effective.mixtures.xor_drift import sharp_drift, smooth_drift

CITATIONS = ("benarous2022", "benarous2023")
FLOW_POINTS = 1 << 12
# Below the error of the points.
TOLERANCE = 1e-4
SHARP_TOLERANCE = 1e-9


class XorState(NamedTuple):
    r"""`second_layer` $v$ (K,), `overlap` $(m^\mu,m^\nu)$ (K, 2), `orthogonal_gram` $R$ (K, K)."""

    second_layer: np.ndarray
    overlap: np.ndarray
    orthogonal_gram: np.ndarray


def refuses(problem: object) -> str | None:
    """Why this flow does not answer the problem, or None."""
    return None if isinstance(problem, XorMixture) else "it answers XorMixture problems."


def solve(
    problem: XorMixture,
    times: np.ndarray,
    d: int | None = None,
    seeds: Sequence[int] | None = None,
    points: int = FLOW_POINTS,
) -> Findings:
    r"""Second layer, overlaps and Gram matrix at `times`, as $N\to\infty$.

    From zero overlaps nothing is ever learnt: a random start needs `d` and `seeds`, the simulator's own starts, a row
    per seed; an `OverlapStart` takes neither. Variables `second_layer` (time, neuron), `overlap` (time, neuron, mean),
    `orthogonal_gram` (time, neuron, neuron2).

    Adaptive Runge-Kutta 5(4); each evaluation $O(4nK^2)$ with $n$ = `points`. At `sharpness = inf` the overlaps that
    reach zero stay there (Filippov), each such event located to rounding.
    """
    check_points(points)
    if (d is None) != (seeds is None):
        raise InputError("d and seeds must be given together: they name the simulator's starts.")
    if isinstance(problem.start, OverlapStart):
        if d is not None:
            raise InputError("d and seeds must be left out with an OverlapStart: they draw random starts.")
        states = [start_state(problem, problem.start, problem.second_layer)]
    elif d is None or seeds is None:
        raise InputError("d and seeds are required with a random start: from zero overlaps nothing is learnt.")
    else:
        states = drawn_states(problem, d, seeds)
    paths = [xor_path(problem, state, times, points) for state in states]
    names = ("second_layer", "overlap", "orthogonal_gram")
    dims = (("time", "neuron"), ("time", "neuron", "mean"), ("time", "neuron", "neuron2"))
    stacked = {name: np.stack([getattr(path, name) for path in paths]) for name in names}
    coords: dict[str, Any] = {"time": times, "mean": ["mu", "nu"]}
    if seeds is None:
        variables = {name: (dim, stacked[name][0]) for name, dim in zip(names, dims, strict=True)}
    else:
        variables = {name: (("seed", *dim), stacked[name]) for name, dim in zip(names, dims, strict=True)}
        coords["seed"] = list(seeds)
    status = "flow of the summary statistics, N to infinity."
    return Findings(xr.Dataset(variables, coords), True, status)


def start_state(problem: XorMixture, start: OverlapStart, second_layer: Any = None) -> XorState:
    """The statistics of a start with given overlaps (one number, or a pair per neuron)."""
    given = given_start(start, np.eye(2), problem.width, second_layer)
    return XorState(given.second_layer, given.aligned, given.orthogonal_gram)


def drawn_states(problem: XorMixture, d: int, seeds: Sequence[int]) -> list[XorState]:
    """The simulator's own starts."""
    drawn = drawn_start(problem.width, 2, d, seeds)
    return [XorState(*parts) for parts in zip(drawn.second_layer, drawn.aligned, drawn.orthogonal_gram, strict=True)]


def xor_path(problem: XorMixture, state: XorState, times: np.ndarray, points: int = FLOW_POINTS) -> XorState:
    """The statistics at `times`, a time axis before each."""
    if np.isinf(problem.sharpness):
        flat = _sharp_path(problem, state, times)
    else:
        flat = _smooth_path(problem, state, times, points)
    return _unpack(flat, problem.width)


@lru_cache(maxsize=16)
def _lower(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries that determine a symmetric matrix."""
    return np.tril_indices(width)


def _pack(v: np.ndarray, overlap: np.ndarray, gram: np.ndarray) -> np.ndarray:
    return np.concatenate([v, overlap.ravel(), gram[_lower(v.size)]])


def _unpack(flat: np.ndarray, width: int) -> XorState:
    lead = flat.shape[:-1]
    gram = np.zeros((*lead, width, width))
    rows, columns = _lower(width)
    gram[..., rows, columns] = flat[..., 3 * width :]
    gram[..., columns, rows] = flat[..., 3 * width :]
    return XorState(flat[..., :width], flat[..., width : 3 * width].reshape(*lead, width, 2), gram)


def _smooth_path(problem: XorMixture, state: XorState, times: np.ndarray, points: int) -> np.ndarray:
    def slope(_: float, flat: np.ndarray) -> np.ndarray:
        return _pack(*smooth_drift(problem, *_unpack(flat, problem.width), points))

    begin = _pack(*state)
    if times[-1] == 0.0:
        return begin[None].repeat(len(times), axis=0)
    solution = solve_ivp(slope, (0.0, times[-1]), begin, t_eval=times, rtol=TOLERANCE, atol=0.1 * TOLERANCE)
    if not solution.success:
        raise ArithmeticError(f"the flow could not be integrated: {solution.message}")
    return solution.y.T


def _sharp_path(problem: XorMixture, state: XorState, times: np.ndarray) -> np.ndarray:
    """From event to event: an overlap that reaches zero, both sides pointing there, is held at zero from then on."""
    width = problem.width
    here, now = np.concatenate([state.second_layer, state.overlap.ravel()]), 0.0
    recorded = np.empty((len(times), 3 * width))
    recorded[times == 0.0] = here
    left = np.flatnonzero(times > 0.0)
    # Every event holds one more overlap, and none is ever released: at most two per neuron.
    for _ in range(2 * width + 1):
        if left.size == 0:
            break
        signs = np.sign(here[width:].reshape(width, 2))

        def slope(_: float, flat: np.ndarray, signs: np.ndarray = signs) -> np.ndarray:
            second, moved, _decay = sharp_drift(
                problem, flat[:width], flat[width:].reshape(width, 2), state.orthogonal_gram, signs
            )
            return np.concatenate([second, moved.ravel()])

        moving = np.flatnonzero(signs.ravel())
        events = [_crossing(width + int(index)) for index in moving]
        solution: Any = solve_ivp(
            slope, (now, times[-1]), here, "DOP853", t_eval=times[left], events=events,
            rtol=SHARP_TOLERANCE, atol=1e-3 * SHARP_TOLERANCE,
        )  # fmt: skip
        done = len(solution.t)
        if done:
            recorded[left[:done]] = solution.y.T
        left = left[done:]
        if solution.status == 1:
            found = next(i for i, place in enumerate(solution.t_events) if len(place))
            now, here = float(solution.t_events[found][0]), np.array(solution.y_events[found][0])
            here[width + moving[found]] = 0.0
        elif solution.status < 0:
            raise ArithmeticError(f"the flow could not be integrated: {solution.message}")
    rest = np.exp(-2.0 * problem.penalty * times)[:, None] * state.orthogonal_gram[_lower(width)]
    return np.concatenate([recorded, rest], axis=1)


def _crossing(place: int) -> Any:
    def value(_: float, flat: np.ndarray) -> float:
        return float(flat[place])

    value.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    return value


xor_flow = Method("xor-flow", "theory", CITATIONS, refuses, solve)
