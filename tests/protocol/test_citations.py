"""References: every key cited exists, none is idle, and each entry says with which public page it was compared."""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

import limen
from limen.citations import BIBTEX, CHECKED, bibtex
from limen.web.text.references import references

SOURCES = Path(limen.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"


def cited(source: str) -> Iterator[str]:
    """Keys in what a module assigns to `citations` or `CITATIONS`."""
    for node in ast.walk(ast.parse(source)):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and names & {"citations", "CITATIONS"}:
            yield from (part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant))


def test_every_key_cited_exists_and_none_is_idle():
    texts = (file.read_text() for file in SOURCES.rglob("*.py") if file.name != "citations.py")
    assert {key for text in texts if "citations" in text.lower() for key in cited(text)} == set(BIBTEX)


def test_a_key_that_does_not_exist_would_be_seen():
    source = 'class Run:\n    citations: ClassVar[tuple[str, ...]] = ("nobody1900",)\nCITATIONS = ("noone1901",)'
    assert list(cited(source)) == ["noone1901", "nobody1900"]


def test_every_entry_says_how_it_was_checked():
    assert set(CHECKED) == set(BIBTEX)
    assert all(CHECKED.values())


@pytest.mark.parametrize("key", sorted(BIBTEX))
def test_an_entry_is_whole(key):
    entry = BIBTEX[key]
    assert re.match(rf"@(article|inproceedings|book)\{{{key},\n", entry), "an entry bears its own key"
    assert entry.count("{") == entry.count("}")
    (shown,) = references((key,))
    assert all(shown[name] for name in ("authors", "title", "where")) and re.fullmatch(r"\d{4}", shown["year"])
    preprint = re.search(r"journal = \{(.*arXiv.*?)\}", entry)
    if preprint:
        number = re.fullmatch(r"arXiv preprint arXiv:(\d\d)\d\d\.\d{5}", preprint.group(1))
        assert number and shown["year"].endswith(number.group(1)), "an arXiv number begins with its year"


def test_places_are_given_with_volume_and_pages():
    places = {entry["key"]: entry["where"] for entry in references(("saad1995", "paquette2024", "gyorfi2002"))}
    assert places == {
        "saad1995": "Physical Review E 52(4), 4225–4243",
        "paquette2024": "Advances in Neural Information Processing Systems 37",
        "gyorfi2002": "Springer",
    }


def test_keys_are_printed_once_and_in_order():
    assert re.findall(r"@\w+\{(\w+)", bibtex(("ott2008", "saad1995", "ott2008"))) == ["ott2008", "saad1995"]


def test_the_page_of_references_has_a_row_for_each():
    page = runpy.run_path(str(DOCS / "references_page.py"))["references_page"]()
    rows = dict(re.findall(r"^\| `(\w+)` \| .+? \| ([^|]+) \|$", page, flags=re.MULTILINE))
    assert rows == CHECKED
