"""Problems of one's own on the command line: `limen new`, `theories`, `predict`, `simulate`, `compare` a file."""

import json
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from limen.experiments.own_problem import OwnProblem

Command = TypeVar("Command", bound=Callable[..., Any])
FILE = click.Path(dir_okay=False, path_type=Path)
OUT = Path("limen-out")


def _options(*chosen: str) -> Callable[[Command], Command]:
    """The options of these names, in this order."""
    every: dict[str, Any] = {
        "times": click.option("--times", metavar="T", help="last time, or times with commas between  [default: 20]"),
        "d": click.option("--d", "--size", type=click.INT, help="dimension of the simulation  [default: 400]"),
        "seeds": click.option("--seeds", type=click.INT, help="number of simulated runs  [default: 8]"),
        "theory": click.option("--theory", metavar="NAME", help="which theory; see limen theories FILE"),
        "theory_option": click.option(
            "--theory-option", multiple=True, metavar="NAME=VALUE", help="an option of the theory (paths=65536)"
        ),
        "at_size": click.option(
            "--at-size/--limit", default=None, help="theory at the simulation's own size and starts, or in the limit"
        ),
        "simulator": click.option("--simulator", metavar="NAME", help="which simulator"),
        "simulator_option": click.option(
            "--simulator-option", multiple=True, metavar="NAME=VALUE", help="an option of the simulator"
        ),
        "changes": click.option(
            "--set", "changes", multiple=True, metavar="PATH=VALUE", help="change the problem (network.width=5)"
        ),
        "resolution": click.option("--resolution", type=click.FLOAT, help="part of a range that is not judged"),
        "tolerance": click.option("--tolerance", type=click.FLOAT, help="part of a range within which both must agree"),
        "sizes": click.option("--sizes", metavar="D,D,...", help="run at each of these sizes"),
        "fresh": click.option("--fresh", is_flag=True, help="compute again what the store has"),
        "out": click.option("--out", type=click.Path(path_type=Path), default=OUT, help="folder for the files"),
        "as_json": click.option("--json", "as_json", is_flag=True, help="print exactly one JSON object"),
    }  # fmt: skip

    def decorate(command: Command) -> Command:
        for name in reversed(chosen):
            command = every[name](command)
        return command

    return decorate


@click.command()
@click.argument("family", default="TwoLayer")
def new(family: str) -> None:
    """Print a problem file to begin with: limen new > problem.toml.

    FAMILY is a family of problems (TwoLayer, Ridge, SelfAttention, ...) or an algorithm (Adam, OnePassSGD, ...).
    """
    from limen.problem.files.template import template

    click.echo(template(family), nl=False)


@click.command()
@click.argument("file", type=FILE)
@_options("changes", "as_json")
def theories(file: Path, changes: tuple[str, ...], as_json: bool) -> None:
    """Which theories apply to the problem of FILE, and why the others do not."""
    from limen.verbs import theories as all_theories

    found = all_theories(posed(file, changes=changes).problem)
    if as_json:
        click.echo(json.dumps(found))
        return
    for name, said in sorted(found.items(), key=lambda item: item[1] != "applies"):
        click.echo(f"{name}: {said}")


@click.command()
@click.argument("file", type=FILE)
@_options("times", "theory", "theory_option", "changes", "fresh", "out", "as_json")
def predict(file: Path, fresh: bool, out: Path, as_json: bool, **given: Any) -> None:
    """What training will do on the problem of FILE, as the sizes go to infinity."""
    from limen.cli.run import finish, show

    answer, _ = finish(posed(file, **given), 0, fresh, out, {"resolution": None, "tolerance": None})
    show(answer, as_json)


@click.command()
@click.argument("file", type=FILE)
@_options(
    "times", "d", "seeds", "theory", "theory_option", "at_size", "simulator", "simulator_option", "changes",
    "resolution", "tolerance", "sizes", "fresh", "out", "as_json",
)  # fmt: skip
def compare(
    file: Path,
    seeds: int | None,
    resolution: float | None,
    tolerance: float | None,
    sizes: str | None,
    fresh: bool,
    out: Path,
    as_json: bool,
    **given: Any,
) -> None:
    """Theory and simulation of the problem of FILE, the verdict, and the figure; stored like any run."""
    from limen.cli.run import finish, show

    experiment = posed(file, **given)
    rule = {"resolution": resolution, "tolerance": tolerance}
    answer, _ = finish(experiment, seeds_of(file, seeds), fresh, out, rule, sizes)
    show(answer, as_json)


@click.command()
@click.argument("file", type=FILE)
@_options("times", "d", "seeds", "simulator", "simulator_option", "changes", "fresh", "out", "as_json")
def simulate(file: Path, seeds: int | None, fresh: bool, out: Path, as_json: bool, **given: Any) -> None:
    """Train on the problem of FILE at finite size, once per seed; every seed is stored."""
    from limen.cli.progress import Progress
    from limen.cli.run import check_writable, finite
    from limen.experiments.default_panels import NothingToDraw, default_figure
    from limen.plot import save_figure
    from limen.storage import FileStore
    from limen.storage.run import simulated

    experiment = posed(file, **given)
    count = seeds_of(file, seeds) or experiment.default_seeds
    check_writable(out)
    with Progress(experiment.name, count) as progress:
        result, keys = simulated(experiment, range(count), FileStore(), fresh, progress.seed)
    out.mkdir(parents=True, exist_ok=True)
    stem = out / f"{file.stem}-simulation-{keys[0][:10]}"
    files = {"simulation": f"{stem}.nc"}
    result.save(files["simulation"])
    with suppress(NothingToDraw):
        files["figure"] = str(save_figure(default_figure([result]), f"{stem}.png"))
    numbers = experiment.numbers(result.dataset)
    if as_json:
        said = {"simulation": dict(numbers), "seeds": count, "d": experiment.size, "files": files}
        click.echo(json.dumps(finite({**said, "status": result.status}), allow_nan=False))
        return
    for number in numbers.values():
        click.echo(f"{number.words}: {number:.5g}")
    click.echo(f"simulation: {result.status}")
    if "figure" in files:
        click.echo(f"figure: {files['figure']}")
    click.echo(f"data: {files['simulation']}")


