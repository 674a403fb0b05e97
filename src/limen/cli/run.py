"""`limen run NAME`: compute, compare, save, print."""

import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from limen.cli.answers import keep_answer, recall_answer, request_of
from limen.cli.options import options_of
from limen.cli.plain_text import paragraphs
from limen.experiments.index import Entry, entry
from limen.experiments.registry import experiment_class

if TYPE_CHECKING:
    from limen.experiments.experiment import Experiment
    from limen.storage import Run

DEFAULT_OUT = Path("limen-out")


def run_command(name: str) -> click.Command:
    """The command of one experiment."""
    known = entry(name)
    common: list[click.Parameter] = [
        click.Option(
            ["--seeds"], type=click.INT, default=None,
            help=f"number of simulated runs  [default: {known.seeds}]",
        ),
        click.Option(["--theory-only"], is_flag=True, help="no simulation"),
        click.Option(
            _rule_names(known, "resolution"), type=click.FLOAT, default=None,
            help="part of a variable's range below which no difference is judged  [default: 0.01]",
        ),
        click.Option(
            _rule_names(known, "tolerance"), type=click.FLOAT, default=None,
            help="part of a variable's range within which theory and simulation must agree  [default: 0.05]",
        ),
        *_sizes_option(known),
        click.Option(["--fresh"], is_flag=True, help="compute again what the store has"),
        click.Option(["--out"], type=click.Path(path_type=Path), default=DEFAULT_OUT, help="folder for the files"),
        click.Option(["--json", "as_json"], is_flag=True, help="print exactly one JSON object"),
    ]  # fmt: skip

    def command(
        seeds: int | None,
        theory_only: bool,
        verdict_resolution: float | None,
        verdict_tolerance: float | None,
        fresh: bool,
        out: Path,
        as_json: bool,
        **parameters: Any,
    ) -> None:
        given = {name: value for name, value in parameters.items() if value is not None}
        if seeds is not None and seeds < 1:
            from limen.problem.spec import InputError

            raise InputError(f"seeds must be from 1 to 1,000,000, got {seeds:,}.")
        rule = {"resolution": verdict_resolution, "tolerance": verdict_tolerance}
        sizes = parameters.get("several_sizes")
        given.pop("several_sizes", None)
        if sizes is not None and known.size in given:
            raise click.UsageError(f"--sizes and --{known.size} cannot both be given.")
        execute(name, given, 0 if theory_only else seeds, fresh, out, as_json, rule, sizes)

    return click.Command(name, callback=command, params=[*options_of(known), *common], help=paragraphs(known.text))


def _rule_names(known: Entry, name: str) -> list[str]:
    """`--verdict-NAME`, and `--NAME` unless a parameter of the experiment is called so."""
    taken = any(parameter.name == name for parameter in known.parameters)
    return [f"verdict_{name}", f"--verdict-{name}", *([] if taken else [f"--{name}"])]


def _sizes_option(known: Entry) -> list[click.Option]:
    """`--sizes`, unless a parameter of the experiment is called so."""
    if any(parameter.name == "sizes" for parameter in known.parameters):
        return []
    words = "run at each of these sizes (160,320): what of a deviation falls with size is not held against the theory"
    return [click.Option(["several_sizes", "--sizes"], type=click.STRING, default=None, help=words)]


