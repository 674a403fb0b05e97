"""`limen list`: every experiment, from the index, in the width of the terminal."""

import json

import click

from limen.cli.plain_text import width, wrapped
from limen.experiments.index import Entry, entry
from limen.experiments.registry import PLACES
from limen.web.text.one_line import plain


def list_experiments(words: tuple[str, ...], as_json: bool) -> None:
    """Prints the experiments whose chapter, name, source or line has all the words; else those whose text has them."""
    known = list(map(entry, PLACES))
    found = [one for one in known if all(word.lower() in _short(one) for word in words)]
    # As on the page: authors and words of the text where names and lines say nothing.
    found = found or [
        one for one in known if all(word.lower() in f"{_short(one)} {one.text}".lower() for word in words)
    ]
    found.sort(key=lambda one: (one.source, one.name))
    if as_json:
        rows = [{name: getattr(one, name) for name in ("name", "source", "summary", "seeds")} for one in found]
        click.echo(json.dumps({"experiments": [{**row, "chapter": _chapter(row["name"])} for row in rows]}))
        return
    if not found:
        from limen.problem.spec import InputError

        raise InputError(f"no experiment has {' and '.join(map(repr, words))} in its name, chapter, source or text.")
    columns, longest = width(), max(len(one.name) for one in found)
    for source in dict.fromkeys(one.source for one in found):
        click.echo(click.style(wrapped(source, columns), bold=True))
        for one in found:
            if one.source == source:
                click.echo(wrapped(f"  {one.name:<{longest}}  {plain(one.summary)}", columns, longest + 4))


def _short(one: Entry) -> str:
    return f"{one.name} {_chapter(one.name)} {one.source} {one.summary}".lower()


def _chapter(name: str) -> str:
    return PLACES[name].partition(".")[0]
