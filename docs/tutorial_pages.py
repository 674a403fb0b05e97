"""Tutorials: notebooks in jupytext's percent format, run when the documentation is built; what they print and draw.

A cell begins with `# %%`, one of text with `# %% [markdown]`. All cells of a notebook share their names.
"""

import ast
import contextlib
import io
import re
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


def write_tutorials(notebooks: Path, folder: Path) -> None:
    """One page for every notebook."""
    folder.mkdir(exist_ok=True)
    for notebook in sorted(notebooks.glob("*.py")):
        (folder / f"{notebook.stem}.md").write_text(_page(notebook, folder))


def cells(text: str) -> list[tuple[str, str]]:
    """Kind (`markdown` or `python`) and text of every cell."""
    found = []
    for part in re.split(r"(?m)^# %%", text)[1:]:
        head, _, body = part.partition("\n")
        if "[markdown]" in head:
            found.append(("markdown", re.sub(r"(?m)^# ?", "", body).strip()))
        elif body.strip():
            found.append(("python", body.strip()))
    return found


def _page(notebook: Path, folder: Path) -> str:
    names: dict[str, Any] = {"__name__": "__tutorial__"}
    parts = []
    for number, (kind, text) in enumerate(cells(notebook.read_text())):
        if kind == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        said, shown = run_cell(text, names)
        if isinstance(shown, Figure):
            picture = f"{notebook.stem}-{number}.png"
            shown.savefig(folder / picture, dpi=130, bbox_inches="tight")
            parts.append(f"![what the lines above draw]({picture})")
        elif shown is not None:
            said += f"{shown}\n"
        if said.strip():
            parts.append(f"```text\n{said.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def run_cell(text: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line if that is an expression."""
    tree = ast.parse(text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "<cell>", "exec"), names)
        shown = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if last is not None else None
    return said.getvalue(), shown
