"""The page "Your problem": a problem file in a box, checked while it is typed, and a control for each number in it."""

import math
import typing
from typing import Any

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from limen.problem import InputError, Spec
from limen.problem.algorithms import EntrywiseDescent, GradientDescent
from limen.problem.changes import changed, value_at
from limen.problem.files.python_text import python_text
from limen.problem.files.reading import ProblemFile, parse_problem
from limen.problem.files.template import FAMILIES, examples, problem_text, short_text, spec_kinds, template
from limen.problem.spec import from_description
from limen.web.limits import Limits

NAME = "problem"
TIMES, SIZE, SEEDS = 20.0, 200, 8
LARGEST_NUMBER = 1e300
MOST_TIMES, LONGEST, LARGEST, WIDEST = 400, 1000.0, 4000, 64
TYPE = ".type"
ALGORITHMS = ("GradientDescent", "Adam", "SignDescent", "GradientFlow", "OnePassSGD", "SphericalSGD")


def problem_schema(limits: Limits) -> dict[str, Any]:
    """Words and controls of the page; the file is one of them."""
    sizes = {"minimum": 2, "maximum": LARGEST, "slider": {"scale": "log", "low": 20, "high": 2000}}
    return {
        "name": NAME,
        "title": "Your problem",
        "source": "a problem of your own",
        "summary": "Pose any problem that limen knows: theory at once, training beside it, and how well they agree.",
        "about": "",
        "look_for": "",
        "references": [],
        "size_field": "d",
        "seeds": {"default": SEEDS, "maximum": limits.seeds},
        "quick": {"d": 60, "times": 5},
        "parameters": [
            {
                "name": "problem", "label": "your problem", "kind": "file", "default": template(),
                "families": [*(kind.__name__ for kind in FAMILIES), *ALGORITHMS],
            },
            {
                "name": "times", "label": "last time, in the algorithm's own unit", "kind": "number", "default": TIMES,
                "minimum": 0.0, "above": True, "maximum": LONGEST, "slider": {"scale": "log", "low": 0.5, "high": 200},
            },
            {"name": "d", "label": "dimension d of the training", "kind": "integer", "default": SIZE, **sizes},
        ],
    }  # fmt: skip


def checked_problem(given: Any, changes: Any, limits: Limits) -> dict[str, Any]:
    """What a text (or a description) poses, as JSON: the file, Python, the command, and a control for every number."""
    try:
        read = read_text(given, limits)
        if not isinstance(changes, dict) or len(changes) > limits.list:
            raise InputError(f"changes must be an object of at most {limits.list} names and values.")
        kinds = {path: value for path, value in changes.items() if path.endswith(TYPE)}
        problem = retyped(read.problem, kinds)
        numbers = {path: value for path, value in changes.items() if path not in kinds}
        problem = changed(problem, numbers) if numbers else problem
        affordable(problem)
    except InputError as error:
        return {"ok": False, "message": str(error)}
    text = given if isinstance(given, str) and not changes else problem_text(problem, read.run)
    return {
        "ok": True,
        "text": text,
        "python": python_text(problem, read.run.get("times", TIMES), read.run.get("d", SIZE)),
        "controls": controls_of(problem),
        "questions": _questions(problem),
        "has_size": getattr(problem, "d", None) is not None,
    }


def problem_parameters(given: Any, limits: Limits) -> dict[str, Any]:
    """The parameters of a request as those of the experiment, within what the page affords."""
    if not isinstance(given, dict) or "problem" not in given:
        raise InputError("parameters must have a problem: the text of a problem file.")
    for name in given:
        if name not in ("problem", "times", "d"):
            raise InputError(f"{str(name)[:60]!r} is not a parameter of your problem (allowed: problem, times, d).")
    read = read_text(given["problem"], limits)
    affordable(read.problem)
    times, size = given.get("times", TIMES), given.get("d", SIZE)
    if type(times) not in (int, float) or not 0.0 < times <= LONGEST:
        raise InputError(f"times must be a number above 0 and at most {LONGEST:g}, got {str(times)[:60]!r}.")
    if type(size) is not int or not 2 <= size <= LARGEST:
        raise InputError(f"d must be a whole number from 2 to {LARGEST}, got {str(size)[:60]!r}.")
    if getattr(read.problem, "counts_steps", False):
        times = float(max(1, round(times)))
        if times > MOST_TIMES:
            raise InputError(f"times must be at most {MOST_TIMES} steps on the page, got {times:g}.")
    parameters: dict[str, Any] = {"problem": read.problem.describe(), "times": float(times)}
    named = {"theory_name": read.run.get("theory"), "simulator_name": read.run.get("simulator")}
    parameters |= {name: value for name, value in named.items() if value is not None}
    return parameters if getattr(read.problem, "d", None) is not None else {**parameters, "d": size}


def read_text(given: Any, limits: Limits) -> ProblemFile:
    """The problem of a text, or of the description a stored run holds."""
    if isinstance(given, dict):
        try:
            return ProblemFile(from_description(given))
        except (TypeError, RecursionError):
            raise InputError("problem must be the text of a problem file.") from None
    if not isinstance(given, str):
        raise InputError("problem must be the text of a problem file.")
    if len(given) > limits.body // 2:
        raise InputError(f"the problem file must have at most {limits.body // 2} characters, got {len(given)}.")
    return parse_problem(given)


