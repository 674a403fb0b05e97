"""Every experiment of the gallery by name. Classes are imported when asked for, so that listing names is instant."""

import difflib
from importlib import import_module

from limen.problem.spec import InputError

PLACES = {
    "phase-retrieval-sgd": "phase_retrieval_sgd:PhaseRetrievalSGD",
}


def experiment_class(name: str) -> type:
    """The class of an experiment; an unknown name is refused with the nearest known one."""
    if name not in PLACES:
        near = difflib.get_close_matches(name, PLACES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "see `limen list`."
        raise InputError(f"there is no experiment {name!r}: {hint}")
    module, _, attribute = PLACES[name].partition(":")
    return getattr(import_module(f"limen.experiments.{module}"), attribute)