def _size_list(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--sizes must be whole numbers with commas between them, got {text!r}.") from None


def execute(
    name: str,
    given: dict[str, Any],
    seeds: int | None,
    fresh: bool,
    out: Path,
    as_json: bool,
    rule: dict[str, float | None],
    sizes: str | None = None,
) -> None:
    """Runs one experiment from the command line, or shows what the same request was answered before.

    No seeds (0) is theory alone; `rule` is the resolution and the tolerance of the comparison.
    """
    request = request_of(name, {**given, "--sizes": sizes}, seeds, rule)
    answer = None if fresh else recall_answer(request, out)
    if answer is None:
        answer, results = compute(name, given, seeds, fresh, out, rule, sizes)
        keep_answer(request, answer, results)
    show(answer, as_json)


def show(answer: dict[str, Any], as_json: bool) -> None:
    """Prints an answer."""
    if as_json:
        click.echo(json.dumps({**answer["summary"], "files": answer["files"]}, allow_nan=False))
        return
    from limen.cli.tables import print_answer

    print_answer(answer)


def compute(
    name: str,
    given: dict[str, Any],
    seeds: int | None,
    fresh: bool,
    out: Path,
    rule: dict[str, float | None],
    sizes: str | None,
) -> tuple[dict[str, Any], list[str]]:
    """The answer to a request, and the files of the store that it rests on."""
    return finish(experiment_class(name)(**given), seeds, fresh, out, rule, sizes)


def finish(
    experiment: "Experiment",
    seeds: int | None,
    fresh: bool,
    out: Path,
    rule: dict[str, float | None],
    sizes: str | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Runs an experiment, and saves and remembers it: what is printed, and the files of the store it rests on."""
    from limen.cli.progress import Progress
    from limen.comparison.verdict import RESOLUTION, TOLERANCE, check_rule
    from limen.problem.spec import InputError
    from limen.storage import FileStore, run_sizes
    from limen.storage import run as run_experiment
    from limen.storage.remembered import remember
    from limen.storage.run import MOST_SEEDS

    resolution = RESOLUTION if rule["resolution"] is None else rule["resolution"]
    tolerance = TOLERANCE if rule["tolerance"] is None else rule["tolerance"]
    check_rule(resolution, tolerance)
    count = experiment.default_seeds if seeds is None else seeds
    if count > MOST_SEEDS:
        raise InputError(f"seeds must be from 1 to {MOST_SEEDS:,}, got {count:,}.")
    check_writable(out)
    store = FileStore()
    with Progress(experiment.name, count) as progress:
        options: dict[str, Any] = {"fresh": fresh, "on_theory": progress.theory, "on_seed": progress.seed}
        if sizes is None:
            finished = run_experiment(experiment, range(count), store, **options)
        else:
            *smaller, finished = run_sizes(experiment, _size_list(sizes), range(count), store, **options)
            for one in smaller:
                remember(store, one)
    if finished.comparison is not None:
        finished = replace(finished, comparison=finished.comparison.judged(resolution, tolerance))
    remember(store, finished)
    results = store.files_of([finished.theory_key, *finished.simulation_keys])
    return answer_of(finished, save(finished, out)), [str(store.path(file)) for file in results]


def save(run: "Run", out: Path) -> dict[str, str]:
    """Writes figure (png and pdf), where there is an axis to draw along, and datasets of a run: what lies where."""
    from limen.experiments.default_panels import NothingToDraw
    from limen.plot import save_figure

    out.mkdir(parents=True, exist_ok=True)
    stem = f"{run.experiment.name}-{run.identifier}"
    files: dict[str, Path] = {}
    try:
        figure = run.experiment.figure(run.theory, run.simulation)
    except NothingToDraw:
        pass
    else:
        files = {"figure": out / f"{stem}.png", "pdf": out / f"{stem}.pdf"}
        save_figure(figure, files["figure"], files["pdf"])
    files["theory"] = out / f"{stem}-theory.nc"
    run.theory.save(files["theory"])
    if run.simulation is not None:
        files["simulation"] = out / f"{stem}-simulation.nc"
        run.simulation.save(files["simulation"])
    return {name: str(path) for name, path in files.items()}


def answer_of(run: "Run", files: dict[str, str]) -> dict[str, Any]:
    """Everything that is printed of a run, as plain data."""
    headline = run.experiment.headline(run.theory, run.simulation)
    predicted, measured = headline["theory"], headline.get("simulation", {})
    numbers = [
        {
            "words": getattr(value, "words", "") or name.replace("_", " "),
            "unit": getattr(value, "unit", ""),
            "theory": predicted.get(name),
            "simulation": measured.get(name),
        }
        for name, value in {**measured, **predicted}.items()
    ]
    return finite(
        {
            "id": run.identifier,
            "seeds": len(run.seeds),
            "files": files,
            "numbers": numbers,
            "comparison_text": "" if run.comparison is None else str(run.comparison),
            "theory_status": run.theory.status,
            "simulation_status": "" if run.simulation is None or run.simulation.ok else run.simulation.status,
            "summary": summary(run, files),
        }
    )


def summary(run: "Run", files: dict[str, str]) -> dict[str, Any]:
    """The JSON object of a run; a number that is not finite becomes the text "inf", "-inf" or "nan"."""
    headline = run.experiment.headline(run.theory, run.simulation)
    return finite(
        {
            "experiment": run.experiment.name,
            "id": run.identifier,
            "params": run.experiment.model_dump(mode="json"),
            "theory": headline["theory"],
            "simulation": headline.get("simulation", {}),
            "comparison": run.comparison.describe() if run.comparison else {},
            "files": files,
            "status": run.theory.status if run.simulation is None or run.simulation.ok else run.simulation.status,
        }
    )


def finite(value: Any) -> Any:
    """Plain data in which a number that is not finite is the text "inf", "-inf" or "nan"."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def check_writable(out: Path) -> None:
    """Refuses an output folder that cannot be written, before anything is computed and without making it."""
    try:
        there = next(folder for folder in (out, *out.parents) if folder.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        from limen.problem.spec import InputError

        raise InputError(f"--out {str(out)!r} cannot be written: {error.strerror}.") from None
