"""The reference, made from the docstrings of everything public; docstrings are Markdown with mathematics in $...$."""

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

CHAPTERS = {
    "limen": "Problems and verbs",
    "limen.gaussian": "Gaussian expectations",
    "limen.link": "Facts about a link",
    "limen.spectra": "Spectra",
    "limen.kernel": "Kernels",
    "limen.descent": "Gradient descent",
    "limen.thresholds": "Thresholds",
    "limen.one_pass": "One-pass SGD",
    "limen.flow": "Learning, then overfitting",
    "limen.data": "Your own data",
    "limen.attention": "Attention",
    "limen.effective": "Effective dynamics",
}


def write_reference(folder: Path) -> None:
    """One page per chapter, one section per public name."""
    folder.mkdir(exist_ok=True)
    for name, title in CHAPTERS.items():
        (folder / f"{name}.md").write_text(_page(importlib.import_module(name), name, title))
    pages = "\n".join(CHAPTERS)
    (folder / "index.md").write_text(
        f"# Reference\n\n```{{toctree}}\n:maxdepth: 1\n\n{pages}\n```\n\nNext: [how to choose](../choose.md).\n"
    )


def _page(module: ModuleType, name: str, title: str) -> str:
    sections = [f"# {title}: `{name}`", inspect.getdoc(module) or ""]
    for attribute in sorted(module.__all__):
        value = getattr(module, attribute)
        if not inspect.ismodule(value):
            sections.append(_section(f"{name}.{attribute}", value, 2))
    sections.append("Next: [which function answers what](../choose.md), or [the other chapters](index.md).")
    return "\n\n".join(sections) + "\n"


def _section(name: str, value: object, level: int) -> str:
    parts = ["#" * level + f" `{name}`", f"```python\n{name.rpartition('.')[2]}{_signature(value)}\n```"]
    parts.append(_markdown(inspect.getdoc(value) or ""))
    if inspect.isclass(value):
        members: dict[str, object] = {}
        for kind in value.__mro__:
            if kind.__module__.startswith("limen"):
                members = {**vars(kind), **members}
        for member, function in members.items():
            public = not member.startswith("_") and (inspect.isfunction(function) or isinstance(function, property))
            if public and inspect.getdoc(function):
                parts.append(f"**`.{member}`** {_markdown(inspect.getdoc(function) or '')}")
    return "\n\n".join(parts)


def _signature(value: object) -> str:
    fields = getattr(value, "model_fields", None)
    if fields is not None:
        shown = (key if field.is_required() else f"{key}={field.default!r}" for key, field in fields.items())
        return f"({', '.join(shown)})"
    try:
        text = str(inspect.signature(value))  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"<function <lambda> at \w+>", "...", text)
    return re.sub(r"<(?:function|class) '?(\w+)[^>]*>", r"\1", text)


def _markdown(text: str) -> str:
    """Display mathematics on lines of its own, and argument lists as lists."""
    text = re.sub(r"\$\$(.+?)\$\$", lambda match: f"\n$$\n{match.group(1).strip()}\n$$\n", text, flags=re.DOTALL)
    return re.sub(r"(?m)^    (\w+): ", r"- `\1`: ", text.replace("Args:\n", "\n"))
