"""Every Python example of the README and the documentation runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = [ROOT / "docs" / folder for folder in ("", "chapters", "howto")]
PAGES = [ROOT / "README.md", *(page for folder in DOCS for page in sorted(folder.glob("*.md")))]


def examples(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL))


MARKED = [
    pytest.param(page, marks=[] if page.name == "README.md" else [pytest.mark.slow], id=page.name)
    for page in PAGES
    if examples(page)
]


@pytest.mark.parametrize("page", MARKED)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = compile(examples(page), str(page), "exec")
    exec(code, {"__name__": "__main__"})
    assert code.co_code
