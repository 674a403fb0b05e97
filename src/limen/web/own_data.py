"""A visitor's own table: its learning curve, predicted and trained; the file is read in memory and kept nowhere."""

import base64
from io import BytesIO
from pathlib import PurePath
from typing import Any

from limen.problem.spec import InputError
from limen.web.figure_json import figure_json
from limen.web.limits import Limits

MODELS = ("ridge", "kernel", "ntk", "random-features")
MOST_SEEDS = 200
# Ridges, or numbers of features, in one question.
MOST_VALUES = 12
# What a packed file may become in memory.
MOST_UNPACKED = 64 * 2**20


def data_task(asked: dict[str, str], content: bytes, limits: Limits) -> dict[str, Any]:
    """The task of a request: name of the file, target, model, ridges, features and seeds, checked."""
    if not content:
        raise InputError("the file must not be empty.")
    name = PurePath(asked.get("name", "")).name
    target, model = asked.get("target", ""), asked.get("model", "ridge")
    if not 0 < len(name) <= limits.text or len(target) > limits.text:
        raise InputError(f"the names of file and target must have at most {limits.text} characters.")
    if model not in MODELS:
        raise InputError(f"model must be one of {', '.join(MODELS)}, got {model!r}.")
    if not asked.get("ridge", "0.01").strip():
        raise InputError("ridge must be a number, or several with commas, got none.")
    ridge, features = (_numbers(what, asked.get(what, start)) for what, start in (("ridge", "0.01"), ("features", "")))
    try:
        seeds = int(asked.get("seeds", "0"))
    except ValueError:
        raise InputError(f"seeds must be a whole number, got {asked['seeds'][:20]!r}.") from None
    if not 0 <= seeds <= MOST_SEEDS:
        raise InputError(f"seeds must be from 0 (theory alone) to {MOST_SEEDS}, got {seeds}.")
    return {
        "task": "data",
        "name": name,
        "target": target,
        "model": model,
        "ridge": ridge,
        "features": features,
        "seeds": seeds,
        "content": base64.b64encode(content).decode(),
    }


def _numbers(name: str, text: str) -> float | list[float] | None:
    """One number, several with commas between them, or none."""
    if not text.strip():
        return None
    parts = text.split(",")
    if len(parts) > MOST_VALUES:
        raise InputError(f"{name} must be at most {MOST_VALUES} numbers, got {len(parts)}.")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        raise InputError(f"{name} must be a number, or several with commas, got {text[:40]!r}.") from None
    return numbers if len(numbers) > 1 else numbers[0]


def data_answer(task: dict[str, Any]) -> dict[str, Any]:
    """Figure and status of the learning curve of a task, in a worker."""
    from limen.data import learning_curve, training_curve
    from limen.data.table import read
    from limen.experiments.kernel.curve_figure import curve_figure

    table = read(task["name"], BytesIO(base64.b64decode(task["content"])), task["target"] or None, MOST_UNPACKED)
    asked = {name: task[name] for name in ("model", "ridge", "features")}
    theory = learning_curve(table.X, table.y, **asked)
    run = training_curve(table.X, table.y, **asked, seeds=task["seeds"]) if task["seeds"] else None
    title = f"{task['name']}: {table.target}, {task['model']}"
    return {"figure": figure_json(curve_figure(theory, run, title)), "status": theory.status, "ok": theory.ok}
