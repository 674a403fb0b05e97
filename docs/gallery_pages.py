"""One page per experiment, made from the registry: docstring, parameters, picture, numbers, references.

Pictures and numbers are those packed with limen: `make docs` computes nothing. `make docs-full` runs every experiment
with its default parameters, draws it at full size and packs its numbers anew in `gallery_numbers.json`.
"""

import inspect
import json
import os
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import limen
from limen.citations import bibtex
from limen.experiments.experiment import Experiment
from limen.experiments.registry import PLACES, experiment_class

NUMBERS = Path(__file__).parent / "gallery_numbers.json"
RECOMPUTE = os.environ.get("LIMEN_DOCS") == "full"


def write_gallery(folder: Path) -> None:
    """Writes the page of every experiment and the index of them all."""
    folder.mkdir(exist_ok=True)
    # Pages of experiments that are no more would stand outside every table of contents.
    for page in folder.glob("*.md"):
        page.unlink()
    packed = json.loads(NUMBERS.read_text()) if NUMBERS.is_file() else {}
    names = sorted(PLACES, key=lambda name: (experiment_class(name).source, name))
    pictures: dict[str, str] = {}
    for name in names:
        kind = experiment_class(name)
        if RECOMPUTE:
            packed[name], pictures[name] = _recomputed(kind, folder)
            NUMBERS.write_text(json.dumps(packed, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        else:
            pictures[name] = _packed_picture(name, folder)
        (folder / f"{name}.md").write_text(_page(kind, pictures[name], packed.get(name), folder))
    (folder / "index.md").write_text(_index(names, pictures))


def _recomputed(kind: type[Experiment], folder: Path) -> tuple[dict[str, Any], str]:
    """Numbers and verdict of a default run, and the name of its picture."""
    from limen.plot import save_figure

    outcome = limen.experiment(kind.name).run()
    save_figure(outcome.experiment.figure(outcome.theory, outcome.simulation), folder / f"{kind.name}.png")
    found = {
        who: {
            key: [float(value), getattr(value, "words", key), getattr(value, "unit", "")] for key, value in of.items()
        }
        for who, of in outcome.numbers.items()
    }
    return {**found, "verdict": outcome.comparison.sentence if outcome.comparison else ""}, f"{kind.name}.png"


def _packed_picture(name: str, folder: Path) -> str:
    """The picture that came with the page of the gallery; empty where there is none yet."""
    source = files("limen.web") / "static" / "pictures" / f"{name}.svg"
    if not source.is_file():
        return ""
    shutil.copy(str(source), folder / f"{name}.svg")
    return f"{name}.svg"


def _page(kind: type[Experiment], picture: str, numbers: dict[str, Any] | None, folder: Path) -> str:
    parameters = [
        f"| `--{key.replace('_', '-')}` | {field.default} | {field.description} |"
        for key, field in kind.model_fields.items()
    ]
    parts = [
        f"# {kind.name}",
        inspect.getdoc(kind) or "",
        f"![{kind.summary}]({picture})" if picture else "",
        _table(numbers) if numbers else "",
        numbers["verdict"] if numbers else "",
        f"```sh\nlimen run {kind.name}\n```",
        f'```python\nlimen.experiment("{kind.name}").run()\n```',
        "| parameter | default | |\n|---|---|---|\n" + "\n".join(parameters),
        *_diagram(kind, folder),
        f"```bibtex\n{bibtex(kind.citations)}\n```\n\n[How these were checked](../references.md).",
        "Next: [the whole gallery](index.md), or [what a verdict means](../concepts.md).",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(numbers: dict[str, Any]) -> str:
    """Numbers of both witnesses in words."""
    rows = []
    for key, (value, words, unit) in numbers["theory"].items():
        measured = numbers.get("simulation", {}).get(key)
        rows.append(f"| {words} | {value:.5g} {unit} | {'' if measured is None else f'{measured[0]:.5g} {unit}'} |")
    return "| | theory | simulation |\n|---|---|---|\n" + "\n".join(rows)


def _diagram(kind: type[Experiment], folder: Path) -> list[str]:
    """The command of the phase diagram an experiment declares; with `make docs-full` swept and drawn."""
    if not kind.diagram:
        return []
    axes = " ".join(f"--grid {name}={values}" for name, values in kind.diagram["grid"].items())
    command = f"limen sweep {kind.name} {axes} --size {kind.diagram['sizes']} --seeds {kind.diagram['seeds']}"
    shown = []
    if RECOMPUTE:
        from limen.plot import save_figure

        picture = f"{kind.name}-sweep.png"
        save_figure(limen.sweep(kind, **kind.diagram).figure(), folder / picture)
        shown = [f"![Phase diagram of {kind.name}]({picture})"]
    return [
        "## Phase diagram",
        "Colours are the mean over simulations; line and points are where theory and simulation pass the value named.",
        *shown,
        f"```sh\n{command}\n```",
    ]


def _index(names: list[str], pictures: dict[str, str]) -> str:
    lines = ["# Gallery", "", "Every experiment with its default parameters; each is one command.", ""]
    source = ""
    for name in names:
        kind = experiment_class(name)
        if kind.source != source:
            source = kind.source
            lines += ["", f"## {source}", ""]
        if not pictures[name]:
            lines += [f"[{name}]({name}.md): {kind.summary}", ""]
            continue
        options = [":width: 420px", f":target: {name}.html", f":alt: {kind.summary}"]
        lines += [f"```{{figure}} {pictures[name]}", *options, ""]
        lines += [f"[{name}]({name}.md): {kind.summary}", "```", ""]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *names, "```", ""])
