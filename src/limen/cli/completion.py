"""Completion in the shell: experiments and options from the index, identifiers from the folders of the store."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    from limen.experiments.index import Entry


def script(shell: str) -> str:
    """What the shell must read to complete `limen`."""
    from limen.cli.main import limen

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(limen, {}, "limen", "_LIMEN_COMPLETE").source()


def experiments(incomplete: str) -> list[CompletionItem]:
    """Experiments whose name begins so, each with its line."""
    from limen.experiments.index import entry
    from limen.experiments.registry import PLACES

    known: list[Entry] = [entry(name) for name in sorted(PLACES) if name.startswith(incomplete)]
    return [CompletionItem(one.name, help=one.summary) for one in known]


def runs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Identifiers of stored runs that begin so, newest first."""
    return _identifiers("runs", incomplete)


def sweeps(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Identifiers of sweeps that begin so, newest first."""
    return _identifiers("sweeps", incomplete)


def _identifiers(folder: str, incomplete: str) -> list[CompletionItem]:
    import platformdirs

    # Looked up in the folder, not in the index: a key press must not wait for a database.
    root = Path(os.environ.get("LIMEN_STORE") or platformdirs.user_data_path("limen"))
    found = sorted((root / folder).glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [CompletionItem(path.stem) for path in found if path.stem.startswith(incomplete)]
