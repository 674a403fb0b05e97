"""The address of a result: everything that determines it, hashed."""

import hashlib
import json
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from limen.experiments.experiment import Experiment
from limen.problem.own_functions import unstorable
from limen.problem.spec import InputError
from limen.sources import module_digest, source_digest


def address(spec: dict[str, Any], kind: str, seeds: tuple[int, ...]) -> str:
    """SHA-256 of the canonical spec, kind, seeds, precision, version, and those of limen's sources that count.

    A change of a statement that a result rests on changes its address; a change of a comment, of the page, or of
    another experiment does not.
    """
    content = {
        "spec": spec,
        "kind": kind,
        "seeds": list(seeds),
        "dtype": "theory float64, simulation float32",
        "version": _version(),
        "sources": source_digest(str(spec.get("type", ""))),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@lru_cache(maxsize=1)
def _version() -> str:
    return version("limen")


def spec_of(experiment: Experiment) -> dict[str, Any]:
    """The canonical spec of an experiment; one from outside limen carries its module and a digest of its source."""
    name = unstorable(experiment.describe())
    if name is not None:
        raise InputError(
            f"the function {name!r} cannot be stored: its source text does not say all of it. Write it in a file, "
            "without other functions of your own inside, or as a formula; predict and simulate take it as it is."
        )
    module = type(experiment).__module__
    if module.startswith("limen."):
        return experiment.describe()
    return {**experiment.describe(), "module": module, "source": _module_digest(module)}


_module_digest = lru_cache(module_digest)
