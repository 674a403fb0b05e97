"""Moving a slider of the page: what a redrawn theory costs once its programs are compiled, in processor time.

The page adds about a twentieth of a second for the way there and back and for drawing; 300 ms is what a hand feels as
following. Experiments that solve two-time equations, follow thousands of paths, or take apart spectra along a whole
training or of real images, are left out: they take up to seconds, and the page says how far they are.
"""

import time

import pytest

from limen.experiments.experiment import Experiment
from limen.experiments.registry import PLACES, experiment_class
from limen.web.figure_json import figure_json

TWO_TIME = {
    "complexity-growth", "feature-threshold", "gd-dmft", "grokking", "hard-directions", "hessian-spectrum",
    "interpolation-diagram", "interpolation-threshold", "lazy-vs-feature", "learn-then-overfit", "learning-transition",
    "mean-field-flow", "overfitting-bound", "unlearning",
}  # fmt: skip
PATHS = {
    "activation-effect", "adam-vs-sgd", "batch-size", "epochs", "large-networks", "momentum", "sgd-beside-flow",
    "sharpness",
}  # fmt: skip
SPECTRA = {
    "double-descent-digits", "outlier-emergence", "random-labels", "scaling-law", "spectral-alignment",
    "spectral-alignment-xor",
}  # fmt: skip
DRAWN = {"attention-metastability", "modular-addition", "multi-index"}  # laws that are drawn many times
LONGEST = 0.25
# As many starts as the page shows first of a theory that follows the simulation's own.
STARTS = 4


def redraw(experiment: Experiment) -> float:
    """Processor seconds from parameters to what the page draws."""
    began = time.process_time()
    theory = experiment.theory(tuple(range(STARTS)) if experiment.paired else ())
    figure_json(experiment.figure(theory))
    experiment.headline(theory)
    return time.process_time() - began


@pytest.mark.parametrize("name", sorted(set(PLACES) - TWO_TIME - PATHS - SPECTRA - DRAWN))
def test_theory_follows_a_slider(name):
    kind = experiment_class(name)
    experiment = kind()
    moved = next((field for field in kind.model_fields if isinstance(getattr(experiment, field), float)), None)
    redraw(experiment)
    seconds = []
    for step in (0.01, 0.02, 0.03):
        changed = {} if moved is None else {moved: getattr(experiment, moved) * (1.0 + step)}
        seconds.append(redraw(kind(**{**experiment.model_dump(), **changed})))
    assert min(seconds) < LONGEST, seconds
