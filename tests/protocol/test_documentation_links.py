"""Every relative link of the documentation has a target, and no page ends without a next step."""

import re
import runpy
from pathlib import Path

import pytest

from limen.experiments.registry import PLACES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITTEN = [page for folder in ("", "chapters", "howto") for page in sorted((DOCS / folder).glob("*.md"))]
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.py"))
# Pages that are made when the documentation is built, by the names they will have.
MADE = {
    *(DOCS / "gallery" / name for name in (*PLACES, "index")),
    *(DOCS / "reference" / name for name in (*runpy.run_path(str(DOCS / "reference_pages.py"))["CHAPTERS"], "index")),
    *(DOCS / "tutorials" / notebook.stem for notebook in NOTEBOOKS),
    DOCS / "references",
}


def links(text: str) -> list[str]:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if not link.startswith(("http", "#"))]


def missing(page: Path, folder: Path) -> list[str]:
    found = []
    for link in links(page.read_text()):
        target = (folder / link.partition("#")[0]).resolve()
        bare = target.with_suffix("") if target.suffix == ".md" else target
        if not (bare in MADE or target.is_file() or target.with_name(f"{target.name}.md").is_file()):
            found.append(link)
    return found


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_have_targets(page):
    assert missing(page, page.parent) == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda page: page.name)
def test_links_of_tutorials_have_targets(notebook):
    assert missing(notebook, DOCS / "tutorials") == []


def test_a_wrong_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[here](page.md), `[code](nowhere.md)`, [away](https://example.org), [lost](nowhere.md)")
    assert missing(page, tmp_path) == ["nowhere.md"]


@pytest.mark.parametrize("page", [page for page in WRITTEN if page.name != "index.md"], ids=lambda page: page.name)
def test_a_page_ends_with_a_next_step(page):
    last = page.read_text().rstrip().rpartition("\n\n")[2]
    assert last.startswith("Next: ")
    assert links(last)
