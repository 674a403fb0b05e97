"""`limen store info|verify|repair|gc`."""

import json
import warnings
from dataclasses import asdict

import click

from limen.storage import FileStore
from limen.storage.upkeep import collect_garbage, info, repair, verify


def print_info(as_json: bool) -> None:
    """What the store holds."""
    found = info(FileStore()).describe()
    if as_json:
        click.echo(json.dumps(found))
        return
    for name, value in found.items():
        click.echo(f"{name:<12}{f'{value / 1e6:.1f} MB' if name == 'bytes' else value}")


def print_verification(as_json: bool) -> None:
    """Reads every file of the store."""
    with warnings.catch_warnings():
        # Each damaged file is in the answer below.
        warnings.simplefilter("ignore", UserWarning)
        found = verify(FileStore())
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return
    click.echo(f"{found.files} files read, {len(found.damaged)} damaged or lost, with {found.lost_results} results.")
    for name in found.damaged:
        click.echo(f"  set aside or forgotten: {name}")
    if found.found_results:
        click.echo(f"{found.found_results} results were in files that the index did not know; now it does.")
    _say_unknown(found.unknown)


def print_repair(as_json: bool) -> None:
    """Makes the index again."""
    found = repair(FileStore())
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return
    click.echo(
        f"The index is made again from {found.files} files: {found.results} results, {found.runs} runs, "
        f"{found.sweeps} sweeps."
    )
    _say_unknown(found.unknown)


def _say_unknown(files: int) -> None:
    if files:
        click.echo(f"{files} files do not say what they are (an older limen wrote them): they are left alone.")


def print_removal(keep_outdated: bool, dry_run: bool, as_json: bool) -> None:
    """Throws away what no one can reach."""
    removal = collect_garbage(FileStore(), keep_outdated, dry_run)
    if as_json:
        click.echo(json.dumps(asdict(removal)))
        return
    verb = "would be removed" if dry_run else "removed"
    click.echo(f"{removal.files} files ({removal.bytes / 1e6:.1f} MB) with {removal.results} results {verb}.")
    _say_unknown(removal.unknown)
