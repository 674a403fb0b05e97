"""The command `limen`. Heavy imports happen inside commands, so that `limen --help` is instant."""

import atexit
import errno
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from limen.cli.data import data
from limen.cli.problem import COMMANDS
from limen.machine.collection import collect_seldom, leave_without_collecting
from limen.machine.interruption import Stopped, listen

UNWRITABLE = (
    errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EPERM, errno.EEXIST,
    errno.ENOTDIR, errno.EISDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP,
)  # fmt: skip


class Experiments(click.Group):
    """One command per experiment, made from its fields when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from limen.experiments.registry import PLACES

        return sorted(PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        from limen.cli.run import run_command

        return run_command(cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from limen.cli.completion import experiments

        return [*experiments(incomplete), *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Experiments"):
            formatter.write_text(", ".join(self.list_commands(ctx)))


class SweptExperiments(Experiments):
    """One command per experiment, per `module:Class` of the user's own, and per problem file."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        from limen.cli.sweep import sweep_command, sweep_file_command

        return sweep_file_command(Path(cmd_name)) if cmd_name.endswith(".toml") else sweep_command(cmd_name)


def _run_identifiers(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from limen.cli.completion import runs

    return runs(context, parameter, incomplete)


def _sweep_identifiers(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from limen.cli.completion import sweeps

    return sweeps(context, parameter, incomplete)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="limen", prog_name="limen")
def limen() -> None:
    """What training a network will do, before training it: theory, simulation, and how well they agree."""


@limen.group(cls=Experiments, name="run", subcommand_metavar="NAME [--PARAM VALUE]...")
def run() -> None:
    """Run an experiment: theory, simulation, comparison; figure and data saved, table printed.

    `limen run NAME --help` lists the parameters of an experiment.
    """


@limen.group(cls=SweptExperiments, name="sweep", subcommand_metavar="NAME|FILE --grid PARAM=a:b:n ...")
def sweep() -> None:
    """Run an experiment or a problem file over a grid of parameters, sizes and seeds; the same command again resumes.

    `limen sweep NAME --help` lists the options. Parameters of a problem are named by their paths: algorithm.step.
    """


@limen.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="print exactly one JSON object")
@click.pass_context
def sweeps(context: click.Context, as_json: bool) -> None:
    """Sweeps and their progress."""
    if context.invoked_subcommand is None:
        from limen.cli.sweep import list_sweeps

        list_sweeps(as_json)


@sweeps.command(name="show")
@click.argument("identifier", metavar="ID", shell_complete=_sweep_identifiers)
@click.option("--json", "as_json", is_flag=True, help="print exactly one JSON object")
def show_sweep(identifier: str, as_json: bool) -> None:
    """What a sweep asks for, how far it is, what failed and why."""
    from limen.cli.sweep import print_sweep

    print_sweep(identifier, as_json)


@sweeps.command(name="export")
@click.argument("identifier", metavar="ID", shell_complete=_sweep_identifiers)
@click.option("--out", type=click.Path(path_type=Path), default=Path("limen-out"), help="folder for the files")
@click.option("--quantity", default=None, help="what the figure shows")
@click.option("--json", "as_json", is_flag=True, help="print exactly one JSON object")
def export_sweep(identifier: str, out: Path, quantity: str | None, as_json: bool) -> None:
    """Write what there is of a sweep: netCDF, CSV, figure."""
    from limen.cli.sweep import export

    export(identifier, out, quantity, as_json)


@sweeps.command(name="cancel")
@click.argument("identifier", metavar="ID", shell_complete=_sweep_identifiers)
def cancel(identifier: str) -> None:
    """Stop a sweep wherever it runs; its results are kept, and the same command takes it up again."""
    from limen.cli.sweep import cancel_sweep

    cancel_sweep(identifier)


@limen.group()
def store() -> None:
    """The store of results: what it holds, whether it is intact, and cleaning it."""


@store.command(name="info")
@click.option("--json", "as_json", is_flag=True, help="print exactly one JSON object")
def store_info(as_json: bool) -> None:
    """Where the store is and what it holds."""
    from limen.cli.store import print_info

    print_info(as_json)


@store.command(name="verify")
@click.option("--json", "as_json", is_flag=True, help="print exactly one JSON object")
def store_verify(as_json: bool) -> None:
    """Read every file; damaged ones are set aside, to be computed again when wanted."""
    from limen.cli.store import print_verification

    print_verification(as_json)


