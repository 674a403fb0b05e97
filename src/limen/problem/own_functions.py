"""Functions of the user's own in the place of formulas: known by name and source text, never executed on loading."""

import inspect
import math
import textwrap
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from pydantic import Field

from limen.problem.spec import InputError, Spec

# Where kinks are looked for, how finely, and how often the place is narrowed down.
REACH, CELLS, FINER, ZOOMS = 8.0, 3200, 200, 3
SLOPE_JUMP = 1e-3
MOST_KINKS = 20


class OwnFunction(Spec):
    """A JAX function with a name. Its description holds name and source text, from which it can be read but not run: a
    problem that is loaded says so when it is asked to compute."""

    name: str = Field(description="what it is called")
    source: str = Field("", description="its source text; empty where that is not known")
    arguments: int = Field(1, ge=1, description="numbers it takes")
    kinks: tuple[float, ...] = Field((), description="where it bends or jumps")
    function: Callable[..., Any] | None = Field(None, description="the function itself", repr=False)

    def describe(self) -> dict[str, Any]:
        """Name and source text, never the function."""
        return {name: value for name, value in super().describe().items() if name != "function"}

    def __call__(self, *values: Any) -> Any:
        if self.function is None:
            raise InputError(
                f"the function {self.name!r} is known by its source text alone, which limen never executes: pose the "
                "problem again with the function itself."
            )
        return self.function(*values)


def own_function(function: Callable[..., Any], name: str | None, arguments: int) -> OwnFunction:
    """A function with its name and, where it says everything, its source text."""
    called = name or getattr(function, "__name__", type(function).__name__)
    called = "lambda" if called == "<lambda>" else called
    return OwnFunction(name=called, source=_source(function), arguments=arguments, function=function)


def bent(own: OwnFunction, what: str, kinks: Any) -> OwnFunction:
    """A function of one number with the places where it bends: as given, or found by looking."""
    check_elementwise(own, what)
    assert own.function is not None
    places = found_kinks(own.function) if kinks is None else tuple(map(float, kinks))
    return own.model_copy(update={"kinks": places})


def _source(function: Callable[..., Any]) -> str:
    """The source text with the numbers it uses from outside; empty where these two do not determine the function."""
    try:
        text = textwrap.dedent(inspect.getsource(function)).strip()
        outside = inspect.getclosurevars(function)
    except (OSError, TypeError, ValueError):
        return ""
    lines = []
    for name, value in sorted({**outside.globals, **outside.nonlocals}.items()):
        home = getattr(value, "__module__", "") or ""
        if isinstance(value, ModuleType) or home.partition(".")[0] in ("jax", "jaxlib", "numpy", "scipy", "math"):
            continue
        if not isinstance(value, int | float | str | tuple):
            return ""
        lines.append(f"# with {name} = {value!r}")
    return "\n".join([text, *lines])


def unstorable(description: Any) -> str | None:
    """The name of a function without source text inside a description, or None."""
    if isinstance(description, dict):
        if description.get("type") == OwnFunction.__name__ and not description.get("source"):
            return str(description.get("name"))
        return next((found for value in description.values() if (found := unstorable(value)) is not None), None)
    if isinstance(description, list):
        return next((found for value in description if (found := unstorable(value)) is not None), None)
    return None


def own_names(spec: Spec) -> list[str]:
    """The names of all functions of the user's own inside a spec."""
    if isinstance(spec, OwnFunction):
        return [spec.name]
    values = (getattr(spec, name) for name in type(spec).model_fields)
    return [name for value in values if isinstance(value, Spec) for name in own_names(value)]


def check_elementwise(own: OwnFunction, what: str) -> None:
    """Refuses a function that does not give one finite number for each number (of each argument)."""
    if own.function is None:
        return
    import jax

    generator = np.random.default_rng(0)
    points = generator.standard_normal((own.arguments, 7))
    try:
        with jax.enable_x64(True):
            together = np.asarray(own(*points), dtype=float)
            apart = np.array(
                [float(np.squeeze(np.asarray(own(*(row[i : i + 1] for row in points))))) for i in range(7)]
            )
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{what} {own.name!r} cannot be evaluated on arrays: {first_line(error)}.") from None
    if together.shape != (7,) or not np.allclose(together, apart, rtol=1e-6, atol=1e-9, equal_nan=True):
        raise InputError(f"{what} {own.name!r} must act on every entry alone, got shape {together.shape} from (7,).")
    if not np.isfinite(together).all():
        raise InputError(f"{what} {own.name!r} must be finite, and is not at one of {points[0].round(3).tolist()}.")
    check_traced(own.function, points, f"{what} {own.name!r}")


def check_traced(function: Callable[..., Any], values: Iterable[Any], named: str) -> None:
    """Refuses a function that takes arrays but not JAX's own, as one written with NumPy."""
    import jax

    try:
        # A function of NumPy itself cannot be remembered by JAX; inside another it can.
        jax.eval_shape(lambda *inside: function(*inside), *values)
    except InputError:
        raise
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
        raise InputError(f"{named} must be a function JAX can follow, and is not: write it with jax.numpy.") from None
    except Exception as error:
        raise InputError(f"{named} cannot be followed by JAX: {first_line(error)}.") from None


def first_line(error: Exception) -> str:
    """What went wrong, as the end of a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


@lru_cache(maxsize=64)
def found_kinks(function: Callable[[Any], Any]) -> tuple[float, ...]:
    """Where a function of one number bends or jumps within 8 of the origin, by looking ever closer: the change of slope
    from cell to cell falls with the cell where the function is smooth, and stays where it is not."""
    import jax

    def jumps(x: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True), np.errstate(all="ignore"):
            slopes = np.diff(np.asarray(function(x), dtype=float)) / np.diff(x)
        return np.abs(np.diff(slopes))

    # Irrational ends keep kinks at round numbers off the grid.
    grid = np.linspace(-REACH - 0.00123 * math.pi, REACH + 0.00171 * math.e, CELLS)
    first = jumps(grid)
    typical = np.median(first) + 1e-12
    found: list[float] = []
    for at in np.argsort(-first)[: 4 * MOST_KINKS]:
        if not first[at] > 20.0 * typical:
            break
        low, high, seen = grid[at], grid[at + 2], float(first[at])
        last = seen
        for _ in range(ZOOMS):
            cell = np.linspace(low, high, FINER)
            near = jumps(cell)
            best = int(np.argmax(near))
            low, high, last = cell[best], cell[best + 2], float(near[best])
        place = 0.5 * (low + high)
        place = float(np.round(place, 5)) if abs(place - np.round(place, 5)) < 1e-6 else float(place)
        if last > max(0.3 * seen, SLOPE_JUMP) and all(abs(place - other) > 1e-4 for other in found):
            found.append(place)
    return tuple(sorted(found))