@click.command()
@click.argument("file", type=FILE)
@click.option("--over", multiple=True, metavar="PATH=LOW:HIGH", help="a range, or values v,v,...; time too")
@click.option("--goal", default="test_loss", show_default=True, help="the variable to make small")
@click.option("--at", type=click.FLOAT, default=None, help="the time of the goal, unless --over has time")
@click.option(
    "--at-samples", type=click.FLOAT, default=None, help="the same in samples per dimension, for one-pass SGD"
)
@_options("theory", "theory_option", "changes", "out", "as_json")
def tune(
    file: Path,
    over: tuple[str, ...],
    goal: str,
    at: float | None,
    at_samples: float | None,
    out: Path,
    as_json: bool,
    **given: Any,
) -> None:
    """Ask the theory for the best parameters of the problem of FILE."""
    from limen.cli.run import check_writable, finite
    from limen.plot import save_figure
    from limen.problem.spec import InputError
    from limen.tuning import TIME
    from limen.tuning import tune as best_of

    experiment = posed(file, **given)
    if not over:
        raise InputError("--over must name a parameter and its range (--over algorithm.step=0.1:1), got none.")
    ranges: dict[str, Any] = {}
    for name, text in ((part.partition("=")[0].strip(), part.partition("=")[2]) for part in over):
        ends = text.split(":")
        ranges[name] = tuple(map(_value, ends)) if len(ends) == 2 else [_value(value) for value in text.split(",")]
    if at is None and at_samples is None and TIME not in ranges:
        raise InputError("--at must be the time of the goal (--at 10), or --over a range of it (--over time=1:50).")
    check_writable(out)
    when = at if at_samples is None else {"samples_per_dim": at_samples}
    options = dict(experiment.theory_options)
    best = best_of(experiment.problem, ranges, goal, when, experiment.theory_name, **options)
    out.mkdir(parents=True, exist_ok=True)
    files = {"table": str(out / f"{file.stem}-tuned.csv")}
    best.evaluations.to_csv(files["table"], index=False)
    if best.ranges:
        files["figure"] = str(save_figure(best.figure(), out / f"{file.stem}-tuned.png"))
    if as_json:
        told = {"parameters": best.parameters, "intervals": best.intervals, "value": best.value, "error": best.error}
        click.echo(json.dumps(finite({**told, "ok": best.ok, "status": best.status, "files": files}), allow_nan=False))
        return
    click.echo(f"{best!r}")
    for name, path in files.items():
        click.echo(f"{name}: {path}")


def posed(
    file: Path,
    times: str | None = None,
    d: int | None = None,
    theory: str | None = None,
    theory_option: tuple[str, ...] = (),
    at_size: bool | None = None,
    simulator: str | None = None,
    simulator_option: tuple[str, ...] = (),
    changes: tuple[str, ...] = (),
) -> "OwnProblem":
    """The experiment of a file; what the command line says comes before what the file says."""
    from limen.experiments.own_problem import OwnProblem
    from limen.problem.changes import changed
    from limen.problem.files.reading import read_problem_file
    from limen.problem.spec import InputError

    read = read_problem_file(file)
    run = {name: value for name, value in read.run.items() if name != "seeds"}
    theory, simulator = theory or run.pop("theory", None), simulator or run.pop("simulator", None)
    run.pop("theory", None)
    run.pop("simulator", None)
    given: dict[str, Any] = {"d": d, "theory_name": theory, "simulator_name": simulator, "at_size": at_size}
    if times is not None:
        numbers = [_value(part) for part in times.split(",")]
        if not all(type(number) in (int, float) for number in numbers):
            raise InputError(f"times must be a number, or numbers with commas between them, got {times!r}.")
        given["times"] = numbers[0] if len(numbers) == 1 else numbers
    for name, pairs in (("theory_options", theory_option), ("simulator_options", simulator_option)):
        if pairs:
            given[name] = {**dict(run.get(name, {})), **_pairs(pairs)}
    problem = changed(read.problem, _pairs(changes)) if changes else read.problem
    return OwnProblem(problem=problem, **{**run, **{name: value for name, value in given.items() if value is not None}})


def seeds_of(file: Path, seeds: int | None) -> int | None:
    """The number of seeds: as asked, else as the file says, else None."""
    from limen.problem.files.reading import read_problem_file
    from limen.problem.spec import InputError

    wanted = read_problem_file(file).run.get("seeds") if seeds is None else seeds
    if wanted is not None and (not isinstance(wanted, int) or wanted < 1):
        raise InputError(f"seeds must be from 1 to 1,000,000, got {wanted}.")
    return wanted


def _pairs(texts: tuple[str, ...]) -> dict[str, Any]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"a setting looks like NAME=VALUE, got {text!r}.")
        pairs[name.strip()] = _value(value)
    return pairs


def _value(text: str) -> Any:
    """A number, a truth or a list as TOML writes them; everything else is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


COMMANDS = (new, theories, predict, simulate, compare, tune)
