"""What a worker does: run an experiment and tell of it as it goes, draw, and read back what is stored."""

import tempfile
import time
from dataclasses import replace
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any

from limen.experiments.experiment import Experiment
from limen.experiments.number import Number
from limen.experiments.registry import experiment_class
from limen.machine.pace import Pace
from limen.plot import save_figure
from limen.problem.spec import InputError, Spec, from_description
from limen.result import Result, merge, write_file
from limen.storage import FileStore, address, run
from limen.storage.address import spec_of
from limen.storage.remembered import recall, remember
from limen.theory.registry import THEORIES
from limen.web.answers import Asked, Cancelled, Send, as_json
from limen.web.figure_json import figure_json
from limen.web.own_data import data_answer
from limen.web.questions.answered import answer_question
from limen.web.text.typeset import prose
from limen.web.thumbnail import thumbnail

# A theory that follows the simulation's own starts is first shown for so many of them, to answer a slider at once.
PREVIEWED_STARTS = 4
# A theory that takes longer than this, in seconds, is preceded by a coarse one.
LONG = 1.0
# How long theories took in this process, by what decides it; of a new kind nothing is known.
_seconds: dict[tuple[Any, ...], float] = {}
THUMBNAIL_SEEDS = (0, 1)
REDRAW_EVERY = 0.3
FIGURES = ("figure.svg", "figure.png", "figure.pdf")
DATASETS = ("theory.nc", "simulation.nc")


def perform(task: dict[str, Any], send: Send, stop_asked: Asked) -> None:
    """Does one task; the last message ends it. Between seeds it asks whether to stop."""
    match task["task"]:
        case "run":
            experiment = experiment_class(task["experiment"])(**task["parameters"])
            if task["seeds"]:
                _run(experiment, tuple(range(task["seeds"])), task["threads"], send, stop_asked)
            else:
                _preview(experiment, send, stop_asked)
        case "data":
            send("file", as_json(data_answer(task)))
        case "question":
            answer_question(task, _store(), send, stop_asked)
        case "theories":
            send("file", as_json(_theories(from_description(task["problem"]))))
        case "thumbnail":
            send("file", _thumbnail(task["experiment"]).encode())
        case "stored":
            send("file", as_json(_stored_record(task["identifier"])))
        case "file":
            send("file", _file(task["identifier"], task["what"]))
        case "prediction":
            send("file", _prediction(task["key"]))


def _theories(problem: Spec) -> list[dict[str, str]]:
    """Every theory: whether it applies or why not, and of those that do what they assume, those first."""
    told = []
    for method in THEORIES:
        refused = method.refuses(problem)
        text = cleandoc(method.solve.__doc__ or "").partition("\n\nArgs:")[0]
        assumed = {} if refused else {"about": prose(text)}
        told.append({"name": method.name, "said": refused or "applies", **assumed})
    return sorted(told, key=lambda one: one["said"] != "applies")


@cache
def _store() -> FileStore:
    return FileStore()


def _preview(experiment: Experiment, send: Send, stop_asked: Asked) -> None:
    """Theory alone; who has moved a slider since the first look has no need of the rest."""
    seeds = tuple(range(min(PREVIEWED_STARTS, experiment.default_seeds))) if experiment.paired else ()
    key = address(spec_of(experiment), "theory", seeds)
    began = time.perf_counter()
    theory = _store().get([key]).get(key)
    computed = theory is None
    if theory is None:
        _first_look(experiment, send)
        if stop_asked():
            raise Cancelled
        theory = experiment.theory(seeds)
        _seconds[type(experiment), experiment.structure()] = time.perf_counter() - began
    told = {"seconds": time.perf_counter() - began, "key": key}
    send("theory", as_json({**_picture(experiment, theory), **told}))
    # After the answer is on its way: writing to disk takes longer than many a closed form.
    if computed:
        _store().put({key: theory})
    send("done", b"{}")


def _first_look(experiment: Experiment, send: Send) -> None:
    """A coarse curve, unless the last theory like this one was as quick."""
    if _seconds.get((type(experiment), experiment.structure()), LONG) < LONG:
        return
    found = experiment.preliminary()
    if found is not None:
        send("preliminary", as_json({**_picture(*found), "preliminary": True}))


def _run(experiment: Experiment, seeds: tuple[int, ...], threads: int, send: Send, stop_asked: Asked) -> None:
    """Theory, then seeds as they come, then the verdict."""
    told_so_far = _Narration(experiment, seeds, threads, send, stop_asked)
    finished = run(
        experiment, seeds, _store(), on_theory=told_so_far.theory, on_seed=told_so_far.seed,
        on_result=told_so_far.result, workers=threads,
    )  # fmt: skip
    remember(_store(), finished)
    comparison = finished.comparison.describe() if finished.comparison else None
    told = {"comparison": comparison, "identifier": finished.identifier, "total": len(seeds)}
    send("done", as_json({**_picture(experiment, finished.theory, finished.simulation), **told}))


