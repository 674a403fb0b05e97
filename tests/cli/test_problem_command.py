"""Problems of one's own on the command line: templates, verbs on files, the same numbers as in Python, sweeps."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import limen
from limen.cli.main import limen as program
from limen.problem.files.template import examples, template

RIDGE = 'type = "Ridge"\nratio = 0.5\nnoise = 0.3\n\n[run]\ntimes = 2\nd = 60\nseeds = 3\n'
OWN_DESCENT = """
type = "TwoLayer"
target = "tanh(z)"
network = { width = 1, activation = "tanh" }
algorithm = { type = "GradientDescent", step = 0.3 }
samples_per_dim = 2.0
run = { d = 40, seeds = 2 }
"""
OWN = Path(__file__).parents[1] / "own_problem.toml"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIMEN_STORE", str(tmp_path / "store"))
    (tmp_path / "ridge.toml").write_text(RIDGE)
    (tmp_path / "own.toml").write_text(OWN.read_text())
    return tmp_path


def said(*arguments):
    done = CliRunner().invoke(program, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_template_can_be_used_as_it_is(place):
    (place / "new.toml").write_text(said("new", "Ridge"))
    assert "ridge: applies" in said("theories", "new.toml")
    assert json.loads(said("predict", "new.toml", "--times", "1", "--json"))["theory"]["excess_mse"] > 0.0


@pytest.mark.parametrize("family", sorted(examples()))
def test_a_template_says_what_it_is_in_plain_words(family):
    first = template(family).splitlines()[0]
    assert first.startswith("# ") and first.endswith(".")
    assert not set("$\\_^") & set(first)


def test_a_file_gives_the_numbers_of_python_and_is_shown_again(place):
    problem = limen.load_problem("ridge.toml")
    answer = json.loads(said("compare", "ridge.toml", "--json"))
    theory, run = limen.predict(problem, 2), limen.simulate(problem, 2, d=60, seeds=3)
    assert answer["theory"]["excess_mse"] == float(theory.dataset.excess_mse[-1])
    assert answer["simulation"]["excess_mse"] == pytest.approx(float(run.dataset.excess_mse.mean("seed")[-1]), rel=1e-7)
    assert answer["comparison"]["verdict"] == limen.compare(theory, run).verdict
    assert all((place / file).is_file() for file in answer["files"].values())
    assert answer["comparison"]["sentence"].split(":")[0] in said("show", answer["id"])
    posed = limen.experiment(problem, times=2, d=60).run(seeds=3)  # from the store
    assert posed.numbers["theory"]["excess_mse"] == answer["theory"]["excess_mse"]
    alone = json.loads(said("simulate", "ridge.toml", "--json"))
    assert alone["simulation"]["excess_mse"] == answer["simulation"]["excess_mse"]


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        ("1", "Cannot tell: 1 seed is too few to judge, take at least 5, better 8."),
        ("2", "Cannot tell: 2 seeds are too few to judge, take at least 5, better 8."),
        ("5", "from 5 seeds, and 5.0% is asked for;"),
    ],
)
def test_few_seeds_are_one_sentence(place, seeds, words):
    sentence = json.loads(said("compare", "ridge.toml", "--seeds", seeds, "--json"))["comparison"]["sentence"]
    assert words in sentence and sentence.endswith(".")
    shown = " ".join(said("compare", "ridge.toml", "--seeds", seeds).split())
    assert words in shown
    assert not re.search(r"\b(nan|inf)\b", sentence)


@pytest.mark.parametrize("verb", ["predict", "compare", "simulate"])
def test_what_has_no_axis_is_a_table_without_a_figure(place, verb):
    """Descent asked for no step shows its start alone."""
    (place / "descent.toml").write_text(OWN_DESCENT.replace("d = 40", "times = [0], d = 40"))
    asked = [verb, "descent.toml"]
    printed = said(*asked)
    assert "test loss at the end" in printed and "figure" not in printed
    files = json.loads(said(*asked, "--json"))["files"]
    assert files and "figure" not in files
    assert all(Path(file).is_file() for file in files.values())


def test_the_command_line_comes_before_the_file(place):
    answer = json.loads(said("predict", "ridge.toml", "--set", "noise=0", "--times", "1,3", "--json"))
    exact = limen.predict(limen.Ridge(0.5), [1.0, 3.0])
    assert answer["theory"]["excess_mse"] == float(exact.dataset.excess_mse[-1])


def test_a_sweep_of_a_file_and_of_a_problem_share_their_results(place):
    arguments = ["sweep", "ridge.toml", "--grid", "noise=0:1:2", "--grid", "ratio=0.5,2", "--workers", "1", "--json"]
    answer = json.loads(said(*arguments, "--size", "20,40", "--quantity", "headline_excess_mse"))
    assert answer["done"] == answer["points"] == 8 and set(answer["grid"]) == {"noise", "ratio", "d"}
    problem = limen.load_problem("ridge.toml")
    swept = limen.sweep(problem, {"noise": "0:1:2", "ratio": [0.5, 2.0]}, 3, [20, 40], 1, times=2)
    assert swept.computed == 0 and swept.points.done == 8
    held = swept.dataset.headline_excess_mse_theory
    expected = limen.predict(limen.Ridge(2.0, 1.0), 2).dataset.excess_mse[-1]
    assert float(held.sel(noise=1.0, ratio=2.0, d=20)) == float(expected)


def test_the_best_of_a_file(place):
    answer = json.loads(said("tune", "ridge.toml", "--over", "time=0.05:50", "--goal", "excess_mse", "--json"))
    assert answer["parameters"]["time"] == pytest.approx(limen.kernel.optimal_stopping_time(0.5, 0.3), rel=1e-3)
    assert "smallest excess_mse" in said(
        "tune", "ridge.toml", "--over", "ridge=0.001:1", "--goal", "excess_mse", "--at", "50"
    )
    assert (place / "limen-out" / "ridge-tuned.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["predict", "lost.toml"], "'lost.toml' cannot be read: No such file or directory."),
        (["predict", "ridge.toml", "--theory", "descent"], "theory 'descent' does not apply"),
        (["compare", "ridge.toml", "--set", "nois=1"], "nois is not a parameter of Ridge: did you mean 'noise'?"),
        (["compare", "ridge.toml", "--set", "noise=true"], "noise must be a number, got True."),
        (["compare", "ridge.toml", "--seeds", "0"], "seeds must be from 1"),
        (["compare", "ridge.toml", "--at-size"], "at_size must be false with the theory ridge"),
        (["sweep", "ridge.toml", "--grid", "nise=0:1:2"], "nise is not a parameter of problem: did you mean noise?"),
        (["new", "TwoLayers"], "did you mean 'TwoLayer'?"),
        (
            ["compare", "ridge.toml", "--times", "abc"],
            "times must be a number, or numbers with commas",
        ),
        (["tune", "ridge.toml"], "--over must name a parameter and its range"),
        (["tune", "ridge.toml", "--over", "ridge=0.1:1"], "--at must be the time of the goal (--at 10)"),
    ],
)
def test_mistakes_are_sentences(place, arguments, sentence):
    with pytest.raises(limen.InputError) as error:
        CliRunner().invoke(program, arguments, catch_exceptions=False)
    assert sentence in str(error.value)


@pytest.mark.slow
def test_a_sweep_of_ones_own_problem_is_killed_and_resumed(place):
    # Sixty seeds, so that seconds of work are left when the second file is there, programs being read back.
    grid = ["--grid", "network.activation=tanh,erf", "--grid", "target.noise=0:1:3"]
    arguments = ["sweep", "own.toml", *grid, "--seeds", "60"]
    start = [sys.executable, "-c", "from limen.cli.main import main; main()", *arguments, "--workers", "1", "--json"]
    process = subprocess.Popen(
        start, env=os.environ, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )

    def stored():
        return len([path for path in place.glob("store/results/*/*.nc") if not path.name.startswith(".")])

    deadline = time.monotonic() + 400.0
    while time.monotonic() < deadline and stored() < 2 and process.poll() is None:
        time.sleep(0.02)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert stored() >= 2
    done = subprocess.run(start, capture_output=True, text=True, env=os.environ, timeout=600.0)
    answer = json.loads(done.stdout)
    assert answer["done"] == 6 and 0 < answer["computed"] < answer["results"]["total"]
    problem = limen.load_problem("own.toml")
    again = limen.sweep(problem, {"network.activation": ["tanh", "erf"], "target.noise": "0:1:3"}, 2, [40], 1, times=4)
    assert again.points.done == 6
