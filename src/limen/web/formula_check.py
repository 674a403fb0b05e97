"""Formulas checked as they are typed, by the parser that will read them, in its own words."""

from typing import Any

from limen.problem.activations import Activation
from limen.problem.losses import Loss
from limen.problem.spec import InputError
from limen.problem.targets import Target
from limen.web.limits import Limits


def check_formula(kind: str, text: str, limits: Limits) -> dict[str, Any]:
    """Whether a text is a target, activation or loss; if not, why. Nothing of it is ever evaluated as code."""
    if len(text) > limits.text:
        return {"ok": False, "message": f"a formula must have at most {limits.text} characters, got {len(text)}."}
    try:
        match kind:
            case "target":
                Target(formula=text)
            case "activation":
                Activation(formula=text)
            case "loss":
                Loss(name=text)
            case _:
                raise InputError("kind must be one of target, activation, loss.")
    except InputError as error:
        return {"ok": False, "message": str(error)}
    return {"ok": True, "message": ""}
