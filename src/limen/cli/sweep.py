"""`limen sweep NAME` and `limen sweeps`: phase diagrams, resumable."""

import json
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import click

from limen.cli.options import options_of
from limen.cli.run import DEFAULT_OUT, check_writable, finite
from limen.experiments.experiment import Experiment
from limen.experiments.figure import counted
from limen.experiments.index import entry, entry_of
from limen.machine.interruption import Stopped
from limen.problem.spec import InputError
from limen.storage import FileStore
from limen.storage.sweep_table import Counts, counts, find_sweep, renew_members, set_state, stored_sweeps
from limen.sweeps.point_tasks import resolve
from limen.sweeps.schedule import JOB_SECONDS
from limen.sweeps.sweep import Sweep, check_job_seconds, make_record, run_plan
from limen.sweeps.sweep_record import make_plan, read_record
from limen.workers.process import available_cores


def sweep_command(name: str) -> click.Command:
    """The command that sweeps one experiment."""
    known = entry(name) if ":" not in name else entry_of(resolve(name))
    fixed = options_of(known)
    for option in fixed:
        # Here --size is a list: one more axis of the grid.
        option.opts = [flag for flag in option.opts if flag != "--size"]
    common = _grid_options(known.seeds)
    help_text = f"Theory and simulation of {known.name} over a grid; the same command again resumes."

    def command(**options: Any) -> None:
        given = {parameter.name: options.pop(parameter.name) for parameter in known.parameters}
        given = {field: value for field, value in given.items() if value is not None}
        execute(resolve(name)(**given), given, **options)

    return click.Command(name, callback=command, params=[*common, *fixed], help=help_text)


def sweep_file_command(file: Path) -> click.Command:
    """The command that sweeps the problem of a file."""
    times = click.Option(["--times"], metavar="T", help="last time, or times with commas between  [default: 20]")
    size = click.Option(["--d"], type=click.INT, help="dimension of the simulation  [default: 400]")
    shown = click.Option(["--quantities"], metavar="NAME,NAME,...", help="variables whose last values are wanted")

    def command(times: str | None, d: int | None, quantities: str | None, **options: Any) -> None:
        from limen.cli.problem import posed, seeds_of

        experiment = posed(file, times=times, d=d)
        if quantities is not None:
            experiment = experiment.model_copy(update={"quantities": tuple(quantities.split(","))})
        options["seeds"] = seeds_of(file, options["seeds"])
        execute(experiment, {} if d is None else {"d": d}, **options)

    help_text = f"Theory and simulation of the problem of {file} over a grid; the same command again resumes."
    return click.Command(str(file), callback=command, params=[*_grid_options(8), times, size, shown], help=help_text)


def _grid_options(seeds: int) -> list[click.Parameter]:
    """The options that every sweep has."""
    return [
        click.Option(
            ["--grid"], multiple=True, metavar="PARAM=VALUES",
            help="a:b:n (n values from a to b), log:a:b:n (evenly in the logarithm) or v,v,...; once per parameter",
        ),
        click.Option(["--size", "size_list"], metavar="N,N,...", help="sizes, as one more axis of the grid"),
        click.Option(["--zip", "zipped"], is_flag=True, help="walk the grids side by side, not in all combinations"),
        click.Option(
            ["--seeds"], type=click.INT, default=None,
            help=f"number of simulated runs per point  [default: {seeds}]",
        ),
        click.Option(["--theory-only"], is_flag=True, help="no simulation"),
        click.Option(["--workers"], type=click.INT, default=None, help="worker processes  [default: one per core]"),
        click.Option(["--backend"], type=click.Choice(["local", "dask"]), default="local", help="where work is done"),
        click.Option(["--scheduler"], metavar="tcp://HOST:PORT", help="a running Dask scheduler"),
        click.Option(["--time-limit"], type=click.FLOAT, default=None, help="seconds that one result may take"),
        click.Option(
            ["--job-seconds"], type=click.FLOAT, default=JOB_SECONDS,
            help=f"work that goes to a worker at once  [default: {JOB_SECONDS:g}]",
        ),
        click.Option(["--quantity"], help="what the figure shows"),
        click.Option(["--dry-run"], is_flag=True, help="say what it would cost; nothing else"),
        click.Option(["--out"], type=click.Path(path_type=Path), default=DEFAULT_OUT, help="folder for the files"),
        click.Option(["--json", "as_json"], is_flag=True, help="print exactly one JSON object"),
    ]  # fmt: skip