class _Narration:
    """Tells the page of the theory and of every seed that arrives."""

    def __init__(
        self, experiment: Experiment, seeds: tuple[int, ...], threads: int, send: Send, stop_asked: Asked
    ) -> None:
        self._experiment, self._seeds, self._send, self._stop_asked = experiment, seeds, send, stop_asked
        self._results: dict[int, Result] = {}
        self._theory: Result | None = None
        self._began = self._drawn_at = self._cost = 0.0
        self._at_first = self._counted = 0
        self._pace = Pace(threads)

    def theory(self, theory: Result) -> None:
        self._theory = theory
        self._send("theory", as_json(_picture(self._experiment, theory)))

    def result(self, seed: int, result: Result) -> None:
        self._results[seed] = result

    def seed(self, done: int, total: int) -> None:
        if self._stop_asked():
            raise Cancelled
        now = time.perf_counter()
        if not self._began:
            self._began, self._at_first, self._counted = now, done, done
        elapsed, new = now - self._began, done - self._at_first
        self._pace.arrived(done - self._counted)
        self._counted = done
        told: dict[str, Any] = {"done": done, "total": total, "elapsed": elapsed}
        if (left := self._pace.seconds_left(total - done)) is not None:
            told["left"] = left
        # Drawing may take a fifth of the time, not more.
        due = now - self._drawn_at > max(REDRAW_EVERY, 4.0 * self._cost)
        if self._theory is not None and 0 < done < total and (due or new == 1):
            told |= self._picture_so_far(self._theory)
            self._drawn_at = time.perf_counter()
            self._cost = self._drawn_at - now
        self._send("seeds", as_json(told))

    def _picture_so_far(self, theory: Result) -> dict[str, Any]:
        seeds = sorted(self._results)
        simulation = merge([self._results[seed] for seed in seeds])
        if self._experiment.paired and "seed" in theory.dataset.dims:
            rows = [self._seeds.index(seed) for seed in seeds]
            theory = replace(theory, dataset=theory.dataset.isel(seed=rows))
        return _picture(self._experiment, theory, simulation)


def _picture(experiment: Experiment, theory: Result, simulation: Result | None = None) -> dict[str, Any]:
    """Figure, headline numbers, their words and units, and status."""
    trusted = theory.ok and (simulation is None or simulation.ok)
    status = theory.status if simulation is None or simulation.ok else simulation.status
    headline = experiment.headline(theory, simulation)
    named = {name: number for name, number in headline["theory"].items() if isinstance(number, Number)}
    return {
        "figure": figure_json(experiment.figure(theory, simulation)),
        "headline": headline,
        "words": {name: number.words for name, number in named.items()},
        "units": {name: number.unit for name, number in named.items() if number.unit},
        "ok": trusted,
        "status": status,
    }


def _thumbnail(name: str) -> str:
    """The small picture of an experiment with quick parameters, from the store where it has been drawn before."""
    kind = experiment_class(name)
    experiment = kind(**kind.quick)
    folder = _store().root / "thumbnails"
    path = folder / f"{address(experiment.describe(), 'thumbnail', THUMBNAIL_SEEDS)}.svg"
    if path.exists():
        return path.read_text()
    finished = run(experiment, THUMBNAIL_SEEDS, _store(), workers=1)
    picture = thumbnail(experiment.figure(finished.theory, finished.simulation))
    folder.mkdir(exist_ok=True)
    write_file(picture.encode(), path)
    return picture


def _stored_record(identifier: str) -> dict[str, Any]:
    """What a stored run was: experiment, parameters, number of seeds, when."""
    key, record = _store().find_run(identifier)
    names = ("experiment", "parameters", "created")
    return {"identifier": key, **{name: record[name] for name in names}, "seeds": len(record["seeds"])}


def _prediction(key: str) -> bytes:
    """A theory that was computed, as the bytes of a netCDF file."""
    found = _store().get([key]).get(key)
    if found is None:
        raise InputError("this theory is not in the store: draw it again.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "theory.nc"
        found.save(path)
        return path.read_bytes()


def _file(identifier: str, what: str) -> bytes:
    """Figure or dataset of a stored run, as the bytes of a file."""
    finished = recall(_store(), identifier)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / what
        if what in FIGURES:
            save_figure(finished.experiment.figure(finished.theory, finished.simulation), path)
        else:
            result = finished.theory if what == "theory.nc" else finished.simulation
            if result is None:
                raise InputError(f"run {identifier!r} has no simulation.")
            result.save(path)
        return path.read_bytes()
