"""Habits of the house that no linter knows."""

import ast
import re
from pathlib import Path

import limen
from limen.experiments.figure import counted

ROOT = Path(limen.__file__).parent
MOST_FILES = 24


def test_posing_a_problem_needs_no_jax():
    for file in (ROOT / "problem").glob("*.py"):
        for node in ast.parse(file.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "jax" for name in names), f"{file.name} imports jax at the top"


def test_no_room_is_a_hall():
    for folder in [ROOT, *(path for path in ROOT.rglob("*") if path.is_dir() and path.name != "__pycache__")]:
        files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(files) <= MOST_FILES, f"{folder.relative_to(ROOT.parent)} has {len(files)} files"


def test_one_run_is_not_called_runs():
    """Numbers of runs in figures are written by `counted`."""
    plain = re.compile(r"\{len\([^{}]*\} (seeds|runs|draws|networks)\b")
    for file in (ROOT / "experiments").rglob("*.py"):
        assert not plain.search(file.read_text()), file.name
    assert (counted(1, "run"), counted(8, "run")) == ("1 run", "8 runs")


def test_chapters_bear_the_same_names():
    chapters = {"spectra", "kernel", "one_pass", "descent", "flow", "thresholds", "effective", "attention"}
    for room in ("theory", "simulation", "experiments"):
        assert chapters <= {path.name for path in (ROOT / room).iterdir() if path.is_dir()}


def test_the_package_is_typed():
    assert (ROOT / "py.typed").is_file()
