"""One page per experiment, made from the registry: docstring, parameters, figure, headline numbers, references."""

import inspect
from pathlib import Path

import limen
from limen.citations import bibtex
from limen.experiments.experiment import Experiment
from limen.experiments.registry import PLACES, experiment_class
from limen.plot import save_figure
from limen.storage import FileStore, run


def write_gallery(folder: Path) -> None:
    """Runs every experiment with its default parameters (or takes them from the store) and writes its page."""
    folder.mkdir(exist_ok=True)
    # Pages of experiments that are no more would stand outside every table of contents.
    for page in folder.glob("*.md"):
        page.unlink()
    names = sorted(PLACES, key=lambda name: (experiment_class(name).source, name))
    for name in names:
        (folder / f"{name}.md").write_text(_page(name, folder))
    (folder / "index.md").write_text(_index(names))


def _page(name: str, folder: Path) -> str:
    kind = experiment_class(name)
    experiment = kind()
    finished = run(experiment, range(kind.default_seeds), FileStore())
    save_figure(experiment.figure(finished.theory, finished.simulation), folder / f"{name}.png")
    headline = experiment.headline(finished.theory, finished.simulation)
    rows = [
        f"| {key} | {value:.5g} | {headline.get('simulation', {}).get(key, float('nan')):.5g} |"
        for key, value in headline["theory"].items()
    ]
    parameters = [
        f"| `--{key.replace('_', '-')}` | {field.default} | {field.description} |"
        for key, field in kind.model_fields.items()
    ]
    verdict = finished.comparison.sentence if finished.comparison else ""
    parts = [
        f"# {name}",
        inspect.getdoc(kind) or "",
        f"![{kind.summary}]({name}.png)",
        "| | theory | simulation |\n|---|---|---|\n" + "\n".join(rows),
        verdict,
        "| parameter | default | |\n|---|---|---|\n" + "\n".join(parameters),
        f"```sh\nlimen run {name}\n```",
        *_diagram(kind, folder),
        f"```bibtex\n{bibtex(kind.citations)}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _diagram(kind: type[Experiment], folder: Path) -> list[str]:
    """The phase diagram an experiment declares, swept (or taken from the store), and the command that makes it."""
    if not kind.diagram:
        return []
    swept = limen.sweep(kind, **kind.diagram)
    picture = f"{kind.name}-sweep.png"
    save_figure(swept.figure(), folder / picture)
    axes = " ".join(f"--grid {name}={values}" for name, values in kind.diagram["grid"].items())
    command = f"limen sweep {kind.name} {axes} --size {kind.diagram['sizes']} --seeds {kind.diagram['seeds']}"
    return [
        "## Phase diagram",
        "Colours are the mean over simulations; line and points are where theory and simulation pass the value named.",
        f"![Phase diagram of {kind.name}]({picture})",
        f"```sh\n{command}\n```",
    ]


def _index(names: list[str]) -> str:
    lines = ["# Gallery", "", "Every experiment with its default parameters; each is one command.", ""]
    source = ""
    for name in names:
        kind = experiment_class(name)
        if kind.source != source:
            source = kind.source
            lines += ["", f"## {source}", ""]
        options = [":width: 420px", f":target: {name}.html", f":alt: {kind.summary}"]
        lines += [f"```{{figure}} {name}.png", *options, ""]
        lines += [f"[{name}]({name}.md): {kind.summary}", "```", ""]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *names, "```", ""])
