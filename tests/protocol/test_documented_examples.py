"""Every Python example of the README and the documentation runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "chapters").glob("*.md"))]


def examples(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL))


# Sampling and training take longer there than the other pages together.
SLOW = {"attention.md", "concepts.md", "effective.md", "flow.md", "one_pass.md"}
MARKED = [
    pytest.param(page, marks=[pytest.mark.slow] if page.name in SLOW else [], id=page.name)
    for page in PAGES
    if examples(page)
]


@pytest.mark.parametrize("page", MARKED)
def test_the_examples_of_a_page_run(page):
    code = compile(examples(page), str(page), "exec")
    exec(code, {"__name__": "__main__"})
    assert code.co_code