@store.command(name="repair")
@click.option("--json", "as_json", is_flag=True, help="print exactly one JSON object")
def store_repair(as_json: bool) -> None:
    """Make the index again from the files of results, which say what they are."""
    from limen.cli.store import print_repair

    print_repair(as_json)


@store.command(name="gc")
@click.option("--keep-outdated", is_flag=True, help="keep results of other versions of limen")
@click.option("--dry-run", is_flag=True, help="only say what would be removed")
@click.option("--json", "as_json", is_flag=True, help="print exactly one JSON object")
def store_gc(keep_outdated: bool, dry_run: bool, as_json: bool) -> None:
    """Remove results of other versions of limen, stray files and the quarantine."""
    from limen.cli.store import print_removal

    print_removal(keep_outdated, dry_run, as_json)


limen.add_command(data)
for command in COMMANDS:
    limen.add_command(command)


@limen.command(name="list")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--json", "as_json", is_flag=True, help="print exactly one JSON object")
def list_experiments(words: tuple[str, ...], as_json: bool) -> None:
    """Every experiment: name, source, one line; with words, those that have them (`limen list attention`)."""
    from limen.cli.gallery import list_experiments

    list_experiments(words, as_json)


@limen.command()
@click.argument("identifier", metavar="ID", shell_complete=_run_identifiers)
@click.option("--out", type=click.Path(path_type=Path), default=None, help="redraw the figure into this folder")
def show(identifier: str, out: Path | None) -> None:
    """What a stored run is; with --out its figure is drawn again."""
    from limen.cli.show import show_run

    show_run(identifier, out)


@limen.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete limen's commands: `limen completion bash >> ~/.bashrc`."""
    from limen.cli.completion import script

    click.echo(script(shell))


@limen.command()
@click.argument("name")
def cite(name: str) -> None:
    """BibTeX of an experiment's sources."""
    from limen.citations import bibtex
    from limen.experiments.registry import experiment_class

    click.echo(bibtex(experiment_class(name).citations))


@limen.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="address to serve on; others demand --token")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 takes a free one")
@click.option("--token", default=None, help="what visitors must know; part of the printed address")
@click.option("--no-browser", is_flag=True, help="do not open a browser")
def web(host: str, port: int, token: str | None, no_browser: bool) -> None:
    """The page: pick an experiment, move its parameters, see theory at once and simulation arriving."""
    from limen.cli.web import serve

    serve(host, port, token, not no_browser)


def main() -> None:
    """Runs the command line; a user's mistake is one sentence on standard error and exit code 2."""
    listen()
    collect_seldom()
    atexit.register(leave_without_collecting)
    try:
        # With an exit asked for inside a command, what comes back is its code.
        code = limen.main(prog_name="limen", standalone_mode=False)
        if isinstance(code, int) and code:
            sys.exit(code)
    except click.ClickException as error:
        _stop(_sentence(error), 2)
    except (KeyboardInterrupt, click.Abort) as error:
        # Click wraps the interruption, which may say more than we could.
        asked = error.__cause__ or error
        said = str(asked) or "Interrupted: what was finished is kept, the same command goes on from there."
        _stop(said, 128 + (asked.signal if isinstance(asked, Stopped) else signal.SIGINT))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            _stop("Too many files are open at once: allow more (ulimit -n 256); what was finished is kept.", 2)
        if error.errno not in UNWRITABLE:
            raise
        where = f" {error.filename!r}" if error.filename else ""
        _stop(f"Cannot write{where}: {error.strerror}; what was finished is kept.", 2)
    except RuntimeError as error:
        from limen.sweeps.protocol import ExecutorLost

        if not isinstance(error, ExecutorLost):
            raise
        _stop(str(error), 1)
    except ValueError as error:
        from limen.problem.spec import InputError

        if not isinstance(error, InputError):
            raise
        _stop(str(error), 2)


def _sentence(error: click.ClickException) -> str:
    """Click's complaint, with the parameter's name and no line breaks; where nothing was asked, the help as it is."""
    if isinstance(error, click.NoSuchOption):
        near = f" Did you mean {error.possibilities[0]}?" if error.possibilities else ""
        return f"There is no option {error.option_name}.{near}"
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    return " ".join(error.format_message().split())


def _stop(message: str, code: int) -> None:
    # A terminal that has closed cannot be told.
    with suppress(OSError):
        click.echo(message, err=True)
        sys.stdout.flush()
        sys.stderr.flush()
    # Threads still in compiled code cannot be cancelled; their work is not needed any more.
    os._exit(code)
