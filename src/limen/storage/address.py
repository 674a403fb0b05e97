"""The address of a result: everything that determines it, hashed."""

import hashlib
import json
import sys
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from limen.experiments.experiment import Experiment


def address(spec: dict[str, Any], kind: str, seeds: tuple[int, ...]) -> str:
    """SHA-256 of the canonical spec, kind, seeds, precision, version, and a digest of limen's own sources.

    A change of any source file changes every address: a stored result never outlives the code that made it.
    """
    content = {
        "spec": spec,
        "kind": kind,
        "seeds": list(seeds),
        "dtype": "theory float64, simulation float32",
        "version": _version(),
        "sources": source_digest(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@lru_cache(maxsize=1)
def _version() -> str:
    return version("limen")


@lru_cache(maxsize=1)
def source_digest() -> str:
    """SHA-256 over the Python sources of the installed package."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def spec_of(experiment: Experiment) -> dict[str, Any]:
    """The canonical spec of an experiment; one from outside limen carries its module and a digest of its source."""
    module = type(experiment).__module__
    if module.startswith("limen."):
        return experiment.describe()
    return {**experiment.describe(), "module": module, "source": _module_digest(module)}


@lru_cache
def _module_digest(module: str) -> str:
    file = getattr(sys.modules.get(module), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file and Path(file).is_file() else ""