def affordable(problem: Spec) -> None:
    """Refuses what would keep the machine busy for minutes; the command line has no such bounds."""
    if type(problem) not in FAMILIES:
        raise InputError(f"problem must be one of {', '.join(kind.__name__ for kind in FAMILIES)}.")
    for path, most in (
        ("network.width", WIDEST),
        ("tokens", 1024),
        ("dim", 1024),
        ("ambient", 4096),
        ("width", WIDEST),
    ):
        try:
            value = value_at(problem, path)
        except InputError:
            continue
        if isinstance(value, int) and value > most:
            raise InputError(f"{path} must be at most {most} on the page, got {value}: the command line takes it.")


def retyped(problem: Spec, kinds: dict[str, Any]) -> Spec:
    """The problem with parts of another type, each as in the template that has it (`{"algorithm.type": "Adam"}`)."""
    for path, wanted in kinds.items():
        place = path.removesuffix(TYPE)
        allowed = _types(problem, place)
        if not allowed:
            raise InputError(f"{path[:60]!r} is no part of {type(problem).__name__} that has types.")
        if not isinstance(wanted, str) or wanted not in allowed:
            raise InputError(f"{path} must be one of {', '.join(allowed)}, got {str(wanted)[:60]!r}.")
        if type(getattr(problem, place)).__name__ == wanted:
            continue
        holders = [one for one in examples().values() if type(getattr(one, place, None)).__name__ == wanted]
        update: dict[str, Any] = {place: getattr(holders[0], place)} if holders else {place: allowed[wanted]()}
        if place == "algorithm":
            # One-pass algorithms take no sample; the others need one.
            fixed = getattr(holders[0], "samples_per_dim", None)
            update["samples_per_dim"] = fixed and (getattr(problem, "samples_per_dim", None) or fixed)
        problem = problem.model_copy(update=update)
    return problem


def _types(problem: Spec, place: str) -> dict[str, type[Spec]]:
    """What a part of a problem may be, by name; a rule of one's own stands in Python alone."""
    field = type(problem).model_fields.get(place)
    kinds = spec_kinds(field.annotation) if field is not None else []
    return {kind.__name__: kind for kind in kinds if kind is not EntrywiseDescent}


def _questions(problem: Spec) -> list[str]:
    """What more can be asked of a problem."""
    descent = isinstance(getattr(problem, "algorithm", None), GradientDescent)
    return ["grid", "tune", *(["thresholds", "hessian"] if descent else [])]


def controls_of(problem: Spec, path: str = "") -> list[dict[str, Any]]:
    """One control per type, number, choice, switch or formula of a problem, by path."""
    found = []
    for name, field in type(problem).model_fields.items():
        value, place = getattr(problem, name), f"{path}{name}"
        text = short_text(value) if isinstance(value, Spec) else value
        if isinstance(value, Spec) and text is None:
            types = [] if path else list(_types(problem, name))
            if len(types) > 1:
                kind = {"kind": "choice", "choices": types, "default": type(value).__name__}
                found.append({"name": f"{place}{TYPE}", "label": f"{place}: {field.description or name}", **kind})
            found += controls_of(value, f"{place}.")
            continue
        control = {"name": place, "label": f"{place}: {field.description or name}", "default": text}
        if isinstance(text, bool):
            found.append({**control, "kind": "switch"})
        elif isinstance(text, int | float) and math.isfinite(text):
            found.append({**control, **_number(field, text)})
        elif isinstance(text, tuple) and all(isinstance(one, int | float) and math.isfinite(one) for one in text):
            found.append({**control, "kind": "list", "default": list(text)})
        elif isinstance(text, str):
            choices = typing.get_args(field.annotation) if typing.get_origin(field.annotation) is typing.Literal else ()
            found.append(
                {**control, "kind": "choice", "choices": list(choices)} if choices else {**control, "kind": "text"}
            )
    return found


def _number(field: FieldInfo, value: float) -> dict[str, Any]:
    """Bounds and slider: within a factor of ten of the value, inside what is allowed."""
    integer = isinstance(value, int)
    control: dict[str, Any] = {"kind": "integer" if integer else "number"}
    for bound in field.metadata:
        match bound:
            case Ge(ge):
                control["minimum"] = ge
            case Gt(gt):
                control |= {"minimum": gt, "above": True}
            case Le(le):
                control["maximum"] = le
            case Lt(lt):
                control |= {"maximum": lt, "below": True}
            case _:
                pass
    least, most = control.get("minimum"), control.get("maximum")
    low, high = (value / 10.0, value * 10.0) if value > 0 else (min(10.0 * value, -1.0), max(-value, 1.0))
    low, high = max(low, -LARGEST_NUMBER), min(high, LARGEST_NUMBER)
    low, high = max(low, least if least is not None else low), min(high, most if most is not None else high)
    if control.get("above") and low == least:
        low = low + 0.001 * (high - low)
    if control.get("below") and high == most:
        high = high - 0.001 * (high - low)
    if integer:
        low, high = max(round(low), int(least or 1)), max(round(high), round(low) + 1)
    positive = value > 0 and low > 0
    return {**control, "slider": {"scale": "log" if positive else "linear", "low": low, "high": high}}
