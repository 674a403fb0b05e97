"""How much a prediction changes with each parameter: exact derivatives, or differences with a stated error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from limen.method import Method, choose
from limen.problem import InputError, Spec
from limen.problem.changes import changed, full_path, value_at
from limen.problem.times import time_grid
from limen.theory.registry import THEORIES
from limen.tuning import curve_of
from limen.verbs import check_problem, predict

# The first step of a difference, in parts of the parameter; halved so many times.
FIRST_STEP, HALVINGS = 0.04, 4
# Other random numbers, or other points of averages, to see what sampling does to a derivative.
OTHERS = {"seed": (0, 101, 102), "points": (4096, 8192, 16384)}
EXACT, DIFFERENCES = "exact", "differences"


@dataclass(frozen=True)
class Sensitivity:
    """Derivatives of one quantity; prints itself.

    `dataset` holds `derivative` and its `error` along (parameter, time) and the `value` along time; `ways` says of each
    parameter whether the theory's program was differentiated (`exact`) or differences were taken (`differences`).
    """

    quantity: str
    dataset: xr.Dataset
    ways: dict[str, str]

    def elasticity(self) -> xr.DataArray:
        """Per cent of the quantity per one per cent of the parameter, (parameter, time)."""
        return self.dataset.derivative * self.dataset.at / self.dataset.value

    def __repr__(self) -> str:
        last = self.dataset.isel(time=-1)
        lines = [f"{self.quantity} = {float(last.value):.6g} at time {float(last.time):g}; its derivatives by"]
        for name, way in self.ways.items():
            one = last.sel(parameter=name)
            ratio = float(self.elasticity().sel(parameter=name).isel(time=-1))
            lines.append(
                f"  {name} = {float(one['at']):g}: {float(one.derivative):.6g} ± {float(one.error):.1g} "
                f"({way}; {ratio:+.3g}% per 1%)"
            )
        return "\n".join(lines)


def sensitivity(
    problem: Spec,
    quantity: str,
    parameters: Sequence[str],
    times: Any,
    theory: str | None = None,
    **options: Any,
) -> Sensitivity:
    r"""$\partial q(t)/\partial p$ of a predicted quantity for each parameter, everything else and the times fixed.

    Args:
        problem: where the derivatives are taken.
        quantity: a variable of the prediction (`"test_loss"`), or a component of one (`"overlap_0_1"`).
        parameters: real numbers of the problem by path (`"algorithm.step"`, `"target.noise"`).
        times: as `limen.predict` takes them.
        theory: its name; by default the first that applies.
        options: of the theory.

    Where the theory is one JAX program (the overlap equations of one-pass SGD) it is differentiated in forward mode;
    the error is that of the integration. Elsewhere differences at four steps are extrapolated to zero (Ridders), the
    error being how far the last two extrapolations differ; a theory that samples is asked with other random numbers,
    or on other points, too, and their spread is part of the error.
    """
    check_problem(problem)
    if not isinstance(quantity, str):
        raise InputError(f"quantity must be the name of a variable, got {quantity!r}.")
    names = [parameters] if isinstance(parameters, str) else parameters
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InputError(f"parameters must be a list of names such as 'algorithm.step', got {parameters!r}.")
    method = choose(THEORIES.named(theory, problem), problem, theory, "theory")
    grid = time_grid(times, bool(getattr(problem, "counts_steps", False)))
    names = [full_path(problem, name) for name in names]
    if not names:
        raise InputError("parameters must name at least one parameter, such as ['algorithm.step'].")
    found = [_derivative(problem, quantity, name, grid, method, options) for name in names]
    value = curve_of(predict(problem, grid, theory, **options), quantity)[0]
    dataset = xr.Dataset(
        {
            "derivative": (("parameter", "time"), np.stack([one[0] for one in found])),
            "error": (("parameter", "time"), np.stack([one[1] for one in found])),
            "at": ("parameter", [float(value_at(problem, name)) for name in names]),
            "value": ("time", value),
        },
        {"parameter": names, "time": grid},
    )
    return Sensitivity(quantity, dataset, {name: one[2] for name, one in zip(names, found, strict=True)})


def _derivative(
    problem: Spec, quantity: str, name: str, times: np.ndarray, method: Method, options: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, str]:
    at = value_at(problem, name)
    if isinstance(at, bool) or not isinstance(at, float):
        raise InputError(f"{name} must be one real number to be differentiated by, got {at!r}.")

    def moved(x: float) -> Spec:
        return changed(problem, {name: x})

    exact = None if method.tangent is None else method.tangent(moved, at, times, **options)
    if exact is not None:
        if quantity not in exact:
            raise InputError(f"quantity must be one of {', '.join(exact)}, got {quantity!r}.")
        slope, fine = exact[quantity]
        return slope, fine, EXACT

    def values(x: float, **more: Any) -> np.ndarray:
        return curve_of(predict(moved(x), times, method.name, **{**options, **more}), quantity)[0]

    one_sided = not _allowed(moved, at - FIRST_STEP * (abs(at) or 1.0))
    slope, error = differences(values, at, one_sided)
    step = FIRST_STEP * (abs(at) or 1.0)
    low, width = (at, step) if one_sided else (at - step, 2.0 * step)
    for option in OTHERS.keys() & set(method.options) - set(options):
        others = [(values(low + width, **{option: x}) - values(low, **{option: x})) / width for x in OTHERS[option]]
        error = np.hypot(error, np.std(others, axis=0, ddof=1))
    return slope, error, DIFFERENCES


def _allowed(moved: Callable[[float], Spec], x: float) -> bool:
    try:
        moved(x)
    except InputError:
        return False
    return True


def differences(
    function: Callable[[float], np.ndarray], at: float, one_sided: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The derivative of a smooth function by differences extrapolated to step zero, and its error (Ridders 1982).

    Of all extrapolations the one that differs least from its neighbours is taken, entry by entry: beyond it rounding
    grows faster than the remainder falls.
    """
    step = FIRST_STEP * (abs(at) or 1.0)
    # Remainders of central differences have even powers of the step, of one-sided ones all.
    order = 1 if one_sided else 2
    here = function(at) if one_sided else None
    rows: list[list[np.ndarray]] = []
    best, error = np.zeros(0), np.zeros(0)
    for level in range(HALVINGS):
        h = step / 2.0**level
        first = (function(at + h) - here) / h if here is not None else (function(at + h) - function(at - h)) / (2.0 * h)
        row = [np.asarray(first, dtype=float)]
        for j in range(level):
            factor = 2.0 ** (order * (j + 1))
            row.append((factor * row[j] - rows[-1][j]) / (factor - 1.0))
        rows.append(row)
        if level == 0:
            best, error = row[0], np.full(row[0].shape, np.inf)
        for j in range(1, level + 1):
            apart = np.maximum(np.abs(row[j] - row[j - 1]), np.abs(row[j] - rows[-2][j - 1]))
            better = apart < error
            best, error = np.where(better, row[j], best), np.where(better, apart, error)
    return best, error
