"""What theories and simulators look like to the verbs."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from limen.problem.spec import InputError
from limen.result import Result

# Names that were options of solvers once, and what they are called in the inputs of a problem.
IN_THE_PROBLEM = {
    "inputs": "law=...",
    "variances": "variances=..., fractions=...",
    "fractions": "variances=..., fractions=...",
}


@dataclass(frozen=True)
class Method:
    """A theory or a simulator: `refuses(problem)` is a reason or None, `solve(problem, times, ...)` a `Result`.

    A theory's options are the further arguments of its `solve`; a simulator's `solve` also takes `d` and one `seed`.
    A simulator that runs many seeds faster side by side has `solve_seeds(problem, times, d, seeds, ...)` as well: the
    same numbers, in one `Result` per seed or fewer.
    """

    name: str
    citations: tuple[str, ...]
    refuses: Callable[[Any], str | None]
    solve: Callable[..., Result]
    solve_seeds: Callable[..., list[Result]] | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options of this method."""
        return tuple(name for name in inspect.signature(self.solve).parameters if name not in ("problem", "times"))

    def check_options(self, options: dict[str, Any]) -> None:
        """Refuses an option that would be ignored."""
        for name in options:
            if name in IN_THE_PROBLEM:
                raise InputError(
                    f"{name} is part of the problem: TwoLayer(..., inputs=limen.Inputs({IN_THE_PROBLEM[name]}))."
                )
            if name not in self.options:
                allowed = ", ".join(self.options) or "none"
                raise InputError(f"{name} is not an option of {self.name} (its options: {allowed}).")


def choose(methods: tuple[Method, ...], problem: Any, name: str | None, what: str) -> Method:
    """The first method that does not refuse the problem, or the one that is named."""
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
    raise InputError(f"no {what} applies to this problem ({' '.join(reasons)})")
