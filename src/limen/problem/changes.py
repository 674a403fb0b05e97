"""Parameters of a problem by their paths: `algorithm.step`, `network.activation`, `samples_per_dim`."""

from collections.abc import Mapping
from typing import Any

from limen.problem.spec import InputError, Spec, did_you_mean

# Specs that a text stands for, and the fields that it then fills.
BY_TEXT = {
    "Target": ("formula", "hermite", "own"),
    "Activation": ("formula", "hermite", "own"),
    "Loss": ("name", "own"),
}


def parameters(problem: Spec, path: str = "") -> dict[str, Any]:
    """Every parameter by path with the annotation of its field, nested specs themselves included."""
    found: dict[str, Any] = {}
    for name, field in type(problem).model_fields.items():
        found[f"{path}{name}"] = field.annotation
        value = getattr(problem, name)
        if isinstance(value, Spec):
            found |= parameters(value, f"{path}{name}.")
    return found


def full_path(problem: Spec, name: str) -> str:
    """The path of a parameter; its last part is enough where only one parameter ends so."""
    plain = name.replace("-", "_")
    known = parameters(problem)
    if plain in known:
        return plain
    ending = [path for path in known if path.rpartition(".")[2] == plain]
    if len(ending) == 1:
        return ending[0]
    kind = type(problem).__name__
    if ending:
        raise InputError(f"{name} could be any of {', '.join(ending)} of {kind}: write its whole path.")
    raise InputError(f"{name} is not a parameter of {kind}: {did_you_mean(plain, known)}")


def value_at(problem: Spec, path: str) -> Any:
    """The value of a parameter."""
    value: Any = problem
    for part in full_path(problem, path).split("."):
        value = getattr(value, part)
    return value


def changed(problem: Spec, changes: Mapping[str, Any]) -> Spec:
    """The problem with other values of some parameters, checked like a new one.

    A text for a target, an activation or a loss replaces its formula and leaves the rest of it (noise, entries) alone.
    """
    return _changed(problem, {full_path(problem, name): value for name, value in changes.items()})


def _changed(spec: Spec, changes: Mapping[str, Any]) -> Spec:
    inner: dict[str, dict[str, Any]] = {}
    update: dict[str, Any] = {}
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        held = getattr(spec, name)
        fields = BY_TEXT.get(type(held).__name__, ())
        if rest:
            inner.setdefault(name, {})[rest] = value
        elif isinstance(value, str) and fields:
            inner.setdefault(name, {}).update({**dict.fromkeys(fields), fields[0]: value})
        else:
            update[name] = value
    for name, parts in inner.items():
        update[name] = _changed(getattr(spec, name), parts)
    return spec.model_copy(update=update)
