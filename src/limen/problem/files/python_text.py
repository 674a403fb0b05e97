"""A problem as the Python that poses it."""

from typing import Any

from limen.problem.activations import Activation
from limen.problem.files.template import short_text
from limen.problem.losses import Loss
from limen.problem.spec import Spec
from limen.problem.targets import Target

NARROW = 88


def python_text(problem: Spec, times: Any = 20, d: int | None = 400, seeds: int = 8) -> str:
    """A script that poses, predicts, simulates and compares; fields at their defaults are left out."""
    size = "" if d is None or getattr(problem, "d", None) is not None else f"d={d}, "
    return "\n".join(
        [
            "import limen",
            "",
            f"problem = {_call(problem, 0)}",
            f"theory = limen.predict(problem, times={times!r})",
            f"run = limen.simulate(problem, times={times!r}, {size}seeds={seeds})",
            "print(limen.compare(theory, run))",
            'limen.plot(theory, run).savefig("figure.pdf")',
            "",
        ]
    )


def _call(spec: Spec, depth: int) -> str:
    fields = {
        name: getattr(spec, name)
        for name, field in type(spec).model_fields.items()
        if field.is_required() or getattr(spec, name) != field.default
    }
    name = {Target: "target", Activation: "activation"}.get(type(spec), type(spec).__name__)
    if isinstance(spec, Target) and spec.formula is not None:
        parts = [repr(fields.pop("formula")), *(f"{key}={_value(value, depth + 1)}" for key, value in fields.items())]
    else:
        parts = [f"{key}={_value(value, depth + 1)}" for key, value in fields.items()]
    line = f"limen.{name}({', '.join(parts)})"
    if len(line) + 4 * depth <= NARROW and "\n" not in line:
        return line
    inside = "".join(f"{'    ' * (depth + 1)}{part},\n" for part in parts)
    return f"limen.{name}(\n{inside}{'    ' * depth})"


def _value(value: Any, depth: int) -> str:
    if isinstance(value, Loss | Activation) and (text := short_text(value)) is not None:
        return repr(text)
    return _call(value, depth) if isinstance(value, Spec) else repr(value)
