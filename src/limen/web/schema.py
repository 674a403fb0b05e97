"""What the page needs to know of an experiment: its words, its references, and one control per field."""

import json
import re
import types
import typing
from functools import cache
from inspect import cleandoc
from typing import Any, Literal, cast

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from limen.experiments.experiment import Experiment
from limen.experiments.number_list import number_list
from limen.experiments.registry import OWN, PLACES, experiment_class
from limen.problem.spec import InputError
from limen.web.limits import Limits
from limen.web.text.one_line import label
from limen.web.text.references import references
from limen.web.text.typeset import prose

# Fields that hold a formula or a name, and what reads them.
FORMULAS = ("target", "activation", "loss")
ABBREVIATIONS = frozenset({"bbp", "dmft", "gd", "ntk", "ode", "pca", "qkv", "sgd", "xor", "rkhs", "amp", "bgd"})


def title(name: str) -> str:
    """An experiment's name as a heading: first letter and abbreviations in capitals."""
    if name in OWN:
        return "Your problem"
    words = [word.upper() if word in ABBREVIATIONS else word for word in name.split("-")]
    text = " ".join(words)
    return text[0].upper() + text[1:]


@cache
def catalogue() -> list[dict[str, str]]:
    """Every experiment: name, source, one line; ordered by source and name."""
    kinds = sorted((experiment_class(name) for name in PLACES), key=lambda kind: (kind.source, kind.name))
    return [
        {
            "name": kind.name, "title": title(kind.name), "source": kind.source, "summary": kind.summary,
            "words": _searched(kind),
        }
        for kind in kinds
    ]  # fmt: skip


def _searched(kind: type[Experiment]) -> str:
    """Words by which an experiment is found beside its name: authors, titles, what its text says."""
    cited = " ".join(f"{entry['authors']} {entry['title']} {entry['year']}" for entry in references(kind.citations))
    text = re.sub(r"\$[^$]*\$|[`*]", " ", cleandoc(kind.__doc__ or ""))
    topics = "transformer " * ("attention" in kind.name) + "phase diagram " * bool(kind.diagram)
    return " ".join(f"{topics}{cited} {text}".split())


@cache
def schema(name: str, limits: Limits) -> dict[str, Any]:
    """Words, controls and limits of one experiment, as JSON data; an unknown name is refused."""
    kind = experiment_class(name)
    quick = kind(**kind.quick).model_dump(mode="json")
    first, _, rest = cleandoc(kind.__doc__ or "").partition("\n\n")
    return {
        "name": kind.name,
        "title": title(kind.name),
        "source": kind.source,
        "summary": kind.summary,
        "about": prose(first),
        "look_for": prose(rest),
        "references": references(kind.citations),
        "size_field": kind.size_field,
        "seeds": {
            "default": min(kind.default_seeds, limits.seeds),
            "quick": min(kind.quick_seeds, limits.seeds),
            "maximum": limits.seeds,
        },
        "quick": {key: quick[key] for key in kind.quick},
        "parameters": [_control(key, field, kind, limits) for key, field in kind.model_fields.items()],
    }


def _control(name: str, field: FieldInfo, kind: type[Experiment], limits: Limits) -> dict[str, Any]:
    annotation, optional = _annotation(field)
    control: dict[str, Any] = {
        "name": name,
        "label": label(field.description or name),
        "default": _plain(field.default),
        "kind": _kind(name, annotation),
    }
    if optional:
        control["optional"] = True
    if control["kind"] == "choice":
        control["choices"] = list(typing.get_args(annotation))
    if control["kind"] in ("integer", "number"):
        control |= _bounds(field, control["kind"] == "integer")
        if name == kind.size_field and isinstance(field.default, int):
            most = limits.size_factor * field.default
            control["maximum"] = min(control.get("maximum", most), most)
        control["slider"] = _slider(control)
    return control


def _annotation(field: FieldInfo) -> tuple[Any, bool]:
    annotation = field.annotation
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        parts = typing.get_args(annotation)
        return next(part for part in parts if part is not type(None)), type(None) in parts
    return annotation, False


def _kind(name: str, annotation: Any) -> str:
    if typing.get_origin(annotation) is Literal:
        return "choice"
    if annotation is str:
        return "formula" if name in FORMULAS else "text"
    return {bool: "switch", int: "integer", float: "number"}.get(annotation, "list")


