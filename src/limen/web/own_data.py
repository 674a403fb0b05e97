"""A visitor's own table: its learning curve, predicted and trained; the file is read in memory and kept nowhere."""

import base64
from io import BytesIO
from pathlib import PurePath
from typing import Any

from limen.problem.spec import InputError
from limen.web.figure_json import figure_json
from limen.web.limits import Limits

MODELS = ("ridge", "kernel", "ntk")
MOST_SEEDS = 200
# What a packed file may become in memory.
MOST_UNPACKED = 64 * 2**20


def data_task(asked: dict[str, str], content: bytes, limits: Limits) -> dict[str, Any]:
    """The task of a request: name of the file, target, model, ridge and seeds, checked."""
    if not content:
        raise InputError("the file must not be empty.")
    name = PurePath(asked.get("name", "")).name
    target, model = asked.get("target", ""), asked.get("model", "ridge")
    if not 0 < len(name) <= limits.text or len(target) > limits.text:
        raise InputError(f"the names of file and target must have at most {limits.text} characters.")
    if model not in MODELS:
        raise InputError(f"model must be one of {', '.join(MODELS)}, got {model!r}.")
    try:
        ridge, seeds = float(asked.get("ridge", "0.01")), int(asked.get("seeds", "0"))
    except ValueError:
        raise InputError("ridge must be a number and seeds a whole number.") from None
    if not 0 <= seeds <= MOST_SEEDS:
        raise InputError(f"seeds must be from 0 (theory alone) to {MOST_SEEDS}, got {seeds}.")
    return {
        "task": "data",
        "name": name,
        "target": target,
        "model": model,
        "ridge": ridge,
        "seeds": seeds,
        "content": base64.b64encode(content).decode(),
    }


def data_answer(task: dict[str, Any]) -> dict[str, Any]:
    """Figure and status of the learning curve of a task, in a worker."""
    from limen.data import learning_curve, training_curve
    from limen.data.table import read
    from limen.experiments.kernel.curve_figure import curve_figure

    table = read(task["name"], BytesIO(base64.b64decode(task["content"])), task["target"] or None, MOST_UNPACKED)
    asked = {"model": task["model"], "ridge": task["ridge"]}
    theory = learning_curve(table.X, table.y, **asked)
    run = training_curve(table.X, table.y, **asked, seeds=task["seeds"]) if task["seeds"] else None
    title = f"{task['name']}: {table.target}, {task['model']}"
    return {"figure": figure_json(curve_figure(theory, run, title)), "status": theory.status, "ok": theory.ok}
