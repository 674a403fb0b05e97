"""One page per experiment, made from the registry: docstring, parameters, picture, numbers, references.

Pictures and numbers are those packed with limen: `make docs` computes nothing. `make docs-full` runs every experiment
with its default parameters, draws it at full size and packs its numbers anew in `gallery_numbers.json`. Costs are those
of `gallery_costs.json`, which `gallery_costs.py` measures.
"""

import inspect
import json
import os
import shutil
from html import escape
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Any

import limen
from limen.citations import bibtex
from limen.experiments.experiment import Experiment
from limen.experiments.registry import PLACES, experiment_class

NUMBERS = Path(__file__).parent / "gallery_numbers.json"
COSTS = Path(__file__).parent / "gallery_costs.json"
# Processor seconds at the quick parameters, all default seeds, up to which a card says so.
CLASSES = ((1.0, "a second"), (10.0, "seconds"), (60.0, "a minute"))
CHAPTERS = {
    "spectra": "kernels",
    "kernel": "kernels",
    "descent": "feature_learning",
    "thresholds": "feature_learning",
    "one_pass": "one_pass",
    "flow": "flow",
    "effective": "effective",
    "attention": "attention",
}
RECOMPUTE = os.environ.get("LIMEN_DOCS") == "full"


def write_gallery(folder: Path) -> None:
    """Writes the page of every experiment and the index of them all."""
    folder.mkdir(exist_ok=True)
    # Pages of experiments that are no more would stand outside every table of contents.
    for page in folder.glob("*.md"):
        page.unlink()
    packed = json.loads(NUMBERS.read_text()) if NUMBERS.is_file() else {}
    costs = json.loads(COSTS.read_text()) if COSTS.is_file() else {}
    names = sorted(PLACES, key=lambda name: (experiment_class(name).source, name))
    pictures: dict[str, str] = {}
    for name in names:
        kind = experiment_class(name)
        if RECOMPUTE:
            packed[name], pictures[name] = _recomputed(kind, folder)
            NUMBERS.write_text(json.dumps(packed, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        else:
            pictures[name] = _packed_picture(name, folder)
        (folder / f"{name}.md").write_text(_page(kind, pictures[name], packed.get(name), _cost(kind, costs), folder))
    (folder / "index.md").write_text(_index(names, pictures, costs))


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


def _chapter(name: str) -> str:
    """The chapter whose folder an experiment stands in."""
    return PLACES[name].partition(".")[0]


def _chapter_page(kind: type[Experiment]) -> str:
    """The page of the documentation that explains an experiment."""
    return "methods" if kind.source == "First-order methods" else CHAPTERS[_chapter(kind.name)]


def _cost(kind: type[Experiment], costs: dict[str, list[float]]) -> tuple[str, str]:
    """Class of what an experiment costs at its quick parameters with its default seeds, and the sentence behind it."""
    if kind.name not in costs:
        return "not measured", ""
    theory, seed = costs[kind.name]
    theory *= kind.default_seeds if kind.paired else 1
    total = theory + kind.default_seeds * seed
    name = next((words for limit, words in CLASSES if total <= limit), "minutes")
    values = {key: ",".join(map(str, v)) if isinstance(v, (tuple, list)) else v for key, v in kind.quick.items()}
    smaller = " ".join(f"--{key.replace('_', '-')} {quote(str(value))}" for key, value in values.items())
    return name, (
        f"`limen run {kind.name} {smaller}`".replace(" `", "`")
        + f" takes about {total:.2g} s of processor time, compilation apart: theory {theory:.2g} s, "
        f"{kind.default_seeds} seeds of {seed:.2g} s."
    )


def _page(
    kind: type[Experiment], picture: str, numbers: dict[str, Any] | None, cost: tuple[str, str], folder: Path
) -> str:
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
        "## Run it",
        f"```sh\nlimen run {kind.name}\n```",
        f'```python\nimport limen\n\nlimen.experiment("{kind.name}").run()\n```',
        f"On the page, while `limen web` runs: <http://127.0.0.1:8765/#/{kind.name}>. Parameters that you move become "
        "part of this address.",
        cost[1],
        "| parameter | default | |\n|---|---|---|\n" + "\n".join(parameters),
        *_diagram(kind, folder),
        "## References",
        f"```bibtex\n{bibtex(kind.citations)}\n```\n\n[How these were checked](../references.md).",
        f"Next: [the theory behind it](../chapters/{_chapter_page(kind)}.md), [the whole gallery](index.md), or "
        "[what a verdict means](../verdict.md).",
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


def _index(names: list[str], pictures: dict[str, str], costs: dict[str, list[float]]) -> str:
    """Cards grouped by source. A script on the page hides those that are not asked for; without it all show."""
    kinds = {name: experiment_class(name) for name in names}
    found = {
        name: (kind.source, _chapter(name).replace("_", " "), _cost(kind, costs)[0]) for name, kind in kinds.items()
    }
    order = [*(words for _, words in CLASSES), "minutes", "not measured"]
    choices = [sorted({entry[axis] for entry in found.values()}) for axis in (0, 1)]
    choices.append([words for words in order if any(entry[2] == words for entry in found.values())])
    lines = ["# Gallery", "", "Every experiment with its default parameters; each is one command.", ""]
    lines += ["```{raw} html", f"<style>{CARDS}</style>", '<form class="gallery-filter">']
    for label, values in zip(("source", "chapter", "cost"), choices, strict=True):
        options = "".join(f"<option>{escape(value)}</option>" for value in values)
        lines.append(f'<label>{label} <select><option value="">all</option>{options}</select></label>')
    lines += ["</form>", "```", ""]
    source = ""
    for name, kind in kinds.items():
        if kind.source != source:
            source = kind.source
            lines += ["", f"## {source}", ""]
        _, chapter, cost = found[name]
        lines += ["```{raw} html", f'<div class="gallery-card" data-axes="{escape("|".join(found[name]))}">', "```", ""]
        if pictures[name]:
            options = [":width: 100%", f":target: {name}.html", f":alt: {kind.summary}"]
            lines += [f"```{{figure}} {pictures[name]}", *options, "```", ""]
        lines += [f"[{name}]({name}.md): {kind.summary} *{chapter}, {cost}*", ""]
        lines += ["```{raw} html", "</div>", "```", ""]
    lines += ["```{raw} html", f"<script>{FILTER}</script>", "```", ""]
    lines += ["Next: [pose a problem of your own](../concepts.md), or [move parameters in the browser](../web.md).", ""]
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", *names, "```", ""])


# Cards side by side, as many as the width allows; everything else of a section takes a whole line.
CARDS = """
section:has(> .gallery-card) { display: grid; gap: 0.8rem;
  grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); }
section:has(> .gallery-card) > :not(.gallery-card):not(section) { grid-column: 1 / -1; }
.gallery-card { border: 1px solid var(--color-background-border); border-radius: 8px;
  padding: 0.4rem 0.8rem; font-size: 0.88em; }
.gallery-card[hidden], section[hidden] { display: none; }
.gallery-card figure { margin: 0; }
.gallery-filter { display: flex; flex-wrap: wrap; gap: 0.5rem 1.2rem; margin-bottom: 1rem; }
"""
# Hides cards that differ from what is chosen, and headings without a card; nothing is loaded.
FILTER = """
const form = document.querySelector(".gallery-filter");
form.addEventListener("change", () => {
  const wanted = [...form.querySelectorAll("select")].map((select) => select.value);
  for (const card of document.querySelectorAll(".gallery-card")) {
    const has = card.dataset.axes.split("|");
    card.hidden = wanted.some((value, axis) => value && value !== has[axis]);
  }
  for (const section of document.querySelectorAll("section section")) {
    const cards = [...section.querySelectorAll(".gallery-card")];
    section.hidden = cards.length > 0 && cards.every((card) => card.hidden);
  }
});
"""
