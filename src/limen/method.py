"""What theories and simulators look like to the verbs, and how what they find becomes a result."""

import hashlib
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

from limen.checks import seed_list
from limen.problem.spec import InputError, Spec
from limen.result import Findings, Kind, Result, checked, merge

Arguments = ParamSpec("Arguments")
# An array longer than this enters a spec as its digest.
LARGEST_LISTED = 10_000


def answered(
    find: Callable[[], Findings],
    spec: dict[str, Any],
    kind: Kind,
    method: str,
    citations: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (),
    options: dict[str, Any] | None = None,
) -> Result:
    """Runs `find` and adds to what it found how it was made: the only place where results are made."""
    began = time.perf_counter()
    found = checked(find())
    return Result(
        found.dataset,
        spec,
        kind,
        found.ok,
        found.status,
        found.statistics,
        seeds,
        citations,
        method,
        {name: plain(value) for name, value in (options or {}).items()},
        time.perf_counter() - began,
    )


# Names that were options of solvers once, and what they are called in the inputs of a problem.
IN_THE_PROBLEM = {
    "inputs": "law=...",
    "variances": "variances=..., fractions=...",
    "fractions": "variances=..., fractions=...",
}


@dataclass(frozen=True)
class Method:
    """A theory or a simulator: `refuses(problem)` is a reason or None, `solve(problem, times, ...)` its `Findings`.

    A theory's options are the further arguments of its `solve`; a simulator's `solve` also takes `d` and one `seed`.
    A simulator that runs many seeds faster side by side has `solve_seeds(problem, times, d, seeds, ...)` as well: the
    same numbers, in one `Findings` for each seed or for several. A theory that is one JAX program may give
    `tangent(curve, at, times, ...)`: along a curve of problems, the derivative of every number over time and its error,
    by name; None where it cannot. `coarse` are options with which a theory of seconds takes a fraction of that: its
    first look.
    """

    name: str
    kind: Kind
    citations: tuple[str, ...]
    refuses: Callable[[Any], str | None]
    solve: Callable[..., Findings]
    solve_seeds: Callable[..., list[Findings]] | None = None
    tangent: Callable[..., dict[str, tuple[np.ndarray, np.ndarray]] | None] | None = None
    coarse: Mapping[str, Any] = field(default_factory=dict)

    def run(self, problem: Spec, times: np.ndarray, **options: Any) -> Result:
        """Solves, and says how: spec, method, options, seconds, citations."""
        made = dict(options)
        seeds = (made.pop("seed"),) if self.kind == "simulation" else tuple(made.get("seeds", ()))
        return answered(
            lambda: self.solve(problem, times, **options),
            problem.describe(),
            self.kind,
            self.name,
            self.citations,
            seeds,
            made,
        )

    def run_seeds(
        self,
        problem: Spec,
        times: np.ndarray,
        d: int,
        seeds: tuple[int, ...],
        progress: Callable[[Iterable[int]], Iterable[int]] = iter,
        **options: Any,
    ) -> Result:
        """A simulator, once per seed, as one result; side by side where it can. `progress` wraps the seeds."""
        if self.solve_seeds is None:
            return merge([self.run(problem, times, d=d, seed=seed, **options) for seed in progress(seeds)])
        began = time.perf_counter()
        found = self.solve_seeds(problem, times, d, tuple(progress(seeds)), **options)
        seconds = (time.perf_counter() - began) / len(found)
        made = {name: plain(value) for name, value in {"d": d, **options}.items()}
        return merge(
            [
                Result(
                    one.dataset, problem.describe(), self.kind, one.ok, one.status, one.statistics,
                    tuple(int(seed) for seed in one.dataset.seed.values), self.citations, self.name, made, seconds,
                )
                for one in map(checked, found)
            ]
        )  # fmt: skip

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options of this method: what its `solve` takes beyond problem and times, size and seed."""
        given = ("problem", "times") if self.kind == "theory" else ("problem", "times", "d", "seed")
        return tuple(name for name in inspect.signature(self.solve).parameters if name not in given)

    def check_options(self, options: dict[str, Any]) -> None:
        """Refuses an option that would be ignored."""
        for name in options:
            if name in IN_THE_PROBLEM:
                raise InputError(
                    f"{name} is part of the problem: TwoLayer(..., inputs=limen.Inputs({IN_THE_PROBLEM[name]}))."
                )
            if name not in self.options:
                allowed = ", ".join(self.options) or "none"
                hint = " Simulations take seeds=[...]." if name == "seed" and self.kind == "simulation" else ""
                raise InputError(f"{name} is not an option of {self.name} (its options: {allowed}).{hint}")


def choose(methods: tuple[Method, ...], problem: Any, name: "str | Method | None", what: str) -> Method:
    """The first method that does not refuse the problem, or the one that is named or given."""
    if isinstance(name, Method):
        methods, name = (name,), name.name
    if name is not None and not isinstance(name, str):
        raise InputError(f"{what} must be the name of one or a limen.Method, got {name!r}.")
    if name is not None:
        for method in methods:
            if method.name == name:
                reason = method.refuses(problem)
                if reason is not None:
                    raise InputError(f"{what} {name!r} does not apply: {reason}")
                return method
        raise InputError(f"{what} must be one of {', '.join(m.name for m in methods)}, got {name!r}.")
    reasons = []
    for method in methods:
        reason = method.refuses(problem)
        if reason is None:
            return method
        reasons.append(f"{method.name}: {reason}")
    # The registry gives the methods of this algorithm or family: the first is the one that was meant.
    others = f" (and {len(reasons) - 1} more: see limen.theories(problem))" if len(reasons) > 1 else ""
    said = reasons[0].rstrip(".") if reasons else f"none solves {type(problem).__name__}"
    raise InputError(f"no {what} applies: {said}{others}.")


def answers(
    kind: Kind, citations: tuple[str, ...] = (), name: str = ""
) -> Callable[[Callable[Arguments, Findings]], Callable[Arguments, Result]]:
    """A public function that answers a call: what it finds becomes a `Result` that knows the call.

    The spec is that of the problem where the first argument is one, the others being options; else the function's
    `name` (its own by default) with its arguments.
    """

    def decorate(function: Callable[Arguments, Findings]) -> Callable[Arguments, Result]:
        signature, called = inspect.signature(function), name or function.__name__

        @wraps(function)
        def answer(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            call = signature.bind(*args, **kwargs)
            call.apply_defaults()
            given = dict(call.arguments)
            first = next(iter(given.values()), None)
            if isinstance(first, Spec):
                given.pop(next(iter(given)))
                spec, options = first.describe(), given
            else:
                spec = {"type": called, **{name: plain(value) for name, value in given.items()}}
                options = {}
            return answered(lambda: function(*args, **kwargs), spec, kind, called, citations, _seeds(given), options)

        answer.__signature__ = signature.replace(return_annotation=Result)  # pyright: ignore
        return answer

    return decorate


def _seeds(given: dict[str, Any]) -> tuple[int, ...]:
    """The seeds of a call, where it has them."""
    seeds = given.get("seeds")
    if seeds is None:
        seeds = () if given.get("seed") is None else (given["seed"],)
    try:
        return tuple(seed_list(seeds)) if np.size(seeds) else ()
    except (InputError, TypeError):
        # The function itself says what is wrong with them.
        return ()


def plain(value: Any) -> Any:
    """An argument as JSON data: specs by description, long arrays by shape and digest, functions by name."""
    if isinstance(value, Spec):
        return value.describe()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, range)) and len(value) <= LARGEST_LISTED:
        return [plain(item) for item in value]
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return repr(value)
    if array.dtype == object:
        return repr(value)
    if array.size <= LARGEST_LISTED:
        return plain(array.tolist())
    return {"shape": list(array.shape), "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}
