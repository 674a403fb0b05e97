"""One protocol for every experiment of the gallery, walked over all of them."""

import inspect
import json
import subprocess
import sys

import numpy as np
import pytest

import limen
from limen.citations import BIBTEX
from limen.cli.options import options_of
from limen.comparison import Comparison
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure
from limen.experiments.index import entry_of, outdated
from limen.experiments.number import Number
from limen.experiments.registry import PLACES, experiment_class
from limen.plot import draw
from limen.problem import InputError
from limen.result import merge

# A few whose quick run takes a second or two; the others belong to the slow run.
LIGHT = {
    "attention-layers",
    "bbp-diffusion",
    "bbp-transition",
    "double-descent",
    "hard-directions",
    "interpolating-smoother",
    "phase-retrieval-sgd",
}
# Chapters whose experiments give `numbers` and leave `headline` to the base class.
WALKED = [name if name in LIGHT else pytest.param(name, marks=pytest.mark.slow) for name in sorted(PLACES)]


@pytest.mark.parametrize("name", sorted(PLACES))
def test_an_experiment_declares_itself(name):
    kind = experiment_class(name)
    assert issubclass(kind, Experiment)
    assert kind.name == name
    assert kind.summary.endswith(".")
    assert set(kind.citations) <= set(BIBTEX)
    assert len(inspect.getdoc(kind) or "") > 100, "the docstring says what one should see"
    for field_name, field in kind.model_fields.items():
        assert field.description, f"{name}.{field_name} needs one line"
        assert not field.is_required(), f"{name}.{field_name} needs a default"
    assert kind.size_field in kind.model_fields
    assert len(options_of(entry_of(kind))) == len(kind.model_fields)
    kind(**kind.quick)


@pytest.mark.parametrize("name", WALKED)
def test_an_experiment_keeps_its_contract(name):
    kind = experiment_class(name)
    experiment = kind(**kind.quick)
    seeds = (0, 1)
    theory = experiment.theory(seeds)
    simulation = merge([experiment.simulate(seed) for seed in seeds])
    assert (theory.kind, simulation.kind) == ("theory", "simulation")
    assert simulation.seeds == seeds
    assert theory.status.endswith(".")
    again = experiment.simulate(1)
    for variable in again.dataset.data_vars:
        np.testing.assert_array_equal(
            again.dataset[variable].values, simulation.dataset.isel(seed=[1])[variable].values, err_msg="a seed replays"
        )
    assert isinstance(experiment.compare(theory, simulation), Comparison)
    for run in (None, simulation):
        figure = experiment.figure(theory, run)
        assert isinstance(figure, Figure)
        json.dumps(figure.describe(), allow_nan=False)
        for panel in figure.panels:
            assert panel.x_label
            assert panel.y_label
        draw(figure).canvas.draw()
        assert figure.key
        assert ("imulation" in figure.key) == (run is not None), "the figure tells theory from simulation"
    headline = experiment.headline(theory, simulation)
    assert headline["theory"]
    assert set(headline["simulation"]) <= set(headline["theory"])
    json.dumps(headline)
    if kind.numbers is not Experiment.numbers:
        check_numbers(experiment.numbers(theory.dataset), experiment.numbers(simulation.dataset))


def check_numbers(predicted, measured):
    for number in [*predicted.values(), *measured.values()]:
        assert isinstance(number, Number)
        assert number.words.strip()
    assert set(measured) <= set(predicted)
    for symbol, number in measured.items():
        assert (number.words, number.unit) == (predicted[symbol].words, predicted[symbol].unit), symbol


@pytest.mark.parametrize("name", sorted(PLACES))
def test_an_experiment_names_its_numbers(name):
    kind = experiment_class(name)
    assert kind.numbers is not Experiment.numbers


def test_parameters_go_by_the_names_of_the_command_line():
    posed = limen.experiment("phase-retrieval-sgd", size=40, step=0.1).experiment
    assert (posed.d, posed.rate) == (40, 0.1)
    with pytest.raises(InputError, match="speed"):
        limen.experiment("phase-retrieval-sgd", speed=3)


@pytest.mark.slow
def test_threads_may_ask_for_experiments_at_once():
    program = (
        "import sys; from concurrent.futures import ThreadPoolExecutor as Pool; "
        "from limen.experiments.registry import PLACES, experiment_class; "
        "sys.setswitchinterval(1e-5); names = [*PLACES, *reversed(PLACES)]; "
        "print([kind.name for kind in Pool(4).map(experiment_class, names)] == names)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120.0)
    assert (found.stdout, found.stderr) == ("True\n", "")


def test_the_index_of_the_gallery_is_what_the_classes_say():
    assert outdated() == [], "run `python -m limen.experiments.index`"