def _bounds(field: FieldInfo, integer: bool) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for bound in field.metadata:
        match bound:
            case Ge(ge):
                bounds["minimum"] = ge
            case Gt(gt):
                bounds |= {"minimum": cast(int, gt) + 1} if integer else {"minimum": gt, "above": True}
            case Le(le):
                bounds["maximum"] = le
            case Lt(lt):
                bounds |= {"maximum": cast(int, lt) - 1} if integer else {"maximum": lt, "below": True}
            case _:
                pass
    return bounds


def _slider(control: dict[str, Any]) -> dict[str, Any]:
    """A comfortable part of the range: within a factor of 30 of the default where the whole spans orders of magnitude.

    The number beside the slider takes the whole range.
    """
    default = float(control["default"] or 0.0)
    low, high = control.get("minimum"), control.get("maximum")
    low = -10.0 if low is None else float(low)
    high = max(10.0, 10.0 * abs(default)) if high is None else float(high)
    if default > 0.0 and low >= 0.0 and (high / max(low, 1e-300) > 100.0 and high / default > 10.0):
        if low == 0.0 and not control.get("above"):
            return {"scale": "linear", "low": 0.0, "high": min(high, 8.0 * default)}
        ends = {"low": max(low, default / 30.0), "high": min(high, 30.0 * default)}
        return {"scale": "log", **{name: float(f"{end:.2g}") for name, end in ends.items()}}
    if control.get("above"):
        low = min(low + (high - low) / 200.0, default)
    if control.get("below"):
        high = max(high - (high - low) / 200.0, default)
    return {"scale": "linear", "low": low, "high": high}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def parameters_of(name: str, given: Any, limits: Limits) -> dict[str, Any]:
    """The parameters of a request, completed by defaults, of the right JSON types and within the page's limits.

    What an experiment itself demands of their values is checked where it is computed.
    """
    controls = {control["name"]: control for control in schema(name, limits)["parameters"]}
    if not isinstance(given, dict):
        raise InputError("parameters must be an object of names and values.")
    for key in given:
        if key not in controls:
            raise InputError(f"{str(key)[:60]!r} is not a parameter of {name} (allowed: {', '.join(controls)}).")
    return {key: _checked(control, given.get(key, control["default"]), limits) for key, control in controls.items()}


def _checked(control: dict[str, Any], value: Any, limits: Limits) -> Any:
    name, kind = control["name"], control["kind"]
    if value is None and control.get("optional"):
        return None
    if kind == "switch" and isinstance(value, bool):
        return value
    if kind == "choice" and value in control["choices"]:
        return value
    if kind in ("formula", "text") and isinstance(value, str):
        if len(value) > limits.text:
            raise InputError(f"{name} must have at most {limits.text} characters, got {len(value)}.")
        return value
    if kind == "list":
        return _list(name, value, limits)
    if kind in ("integer", "number") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return within(control, value)
    allowed = {"choice": f"one of {', '.join(map(str, control.get('choices', ())))}", "switch": "true or false",
               "formula": "a text", "text": "a text", "integer": "a whole number", "number": "a number"}  # fmt: skip
    raise InputError(f"{name} must be {allowed[kind]}, got {str(value)[:60]!r}.")


def _list(name: str, value: Any, limits: Limits) -> list[float]:
    if isinstance(value, str) and len(value) <= limits.text:
        value = list(number_list(value))
    if not isinstance(value, list) or not all(type(item) in (int, float) for item in value):
        raise InputError(f"{name} must be a list of numbers, got {str(value)[:60]!r}.")
    if not 1 <= len(value) <= limits.list:
        raise InputError(f"{name} must have 1 to {limits.list} numbers, got {len(value)}.")
    if not all(abs(item) < 1e300 for item in value):
        raise InputError(f"{name} must be finite numbers.")
    return [float(item) for item in value]


def within(control: dict[str, Any], value: float) -> int | float:
    """A number as the control wants it; one outside its bounds is refused."""
    name = control["name"]
    if not abs(value) < 1e300:
        raise InputError(f"{name} must be a finite number.")
    if control["kind"] == "integer":
        if value != int(value):
            raise InputError(f"{name} must be a whole number, got {value!r}.")
        value = int(value)
    else:
        value = float(value)
    low, high = control.get("minimum"), control.get("maximum")
    if low is not None and (value < low or (control.get("above") and value == low)):
        raise InputError(f"{name} must be {'above' if control.get('above') else 'at least'} {low:g}, got {value:g}.")
    if high is not None and (value > high or (control.get("below") and value == high)):
        raise InputError(f"{name} must be {'below' if control.get('below') else 'at most'} {high:g}, got {value:g}.")
    return value
