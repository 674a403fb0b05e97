"""What a run printed, kept beside the store: the same asked again is shown without importing what computed it."""

import glob
import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import platformdirs

FOLDER = "answers"
# Letters of a run's identifier.
NAME = 10


def request_of(experiment: str, given: dict[str, Any], seeds: int | None, rule: dict[str, float | None]) -> str:
    """A short name of what was asked; limen's sources are part of it, so that no answer outlives them."""
    from limen.experiments.registry import PLACES
    from limen.sources import source_digest

    asked = {"experiment": experiment, "given": given, "seeds": seeds, "rule": rule, "version": version("limen")}
    asked["sources"] = source_digest(PLACES[experiment].partition(":")[2])
    asked["shown"] = _shown_digest()
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def recall_answer(request: str, out: Path) -> dict[str, Any] | None:
    """The answer to a request, if its results are still in the store and its files where they are wanted."""
    if (answer := _kept(request)) is None:
        return None
    try:
        files = {name: str(out / Path(file).name) for name, file in answer["files"].items()}
    except (KeyError, TypeError, AttributeError):
        return None
    return {**answer, "files": files} if all(Path(file).is_file() for file in files.values()) else None


def keep_answer(request: str, answer: dict[str, Any], results: list[str]) -> None:
    """Keeps an answer, where the store can be written; `results` are the files of the store that it rests on."""
    from limen.storage.self_description import write_record

    try:
        # By what was asked, and by the run that answers it: `limen show` knows only that.
        for name in (request, answer["id"]):
            write_record(_root() / FOLDER, name, {**answer, "results": results})
    except OSError:
        return


def answer_of_run(identifier: str) -> dict[str, Any] | None:
    """What was printed of the run whose identifier begins so, if that is one run and its results are in the store."""
    named = [path for path in (_root() / FOLDER).glob(f"{glob.escape(identifier)}*.json") if len(path.stem) == NAME]
    return _kept(named[0].stem) if identifier and len(named) == 1 else None


def _kept(name: str) -> dict[str, Any] | None:
    try:
        answer = json.loads((_root() / FOLDER / f"{name}.json").read_text())
        there = all(Path(file).is_file() for file in answer["results"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return answer if there else None


def _root() -> Path:
    return Path(os.environ.get("LIMEN_STORE") or platformdirs.user_data_path("limen"))


def _shown_digest() -> str:
    """Of the sources that decide how an answer looks: figures, comparison, tables."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for part in ("comparison", "plot", "cli", "experiments/figure.py", "experiments/number.py"):
        for path in sorted((package / part).rglob("*.py")) or [package / part]:
            digest.update(path.read_bytes())
    return digest.hexdigest()
