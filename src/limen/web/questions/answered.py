"""How a worker answers further questions: a sweep inside its own process, a search on the theory, thresholds."""

import time
from typing import Any

import numpy as np

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Threshold
from limen.experiments.own_problem import OwnProblem
from limen.experiments.registry import experiment_class
from limen.problem import InputError, TwoLayer
from limen.storage import FileStore
from limen.sweeps.engine import Progress
from limen.sweeps.in_process import InProcess
from limen.sweeps.sweep import Sweep, make_record, run_plan
from limen.sweeps.sweep_record import make_plan
from limen.tuning import tune
from limen.web.answers import Asked, Cancelled, Send, as_json
from limen.web.figure_json import figure_json

# A picture of what there is so far, not more often.
REDRAW_EVERY = 2.0
PLACES = 301


def answer_question(task: dict[str, Any], store: FileStore, send: Send, stop_asked: Asked) -> None:
    """Does what was asked and tells of it; the last message is `done`."""
    experiment = experiment_class(task["experiment"])(**task["parameters"])
    if task["kind"] == "grid":
        _Grid(experiment, task, store, send, stop_asked).run()
        return
    assert isinstance(experiment, OwnProblem)
    answers = {"tune": _tuned, "thresholds": _thresholds, "hessian": _hessian}
    send("done", as_json(answers[task["kind"]](experiment, task)))


class _Grid:
    """A sweep that is told of as it goes."""

    def __init__(
        self, experiment: Experiment, task: dict[str, Any], store: FileStore, send: Send, stop_asked: Asked
    ) -> None:
        seeds = task["seeds"]
        record = make_record(experiment, task["grid"], seeds or None, theory_only=not seeds)
        self._plan, self._store, self._quantity = make_plan(record), store, task["quantity"]
        self._send, self._stop_asked = send, stop_asked
        self._drawn_at = time.monotonic()

    def run(self) -> None:
        with InProcess() as here:
            sweep = run_plan(self._plan, self._store, here, on_progress=self._tell)
        if not sweep.points.done:
            reasons = [failure.reason for failure in sweep.failures]
            raise InputError(f"no point of the grid has an answer: {reasons[0] if reasons else 'none came'}.")
        told = {**self._picture(sweep), "text": sweep.report(), "identifier": sweep.identifier}
        self._send("done", as_json(told))

    def _tell(self, progress: Progress) -> None:
        if self._stop_asked():
            raise Cancelled
        told: dict[str, Any] = {"done": progress.finished, "total": progress.total}
        if progress.seconds_left is not None:
            told["left"] = progress.seconds_left
        began = time.monotonic()
        if progress.done and began - self._drawn_at > REDRAW_EVERY and progress.finished < progress.total:
            told |= self._picture(Sweep(self._plan, self._store))
            # Drawing may take a fifth of the time, not more.
            self._drawn_at = time.monotonic() + 4.0 * (time.monotonic() - began)
        self._send("seeds", as_json(told))

    def _picture(self, sweep: Sweep) -> dict[str, Any]:
        known = sweep.quantities()
        if not known:
            return {}
        shown = self._quantity if self._quantity in known else known[0]
        return {"figure": figure_json(sweep.figure(shown)), "quantities": known, "quantity": shown}


def _tuned(experiment: OwnProblem, task: dict[str, Any]) -> dict[str, Any]:
    over = {name: tuple(one["range"]) if "range" in one else one["values"] for name, one in task["over"].items()}
    at = None if "time" in over else _last(experiment)
    best = tune(experiment.problem, over, task["goal"], at, experiment.theory_name, **dict(experiment.theory_options))
    changes = {name: value for name, value in best.parameters.items() if name != "time"}
    told: dict[str, Any] = {"text": repr(best), "parameters": best.parameters, "changes": changes, "ok": best.ok}
    if best.ranges:
        told["figure"] = figure_json(best.figure())
    return told


def _thresholds(experiment: OwnProblem, task: dict[str, Any]) -> dict[str, Any]:
    from limen.theory.thresholds.report import report

    return {"text": str(report(_two_layer(experiment), experiment.times, experiment.size))}


def _hessian(experiment: OwnProblem, task: dict[str, Any]) -> dict[str, Any]:
    """The law of the Hessian of the first neuron, before training and at the last step."""
    from limen.theory.thresholds.along_training import hessian

    problem, lines = _two_layer(experiment), []
    panels = []
    for step in sorted({0, round(_last(experiment))}):
        law = hessian(problem, step)
        low, high = law.left_edge, law.right_edge
        ends = [low, high, *law.outliers]
        room = 0.08 * (max(ends) - min(ends) or 1.0)
        places = np.linspace(min(ends) - room, max(ends) + room, PLACES)
        marks: list[Mark] = [Line(places, law.density(places), "bulk")]
        marks += [Threshold(r"$\lambda^*$", x=float(outlier)) for outlier in law.outliers]
        panels.append(Panel(r"eigenvalue $\lambda$", r"density $\rho(\lambda)$", marks, f"after {step} steps"))
        found = ", ".join(
            f"{place:.4g} (alignment {part:.2g})" for place, part in zip(law.outliers, law.alignment, strict=True)
        )
        lines.append(
            f"after {step} steps: bulk from {low:.4g} to {high:.4g}; "
            f"eigenvalues outside it that lean on a hard direction: {found or 'none'}."
        )
    title = "Hessian of the first neuron" if problem.network.width > 1 else "Hessian"
    return {"figure": figure_json(Figure(panels, title=title)), "text": "\n".join(lines)}


def _last(experiment: OwnProblem) -> float:
    return float(np.max(experiment.times))


def _two_layer(experiment: OwnProblem) -> TwoLayer:
    if not isinstance(experiment.problem, TwoLayer):
        raise InputError("this is asked of a two-layer network with gradient descent.")
    return experiment.problem