def execute(
    experiment: Experiment,
    given: dict[str, Any],
    grid: tuple[str, ...],
    size_list: str | None,
    zipped: bool,
    seeds: int | None,
    theory_only: bool,
    workers: int | None,
    backend: str,
    scheduler: str | None,
    time_limit: float | None,
    job_seconds: float,
    quantity: str | None,
    dry_run: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Sweeps from the command line."""
    from limen.sweeps.executors import make_executor

    record = make_record(experiment, grid, seeds, size_list, zipped, theory_only)
    for axis in record.grid.axes:
        if axis.name in given:
            raise InputError(f"{axis.name} is given both on the grid and as --{axis.name.replace('_', '-')}.")
    check_job_seconds(job_seconds)
    plan = make_plan(record)
    check_writable(out)
    store = FileStore()
    if dry_run:
        from limen.sweeps.estimate import estimate

        cost = estimate(plan, store, workers or available_cores(), job_seconds)
        click.echo(json.dumps(finite(cost.describe())) if as_json else str(cost))
        return
    from limen.cli.progress import SweepProgress

    began = time.monotonic()
    try:
        with (
            make_executor(scheduler or backend, time_limit, workers) as executor,
            SweepProgress(experiment.name, len(plan.units)) as progress,
        ):
            sweep = run_plan(plan, store, executor, job_seconds, progress.update)
    except KeyboardInterrupt as error:
        done = counts(store.index, record.identifier)[1]
        again = shlex.join(["limen", *sys.argv[1:]])
        number = error.signal if isinstance(error, Stopped) else signal.SIGINT
        raise Stopped(
            number, f"Interrupted: {done.done} of {done.total} results are kept. Resume with: {again}"
        ) from None
    files = save(sweep, out, quantity)
    if as_json:
        click.echo(json.dumps(summary(sweep, files, time.monotonic() - began), allow_nan=False))
    else:
        click.echo(sweep.report())
        for name, path in files.items():
            click.echo(f"{name}: {path}")
    points = sweep.points
    if points.done < points.total:
        click.get_current_context().exit(1)


def save(sweep: Sweep, out: Path, quantity: str | None = None) -> dict[str, str]:
    """Writes dataset (netCDF and CSV) and figure (png and pdf) of what there is; returns what lies where."""
    from limen.plot import save_figure

    out.mkdir(parents=True, exist_ok=True)
    if sweep.results.done == 0:
        return {}
    stem = f"{sweep.plan.record.experiment.name}-sweep-{sweep.identifier}"
    files = {"dataset": out / f"{stem}.nc", "table": out / f"{stem}.csv"}
    for path in files.values():
        sweep.export(path)
    if sweep.quantities() or quantity is not None:
        files |= {"figure": out / f"{stem}.png", "pdf": out / f"{stem}.pdf"}
        save_figure(sweep.figure(quantity), files["figure"], files["pdf"])
    return {name: str(path) for name, path in files.items()}


def summary(sweep: Sweep, files: dict[str, str], seconds: float | None = None) -> dict[str, Any]:
    """The JSON object of a sweep; `done`, `failed` and `missing` count points of the grid."""
    record, points = sweep.plan.record, sweep.points
    measured = {} if seconds is None else {"computed": sweep.computed, "seconds": seconds}
    return finite(
        {
            "experiment": record.experiment.name,
            "id": sweep.identifier,
            "params": record.fixed,
            "grid": {axis.name: list(axis.values) for axis in record.grid.axes},
            "seeds": len(record.seeds),
            "points": points.total,
            "done": points.done,
            "failed": points.failed,
            "missing": points.missing,
            "results": sweep.results.describe(),
            "failures": [vars(failure) for failure in sweep.failures],
            "files": files,
            **measured,
            "status": sweep.report().splitlines()[0],
        }
    )


def stored(identifier: str) -> Sweep:
    """A sweep of the store by the beginning of its identifier."""
    store = FileStore()
    found = find_sweep(store.index, identifier)
    plan = make_plan(read_record(found.record))
    renew_members(store.index, found.identifier, [(unit.key, unit.point) for unit in plan.units])
    return Sweep(plan, store)


def _progress(store: FileStore, identifier: str) -> tuple[Counts, Counts]:
    """Points and results of a sweep that are there."""
    points, results = counts(store.index, identifier)
    if points.total > 0:
        return points, results
    # The index was made again, and a sweep is kept without its list of results.
    sweep = stored(identifier)
    return sweep.points, sweep.results


def list_sweeps(as_json: bool) -> None:
    """Prints every sweep and how far it is, newest first."""
    store = FileStore()
    rows = []
    for found in stored_sweeps(store.index):
        points, results = _progress(store, found.identifier)
        state = "cancelled" if found.state == "cancelled" else "done" if points.done == points.total else "open"
        grid = " x ".join(f"{name}[{len(values)}]" for name, values in found.record["grid"]["axes"])
        rows.append({
            "id": found.identifier, "experiment": found.record["experiment"], "grid": grid, "state": state,
            "points": points.total, "done": points.done, "failed": points.failed, "missing": points.missing,
            "results": results.describe(),
        })  # fmt: skip
    if as_json:
        click.echo(json.dumps({"sweeps": rows}))
        return
    if not rows:
        click.echo("No sweeps yet.")
    for row in rows:
        click.echo(
            f"{row['id']}  {row['experiment']}  {row['grid']}  {row['done']}/{row['points']} points done, "
            f"{row['failed']} failed, {row['missing']} missing  {row['state']}"
        )


def cancel_sweep(identifier: str) -> None:
    """Marks a sweep that is not done as cancelled: its driver, if there is one, stops within seconds; results are
    kept."""
    store = FileStore()
    found = find_sweep(store.index, identifier)
    points, _ = _progress(store, found.identifier)
    if points.done == points.total:
        click.echo(f"sweep {found.identifier} is done; there is nothing to cancel.")
        return
    set_state(store.index, found.identifier, "cancelled")
    click.echo(f"sweep {found.identifier} is cancelled; its results are kept.")


def print_sweep(identifier: str, as_json: bool) -> None:
    """Prints a sweep: what it asks for, how far it is, what failed."""
    sweep = stored(identifier)
    if as_json:
        click.echo(json.dumps(summary(sweep, {}), allow_nan=False))
        return
    record = sweep.plan.record
    for axis in record.grid.axes:
        click.echo(f"{axis.name} = {', '.join(map(str, axis.values))}")
    fixed = "".join(f", {name} = {value}" for name, value in record.fixed.items())
    click.echo(
        f"{record.reference}{fixed}; {counted(len(record.seeds), 'seed')}{'; zipped' if record.grid.zipped else ''}"
    )
    click.echo(sweep.report())


def export(identifier: str, out: Path, quantity: str | None, as_json: bool) -> None:
    """Writes the files of a sweep again."""
    check_writable(out)
    sweep = stored(identifier)
    if sweep.results.done == 0:
        raise InputError(f"sweep {sweep.identifier} has no results yet.")
    files = save(sweep, out, quantity)
    if as_json:
        click.echo(json.dumps(summary(sweep, files), allow_nan=False))
    else:
        for name, path in files.items():
            click.echo(f"{name}: {path}")
